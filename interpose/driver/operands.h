// What structures of the driver's say of the memory that work of theirs touches: in calls, and in nodes of
// graphs.
#pragma once

#include <span>

#include "interpose/calls/call_builder.h"
#include "interpose/driver/replay_launch.h"

namespace pooch::interpose {

// The words that a stream waits for and writes.
void add_values(CallBuilder& call, std::span<const CUstreamBatchMemOpParams> ops);
// Whether one of them may wait for the program.
bool waits_for_value(std::span<const CUstreamBatchMemOpParams> ops);

// What a kernel that is launched so may read and write; unforeseen where that may not be all.
void add_kernel(CallBuilder& call, const Scope& scope, const LaunchShape& shape, void** params, void** extra);

// CUDA_MEMSET_NODE_PARAMS of any version
template <class Set>
void add_set(CallBuilder& call, const Set& set) {
  call.add(set.dst, pitched(set.pitch, set.width * set.elementSize, set.height), Effect::overwrite);
}
// CUDA_MEMCPY3D
template <class Copy>
void add_copy(CallBuilder& call, const Copy& copy) {
  call.add(destination_of(copy), Effect::overwrite);
  call.add(source_of(copy), Effect::read);
}

}  // namespace pooch::interpose
