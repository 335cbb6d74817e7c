// Allocations: the program's own and those that the driver serves, counted against the cap.
#include <algorithm>

#include "core/host_heap.h"
#include "core/log.h"
#include "runtime/session/session_impl.h"

namespace pooch::runtime {

// --- allocation

[[gnu::hot]] bool Session::manages(std::uint64_t bytes) const {
  return bytes >= smallest_managed;
}

Status Session::Impl::allocate_range(std::uint64_t bytes, StreamHandle stream,
                                     std::optional<Address>& address, Held& held) {
  address = space.allocate(bytes, stream);
  if (address) return Done{};
  if (const auto apart = executor->dismantle(held); !apart) return apart;
  const auto forgotten =
      demand->forget_unused([this](const Range& range) { departures->forget(range); }, held);
  if (!forgotten) return forgotten.error();
  space.coalesce(*forgotten);
  address = space.allocate(bytes, stream);
  if (!address) return Error{ErrorCode::out_of_memory, "the address space is exhausted"};
  return Done{};
}

Result<Address> Session::allocate(std::uint64_t bytes, std::optional<StreamHandle> stream, void* origin) {
  if (host_heap_spent()) return Error{ErrorCode::out_of_memory, "the host has no memory left"};
  Impl& s = *impl_;
  Held held(s.mutex);
  if (bytes > s.limits.largest()) {
    s.report_too_large(bytes);
    return Error{ErrorCode::out_of_memory, "larger than the cap"};
  }
  const std::uint64_t rounded = round_up(bytes, page);
  if (s.nearly_short(rounded)) s.begin_watch();
  if (s.occupied() + rounded > s.limits.granted()) (void)s.outside_is_less();
  if (s.occupied() + rounded > s.limits.granted()) {
    s.report_full(bytes);
    return Error{ErrorCode::out_of_memory, "cap and host budget are exhausted"};
  }
  std::optional<Address> address;
  const auto found = s.allocate_range(rounded, stream.value_or(StreamHandle{}), address, held);
  if (!found) return found.error();
  const tracker::Allocation made =
      s.add_allocation(*address, bytes, /*managed=*/true, /*by_program=*/true, origin);
  Range& range = s.residency->open(*address, rounded, made.id, bytes);
  s.tracker.set_backing(*address, &range);
  s.live_bytes += rounded;
  s.publish_occupied();
  if (!s.watch.on()) s.back_at_once(range, stream, held);
  return *address;
}

Result<Freed> Session::free(Address address, std::optional<StreamHandle> stream) {
  Impl& s = *impl_;
  // cudaFree's promise. What cannot be waited for (a stream is capturing) the driver's own free would refuse
  // too. Where calls pass, nothing else says when the memory is free again.
  const Status idle = stream ? Status(Done{}) : s.device.synchronize_all();
  if (!idle && !s.watch.on()) return idle.error();
  Held held(s.mutex);
  const tracker::Allocation* gone = s.tracker.allocations().starting_at(address);
  if (gone == nullptr || !gone->managed)
    return Error{ErrorCode::invalid_argument, "not the start of a live allocation"};
  Range& range = *static_cast<Range*>(gone->backing);
  Marks after;
  if (stream) {
    const StreamIndex index = s.order.index(*stream);
    // A range that streams hand to each other will be filled again by one while another is ahead with other
    // work.
    const bool handed_over = s.watch.on() ? range.used_beside(index) : s.space.owner(address) != *stream;
    after.add(handed_over ? s.order.launched_exactly(index) : s.order.launched(index));
  }
  const Freed freed{gone->bytes, gone->by_program, gone->origin, gone->counts};
  const std::uint64_t rounded = round_up(gone->bytes, page);
  if (const auto ready = s.executor->freeing(range, gone->id, held); !ready) return ready.error();
  s.residency->close(range, after);
  if (const auto taken = s.executor->freed(range); !taken) return taken.error();
  s.remove_allocation(address);
  s.space.free(address, rounded, stream.value_or(StreamHandle{}));
  s.live_bytes -= rounded;
  s.publish_occupied();
  return freed;
}

[[gnu::hot]] Status Session::admit_pass_through(std::uint64_t bytes) {
  Impl& s = *impl_;
  const std::uint64_t charge = pass_through_charge(bytes);
  // Far from short nobody need make room; that others come at the same time matters little.
  const std::uint64_t taken = s.occupied_bytes.load(std::memory_order_relaxed) + s.outside_bytes + charge;
  if (!s.watch.on() && !s.near_short(taken + page)) {
    s.outside_bytes += charge;
    return Done{};
  }
  Held held(s.mutex);
  if (s.near_short(s.live_bytes + s.outside_with(charge))) s.begin_watch();
  const std::uint64_t expected = s.outside_with(charge);
  if (expected > s.pool.outside() && !s.roomy(expected)) s.ask_outside();
  const std::uint64_t now = s.outside_with(charge);
  const std::uint64_t more = now > s.pool.outside() ? now - s.pool.outside() : 0;
  if (now > s.limits.cap) {
    if (!s.full_reported.exchange(true))
      log::error(
          "{} of small allocations cannot leave the device: the smallest cap that works is {} ({} MiB); it "
          "is {}",
          format_bytes(s.outside_bytes + bytes), format_bytes(now), now / MiB, format_bytes(s.limits.cap));
    return Error{ErrorCode::out_of_memory, "the cap is exhausted"};
  }
  if (s.live_bytes + now > s.limits.granted()) {
    s.report_full(bytes);
    return Error{ErrorCode::out_of_memory, "cap and host budget are exhausted"};
  }
  if (more > 0) {
    const auto made = s.placement->make_room(more, held);
    if (!made && made.error().code == ErrorCode::out_of_memory && !s.full_reported.exchange(true))
      log::error(
          "{} that cannot leave the device do not fit beside what else stays on it (small allocations, what "
          "graphs use, what addresses in device memory lead to); the cap is {}",
          format_bytes(bytes), format_bytes(s.limits.cap));
    if (!made) return made.error();
  }
  s.outside_bytes += charge;
  const Status moved_over = s.pool.set_outside(s.outside_with(0));
  s.publish_occupied();
  return moved_over;
}

// How tightly the driver packs small allocations, and when it has carried out a stream-ordered free, only the
// driver knows. Asking costs some microseconds: it is asked each time while the answers still grow, then now
// and then; in between what comes is added and what goes still counts, so that the answer is never too small.
[[gnu::hot]] void Session::Impl::measure_outside(std::uint64_t added) {
  constexpr std::uint64_t steady = 4096, now_and_then = 64, many = 8 * MiB;
  added_since_asked += added;
  const bool due =
      ++passed_since_growth <= steady || passed_since_growth % now_and_then == 0 || added_since_asked >= many;
  measured_outside += added;
  const std::uint64_t now = outside_with(0);
  if (due || (now > pool.outside() && !roomy(now))) ask_outside();
}

void Session::Impl::ask_outside() {
  const auto free = device.free_bytes();
  if (!free) return;
  added_since_asked = 0;
  const std::uint64_t taken = free_at_start > *free ? free_at_start - *free : 0;
  measured_outside = taken > pool.created() ? taken - pool.created() : 0;
  if (measured_outside <= measured_peak) return;
  measured_peak = measured_outside;
  passed_since_growth = 0;
}

// What others free is noticed late: before something is refused for its sake, the driver is asked.
bool Session::Impl::outside_is_less() {
  const std::uint64_t before = pool.taken_outside();
  ask_outside();
  return outside_with(0) < before && pool.set_outside(outside_with(0));
}

[[gnu::hot]] void Session::passed_through(Address address, std::uint64_t bytes, bool by_program,
                                          void* origin) {
  Impl& s = *impl_;
  Held held(s.mutex);
  s.add_allocation(address, bytes, /*managed=*/false, by_program, origin);
  s.count_outside(bytes, held);
}

void Session::passed_through(std::uint64_t bytes) {
  Held held(impl_->mutex);
  impl_->count_outside(bytes, held);
}

[[gnu::hot]] void Session::placed(Address address, std::uint64_t bytes, bool by_program, void* origin) {
  const Held held(impl_->mutex);
  impl_->add_allocation(address, bytes, /*managed=*/false, by_program, origin, /*counts=*/false);
}

// The memory is there already; whatever else can move makes way. Where nothing can, the next one is refused.
[[gnu::hot]] void Session::Impl::count_outside(std::uint64_t bytes, Held& held) {
  measure_outside(pass_through_charge(bytes));
  const std::uint64_t now = outside_with(0);
  if (now > pool.outside()) (void)placement->make_room(std::min(now - pool.outside(), pool.limit()), held);
  (void)pool.set_outside(outside_with(0));
  publish_occupied();
}

void Session::pass_through_failed(std::uint64_t bytes) {
  const Held held(impl_->mutex);
  impl_->outside_bytes -= pass_through_charge(bytes);
  (void)impl_->pool.set_outside(impl_->outside_with(0));
  impl_->publish_occupied();
}

// Others have grown on the device, the driver packs more loosely than it did, or it loads code.
bool Session::relieve_device(std::uint64_t bytes) {
  Impl& s = *impl_;
  Work* const work = ThreadsWork::inside(&s);
  if (work == nullptr || (work->launch != nullptr && !work->launch->holds())) {
    // Whoever begins to watch has the mutex and waits for calls that pass; and two threads with one device's
    // mutex each would wait for each other.
    const bool another = work == nullptr && ThreadsWork::inside_any();
    if (Watch::thread_passes() || another) {
      Held held(s.mutex, std::try_to_lock);
      return held.holds() && s.relieve(bytes, held);
    }
    Held held(s.mutex);
    return s.relieve(bytes, held);
  }
  if (work->launch == nullptr) return false;  // a replay ahead of the call: nobody may come in between
  for (const ChunkUse& use : work->uses) ++use.chunk->pins;
  const bool given = s.relieve(bytes, *work->launch);
  for (const ChunkUse& use : work->uses) --use.chunk->pins;
  if (work->entered)
    if (const auto entered = s.landing->enter(*work->entered); !entered)
      s.fail("making room within a call", entered.error());
  return given;
}

bool Session::Impl::relieve(std::uint64_t bytes, Held& held) {
  const std::uint64_t before = pool.created();
  passed_since_growth = 0;  // the account that was held to be steady is not
  (void)pool.settle_for_less();
  const std::uint64_t more = round_up(bytes > 0 ? bytes : device_slack(limits.cap), page) + page;
  const std::uint64_t wanted = std::min(more, pool.created());
  const std::uint64_t never_created = pool.limit() - std::min(pool.limit(), pool.created());
  // A thread whose own call is on its way cannot tell what that uses, if it is not watched; and in alias mode
  // every address has to keep its memory until that has been waited for.
  const bool in_aliased = executor->aliased() && ThreadsWork::inside(this) != nullptr;
  if (!Watch::thread_passes() && !in_aliased) (void)placement->make_room(never_created + wanted, held);
  (void)pool.give_up(wanted);
  (void)pool.set_outside(outside_with(0));
  publish_occupied();
  return pool.created() < before;
}

[[gnu::hot]] Result<std::optional<Freed>> Session::pass_through_freed(Address address) {
  Impl& s = *impl_;
  constexpr std::optional<Freed> unknown;
  if (owns(address)) return unknown;
  Held held(s.mutex);
  const tracker::Allocation* const known = s.tracker.allocations().starting_at(address);
  if (known == nullptr) return unknown;
  const auto read = s.executor->freeing_outside(known->id, held);
  if (!read) return read.error();
  if (*read) {
    // The program's order of streams says nothing of these reads.
    if (const auto idle = held.released([&] { return s.device.synchronize_all(); }); !idle)
      return idle.error();
  }
  const auto gone = s.remove_allocation(address);
  if (!gone) return unknown;
  if (gone->counts) {
    s.outside_bytes -= pass_through_charge(gone->bytes);
    (void)s.pool.set_outside(s.outside_with(0));
    s.publish_occupied();
  }
  return std::optional(Freed{gone->bytes, gone->by_program, gone->origin, gone->counts});
}

void Session::pass_through_kept(Address address, const Freed& what) {
  if (!what.counts) return placed(address, what.bytes, what.by_program, what.origin);
  impl_->outside_bytes += pass_through_charge(what.bytes);
  passed_through(address, what.bytes, what.by_program, what.origin);
}

// --- queries

[[gnu::hot]] bool Session::owns(Address address) const {
  return impl_->space.contains(address);
}

std::optional<Extent> Session::find(Address address) const {
  if (!owns(address)) return std::nullopt;
  const std::lock_guard leaf(impl_->allocations_mutex);
  const tracker::Allocation* found = impl_->tracker.allocations().containing(address);
  return found == nullptr ? std::nullopt : std::optional(Extent{found->base, found->bytes});
}

void* Session::origin_of(Address base) const {
  const std::lock_guard leaf(impl_->allocations_mutex);
  const tracker::Allocation* found = impl_->tracker.allocations().starting_at(base);
  return found == nullptr ? nullptr : found->origin;
}

std::optional<Extent> Session::find_known(Address address) const {
  // Most words that somebody asks for are no addresses at all.
  if (address < impl_->lowest_address.load(std::memory_order_relaxed) ||
      address >= impl_->highest_address.load(std::memory_order_relaxed))
    return std::nullopt;
  const std::lock_guard leaf(impl_->allocations_mutex);
  const tracker::Allocation* found = impl_->tracker.allocations().containing(address);
  return found == nullptr ? std::nullopt : std::optional(Extent{found->base, found->bytes});
}

std::vector<Extent> Session::allocations() const {
  std::vector<Extent> all;
  const std::lock_guard leaf(impl_->allocations_mutex);
  impl_->tracker.allocations().each([&](const tracker::Allocation& a) { all.push_back({a.base, a.bytes}); });
  return all;
}

MemoryInfo Session::memory_info() const {
  const Limits& limits = impl_->limits;
  const std::uint64_t used = impl_->occupied_bytes.load(std::memory_order_relaxed);
  const auto up_to = [used](std::uint64_t most) { return most > used ? most - used : 0; };
  const std::uint64_t fits = up_to(limits.cap), granted = up_to(limits.granted());
  if (limits.story == MemoryStory::all) return {granted, limits.granted(), fits, granted};
  const std::uint64_t free = std::min(granted, std::max(fits, limits.least_free()));
  return {free, std::max(limits.total(), used + free), fits, granted};
}

std::uint64_t Session::device_bytes() const {
  return impl_->limits.total();
}

}  // namespace pooch::runtime
