#include "tracker/layers.h"

#include <algorithm>
#include <map>
#include <set>

#include "tracker/layer_kinds.h"
#include "tracker/layer_names.h"

namespace pooch::tracker {
namespace {

class Builder {
 public:
  explicit Builder(const PhaseProfile& phase) : phase_(phase) {}

  LayerGraph build() {
    const auto ops = static_cast<std::int32_t>(phase_.ops.size());
    const std::int32_t end = phase_.turn == outside ? ops : phase_.turn;
    map_of_.assign(phase_.versions.size(), none);
    layer_of_.assign(phase_.ops.size(), none);
    for (std::int32_t p = 0; p < end; ++p) add_forward(p);
    for (std::int32_t p = end; p < ops; ++p) add_backward(p);
    for (std::int32_t p = end; p < ops; ++p) add_backward_sibling(p);
    settle_memory();
    settle_kept();
    add_edges();
    name_layers(phase_, graph_);
    return std::move(graph_);
  }

 private:
  static constexpr std::uint32_t none = ~0U;

  const ProfileVersion& version(std::uint32_t i) const { return phase_.versions[i]; }
  static bool overlap(const ProfileVersion& a, const ProfileVersion& b) {
    return a.buffer == b.buffer && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
  }
  bool flows(std::uint32_t v) const {
    const Role role = version(v).role;
    return role == Role::feature_map || role == Role::activation || role == Role::input;
  }

  // The version that the op is there for.
  std::uint32_t result(const ProfileOp& op) const {
    std::uint32_t best = none;
    for (const std::uint32_t v : op.writes)
      if (flows(v) && (best == none || version(v).bytes > version(best).bytes)) best = v;
    return best;
  }

  // What flows into the op. What lies where the result goes is an input only of ops that work in place; of
  // others it is the neighbouring slices of a larger tensor.
  std::vector<std::uint32_t> flowing_in(const ProfileOp& op, std::uint32_t out) const {
    std::vector<std::uint32_t> in;
    for (const std::uint32_t v : op.reads)
      if (flows(v) && (!facts(op.kind).has(OpTraits::apart) || !overlap(version(v), version(out))))
        in.push_back(v);
    if (in.empty() && facts(op.kind).has(OpTraits::parameters)) {
      // Data that stays on the device looks like a parameter; but nobody trains it.
      for (const std::uint32_t v : op.reads)
        if (is_constant(v)) return {v};
    }
    return in;
  }
  bool is_constant(std::uint32_t v) const {
    return version(v).role == Role::parameter && version(v).producer == outside &&
           std::none_of(phase_.versions.begin(), phase_.versions.end(), [&](const ProfileVersion& other) {
             return other.producer != outside && overlap(other, version(v));
           });
  }

  std::uint32_t add_map(std::vector<std::uint32_t> versions, std::uint64_t bytes) {
    const auto index = static_cast<std::uint32_t>(graph_.maps.size());
    for (const std::uint32_t v : versions) map_of_[v] = index;
    graph_.maps.push_back({"", bytes, false, index, std::move(versions)});
    return index;
  }

  // The maps behind the versions that an op reads: one each, but several slices of one tensor, read
  // together, are their concatenation.
  std::vector<std::uint32_t> maps_of(const std::vector<std::uint32_t>& versions) {
    std::map<std::uint32_t, std::vector<std::uint32_t>> by_buffer;
    std::vector<std::uint32_t> order;
    for (const std::uint32_t v : versions) {
      auto& group = by_buffer[version(v).buffer];
      if (group.empty()) order.push_back(version(v).buffer);
      group.push_back(v);
    }
    std::vector<std::uint32_t> maps;
    for (const std::uint32_t buffer : order) {
      auto& group = by_buffer[buffer];
      std::sort(group.begin(), group.end(),
                [&](std::uint32_t a, std::uint32_t b) { return version(a).offset < version(b).offset; });
      const std::uint32_t map = group.size() == 1 ? map_of(group[0]) : concatenation(group);
      if (std::find(maps.begin(), maps.end(), map) == maps.end()) maps.push_back(map);
    }
    return maps;
  }
  std::uint32_t map_of(std::uint32_t v) {
    if (map_of_[v] == none) add_map({v}, version(v).bytes);
    return map_of_[v];
  }

