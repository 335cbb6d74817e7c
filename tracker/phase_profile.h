// One iteration, described: a profile without its times, which whoever measures them fills in.
#pragma once

#include "core/profile.h"
#include "tracker/op_log.h"

namespace pooch::tracker {

// The steps [start, end) as a phase's profile, without graph and times. The log must hold them. `likeness`:
// how the phase's steps are compared.
PhaseProfile describe_iteration(const OpLog& log, StepIndex start, StepIndex end,
                                Likeness likeness = Likeness::exact);

}  // namespace pooch::tracker
