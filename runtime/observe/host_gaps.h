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

// Microseconds that the host takes from launch to launch: the median, over iterations of one phase, where the
// device waited for both launches and pooch did not hold up the second. 0 where it hardly ever did.
double usual_interval(std::span<const std::span<const TimedOp>> iterations);

// Microseconds before each op of one iteration, in order. As measured, where pooch disturbed nothing. Else as
// they would be had the host kept its lead: it takes the usual interval from op to op, more where it was seen
// to take more, and none for what pooch does.
std::vector<double> host_gaps(std::span<const TimedOp> ops, double usual);

}  // namespace pooch::runtime
