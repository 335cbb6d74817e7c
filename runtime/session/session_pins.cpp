// Allocations that kernels reach by addresses in device memory, which no call shows.
#include "core/log.h"
#include "runtime/memory/host_wait.h"
#include "runtime/session/address_table.h"
#include "runtime/session/session_impl.h"

namespace pooch::runtime {

void Session::pin_addresses_in(const HostBlock& memory) {
  pin_addresses_in(memory, /*single_words=*/false);
}

void Session::pin_addresses_in(const HostBlock& memory, bool single_words) {
  const auto points_to = [this](Address word) {
    const auto allocation = find(word);
    return !allocation ? PointsTo::nothing : word == allocation->base ? PointsTo::begin : PointsTo::inside;
  };
  const auto visit = [this](Address word) {
    if (const auto allocation = find(word)) pin(*allocation, Pinned::by_address);
  };
  find_addresses(memory, single_words ? Evidence::word : Evidence::table, impl_->setting.arena.base,
                 impl_->allocations.arena_used(), points_to, visit);
}

// Brought to the device like an operand of a call that waits, and left there. In a stream of our own: the
// legacy one waits for the program's, and must be left alone while one of those is captured.
void Session::pin(const Extent& allocation, Pinned why) {
  Impl& s = *impl_;
  {
    Held held(s.mutex);
    Range* const range = s.memory.residency->find(allocation.base);
    if (range == nullptr) return;
    if (why == Pinned::by_address) s.hidden.stays.reach(allocation.base);
    if (range->pinned) return;
    if (!s.watch.on()) {  // it is there, and its stream knows since when
      if (range->in_use) s.hidden.stays.keep(*range, allocation.bytes);
      return;
    }
    // Memory that others use in turn cannot be kept for one.
    if (s.executor->aliased())
      if (const auto apart = s.executor->dismantle(held); !apart)
        return s.failures.fail("keeping memory on the device", apart.error());
  }
  const Access whole{allocation.base, allocation.bytes, Effect::read};
  Call call{why == Pinned::by_name ? "memory that a CUDA graph or NCCL keeps"
                                   : "memory whose address lies in device memory",
            OpKind::bare_launch,
            s.memory.in_stream,
            {&whole, 1}};
  call.blocks = true;
  call.trial = call.own = true;  // no step of the program's
  const auto stay = [&]() -> int {
    Held held(s.mutex);
    Range* const range = s.memory.residency->find(allocation.base);
    if (range == nullptr) return 0;
    Marks arrivals;  // who uses it unseen waits for nothing
    for (const Chunk& chunk : range->chunks) arrivals.add(chunk.before);
    if (const auto arrived = await(s.device, s.memory.order, arrivals, held); !arrived)
      return s.failures.fail("keeping memory on the device", arrived.error()), 1;
    if (!range->in_use || range->pinned) return 0;  // another thread was here
    s.hidden.stays.keep(*range, allocation.bytes);
    return 0;
  };
  if (submit(call, stay, 1) != 0 && s.failures.first(Failures::Kind::pin))
    log::warn(
        "{} does not fit under the cap together with what does already: a kernel that reaches it may fail",
        call.function);
}

// --- tables that kernels write

// The host waits for the copies in our own stream.
Status Session::Impl::await_copies() {
  const auto event = device.create_event();
  if (!event) return event.error();
  Status done = device.record(*event, memory.in_stream);
  if (done) done = device.synchronize(*event);
  (void)device.destroy_event(*event);
  return done;
}

// What an address in device memory leads to may leave, and a kernel may reach it there: as with ops of
// unknown effects.
void Session::Impl::miss_tables(const Error& why) {
  failures.report("looking for addresses", why, "any op may reach memory that it does not name");
  hidden.unforeseen.miss_tables();
}

// What kernels wrote unseen: looked at whole, as many as fit at a time. The device is idle. The memory for it
// goes at once, since all of the host budget may be wanted soon.
void Session::Impl::find_tables() {
  const auto host = device.host_allocate(SmallBuffers::largest);
  if (!host) return miss_tables(host.error());
  std::uint64_t filled = 0;
  Status looked = Done{};
  std::vector<std::span<const std::byte>> copies;
  std::vector<Address> found;
  const auto points_to = [this](Address word) {
    const tracker::Allocation* const one = tracker.allocations().containing(word);
    return one == nullptr || !one->managed ? PointsTo::nothing
           : word == one->base             ? PointsTo::begin
                                           : PointsTo::inside;
  };
  const auto look = [&] {
    looked = await_copies();
    for (const auto& copy : copies)
      if (looked)
        find_addresses(HostBlock(copy), Evidence::word, setting.arena.base, allocations.arena_used(),
                       points_to, [&](Address word) { found.push_back(word); });
    copies.clear();
    filled = 0;
  };
  tracker.allocations().each([&](const tracker::Allocation& one) {
    const std::uint64_t bytes = one.bytes / sizeof(Address) * sizeof(Address);
    if (!one.by_program || bytes == 0 || bytes > SmallBuffers::largest || !looked) return;
    if (filled + bytes > SmallBuffers::largest) look();
    if (looked) looked = device.copy_out(*host + filled, one.base, bytes, memory.in_stream);
    copies.emplace_back(*host + filled, bytes);
    filled += bytes;
  });
  if (looked) look();
  // A copy may still be under way.
  if (looked) (void)device.host_free(*host);
  if (!looked) miss_tables(looked.error());
  for (const Address word : found) {
    const tracker::Allocation* const one = tracker.allocations().containing(word);
    Range& range = *static_cast<Range*>(one->backing);
    hidden.stays.reach(one->base);
    if (!range.pinned) hidden.stays.keep(range, one->bytes);
  }
}

// Whole allocations: a table may lie anywhere in what an operand is a part of.
void Session::Impl::note_small_buffers(const Call& call, const tracker::Op& op) {
  if (!facts(call.kind).has(OpTraits::launch) || call.trial || !observers.profiler.describing()) return;
  const bool by_code = facts(call.kind).has(OpTraits::by_code);
  for (const tracker::Operand& operand : op.operands) {
    if (operand.effect != Effect::read_write && !(by_code && operand.effect == Effect::write)) continue;
    const tracker::Allocation* whole = tracker.allocations().starting_at(operand.base);
    const std::uint64_t bytes = whole == nullptr ? 0 : whole->bytes;
    if (bytes > 0 && bytes <= SmallBuffers::largest) hidden.small_buffers.note(operand.base, bytes);
  }
}

// Into `host`, behind all that was launched, and before anything that is launched later: the program knows
// nothing of it, so nothing of the program's is ordered behind it. The mutex is held while the host waits.
// False: the wait might have no end.
Result<bool> Session::Impl::copy_for_scan(std::byte* host, Address from, std::uint64_t bytes) {
  const auto blocked = memory.order.host_blocked();
  if (!blocked) return blocked.error();
  if (*blocked) return false;
  Status done = memory.order.follow_all(memory.order.index(memory.in_stream));
  if (done) done = device.copy_out(host, from, bytes, memory.in_stream);
  if (done) done = await_copies();
  if (!done) return done.error();
  return true;
}

// Each is copied to the host like a copy of the program's, in a stream of our own: the writer's may be gone,
// or another thread's. The mutex is not held. Error: one could not be looked at.
Status Session::Impl::scan(Session& session, const SmallBuffers::Buffers& buffers, std::byte* host) {
  std::optional<Error> missed;
  for (const auto& [base, bytes] : buffers) {
    const auto known = session.find_known(base);
    // Another thread may have freed it meanwhile, and a smaller one may lie there now.
    if (!known || known->base != base || known->bytes < bytes) continue;
    const Access whole{base, bytes, Effect::read};
    Call call{"looking for addresses", OpKind::bare_launch, memory.in_stream, {&whole, 1}};
    call.trial = call.own = true;
    bool later = false, gone = false;
    const int copied = session.submit(
        call,
        [&, address = base, length = bytes]() -> int {
          // Another thread may have freed it since: then the call has no operand, and the mutex is not held.
          gone = ThreadsWork::inside(this)->op.operands.empty() ||
                 tracker.allocations().starting_at(address) == nullptr ||
                 tracker.allocations().starting_at(address)->bytes < length;
          if (gone) return 1;
          const auto done = copy_for_scan(host, address, length);
          if (!done) missed = done.error();
          later = done && !*done;
          if (later) hidden.small_buffers.note_again(address, length);
          return done && *done ? 0 : 1;
        },
        1);
    if (later || gone) continue;
    if (copied == 0) session.pin_addresses_in(HostBlock({host, bytes}), /*single_words=*/true);
    if (copied != 0 && !missed) missed = Error{ErrorCode::out_of_memory, "there is no room for a buffer"};
    if (missed) return *missed;
  }
  return Done{};
}

void Session::Impl::scan_small_buffers(Session& session, StreamHandle stream, Held& held) {
  const auto blocked = memory.order.host_blocked();
  const auto capturing = device.capturing(stream);
  if (!blocked || *blocked || !capturing || *capturing) return;  // to wait might have no end
  const auto host = hidden.small_buffers.borrow(device);
  if (!host) return hidden.small_buffers.give_up();
  const SmallBuffers::Buffers buffers = hidden.small_buffers.take();
  const Status looked = held.released([&] { return scan(session, buffers, *host); });
  if (!looked) return miss_tables(looked.error());  // a copy may still be under way, so its memory is kept
  hidden.small_buffers.give_back(device, *host);
}

}  // namespace pooch::runtime
