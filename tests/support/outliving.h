// What outlives an iteration, for tests of whatever moves it.
#pragma once

#include <cstdint>

#include "core/profile.h"

namespace pooch::test {

// Adds buffers to the profile's first phase, at ops that the seed chooses: optimiser states, read and written
// by one op near the end; weights, read twice and written near the end; constants that are only read;
// results that the next iteration frees unread; and a gradient that the iteration before left, read and
// freed. Each has 2 to 64 MiB.
void add_what_outlives(Profile& profile, std::uint64_t seed);

}  // namespace pooch::test
