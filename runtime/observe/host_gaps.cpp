#include "runtime/observe/host_gaps.h"

#include <algorithm>
#include <cmath>

namespace pooch::runtime {
namespace {

// Within that an op follows another whatever the host does: the device starts it, and marks events between
// them, 1 to 3 us on an H200 and up to 13 where streams wait for each other.
constexpr double most_own_us = 3;
// Of a long op's time. A host that launches as the op ends would be a coincidence: it has long been ahead.
constexpr double most_own_share = 0.25;
// A host that sets the pace is waited for often: at least so many times, as a share of all ops and in each
// iteration. A single long wait has another cause, such as a copy of the program's that is queued behind
// pooch's.
constexpr double least_waits = 0.01;
constexpr std::size_t least_each = 3;

struct Gap {
  double us = 0;
  double after_us = 0;  // the length of the op that ended last
  // The device waited for the launch of the op behind it.
  bool waited() const { return us > std::max(most_own_us, most_own_share * after_us); }
};

// Before each op.
std::vector<Gap> measured_gaps(std::span<const TimedOp> ops) {
  std::vector<Gap> gaps(ops.size());
  if (ops.empty()) return gaps;
  double latest = ops.front().end_us, length = ops.front().end_us - ops.front().start_us;
  for (std::size_t i = 1; i < ops.size(); ++i) {
    gaps[i] = {std::max(0.0, ops[i].start_us - latest), length};
    if (ops[i].end_us <= latest) continue;
    latest = ops[i].end_us;
    length = ops[i].end_us - ops[i].start_us;
  }
  return gaps;
}

}  // namespace

double usual_interval(std::span<const std::span<const TimedOp>> iterations) {
  std::vector<double> intervals;
  std::size_t all = 0;
  for (const auto ops : iterations) {
    all += ops.size();
    const std::vector<Gap> gaps = measured_gaps(ops);
    for (std::size_t i = 1; i < ops.size(); ++i)
      if (gaps[i].waited() && gaps[i - 1].waited() && !ops[i].disturbed)
        intervals.push_back(ops[i].start_us - ops[i - 1].start_us);
  }
  const auto share = static_cast<std::size_t>(std::ceil(least_waits * static_cast<double>(all)));
  if (intervals.size() < std::max({std::size_t{1}, share, least_each * iterations.size()})) return 0;
  const auto middle = intervals.begin() + static_cast<std::ptrdiff_t>(intervals.size() / 2);
  std::nth_element(intervals.begin(), middle, intervals.end());
  return *middle;
}

std::vector<double> host_gaps(std::span<const TimedOp> ops, double usual) {
  const std::vector<Gap> measured = measured_gaps(ops);
  std::vector<double> gaps(ops.size(), 0);
  if (std::none_of(ops.begin(), ops.end(), [](const TimedOp& op) { return op.disturbed; })) {
    std::transform(measured.begin(), measured.end(), gaps.begin(), [](const Gap& gap) { return gap.us; });
    return gaps;
  }
  double host = 0, device = ops.empty() ? 0 : ops.front().end_us - ops.front().start_us;
  const auto behind = [&](std::size_t i) { return !ops[i].disturbed && measured[i].waited(); };
  for (std::size_t i = 1; i < ops.size(); ++i) {
    const double between = ops[i].start_us - ops[i - 1].start_us;
    // The op before may have been launched long before it started.
    if (behind(i))
      host += behind(i - 1) ? between : std::max(usual, measured[i].us);
    else
      host += std::clamp(between, 0.0, usual);
    const double own = measured[i].us > most_own_us ? 0 : measured[i].us;
    gaps[i] = std::max(own, host - device);
    device += gaps[i] + std::max(0.0, ops[i].end_us - std::max(ops[i].start_us, ops[i - 1].end_us));
  }
  return gaps;
}

}  // namespace pooch::runtime
