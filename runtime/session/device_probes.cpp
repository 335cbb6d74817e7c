#include "runtime/session/device_probes.h"

#include <algorithm>

#include "core/log.h"
#include "cupti/link_probe.h"
#include "cupti/mapping_probe.h"

namespace pooch::runtime {

void DeviceProbes::run(Held& held) {
  tried_ = true;
  const std::uint64_t bytes = std::clamp(memory_.pool.limit() / 8 / page * page, page, 128 * MiB);
  const auto address = memory_.temporaries.allocate(bytes);
  if (!address) return;
  Residency& residency = *memory_.residency;
  Range& range = residency.open(*address, bytes, AllocationId::none, bytes);
  const tracker::Operand whole{AllocationId::none, *address, 0, bytes, Effect::scratch, true, 0, &range};
  std::vector<ChunkUse> uses;
  Status done = memory_.placement->place("the link probe", {&whole, 1}, uses, held);
  if (done) done = probe_link_over(*address, bytes);
  const bool idle = bool(done);
  if (!idle) log::info("the link was not measured: {}", done.error().message);
  Marks copies;  // one may still be under way where another failed
  for (const StreamIndex own : {residency.out_stream(), residency.in_stream()})
    copies.add(memory_.order.launched(own));
  residency.close(range, copies);
  // Its handles become free: where memory is short there may be no others.
  for (Chunk& chunk : range.chunks)
    if (idle && done && chunk.state != ChunkState::unbacked) done = residency.finish_eviction(chunk);
  if (idle && !done) log::info("the link probe keeps its memory: {}", done.error().message);
  memory_.temporaries.free(*address);
  probe_mapping();
}

// On handles that are free, of the size that they have under a plan.
void DeviceProbes::probe_mapping() {
  constexpr std::size_t most = 8;
  HandlePool& pool = memory_.pool;
  const std::uint64_t bytes = HandlePool::unit(cap_);
  std::vector<PhysicalHandle> handles;
  Pieces pieces;
  while (pieces.size() < most && pool.available() >= bytes) {
    const auto taken = pool.acquire(bytes);
    if (!taken) break;
    pieces.insert(pieces.end(), taken->begin(), taken->end());
    if (taken->size() == 1) handles.push_back(taken->front().handle);
  }
  bool still_mapped = false;
  const auto prices = cupti::probe_mapping(device_, memory_.in_stream, handles, bytes, still_mapped);
  still_mapped ? pool.abandon(pieces) : pool.give_back(pieces);
  if (!prices) return log::info("the price of mapping was not measured: {}", prices.error().message);
  launch_us_ = prices->launch_us;
  for (const cupti::MoveSample& s : prices->moves) moves_.push_back({s.handles, bytes, s.microseconds});
}

Status DeviceProbes::probe_link_over(Address address, std::uint64_t bytes) {
  const auto host_memory = device_.host_allocate(bytes);
  if (!host_memory) return host_memory.error();
  const auto samples =
      cupti::probe_link(device_, memory_.out_stream, memory_.in_stream, {address, *host_memory, bytes});
  if (!samples) return samples.error();  // a copy may still be under way
  (void)device_.host_free(*host_memory);
  for (const cupti::LinkSample& s : *samples)
    link_.push_back({s.direction == cupti::LinkSample::Direction::in, s.bytes, s.microseconds, s.both});
  return Done{};
}

void DeviceProbes::fill(Profile& profile) const {
  profile.link = link_;
  profile.moves = moves_;
  profile.launch_us = launch_us_;
}

}  // namespace pooch::runtime
