// The second half of an iteration, and what follows from all of it.
#include <algorithm>
#include <tuple>

#include "tests/support/random_phase.h"

namespace pooch::test {

void PhaseBuilder::loss() {
  const MapState& top = states_[last_];
  const std::uint32_t probabilities = in_new_buffer(bytes_of(top.shape));
  add_op(OpKind::softmax_forward, top.content, {probabilities}, top.shape);
  if (!trains_) return;
  phase_.turn = static_cast<std::int32_t>(phase_.ops.size());
  Versions reads{probabilities};
  const std::uint32_t gradient = next_gradient(last_, reads);
  add_op(OpKind::softmax_backward, reads, {gradient}, top.shape);
}

std::optional<std::uint32_t> PhaseBuilder::gradient_of(std::uint32_t map) const {
  const std::uint32_t memory = phase_.graph.maps[map].memory;
  const bool is_part = memory > map;
  return states_[is_part ? memory : map].gradient;
}

std::uint32_t PhaseBuilder::next_gradient(std::uint32_t map, Versions& reads) {
  std::optional<std::uint32_t>& gradient = states_[map].gradient;
  if (gradient) {
    reads.push_back(*gradient);
    gradient = over(*gradient);
  } else {
    gradient = in_new_buffer(bytes_of(states_[map].shape));
  }
  return *gradient;
}

void PhaseBuilder::backward_op(Layer& layer, OpKind kind, Versions reads, Versions writes) {
  const std::int32_t p = add_op(kind, std::move(reads), std::move(writes), layer.shape);
  layer.backward.push_back(p);
  layer.backward_us += phase_.ops[p].us;
}

void PhaseBuilder::backward(std::size_t index) {
  Layer& layer = phase_.graph.layers[index];
  Node& node = nodes_[index];
  if (node.kind == Kind::concatenation) return;
  const std::uint32_t dy = *gradient_of(layer.output);
  const Versions x = states_[layer.inputs[0]].content;
  const Versions y = states_[layer.output].content;
  const auto with = [](Versions list, std::uint32_t more) {
    list.push_back(more);
    return list;
  };
  const bool products = node.kind == Kind::convolution || node.kind == Kind::linear;
  if (node.weights) node.weight_gradient = in_new_buffer(phase_.versions[*node.weights].bytes);
  if (products) {
    backward_op(layer, node.kind == Kind::linear ? OpKind::gemm : OpKind::conv_backward_filter, with(x, dy),
                {*node.weight_gradient});
  }
  for (const std::uint32_t input : layer.inputs) {
    if (input == 0) continue;
    Versions reads{dy};
    OpKind kind = OpKind::elementwise;
    if (products) {
      kind = node.kind == Kind::linear ? OpKind::gemm : OpKind::conv_backward_data;
      reads.push_back(*node.weights);
    } else if (node.kind == Kind::batch_norm) {
      kind = OpKind::batch_norm_backward;
      reads.insert(reads.end(), x.begin(), x.end());
      reads.push_back(*node.weights);
    } else if (node.kind == Kind::relu) {
      kind = OpKind::activation_backward;
      reads.insert(reads.end(), y.begin(), y.end());
    } else if (node.kind == Kind::pooling) {
      kind = OpKind::pooling_backward;
      reads.insert(reads.end(), x.begin(), x.end());
      reads.insert(reads.end(), y.begin(), y.end());
    }
    Versions writes{next_gradient(input, reads)};
    if (node.kind == Kind::batch_norm) writes.push_back(*node.weight_gradient);
    backward_op(layer, kind, std::move(reads), std::move(writes));
  }
}

void PhaseBuilder::update(std::size_t layer) {
  const Node& node = nodes_[layer];
  if (!node.weights) return;
  const std::uint32_t updated = over(*node.weights);
  phase_.versions[updated].role = Role::parameter;
  add_op(OpKind::blas, {*node.weights, *node.weight_gradient}, {updated}, {});
}

// Small launches of the program's own, until the number of ops is right.
void PhaseBuilder::fill() {
  while (phase_.ops.size() < target_) {
    const std::uint32_t old = counter_ ? *counter_ : in_new_buffer(256, Role::parameter);
    counter_ = over(old);
    phase_.versions[*counter_].role = Role::parameter;
    add_op(OpKind::bare_launch, {old}, {*counter_}, {});
  }
}

// ---- what follows from the ops

void PhaseBuilder::settle_roles() {
  const auto in_backward = [&](std::int32_t p) { return phase_.turn != outside && p >= phase_.turn; };
  for (ProfileVersion& version : phase_.versions) {
    if (version.role != Role::activation) continue;
    if (in_backward(version.producer)) {
      version.role = Role::gradient;
    } else if (!version.readers.empty() && in_backward(version.readers.back())) {
      version.role = Role::feature_map;
    }
  }
  for (Map& map : phase_.graph.maps) {
    map.kept = std::any_of(map.versions.begin(), map.versions.end(),
                           [&](std::uint32_t v) { return phase_.versions[v].role == Role::feature_map; });
  }
}

void PhaseBuilder::settle_lifetimes() {
  uses_.resize(phase_.buffers.size(), {outside, outside});
  std::vector<bool> stays(phase_.buffers.size(), !in_iteration_);
  for (const ProfileVersion& version : phase_.versions) {
    if (version.role == Role::parameter || version.role == Role::input) stays[version.buffer] = true;
  }
  std::vector<MemoryEvent>& events = phase_.memory;
  for (std::uint32_t b = 0; b < phase_.buffers.size(); ++b) {
    if (stays[b] || uses_[b].first == outside) continue;
    phase_.buffers[b].from = uses_[b].first;
    phase_.buffers[b].until = uses_[b].second + 1;
    events.push_back({phase_.buffers[b].from, b, true});
    events.push_back({phase_.buffers[b].until, b, false});
  }
  std::sort(events.begin(), events.end(), [](const MemoryEvent& a, const MemoryEvent& b) {
    return std::tuple(a.before, a.allocated, a.buffer) < std::tuple(b.before, b.allocated, b.buffer);
  });
}

}  // namespace pooch::test
