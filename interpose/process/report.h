// What a process leaves behind: the summary and the profile of each device, as far as they are asked for.
#pragma once

#include "core/config.h"
#include "interpose/sessions/served.h"

namespace pooch::interpose {

// The first session has been opened: where this process leaves its report is settled, and what is known is
// written there from time to time (process/keeper.h).
void begin_report(const Config& config);
// At the program's end, in the session's context.
void report(const Served& one);

}  // namespace pooch::interpose
