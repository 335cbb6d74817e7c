#include "tests/support/random_phase.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace pooch::test {

std::uint64_t bytes_of(const Shape& shape) {
  return std::accumulate(
      shape.sizes.begin(), shape.sizes.begin() + shape.rank, std::uint64_t{shape.element_bytes},
      [](std::uint64_t all, std::int32_t one) { return all * static_cast<std::uint64_t>(one); });
}

namespace {

Shape image(std::int32_t n, std::int32_t c, std::int32_t size) {
  return {4, 4, {n, c, size, size}};
}

// Microseconds as a timer gives them.
double to_ns(double us) {
  return std::round(us * 1000) / 1000;
}

constexpr const char* kind_names[] = {"convolution", "batch_norm", "relu",         "max_pooling",
                                      "linear",      "sum",        "concatenation"};

}  // namespace

// Ops that a layer means until the iteration's end; a convolution on the input gives no gradient to it.
std::size_t PhaseBuilder::cost(Kind kind) const {
  const bool on_input = last_ == 0;
  switch (kind) {
    case Kind::convolution:
    case Kind::linear:
      return trains_ ? 4 - (on_input ? 1 : 0) : 1;
    case Kind::batch_norm:
      return trains_ ? 3 : 1;
    case Kind::relu:
    case Kind::pooling:
      return trains_ ? 2 : 1;
    case Kind::sum:
      return trains_ ? 3 : 1;
    case Kind::concatenation:  // with its two convolutions
      return trains_ ? 8 : 2;
  }
  return 0;
}

std::uint32_t PhaseBuilder::add_version(std::uint32_t buffer, std::uint64_t offset, std::uint64_t bytes,
                                        Role role) {
  phase_.versions.push_back({buffer, offset, bytes, outside, {}, role});
  return static_cast<std::uint32_t>(phase_.versions.size() - 1);
}

std::int32_t PhaseBuilder::add_op(OpKind kind, Versions reads, Versions writes, const Shape& shape) {
  const auto position = static_cast<std::int32_t>(phase_.ops.size());
  uses_.resize(phase_.buffers.size(), {outside, outside});
  const auto use = [&](std::uint32_t buffer) {
    auto& [first, last] = uses_[buffer];
    if (first == outside) first = position;
    last = position;
  };
  ProfileOp op;
  op.kind = kind;
  op.shape = shape;
  std::uint64_t bytes = 0;
  for (const std::uint32_t v : reads) {
    phase_.versions[v].readers.push_back(position);
    bytes += phase_.versions[v].bytes;
    use(phase_.versions[v].buffer);
  }
  for (const std::uint32_t v : writes) {
    phase_.versions[v].producer = position;
    bytes += phase_.versions[v].bytes;
    use(phase_.versions[v].buffer);
  }
  const bool convolution = name(kind).starts_with("conv");
  if (convolution) {
    op.mode = "implicit_gemm";
    if (dice_.one_in(2)) {
      if (in_iteration_ || !workspace_) workspace_ = add_buffer(1 + dice_.below(64 * MiB));
      op.scratch = {*workspace_};
      uses_.resize(phase_.buffers.size(), {outside, outside});
      use(op.scratch[0]);
    }
  }
  // Microseconds at 600 GB/s; convolutions and matrix products have more to do.
  op.us = to_ns((3 + static_cast<double>(bytes) / 600e3) * (convolution || kind == OpKind::gemm ? 2 : 1) *
                (0.8 + 0.4 * dice_.share()));
  if (dice_.one_in(8)) op.gap_us = to_ns(5 * dice_.share());
  op.outlier = dice_.one_in(100);
  const auto found = std::find(phase_.functions.begin(), phase_.functions.end(), name(kind));
  op.function = static_cast<std::uint32_t>(found - phase_.functions.begin());
  if (found == phase_.functions.end()) phase_.functions.emplace_back(name(kind));
  op.key = mix(dice_.next(), static_cast<std::uint64_t>(position));
  op.reads = std::move(reads);
  op.writes = std::move(writes);
  phase_.iteration_us += op.us + op.gap_us;
  phase_.ops.push_back(std::move(op));
  return position;
}

// ---- forward

