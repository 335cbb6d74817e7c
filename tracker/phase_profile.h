// One iteration, described: a profile without its times, which whoever measures them fills in.
#pragma once

#include "core/profile.h"
#include "tracker/op_log.h"

namespace pooch::tracker {

// The steps [start, end) as a phase's profile, without graph and times. The log must hold them.
PhaseProfile describe_iteration(const OpLog& log, StepIndex start, StepIndex end);

}  // namespace pooch::tracker
