// Allocations: the program's own and those that the driver serves, counted against the cap.
#include <algorithm>

#include "core/host_heap.h"
#include "core/log.h"
#include "runtime/session/session_impl.h"

namespace pooch::runtime {

// --- the list

tracker::Allocation Session::Impl::add_allocation(Address base, std::uint64_t bytes, bool managed,
                                                  bool by_program, void* origin, bool counts) {
  observers.recorder.allocated({base, bytes, managed, by_program});
  return allocations.add(base, bytes, managed, by_program, origin, counts);
}

std::optional<tracker::Allocation> Session::Impl::remove_allocation(Address base) {
  hidden.small_buffers.ended(base);
  hidden.stays.ended(base);
  observers.recorder.freed(base);
  return allocations.remove(base);
}

void Session::Impl::report_full(std::uint64_t bytes) {
  const Limits& limits = setting.limits;
  if (failures.first(Failures::Kind::full))
    log::warn("out of memory: {} more do not fit beside {} in use; the cap is {}, the host budget {}",
              format_bytes(bytes), format_bytes(occupied()), format_bytes(limits.cap),
              format_bytes(limits.host_budget));
}

void Session::Impl::report_too_large(std::uint64_t bytes) {
  if (failures.first(Failures::Kind::too_large))
    log::warn(
        "out of memory: one allocation of {} is more than the cap of {}; POOCH_MEMORY_INFO=all grants it",
        format_bytes(bytes), format_bytes(setting.limits.cap));
}

// --- allocation

[[gnu::hot]] bool Session::manages(std::uint64_t bytes) const {
  return bytes >= smallest_managed;
}

// Where the iterations before had it, if they are known.
std::optional<Address> Session::Impl::address_for(std::uint64_t bytes, StreamHandle stream) {
  const auto where = tracker.iterations().where();
  if (!where) return memory.space.allocate(bytes, stream);
  const auto [phase, position] = executor->counted_as(where->phase, tracker.steps() - where->start);
  AddressHabits::When when{static_cast<std::uint32_t>(phase), where->start, position};
  if (tracker.iterations().likeness() == tracker::Likeness::form) when.number = tracker.allocated_since();
  return memory.space.allocate(bytes, stream, when);
}

// Free ranges, whose memory is gone: any size may be cut from them.
void Session::Impl::forget_ranges(const std::vector<Residency::Span>& ranges) {
  executor->forget_places();
  memory.space.coalesce(ranges);
}

// Where all fits, free ranges keep their memory for allocations of the same size. A program whose sizes vary
// has other ones each time: then they are given what is left of others, as far as more is idle than a
// framework's own allocator keeps. Nothing: it is given memory of its own.
Result<std::optional<Address>> Session::Impl::reuse_memory(std::uint64_t bytes, StreamHandle stream) {
  using Found = std::optional<Address>;
  if (memory.placement->fallbacks() > 0 || executor->follows() || executor->aliased()) return Found{};
  HandlePool& pool = memory.pool;
  const std::uint64_t with_it = pool.created() - pool.idle() + bytes;
  if (with_it <= usage.peak) return Found{};
  if (const Found near = memory.space.reuse(bytes, stream)) return near;
  if (with_it > usage.peak + usage.peak * 3 / 4) {
    const auto forgotten =
        memory.residency->forget_unused([this](const Range& range) { memory.departures->forget(range); });
    if (!forgotten) return forgotten.error();
    forget_ranges(*forgotten);
  }
  // Handles of sizes that nobody asked for.
  const std::uint64_t most = 2 * usage.peak, all = pool.created() + bytes;
  if (all > most)
    if (const auto given_up = pool.give_up(std::min(pool.idle(), all - most)); !given_up)
      return given_up.error();
  return Found{};
}

Status Session::Impl::allocate_range(std::uint64_t bytes, StreamHandle stream,
                                     std::optional<Address>& address, Held& held) {
  const auto reused = reuse_memory(bytes, stream);
  if (!reused) return reused.error();
  address = *reused ? *reused : address_for(bytes, stream);
  if (address) return Done{};
  if (const auto apart = executor->dismantle(held); !apart) return apart;
  const auto forgotten =
      memory.demand->forget_unused([this](const Range& range) { memory.departures->forget(range); }, held);
  if (!forgotten) return forgotten.error();
  forget_ranges(*forgotten);
  address = memory.space.allocate(bytes, stream);
  if (!address) return Error{ErrorCode::out_of_memory, "the address space is exhausted"};
  return Done{};
}

Result<Address> Session::allocate(std::uint64_t bytes, std::optional<StreamHandle> stream, void* origin) {
  if (host_heap_spent()) return Error{ErrorCode::out_of_memory, "the host has no memory left"};
  Impl& s = *impl_;
  Held held(s.mutex);
  if (bytes > s.setting.limits.largest()) {
    s.report_too_large(bytes);
    return Error{ErrorCode::out_of_memory, "larger than the cap"};
  }
  const std::uint64_t rounded = round_up(bytes, page);
  if (s.nearly_short(rounded)) s.begin_watch();
  if (s.occupied() + rounded > s.setting.limits.granted()) (void)s.memory.outside.shrinks();
  if (s.occupied() + rounded > s.setting.limits.granted()) {
    s.report_full(bytes);
    return Error{ErrorCode::out_of_memory, "cap and host budget are exhausted"};
  }
  std::optional<Address> address;
  const auto found = s.allocate_range(rounded, stream.value_or(StreamHandle{}), address, held);
  if (!found) return found.error();
  const tracker::Allocation made =
      s.add_allocation(*address, bytes, /*managed=*/true, /*by_program=*/true, origin);
  Range& range = s.memory.residency->open(*address, s.memory.space.bytes(*address), made.id, bytes);
  s.tracker.set_backing(*address, &range);
  s.usage.managed += rounded;
  s.usage.peak = std::max(s.usage.peak, s.usage.managed);
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
    const StreamIndex index = s.memory.order.index(*stream);
    // A range that streams hand to each other will be filled again by one while another is ahead with other
    // work.
    const bool handed_over =
        s.watch.on() ? range.used_beside(index) : s.memory.space.owner(address) != *stream;
    after.add(handed_over ? s.memory.order.launched_exactly(index) : s.memory.order.launched(index));
  }
  const Freed freed{gone->bytes, gone->by_program, gone->origin, gone->counts};
  const std::uint64_t rounded = round_up(gone->bytes, page);
  if (const auto ready = s.executor->freeing(range, gone->id, held); !ready) return ready.error();
  if (const auto made = s.remaking->freeing(gone->id, held); !made) return made.error();
  s.memory.residency->close(range, after);
  if (const auto taken = s.executor->freed(range); !taken) return taken.error();
  s.memory.foresight.freed(gone->id);
  s.remove_allocation(address);
  s.memory.space.free(address, stream.value_or(StreamHandle{}));
  s.usage.managed -= rounded;
  s.publish_occupied();
  return freed;
}