std::uint32_t PhaseBuilder::add_map(const std::string& name, const Shape& shape, Versions content) {
  const auto index = static_cast<std::uint32_t>(states_.size());
  states_.push_back({shape, content, {}, false});
  phase_.graph.maps.push_back({name, bytes_of(shape), false, index, std::move(content)});
  return index;
}

void PhaseBuilder::forward_op(Layer& layer, Node& node, Versions reads, Versions writes) {
  constexpr OpKind kinds[] = {
      OpKind::conv_forward, OpKind::batch_norm_forward, OpKind::activation_forward, OpKind::pooling_forward,
      OpKind::gemm,         OpKind::elementwise};
  if (node.weights) reads.push_back(*node.weights);
  const std::int32_t p =
      add_op(kinds[static_cast<int>(node.kind)], std::move(reads), std::move(writes), layer.shape);
  phase_.ops[p].window = layer.window;
  if (node.kind == Kind::convolution || node.kind == Kind::linear) {
    const std::int32_t size = std::max(layer.window.size[0], 1);
    const std::int32_t channels = states_[layer.inputs[0]].shape.sizes[1];
    phase_.ops[p].filter = {4, 4, {layer.shape.sizes[1], channels, size, size}};
  }
  if (node.kind == Kind::relu) phase_.ops[p].mode = "relu";
  layer.forward.push_back(p);
  layer.forward_us += phase_.ops[p].us;
}

// Gives the output's map.
std::uint32_t PhaseBuilder::finish_layer(Kind kind, Layer layer, Node node, Versions content) {
  layer.name = fmt::format("{}_{}", kind_names[static_cast<int>(kind)], phase_.graph.layers.size());
  layer.kind = kind_names[static_cast<int>(kind)];
  layer.bytes = bytes_of(layer.shape);
  layer.output = add_map(layer.name + ".out", layer.shape, std::move(content));
  for (const std::uint32_t input : layer.inputs) {
    if (node.in_place) states_[input].overwritten = true;
    if (input == 0) continue;  // the network's input has no layer; map m is layer m - 1's output
    phase_.graph.edges.push_back({input - 1, static_cast<std::uint32_t>(phase_.graph.layers.size())});
  }
  const std::uint32_t output = layer.output;
  if (node.in_place) phase_.graph.maps[output].memory = phase_.graph.maps[layer.inputs[0]].memory;
  phase_.graph.layers.push_back(std::move(layer));
  nodes_.push_back(node);
  return output;
}

void PhaseBuilder::add_layer(Kind kind, const std::vector<std::uint32_t>& inputs, const Shape& shape) {
  const MapState& first = states_[inputs[0]];
  Layer layer;
  layer.inputs = inputs;
  layer.shape = shape;
  Node node{kind};
  if (kind == Kind::convolution) layer.window = {2, {3, 3}, {1, 1}, {1, 1}, {1, 1}};
  if (kind == Kind::pooling) layer.window = {2, {2, 2}, {2, 2}};
  if (kind == Kind::convolution || kind == Kind::linear || kind == Kind::batch_norm)
    node.weights = in_new_buffer(KiB + dice_.below(4 * MiB), Role::parameter);
  // Its input must be nobody else's in backward: what convolutions and normalisations give.
  const bool spare = inputs[0] > 0 && first.content.size() == 1 &&
                     nodes_[inputs[0] - 1].kind <= Kind::batch_norm && !dice_.one_in(5);
  node.in_place = kind == Kind::relu && spare;
  const std::uint32_t result = node.in_place ? over(first.content[0]) : in_new_buffer(bytes_of(shape));
  Versions reads;
  for (const std::uint32_t input : inputs)
    reads.insert(reads.end(), states_[input].content.begin(), states_[input].content.end());
  forward_op(layer, node, std::move(reads), {result});
  last_ = finish_layer(kind, std::move(layer), node, {result});
}

