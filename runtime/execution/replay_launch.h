// The launch of a replay, and what follows from it for what it touches.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/execution/executor_parts.h"
#include "runtime/execution/kept_call.h"
#include "runtime/observe/trace.h"

namespace pooch::runtime {

struct ReplayLaunch {
  ReplayCall& call;
  const KeptCall& kept;
  const ScriptReplay* step = nullptr;  // of a plan; nullptr: no plan asked for it
  StreamHandle stream{};
};

// `uses`: what the call touches, on the device. Returns the point behind it. Error: the library's or the
// device's; then nothing is made.
Result<Mark> launch_replay(const ExecutorParts& parts, const ReplayLaunch& replay,
                           std::vector<ChunkUse>& uses, Trace* trace);

}  // namespace pooch::runtime
