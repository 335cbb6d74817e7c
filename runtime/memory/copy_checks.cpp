#include "runtime/memory/copy_checks.h"

#include <algorithm>
#include <utility>

#include "core/log.h"

namespace pooch::runtime {

void CopyChecks::drop(Chunk& chunk) {
  const auto earlier = earlier_.find(&chunk);
  if (earlier == earlier_.end()) return;
  arena_.free(std::move(earlier->second), chunk.slot_use);
  earlier_.erase(earlier);
}

void CopyChecks::compare(Chunk& chunk) {
  const auto earlier = earlier_.find(&chunk);
  if (earlier == earlier_.end()) return;
  std::vector<std::byte> bytes[2];
  const HostSlot* const slots[2] = {&earlier->second, &chunk.slot};
  for (int i = 0; i < 2; ++i) {
    for (const HostExtent& extent : *slots[i])
      bytes[i].insert(bytes[i].end(), extent.memory, extent.memory + extent.bytes);
    bytes[i].resize(chunk.occupied);
  }
  const auto [first, other] = std::mismatch(bytes[0].begin(), bytes[0].end(), bytes[1].begin());
  if (first != bytes[0].end())
    log::error(
        "POOCH_CHECK: {} at {:#x} was changed on the device, from byte {} on, by something that no call "
        "named; its "
        "newer content is kept",
        chunk.name.empty() ? "memory" : chunk.name, raw(chunk.address), first - bytes[0].begin());
  drop(chunk);
}

}  // namespace pooch::runtime
