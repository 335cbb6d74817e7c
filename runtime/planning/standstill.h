// Says once why no plan is followed, and what to do, if so many iterations in a row went without one.
#pragma once

#include <cstdint>
#include <string>

namespace pooch::runtime {

// What there is to see when an iteration begins.
struct PlanningNow {
  std::uint64_t planned = 0;  // iterations so far that followed a plan to their end
  std::uint64_t left = 0;     // plans so far that were left
  std::uint64_t phases = 0;   // known so far
  std::uint64_t left_at = 0;  // op of its iteration at which the latest was left
  bool making = false;        // a planner is at work for the phase at hand
};

class Standstill {
 public:
  static constexpr std::uint64_t enough = 20;  // iterations

  // An iteration begins. The line to log; empty: none. That there is no plan to be had is said by whoever
  // finds that out.
  std::string note(const PlanningNow& now);

 private:
  PlanningNow before_;  // when the latest planned iteration had ended
  std::uint64_t without_ = 0;
  bool said_ = false;
};

}  // namespace pooch::runtime
