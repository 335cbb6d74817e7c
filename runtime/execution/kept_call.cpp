#include "runtime/execution/kept_call.h"

#include <algorithm>
#include <utility>

namespace pooch::runtime {

KeptCall::KeptCall(const Call& call, const tracker::Op& op, std::unique_ptr<Replay> replay_)
    : replay(std::move(replay_)), operands(op.operands), stream(call.stream), function(call.function) {
  for (const Access& access : call.accesses) {
    accesses.push_back(access.address);
    const auto same = [&](const tracker::Operand& o) { return o.base + o.offset == access.address; };
    const auto found = std::find_if(op.operands.begin(), op.operands.end(), same);
    operand_of.push_back(static_cast<std::uint32_t>(found - op.operands.begin()));
  }
  if (call.substitute != nullptr) substitute = (*call.substitute)();
}

bool KeptCall::has_all_places() const {
  for (std::size_t a = 0; a < accesses.size(); ++a) {
    if (operand_of[a] < operands.size()) continue;
    const bool inside = std::any_of(operands.begin(), operands.end(), [&](const tracker::Operand& o) {
      return accesses[a] >= o.base + o.offset && accesses[a] < o.base + o.offset + o.bytes;
    });
    if (inside) return false;
  }
  return true;
}

void ReplayCall::place(std::size_t operand, Range& range, std::uint64_t offset) {
  tracker::Operand& moved = operands_[operand];
  moved.base = range.base;
  moved.offset += offset;
  moved.managed = true;
  moved.backing = &range;
}

void ReplayCall::place_alone(std::size_t operand, Range& range, std::uint64_t offset) {
  operands_[operand].offset = 0;
  place(operand, range, offset);
}

// It reads the statistics, where the call wrote them, and touches nothing but what it reads and y.
void ReplayCall::use_substitute(const KeptCall& kept) {
  const auto& at = kept.substitute->operands;
  for (std::uint32_t o = 0; o < operands_.size(); ++o) {
    const auto is = [&](std::uint32_t access) { return kept.operand_of[access] == o; };
    const bool reads = is(at.x) || is(at.scale) || is(at.bias) || is(at.mean) || is(at.inverse);
    if (reads) operands_[o].effect = Effect::read;
    if (!reads && !is(at.y)) operands_[o].managed = false;
  }
}

Status ReplayCall::run(const ScriptReplay& step, const KeptCall& kept, Device& device, StreamHandle stream) {
  find_addresses(kept);
  return step.formula ? normalise(step, *kept.substitute, device, stream)
                      : kept.replay->run(addresses_, stream);
}

Status ReplayCall::run(const KeptCall& kept, StreamHandle stream) {
  find_addresses(kept);
  return kept.replay->run(addresses_, stream);
}

void ReplayCall::find_addresses(const KeptCall& kept) {
  addresses_.clear();
  for (std::size_t a = 0; a < kept.accesses.size(); ++a) {
    const std::uint32_t o = kept.operand_of[a];
    addresses_.push_back(o < operands_.size() ? operands_[o].base + operands_[o].offset : kept.accesses[a]);
  }
}

Status ReplayCall::normalise(const ScriptReplay& step, const Substitute& by, Device& device,
                             StreamHandle stream) const {
  const auto at = [&](std::uint32_t access) { return addresses_[access]; };
  const auto& o = by.operands;
  return device.normalise({by.how,
                           {at(o.x), at(o.y), at(o.scale), at(o.bias), at(o.mean), at(o.inverse)},
                           *step.formula,
                           step.clip},
                          stream);
}

}  // namespace pooch::runtime
