#include "tracker/roles.h"

#include <algorithm>
#include <set>
#include <utility>

namespace pooch::tracker {
namespace {

std::int32_t position_of_most_alive(const PhaseProfile& phase) {
  std::vector<std::int64_t> change(phase.ops.size() + 1, 0);
  for (const ProfileVersion& v : phase.versions) {
    if (v.producer == outside || v.readers.empty()) continue;
    change[v.producer] += static_cast<std::int64_t>(v.bytes);
    change[v.readers.back()] -= static_cast<std::int64_t>(v.bytes);
  }
  std::int64_t level = 0, most = 0;
  std::int32_t found = outside;
  for (std::size_t i = 0; i < phase.ops.size(); ++i)
    if (level += change[i]; level > most) most = level, found = static_cast<std::int32_t>(i) + 1;
  return found;
}

}  // namespace

std::int32_t find_turn(const PhaseProfile& phase) {
  const auto& ops = phase.ops;
  const auto is = [](Direction wanted) {
    return [wanted](const ProfileOp& op) { return direction(op.kind) == wanted; };
  };
  const auto backward = std::find_if(ops.begin(), ops.end(), is(Direction::backward));
  const auto forward = std::find_if(std::make_reverse_iterator(backward), ops.rend(), is(Direction::forward));
  if (backward != ops.end())
    return forward == ops.rend() ? 0 : static_cast<std::int32_t>(forward.base() - ops.begin());
  if (forward != ops.rend()) return outside;
  return position_of_most_alive(phase);
}

void assign_roles(PhaseProfile& phase, const std::vector<std::uint32_t>& inputs) {
  phase.turn = find_turn(phase);
  using Region = std::pair<std::uint32_t, std::uint64_t>;
  std::set<Region> persistent;  // there before the iteration
  std::set<Region> weights;     // and read in forward
  for (ProfileVersion& v : phase.versions) {
    if (v.producer != outside) continue;
    v.role = Role::parameter;
    persistent.insert({v.buffer, v.offset});
    if (phase.turn == outside || v.readers.empty() || v.readers.front() < phase.turn)
      weights.insert({v.buffer, v.offset});
  }
  for (const std::uint32_t i : inputs) {
    phase.versions[i].role = Role::input;
    persistent.erase({phase.versions[i].buffer, phase.versions[i].offset});
  }
  bool learns = false;
  for (ProfileVersion& v : phase.versions) {
    if (v.producer == outside) continue;
    const bool in_backward = phase.turn != outside && v.producer >= phase.turn;
    if (persistent.contains({v.buffer, v.offset})) {
      v.role = Role::parameter;
      learns |= in_backward && weights.contains({v.buffer, v.offset});
    } else if (in_backward || phase.ops[v.producer].kind == OpKind::set) {
      v.role = Role::gradient;  // or, set in forward, what gradients are added to
    } else {
      const bool kept = phase.turn != outside && !v.readers.empty() && v.readers.back() >= phase.turn;
      v.role = kept ? Role::feature_map : Role::activation;
    }
  }
  phase.kind = phase.turn == outside ? "validate" : learns ? "train" : "accumulate";
}

}  // namespace pooch::tracker