  std::uint32_t concatenation(const std::vector<std::uint32_t>& slices) {
    if (const auto known = concatenations_.find(slices); known != concatenations_.end()) return known->second;
    Layer layer;
    layer.kind = "concatenation";
    for (const std::uint32_t v : slices) layer.inputs.push_back(map_of(v));
    const ProfileVersion &first = version(slices.front()), &last = version(slices.back());
    layer.bytes = last.offset + last.bytes - first.offset;
    layer.shape = concatenated_shape(layer.inputs);
    const auto index = static_cast<std::uint32_t>(graph_.maps.size());
    graph_.maps.push_back({"", layer.bytes, false, index, slices});
    layer.output = index;
    producer_[index] = static_cast<std::uint32_t>(graph_.layers.size());
    for (const std::uint32_t input : layer.inputs) inside_.emplace_back(input, index);
    graph_.layers.push_back(std::move(layer));
    concatenations_.emplace(slices, index);
    return index;
  }
  Shape concatenated_shape(const std::vector<std::uint32_t>& inputs) const {
    Shape whole;
    for (const std::uint32_t map : inputs) {
      const auto producer = producer_.find(map);
      if (producer == producer_.end()) return {};
      const Shape& part = graph_.layers[producer->second].shape;
      if (whole.rank == 0)
        whole = part;
      else if (part.rank == whole.rank && part.rank > 1)
        whole.sizes[1] += part.sizes[1];
    }
    return whole;
  }

  void add_forward(std::int32_t position) {
    const ProfileOp& op = phase_.ops[position];
    const std::uint32_t out = result(op);
    if (out == none) return;
    const std::vector<std::uint32_t> in = flowing_in(op, out);
    const std::vector<std::uint32_t> maps = maps_of(in);
    if (is_bias(op, in, out)) return extend(producer_.at(maps[0]), position, out);
    Layer layer;
    layer.kind = layer_kind(op);
    layer.inputs = maps;
    layer.shape = op.shape;
    layer.bytes = shape_bytes(op.shape, version(out).bytes);
    layer.window = op.window;
    layer.forward.push_back(position);
    layer.forward_us = op.us;
    // In place, the input that is overwritten comes first.
    const auto replaced = [&](std::uint32_t map) {
      return !graph_.maps[map].versions.empty() &&
             overlap(version(graph_.maps[map].versions.back()), version(out));
    };
    std::stable_partition(layer.inputs.begin(), layer.inputs.end(), replaced);
    layer.output = add_map({out}, layer.bytes);
    if (!layer.inputs.empty() && !facts(op.kind).has(OpTraits::apart) && replaced(layer.inputs[0]))
      inside_.emplace_back(layer.output, layer.inputs[0]);
    const auto index = static_cast<std::uint32_t>(graph_.layers.size());
    producer_[layer.output] = index;
    layer_of_[position] = index;
    graph_.layers.push_back(std::move(layer));
  }

  // A parameter added in place to what a layer has just made is that layer's bias.
  bool is_bias(const ProfileOp& op, const std::vector<std::uint32_t>& in, std::uint32_t out) const {
    if (op.kind != OpKind::elementwise || in.size() != 1 || !overlap(version(in[0]), version(out)))
      return false;
    if (map_of_[in[0]] == none || !producer_.contains(map_of_[in[0]])) return false;
    return std::any_of(op.reads.begin(), op.reads.end(),
                       [&](std::uint32_t v) { return version(v).role == Role::parameter; });
  }
  void extend(std::uint32_t index, std::int32_t position, std::uint32_t out) {
    Layer& layer = graph_.layers[index];
    layer.forward.push_back(position);
    layer.forward_us += phase_.ops[position].us;
    if (phase_.ops[position].shape.rank > 0) layer.shape = phase_.ops[position].shape;
    graph_.maps[layer.output].versions.push_back(out);
    map_of_[out] = layer.output;
    layer_of_[position] = index;
  }