// Two convolutions that write into one buffer, which the next layer takes for one map.
void PhaseBuilder::concatenate(std::uint32_t input) {
  Shape part = states_[input].shape;
  const std::uint64_t bytes = bytes_of(part);
  const std::uint32_t buffer = add_buffer(2 * bytes);
  std::vector<std::uint32_t> parts;
  Versions whole;
  for (const std::uint64_t offset : {std::uint64_t{0}, bytes}) {
    Layer layer;
    layer.inputs = {input};
    layer.shape = part;
    layer.window = {2, {1, 1}, {1, 1}, {0, 0}, {1, 1}};
    Node node{Kind::convolution, false, in_new_buffer(KiB + dice_.below(MiB), Role::parameter), {}};
    whole.push_back(add_version(buffer, offset, bytes));
    forward_op(layer, node, states_[input].content, {whole.back()});
    parts.push_back(finish_layer(Kind::convolution, std::move(layer), node, {whole.back()}));
  }
  Layer view;
  view.inputs = parts;
  view.shape = part;
  view.shape.sizes[1] *= 2;
  last_ = finish_layer(Kind::concatenation, std::move(view), {Kind::concatenation}, whole);
  for (const std::uint32_t p : parts) {
    phase_.graph.maps[p].memory = last_;
    states_[p].overwritten = true;  // read as a part of the whole only
  }
}

// False: it would be more ops than there is room for.
bool PhaseBuilder::add(Kind kind) {
  const std::size_t rest = trains_ ? 2 : 1;  // the loss
  if (promised_ + cost(kind) + rest > target_) return false;
  promised_ += cost(kind);
  const std::uint32_t input = last_;
  Shape shape = states_[input].shape;
  if (kind == Kind::concatenation) {
    concatenate(input);
    return true;
  }
  std::vector<std::uint32_t> inputs{input};
  if (kind == Kind::convolution && dice_.one_in(3)) shape.sizes[1] = 16 << dice_.below(5);
  if (kind == Kind::pooling) shape.sizes[2] = shape.sizes[3] = std::max(shape.sizes[2] / 2, 1);
  if (kind == Kind::linear) shape = image(shape.sizes[0], 256, 1);
  if (kind == Kind::sum) {
    // A residual connection: the nearest earlier map of this shape that is still whole.
    for (std::uint32_t m = input; m-- > 1 && input - m < 12;) {
      if (states_[m].shape != shape || states_[m].overwritten) continue;
      inputs.push_back(m);
      break;
    }
    if (inputs.size() == 1) kind = Kind::relu, promised_ -= trains_ ? 1 : 0;
  }
  add_layer(kind, inputs, shape);
  return true;
}

void PhaseBuilder::add_next() {
  if (last_ == 0) {
    (void)add(Kind::convolution);
    return;
  }
  const Kind before = nodes_[last_ - 1].kind;
  if (before == Kind::convolution && add(Kind::batch_norm)) return;
  if ((before == Kind::batch_norm || before == Kind::linear) && add(Kind::relu)) return;
  if (dice_.one_in(4) && add(Kind::sum)) return;
  if (dice_.one_in(8) && add(Kind::concatenation)) return;
  if (dice_.one_in(8) && add(Kind::pooling)) return;
  if (dice_.one_in(16) && add(Kind::linear)) return;
  if (add(Kind::convolution) || add(Kind::batch_norm) || add(Kind::relu)) return;
  promised_ = target_;  // the rest is filled
}

PhaseProfile PhaseBuilder::build() {
  const Shape batch = image(static_cast<std::int32_t>(1 + dice_.below(64)), 3, 32 << dice_.below(3));
  const std::uint32_t input = in_new_buffer(bytes_of(batch), Role::input);
  add_map("input", batch, {input});
  phase_.copies.push_back({0, true, bytes_of(batch), 0, static_cast<double>(bytes_of(batch)) / 12e3, input});
  if (batch.sizes[0] % 2 == 0) phase_.copies.back().lead_us = 17.5;
  while (promised_ + (trains_ ? 2 : 1) < target_ && promised_ < target_) {
    const std::size_t before = promised_;
    add_next();
    if (promised_ == before) break;
  }
  if (last_ != 0) {
    loss();
    for (std::size_t l = nodes_.size(); trains_ && l-- > 0;) backward(l);
    for (std::size_t l = 0; trains_ && l < nodes_.size(); ++l) update(l);
  }
  fill();
  settle_roles();
  settle_lifetimes();
  phase_.copies.push_back({static_cast<std::int32_t>(phase_.ops.size()), false, 4, 0, 8.5, {}});
  phase_.kind = trains_ ? "train" : "validate";
  phase_.id = fmt::format("{:016x}", dice_.next());
  phase_.seen = 3 + dice_.below(100);
  phase_.measured = 3;
  return std::move(phase_);
}

}  // namespace pooch::test
