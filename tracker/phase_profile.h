// One iteration, described: the structural half of a profile. Times are filled in by who measured them.
#pragma once

#include "core/profile.h"
#include "tracker/op_log.h"

namespace pooch::tracker {

// The steps [start, end) as a phase's profile, without graph and times. The log must hold them.
PhaseProfile describe_iteration(const OpLog& log, StepIndex start, StepIndex end);

}  // namespace pooch::tracker
