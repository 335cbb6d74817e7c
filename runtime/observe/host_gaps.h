// Which of the device's idle time the host causes.
//
// A host that is ahead of the device when a row of short ops comes lets it run dry later, or not at all. If
// pooch made the device wait, the host has lost that lead, and the idle time that follows is not what the
// program would have without pooch.
#pragma once

#include <span>
#include <vector>

namespace pooch::runtime {

struct TimedOp {
  double start_us = 0, end_us = -1;  // end before start: not measured
  bool disturbed = false;            // pooch had to move memory for it
};

// Microseconds that the host takes from launch to launch: the median, over iterations of one phase, of those
// where the device waited for both launches and pooch did not hold up the second. 0: there were too few.
double usual_interval(std::span<const std::span<const TimedOp>> iterations);

// Idle microseconds before each op of one iteration, in order: as measured if pooch disturbed nothing, else
// as if the host had kept its lead. It then takes the usual interval from op to op, more where it was seen to
// take more, and none for what pooch does.
std::vector<double> host_gaps(std::span<const TimedOp> ops, double usual);

}  // namespace pooch::runtime
