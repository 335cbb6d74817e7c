#include "tracker/tracker.h"

#include <algorithm>

namespace pooch::tracker {

void Tracker::resolve(const Call& call, Op& op) {
  op.function = call.function;
  op.kind = call.kind;
  op.operands.clear();
  for (const Access& access : call.accesses) {
    if (access.bytes == 0) continue;
    const Allocation* owner = allocations_.containing(access.address);
    if (owner == nullptr || !owner->managed) continue;
    const std::uint64_t offset = access.address - owner->base;
    op.operands.push_back(
        {owner->id, owner->base, offset, std::min(access.bytes, owner->bytes - offset), access.effect});
  }
}

void Tracker::launched(const Op& op) {
  if (op.operands.empty()) return;
  const OpNumber number{++ops_};
  // Scratch first: an operand that is also written otherwise keeps its content.
  for (const Operand& o : op.operands)
    if (!leaves_content(o.effect)) versions_[o.allocation].kill(o.offset, o.bytes);
  for (const Operand& o : op.operands)
    if (changes_content(o.effect) && leaves_content(o.effect))
      versions_[o.allocation].write(o.offset, o.bytes, number);
}

bool Tracker::live(AllocationId id, std::uint64_t offset, std::uint64_t bytes) const {
  const auto found = versions_.find(id);
  return found != versions_.end() && found->second.live(offset, bytes);
}

}  // namespace pooch::tracker
