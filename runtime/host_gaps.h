// What of the device's idle time is the host's doing.
//
// A host that is ahead of the device when a row of short ops comes lets it run dry later, or not at all.
// Where pooch made the device wait, the host has lost that lead, and the idle time that follows is not what
// the program would see without.
#pragma once

#include <span>
#include <vector>

namespace pooch::runtime {

struct TimedOp {
  double start_us = 0, end_us = -1;  // end before start: not measured
  bool disturbed = false;            // pooch had to move memory for it
};

// Microseconds before each op of one iteration, in order. As measured, where pooch disturbed nothing. Else as
// they would be had the host kept its lead: it takes the time between ops that is seen where ops wait for it
// one after the other, more where it was seen to take more, and none for what pooch does.
std::vector<double> host_gaps(std::span<const TimedOp> ops);

}  // namespace pooch::runtime
