// Profiles of made-up networks, for tests of whatever reads profiles.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/profile.h"

namespace pooch::test {

// A profile that profile_from_json accepts, equal for equal arguments. Its first phase trains, in `ops` ops
// (forward, loss, backward, update): convolutions, batch normalisation, ReLU (mostly in place), pooling,
// matrix products, residual sums and concatenations of two branches, with parameters, workspace, gradients
// that accumulate, and a batch that is copied in. Buffers come and go as in a framework, or (every fourth
// seed) all live outside of the iteration. Every third seed has a second, forward-only phase. Odd seeds have
// call sites, and trials of algorithms.
Profile random_profile(std::size_t ops, std::uint64_t seed);

// The phase with one operand for each buffer that an op touches.
PhaseProfile with_operands(PhaseProfile phase);
// As if each buffer that pooch moves had a range of its own, every seventh one two in turn.
void add_places(Profile& profile);

}  // namespace pooch::test
