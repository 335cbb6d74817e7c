#include "runtime/placement/placement.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "core/bytes.h"
#include "core/log.h"
#include "runtime/memory/landing.h"

namespace pooch::runtime {
namespace {

// More than there are to land: other threads bring them back.
std::size_t most_landings(const std::vector<ChunkUse>& uses) {
  return 4 * uses.size() + 8;
}

}  // namespace

Error Placement::refusal(std::string_view what, const std::string& why) const {
  return {ErrorCode::out_of_memory,
          fmt::format("{} cannot have its operands on the device: {} (cap {}, host budget {})", what, why,
                      format_bytes(limits_.cap), format_bytes(limits_.host_budget))};
}

Error Placement::too_large(std::string_view what, std::uint64_t together) const {
  return {ErrorCode::out_of_memory,
          fmt::format("{} needs {} at once: the smallest cap that works is {} ({} MiB); it is {}", what,
                      format_bytes(together), format_bytes(together + pool_.outside()),
                      (together + pool_.outside()) / MiB, format_bytes(limits_.cap))};
}

Status Placement::place(std::string_view what, std::span<const tracker::Operand> operands,
                        std::vector<ChunkUse>& uses, Held& held, TooLarge if_too_large) {
  over_link_ = false;
  std::size_t landings = 0;
  std::string exhausted;
  bool in_pieces = false;  // the host has no room for all that would have to go at once
  bool ahead = true;       // what leaves is worth waiting for
  bool refused = false;    // the device has refused memory that it said it had
  for (;;) {
    // A host wait lets other threads in: what was gathered before it no longer holds.
    const std::uint64_t gathering = ++clock_;
    gather(operands, uses, landings > 0);
    if (Residency::settled(uses)) return Done{};
    for (const ChunkUse& use : uses)
      if (use.chunk->state == ChunkState::evicting) residency_.take_back(*use.chunk);
    const auto waited = await_landed(what, uses, held);
    if (!waited) return waited.error();
    if (*waited) continue;
    const std::uint64_t missing = Residency::missing(uses);
    if (missing > 0)
      if (const auto taken = departures_.take_matching(uses); !taken) return taken;
    if (missing <= pool_.available()) {
      const auto resident = residency_.make_resident(uses);
      if (resident || resident.error().code != ErrorCode::out_of_memory) return resident;
      // Whatever it was wanted for, a mapping takes some too: with less in the pool there is more for that.
      if (!pool_.settle_for_less() && missing <= pool_.available() && std::exchange(refused, true))
        return refusal(what, resident.error().message);
    }
    if (in_pieces) {
      const auto some = residency_.make_some_resident(uses);
      if (!some && some.error().code != ErrorCode::out_of_memory) return some.error();
      if (!some || !*some) return refusal(what, exhausted);
      in_pieces = false;
      continue;
    }
    std::uint64_t together = 0;
    for (const ChunkUse& use : uses) together += use.chunk->bytes;
    if (together > pool_.limit() && ((recount_ && recount_()) || pool_.give_up_reserved())) continue;
    if (together > pool_.limit()) {
      if (if_too_large == TooLarge::fails || landings > most_landings(uses)) return too_large(what, together);
      const auto nearer = land_some(what, together, landings++ > 0 ? &uses : nullptr, held);
      if (!nearer) return nearer;
      continue;
    }
    if (ahead && pool_.available() + departures_.bytes() >= missing) {
      const auto came = place_ahead(uses, held);
      if (!came) return came.error();
      ahead = *came;
      continue;  // less is missing now, even where nothing more comes
    }
    if (const auto room = free_memory(missing, gathering, held); !room) {
      if (room.error().code == ErrorCode::out_of_memory && pool_.give_up_reserved()) continue;
      if (room.error().code != ErrorCode::out_of_memory) return room;
      exhausted = room.error().message;
      in_pieces = true;
    }
  }
}

// At the clock's time. `over_link`: without what is used where it has landed.
void Placement::gather(std::span<const tracker::Operand> operands, std::vector<ChunkUse>& uses,
                       bool over_link) {
  uses.clear();
  for (std::uint32_t i = 0; i < operands.size(); ++i)
    if (const tracker::Operand& o = operands[i]; o.managed)
      residency_.gather(*static_cast<Range*>(o.backing), o.offset, o.bytes, o.effect, i, clock_, uses);
  if (over_link) leave_landed(uses);
  over_link_ = over_link;
}

// Landed ones that come back: true, the host has waited until no op can reach them.
Result<bool> Placement::await_landed(std::string_view what, const std::vector<ChunkUse>& uses, Held& held) {
  Landing* const landing = residency_.landing();
  if (landing == nullptr) return false;
  const auto waited = landing->await_untouched(uses, Landing::Patience::some, held);
  if (!waited && waited.error().code == ErrorCode::out_of_memory)
    return refusal(what, waited.error().message);
  return waited;
}

// `uses`: one of them lands. nullptr: it is the first time; memory lands from now on.
Status Placement::land_some(std::string_view what, std::uint64_t together, const std::vector<ChunkUse>* uses,
                            Held& held) {
  if (!begin_landing_) return too_large(what, together);
  const auto nearer = uses == nullptr ? begin_landing_(held) : land_one(*uses, held);
  if (!nearer) return nearer.error();
  if (!*nearer) return too_large(what, together);
  if (!std::exchange(told_, true))
    log::warn("{} needs {} at once, and the cap is {}: it uses a part of that over the link, which is slow",
              what, format_bytes(together), format_bytes(limits_.cap));
  return Done{};
}

// From the last one on, until the rest fits.
void Placement::leave_landed(std::vector<ChunkUse>& uses) const {
  std::uint64_t together = 0;
  for (const ChunkUse& use : uses) together += use.chunk->bytes;
  for (std::size_t i = uses.size(); i > 0 && together > pool_.limit(); --i) {
    const Chunk& chunk = *uses[i - 1].chunk;
    if (!chunk.landed || !chunk.host_valid) continue;
    together -= chunk.bytes;
    uses.erase(uses.begin() + static_cast<std::ptrdiff_t>(i - 1));
  }
}

// The last one that can: of those on the device if there are any. What was never written is copied out too,
// to be written there. False: none can.
Result<bool> Placement::land_one(const std::vector<ChunkUse>& uses, Held& held) {
  residency_.landing()->sweep();  // what an earlier allocation left there
  const auto on_device = [](const ChunkUse& use) {
    return use.chunk->state == ChunkState::resident && use.chunk->pins == 0;
  };
  auto use = std::find_if(uses.rbegin(), uses.rend(), on_device);
  if (use == uses.rend()) {
    use = std::find_if(uses.rbegin(), uses.rend(), [](const ChunkUse& each) { return !each.chunk->landed; });
    if (use == uses.rend()) return false;
    if (pool_.available() < use->chunk->bytes) {
      const auto room = free_memory(use->chunk->bytes, clock_, held);
      if (!room) return room.error();
      return true;  // others may have been here
    }
    if (const auto there = residency_.make_resident({*use}); !there) return there.error();
  }
  Chunk& chunk = *use->chunk;
  chunk.live = true;
  if (const auto begun = residency_.begin_eviction(chunk); !begun) return begun.error();
  departures_.add(chunk);
  const auto gone = departures_.reclaim(pool_.available() + chunk.bytes, Departures::Wait::yes, held);
  if (!gone) return gone.error();
  return true;
}

// Memory for all of it is on its way: what has come already is mapped while the host waits for more, so that
// little is left to be done when the last of it comes. False: no more comes for now.
Result<bool> Placement::place_ahead(const std::vector<ChunkUse>& uses, Held& held) {
  const auto next = residency_.make_resident_ahead(uses);
  if (!next && next.error().code == ErrorCode::out_of_memory) return false;
  if (!next) return next.error();
  return departures_.reclaim(*next, Departures::Wait::yes, held);
}

// What is on its way out first, then what Demand picks.
Status Placement::free_memory(std::uint64_t bytes, std::uint64_t gathering, Held& held) {
  if (bytes > pool_.available()) {
    if (before_leaving_) before_leaving_();
    const auto reclaimed = departures_.reclaim(bytes, Departures::Wait::yes, held);
    if (!reclaimed) return reclaimed.error();
    if (*reclaimed) return Done{};
    ++fallbacks_;
    asked_bytes_ += bytes - std::min(bytes, pool_.available());
  }
  const auto room = demand_.make_room(bytes, gathering, held);
  if (room || room.error().code != ErrorCode::out_of_memory || !last_resort_) return room;
  const auto again = last_resort_(held);
  if (!again) return again.error();
  return *again ? demand_.make_room(bytes, gathering, held) : room;
}

Status Placement::make_room(std::uint64_t bytes, Held& held) {
  return free_memory(bytes, ++clock_, held);
}

}  // namespace pooch::runtime
