// Phases whose iterations have the same form, but not the same sizes: what is known of one is known for the
// largest sizes, so that a plan for it has room for each of its iterations.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/profile.h"
#include "runtime/observe/known_phase.h"
#include "tracker/op_log.h"

namespace pooch::runtime {

// Bytes that each of the steps [start, end) touches. The log must hold them.
std::vector<std::uint64_t> volumes_of(const tracker::OpLog& log, tracker::StepIndex start,
                                      tracker::StepIndex end);

// Whether the phase has room for the op's operands at this position.
bool has_room(const PhaseProfile& phase, std::size_t position, std::span<const tracker::Operand> operands);
// ... and for all those of the iteration that began with the step `start`.
bool has_room(const PhaseProfile& phase, const tracker::OpLog& log, tracker::StepIndex start);

// What is known from the latest iteration has room for those before it as well, of which `before` is known.
// Where those touched more in all, their versions and ops are taken. `iterations`: of the phase so far.
void cover(KnownPhase& latest, const KnownPhase& before, std::uint64_t iterations);

// How much longer each op takes that touches as much as `volumes` says than one that touches as much as
// `timed` says. Both empty: as long.
std::vector<double> scales(std::span<const std::uint64_t> volumes, std::span<const std::uint64_t> timed,
                           std::size_t ops);

}  // namespace pooch::runtime
