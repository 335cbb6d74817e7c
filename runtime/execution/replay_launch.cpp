#include "runtime/execution/replay_launch.h"

#include "runtime/observe/nvtx.h"

namespace pooch::runtime {

Result<Mark> launch_replay(const ExecutorParts& parts, const ReplayLaunch& replay,
                           std::vector<ChunkUse>& uses, Trace* trace) {
  const StreamIndex in = parts.order.index(replay.stream);
  for (const ChunkUse& use : uses)
    if (const auto followed = parts.order.follow(in, use.chunk->before); !followed) return followed.error();
  const nvtx::Range range(nvtx::Category::replay, replay.kept.function);
  const std::int32_t position = replay.step == nullptr ? -1 : replay.step->position;
  const auto shown = trace == nullptr
                         ? Trace::none
                         : trace->begin({TraceTrack::replays, replay.kept.function, replay.stream, position});
  const auto run = replay.step == nullptr
                       ? replay.call.run(replay.kept, replay.stream)
                       : replay.call.run(*replay.step, replay.kept, parts.device, replay.stream);
  if (trace != nullptr) trace->end(shown);
  // Where it failed, a part of it may be under way all the same.
  const Mark mark = parts.residency.launched(uses, in);
  if (!run)
    for (ChunkUse& use : uses) use.changes = false;  // what it should make is not made
  parts.residency.used(uses, mark, parts.placement.clock());
  if (!run) return run.error();
  for (const ChunkUse& use : uses)
    if (use.changes && use.chunk->occupied > 0) use.chunk->live = true;
  return mark;
}

}  // namespace pooch::runtime
