#include "interpose/call_builder.h"

#include <atomic>
#include <new>
#include <utility>

#include "core/log.h"

namespace pooch::interpose {
namespace {

// Part of the span keeps its bytes, so a full overwrite of the operand is a partial one of the span.
Effect for_span(Effect effect, bool dense) {
  return !dense && (effect == Effect::overwrite || effect == Effect::scratch) ? Effect::write : effect;
}

bool overlap(const Access& a, Address address, std::uint64_t bytes) {
  return raw(a.address) < raw(address) + bytes && raw(address) < raw(a.address) + a.bytes;
}

}  // namespace

void CallBuilder::add(Address address, const Extent& extent, Effect effect) {
  if (raw(address) == 0 || extent.bytes == 0) return;
  if (extent.anywhere) return add_everything();
  traits_ = mix(traits_, extent.traits);
  if (extent.filter) filter_ = extent.shape;
  Address begin = address + extent.offset;
  std::uint64_t bytes = extent.bytes;
  effect = for_span(effect, extent.dense);
  if (!extent.known) {
    const auto allocation = session_.find_known(address);
    if (!allocation) return;
    begin = allocation->base;
    bytes = allocation->bytes;
    effect = effect == Effect::read ? Effect::read : Effect::read_write;
  }
  for (Access& earlier : mutable_accesses()) {
    if (earlier.address == begin && earlier.bytes == bytes) {
      earlier.effect = join(earlier.effect, effect);
      return;
    }
    if (!overlap(earlier, begin, bytes)) continue;
    // The parts differ in what happens to them; the safe answer for both.
    if (changes_content(earlier.effect)) earlier.effect = Effect::read_write;
    if (changes_content(effect)) effect = Effect::read_write;
  }
  append(begin, bytes, effect, extent.shape);
}

// The addresses that the call works on are nowhere to be seen, so it may read and write whatever is alive.
void CallBuilder::add_everything() {
  if (std::exchange(everything_, true)) return;
  for (const runtime::Extent& allocation : session_.allocations())
    append(allocation.base, allocation.bytes, Effect::read_write, {});
}

void CallBuilder::explain_refusal() const {
  static constinit std::atomic<bool> explained{false};
  if (explained.exchange(true)) return;
  log::warn(
      "{}: the addresses of its operands lie in device memory, where nobody looks: all that the program has "
      "allocated must fit under the cap at once; calls batched by strides need their operands alone",
      function_);
}

// Made where it stays: a copy that follows at once would wait for each of its parts to be written.
void CallBuilder::append(Address address, std::uint64_t bytes, Effect effect, const Shape& shape) {
  if (spilled_.empty() && count_ < fixed_.size()) {
    ::new (&fixed_[count_++]) Access{address, bytes, effect, shape};
    return;
  }
  if (spilled_.empty()) spilled_.assign(fixed_.begin(), fixed_.end());
  spilled_.push_back({address, bytes, effect, shape});
}

void note_carried(runtime::Session& session, const void* memory, std::size_t bytes) {
  // Larger ones are data: to look at each word would take as long as the copy, and noise would be found.
  constexpr std::size_t largest_table = MiB;
  if (memory == nullptr || bytes > largest_table) return;
  session.pin_addresses_in({static_cast<const std::byte*>(memory), bytes});
}

}  // namespace pooch::interpose