[[gnu::hot]] Status Session::admit_pass_through(std::uint64_t bytes) {
  Impl& s = *impl_;
  const std::uint64_t charge = pass_through_charge(bytes);
  // Far from short nobody need make room; that others come at the same time matters little.
  const std::uint64_t taken =
      s.usage.occupied.load(std::memory_order_relaxed) + s.memory.outside.charged() + charge;
  if (!s.watch.on() && !s.near_short(taken + page)) {
    s.memory.outside.charge(charge);
    return Done{};
  }
  Held held(s.mutex);
  if (s.near_short(s.usage.managed + s.memory.outside.with(charge))) s.begin_watch();
  const std::uint64_t expected = s.memory.outside.with(charge);
  if (expected > s.memory.pool.outside() && !s.memory.outside.roomy(expected)) s.memory.outside.ask();
  const std::uint64_t now = s.memory.outside.with(charge);
  const std::uint64_t more = now > s.memory.pool.outside() ? now - s.memory.pool.outside() : 0;
  if (now > s.setting.limits.cap) {
    if (s.failures.first(Failures::Kind::full))
      log::error(
          "{} of small allocations cannot leave the device: the smallest cap that works is {} ({} MiB); it "
          "is {}",
          format_bytes(s.memory.outside.charged() + bytes), format_bytes(now), now / MiB,
          format_bytes(s.setting.limits.cap));
    return Error{ErrorCode::out_of_memory, "the cap is exhausted"};
  }
  if (s.usage.managed + now > s.setting.limits.granted()) {
    s.report_full(bytes);
    return Error{ErrorCode::out_of_memory, "cap and host budget are exhausted"};
  }
  if (more > 0) {
    const auto made = s.memory.placement->make_room(more, held);
    if (!made && made.error().code == ErrorCode::out_of_memory && s.failures.first(Failures::Kind::full))
      log::error(
          "{} that cannot leave the device do not fit beside what else stays on it (small allocations, what "
          "graphs use, what addresses in device memory lead to); the cap is {}",
          format_bytes(bytes), format_bytes(s.setting.limits.cap));
    if (!made) return made.error();
  }
  s.memory.outside.charge(charge);
  const Status moved_over = s.memory.outside.publish();
  s.publish_occupied();
  return moved_over;
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
  memory.outside.note_served(pass_through_charge(bytes));
  const std::uint64_t now = memory.outside.with(0);
  if (now > memory.pool.outside())
    (void)memory.placement->make_room(std::min(now - memory.pool.outside(), memory.pool.limit()), held);
  (void)memory.outside.publish();
  publish_occupied();
}

