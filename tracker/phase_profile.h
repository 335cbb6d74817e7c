// One iteration, described: a profile without its times, which whoever measures them fills in.
#pragma once

#include <cstdint>
#include <vector>

#include "core/profile.h"
#include "tracker/op_log.h"

namespace pooch::tracker {

// By position, by operand of its op: the index of the buffer that it is in, or `no_buffer`.
using OperandBuffers = std::vector<std::vector<std::uint32_t>>;
inline constexpr std::uint32_t no_buffer = ~std::uint32_t{0};

// The steps [start, end) as a phase's profile, without graph and times. The log must hold them.
PhaseProfile describe_iteration(const OpLog& log, StepIndex start, StepIndex end);
// ... and every operand's buffer in it.
PhaseProfile describe_iteration(const OpLog& log, StepIndex start, StepIndex end, OperandBuffers& operands);

}  // namespace pooch::tracker
