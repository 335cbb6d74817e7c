// From when on calls are watched, and what is made of the memory that they used before.
//
// Far from short of memory nothing that calls do needs to be known, so they pass. Then every allocation has
// its memory from the start, nothing leaves the device, and a free keeps its order by the stream that it is
// given or by waiting for everything.
#include "core/log.h"
#include "runtime/memory/host_wait.h"
#include "runtime/session/session_impl.h"

namespace pooch::runtime {

Watch& Session::passing() {
  return impl_->watch;
}

void Session::watch() {
  const Held held(impl_->mutex);
  impl_->begin_watch();
}

// The mutex is held while the host waits, this once: whoever comes meanwhile must find all of it done.
// Nothing that is waited for can need it: work that waits for the program is watched beforehand.
void Session::Impl::begin_watch() {
  if (watch.on()) return;
  watch.begin();
  if (const auto idle = device.synchronize_all(); !idle)
    failures.fail("waiting for the device", idle.error());
  tracker.watch();
  tracker.allocations().each([](const tracker::Allocation& one) {
    if (one.backing == nullptr) return;
    for (Chunk& chunk : static_cast<Range*>(one.backing)->chunks) chunk.live = chunk.occupied > 0;
  });
  find_tables();
  log::info("calls are watched from now on: {} in use, the cap is {}", format_bytes(occupied()),
            format_bytes(setting.limits.cap));
}

// Where it cannot be had, the allocation gets it at its first use, like all that come later.
void Session::Impl::back_at_once(Range& range, std::optional<StreamHandle> stream, Held& held) {
  const ThreadsWork work;
  std::vector<ChunkUse>& uses = (*work).uses;
  uses.clear();
  Marks before;
  for (Chunk& chunk : range.chunks) {
    uses.push_back({&chunk, /*needs_content=*/false, /*changes=*/true});
    before.add(chunk.before);
  }
  Status ready = memory.residency->make_resident(uses);
  if (ready)
    ready = stream ? memory.order.follow(memory.order.index(*stream), before)
                   : await(device, memory.order, before, held);
  if (!ready) begin_watch();
}

}  // namespace pooch::runtime