  // A backward op belongs to the layer of its kind with which it shares most of what it reads; of equals to
  // the last one that has no such op yet, because backward goes the way back.
  void add_backward(std::int32_t position) {
    const ProfileOp& op = phase_.ops[position];
    std::uint32_t best = none;
    int most = 0;
    for (std::uint32_t i = 0; i < graph_.layers.size(); ++i) {
      const Layer& layer = graph_.layers[i];
      if (layer.forward.empty() || !is_backward_of(op.kind, phase_.ops[layer.forward.front()].kind)) continue;
      if (has_backward_op_like(layer, op)) continue;
      if (const int shared = shared_reads(layer, op); shared > 0 && shared >= most) best = i, most = shared;
    }
    if (best != none) attribute(best, position);
  }
  bool has_backward_op_like(const Layer& layer, const ProfileOp& op) const {
    return std::any_of(layer.backward.begin(), layer.backward.end(),
                       [&](std::int32_t p) {
                         return phase_.ops[p].kind == op.kind && phase_.ops[p].key == op.key;
                       }) ||
           (op.kind != OpKind::gemm &&
            std::any_of(layer.backward.begin(), layer.backward.end(),
                        [&](std::int32_t p) { return phase_.ops[p].kind == op.kind; }));
  }
  int shared_reads(const Layer& layer, const ProfileOp& op) const {
    int shared = 0;
    for (const std::int32_t p : layer.forward) {
      const ProfileOp& made = phase_.ops[p];
      for (const std::uint32_t v : op.reads) {
        shared += std::find(made.reads.begin(), made.reads.end(), v) != made.reads.end();
        shared += 2 * (std::find(made.writes.begin(), made.writes.end(), v) != made.writes.end());
      }
      if (made.filter.rank > 0 && op.filter.rank > 0 && made.filter != op.filter) return 0;
    }
    return shared;
  }
  void attribute(std::uint32_t index, std::int32_t position) {
    std::vector<std::int32_t>& backward = graph_.layers[index].backward;
    backward.insert(std::upper_bound(backward.begin(), backward.end(), position), position);
    graph_.layers[index].backward_us += phase_.ops[position].us;
    layer_of_[position] = index;
  }

  // What only reads a gradient, as that of a bias, goes with another op that reads the same one.
  void add_backward_sibling(std::int32_t position) {
    const ProfileOp& op = phase_.ops[position];
    if (layer_of_[position] != none || op.kind != OpKind::conv_backward_bias) return;
    for (const std::uint32_t v : op.reads)
      for (const std::int32_t reader : version(v).readers)
        if (reader != position && layer_of_[reader] != none &&
            facts(phase_.ops[graph_.layers[layer_of_[reader]].forward.front()].kind)
                .has(OpTraits::parameters))
          return attribute(layer_of_[reader], position);
  }

  // `memory` of a map leads to the one at the root. In place comes first: what a layer made and another
  // overwrote becomes part of a concatenation together.
  void settle_memory() {
    std::stable_partition(inside_.begin(), inside_.end(), [&](const auto& pair) {
      const auto producer = producer_.find(pair.second);
      return producer == producer_.end() || !graph_.layers[producer->second].forward.empty();
    });
    for (const auto& [map, whole] : inside_) graph_.maps[root(map)].memory = root(whole);
    for (std::uint32_t i = 0; i < graph_.maps.size(); ++i) graph_.maps[i].memory = root(i);
  }
  std::uint32_t root(std::uint32_t map) const {
    while (graph_.maps[map].memory != map) map = graph_.maps[map].memory;
    return map;
  }

  void settle_kept() {
    if (phase_.turn == outside) return;
    const auto read_in_backward = [&](std::uint32_t v) {
      return !version(v).readers.empty() && version(v).readers.back() >= phase_.turn;
    };
    for (Map& map : graph_.maps)
      map.kept = !map.versions.empty() && std::all_of(map.versions.begin(), map.versions.end(), [&](auto v) {
        return v != map.versions.back() || read_in_backward(v);
      });
  }

  void add_edges() {
    for (std::uint32_t i = 0; i < graph_.layers.size(); ++i)
      for (const std::uint32_t input : graph_.layers[i].inputs)
        if (const auto from = producer_.find(input); from != producer_.end())
          graph_.edges.push_back({from->second, i});
  }

  const PhaseProfile& phase_;
  LayerGraph graph_;
  std::vector<std::uint32_t> map_of_;                // by version
  std::vector<std::uint32_t> layer_of_;              // by position
  std::map<std::uint32_t, std::uint32_t> producer_;  // map -> layer
  std::map<std::vector<std::uint32_t>, std::uint32_t> concatenations_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> inside_;  // a map, and the one it lies in
};

}  // namespace

LayerGraph build_layers(const PhaseProfile& phase) {
  return Builder(phase).build();
}

}  // namespace pooch::tracker
