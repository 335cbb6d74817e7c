#include "runtime/script/plan_room.h"

#include <algorithm>
#include <vector>

#include "core/bytes.h"
#include "core/pages.h"

namespace pooch::runtime {

std::uint64_t reserve_beside_plans(std::uint64_t cap) {
  return std::clamp(cap / 256, 4 * page, 32 * page);
}

std::uint64_t unmanaged_bytes(const PhaseProfile& phase) {
  std::vector<std::int64_t> change(phase.ops.size() + 2, 0);
  for (const ProfileBuffer& buffer : phase.buffers) {
    if (buffer.managed) continue;
    change[buffer.from == outside ? 0 : buffer.from] += static_cast<std::int64_t>(buffer.bytes);
    if (buffer.until != outside) change[buffer.until] -= static_cast<std::int64_t>(buffer.bytes);
  }
  std::int64_t most = 0, now = 0;
  for (const std::int64_t by : change) most = std::max(most, now += by);
  return static_cast<std::uint64_t>(most);
}

std::uint64_t unseen_bytes(const PhaseProfile& phase, const CapUse& use) {
  const std::uint64_t known = round_up(unmanaged_bytes(phase), page) + reserve_beside_plans(use.cap);
  return use.outside > known ? use.outside - known : 0;
}

PlanRoom room_with_layout(const CapUse& use, std::uint64_t unseen, std::uint64_t lacking) {
  // A layout holds whole chunks and pages, which plans do not count. With room to spare, more chunks keep
  // their frames.
  const std::uint64_t slack = use.cap / 256 / page * page;
  const std::uint64_t least = use.cap > use.most_outside ? use.cap - use.most_outside : 0;
  // A page is for digests.
  return {lacking + unseen + slack, least - std::min(least, lacking + page)};
}

}  // namespace pooch::runtime
