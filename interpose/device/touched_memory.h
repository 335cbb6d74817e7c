// Host memory that is there before a driver locks it: large pages, written to by several threads.
//
// cuMemHostAlloc finds small pages one after the other: on an H100's machine 0.45 s a GB. Large pages that
// eight threads have written to and that are registered then are locked in 0.05 (docs/measurements.md,
// `pinning`).
#pragma once

#include <cstddef>

namespace pooch::interpose {

// Whole large pages, zeroed, of this process alone: children do not get them, since a copy on write would
// part the program from what the device reads. nullptr: the system has no such memory free, or does not give
// it.
void* map_touched(std::size_t bytes);
void unmap_touched(void* memory, std::size_t bytes);

}  // namespace pooch::interpose