void Session::refund(std::uint64_t bytes) {
  const Held held(impl_->mutex);
  impl_->memory.outside.discharge(pass_through_charge(bytes));
  (void)impl_->memory.pool.set_outside(impl_->memory.outside.with(0));
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
    if (const auto entered = s.memory.landing->enter(*work->entered); !entered)
      s.failures.fail("making room within a call", entered.error());
  return given;
}

bool Session::Impl::relieve(std::uint64_t bytes, Held& held) {
  const std::uint64_t before = memory.pool.created();
  memory.outside.unsettle();
  (void)memory.pool.settle_for_less();
  const std::uint64_t more = round_up(bytes > 0 ? bytes : device_slack(setting.limits.cap), page) + page;
  const std::uint64_t wanted = std::min(more, memory.pool.created());
  const std::uint64_t never_created =
      memory.pool.limit() - std::min(memory.pool.limit(), memory.pool.created());
  // A thread whose own call is on its way cannot tell what that uses, if it is not watched; and in alias mode
  // every address has to keep its memory until that has been waited for.
  const bool in_aliased = executor->aliased() && ThreadsWork::inside(this) != nullptr;
  if (!Watch::thread_passes() && !in_aliased) (void)memory.placement->make_room(never_created + wanted, held);
  (void)memory.pool.give_up(wanted);
  (void)memory.outside.publish();
  publish_occupied();
  return memory.pool.created() < before;
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
  const auto remade = s.remaking->freeing(known->id, held);
  if (!remade) return remade.error();
  if (*read || *remade) {
    // The program's order of streams says nothing of these reads.
    if (const auto idle = held.released([&] { return s.device.synchronize_all(); }); !idle)
      return idle.error();
  }
  const auto gone = s.remove_allocation(address);
  if (!gone) return unknown;
  if (gone->counts) {
    s.memory.outside.discharge(pass_through_charge(gone->bytes));
    (void)s.memory.outside.publish();
    s.publish_occupied();
  }
  return std::optional(Freed{gone->bytes, gone->by_program, gone->origin, gone->counts});
}

void Session::pass_through_kept(Address address, const Freed& what) {
  if (!what.counts) return placed(address, what.bytes, what.by_program, what.origin);
  impl_->memory.outside.charge(pass_through_charge(what.bytes));
  passed_through(address, what.bytes, what.by_program, what.origin);
}

// --- queries

[[gnu::hot]] bool Session::owns(Address address) const {
  return impl_->memory.space.contains(address);
}

std::optional<Extent> Session::find(Address address) const {
  return owns(address) ? impl_->allocations.find(address) : std::nullopt;
}

void* Session::origin_of(Address base) const {
  return impl_->allocations.origin_of(base);
}

std::optional<Extent> Session::find_known(Address address) const {
  return impl_->allocations.find(address);
}

std::vector<Extent> Session::allocations() const {
  return impl_->allocations.all();
}

MemoryInfo Session::memory_info() const {
  const Limits& limits = impl_->setting.limits;
  const std::uint64_t used = impl_->usage.occupied.load(std::memory_order_relaxed);
  const auto up_to = [used](std::uint64_t most) { return most > used ? most - used : 0; };
  const std::uint64_t fits = up_to(limits.cap), granted = up_to(limits.granted());
  if (limits.story == MemoryStory::all) return {granted, limits.granted(), fits, granted};
  const std::uint64_t free = std::min(granted, std::max(fits, limits.least_free()));
  return {free, std::max(limits.total(), used + free), fits, granted};
}

std::uint64_t Session::device_bytes() const {
  return impl_->setting.limits.total();
}

}  // namespace pooch::runtime
