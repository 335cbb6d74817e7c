// Allocations that kernels reach by addresses in device memory, which no call shows.
#include <cstring>

#include "core/log.h"
#include "runtime/host_wait.h"
#include "runtime/session_impl.h"

namespace pooch::runtime {

void Session::pin_addresses_in(std::span<const std::byte> memory) {
  for (; memory.size() >= sizeof(std::uint64_t); memory = memory.subspan(sizeof(std::uint64_t))) {
    std::uint64_t word;
    std::memcpy(&word, memory.data(), sizeof word);
    if (!owns(Address{word})) continue;
    if (const auto allocation = find(Address{word})) pin(*allocation);
  }
}

// Brought to the device like an operand of a call that waits, and left there.
void Session::pin(const Extent& allocation) {
  Impl& s = *impl_;
  {
    std::unique_lock lock(s.mutex);
    const Range* range = s.residency->find(allocation.base);
    if (range == nullptr || range->pinned) return;
    // Memory that others use in turn cannot be kept for one.
    if (s.executor->aliased())
      if (const auto apart = s.executor->dismantle(lock); !apart)
        return s.report_failure("keeping memory on the device", apart.error());
  }
  const Access whole{allocation.base, allocation.bytes, Effect::read};
  Call call{
      "memory whose address lies in device memory", OpKind::bare_launch, StreamHandle::legacy, {&whole, 1}};
  call.blocks = true;
  call.trial = true;  // no step of the program's
  const auto stay = [&]() -> int {
    std::unique_lock lock(s.mutex);
    Range* const range = s.residency->find(allocation.base);
    if (range == nullptr) return 0;
    Marks arrivals;  // who uses it unseen waits for nothing
    for (const Chunk& chunk : range->chunks) arrivals.add(chunk.before);
    if (const auto arrived = await(s.device, s.order, arrivals, lock); !arrived)
      s.report_failure("keeping memory on the device", arrived.error());
    if (!range->in_use || range->pinned) return 0;  // another thread was here
    range->pinned = true;
    for (Chunk& chunk : range->chunks) ++chunk.pins;
    ++s.pinned_allocations;
    s.pinned_bytes += allocation.bytes;
    return 0;
  };
  if (submit(call, stay, 1) != 0 && !s.pin_refused.exchange(true))
    log::warn(
        "memory whose address lies in device memory does not fit under the cap together with what does "
        "already: a kernel that reaches it from there may fail");
}

}  // namespace pooch::runtime
