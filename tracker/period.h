// Finds out whether the stream repeats itself, online, in constant time per step.
//
// A program's loop repeats its calls, but so do equal layers within one iteration. What tells them apart is
// memory that outlives both: a loop comes back to the same weights, the next layer has others.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "tracker/op_log.h"

namespace pooch::tracker {

struct Period {
  std::uint64_t length;  // in steps
  StepIndex from;        // the stream equals itself shifted by `length` from here on, up to the last step
};

class PeriodFinder {
 public:
  PeriodFinder(const OpLog& log, Likeness likeness) : log_(log), likeness_(likeness) {}

  // Forgets everything; the stream to be looked at begins at `from`.
  void restart(StepIndex from);
  // The log's last step is new. Returns the shortest period over `longer_than` whose last two repetitions are
  // equal.
  std::optional<Period> push(std::uint64_t longer_than = 0);

 private:
  struct Candidate {
    std::uint64_t length;
    std::uint64_t run;                   // steps in a row that equal the one `length` before
    std::int64_t kept = 0, changed = 0;  // operands in memory that outlives the period: same memory, or other
  };
  void propose(StepIndex step);
  bool extend(Candidate& candidate, StepIndex step) const;
  void judge(Candidate& candidate, StepIndex step) const;

  std::uint64_t key(StepIndex step) const { return log_.at(step).keys.by(likeness_); }

  const OpLog& log_;
  const Likeness likeness_;
  StepIndex from_ = 0;
  // By the step's key and one operand's place in memory: the last step that had both.
  std::unordered_map<std::uint64_t, StepIndex> last_seen_;
  std::vector<Candidate> candidates_;
};

}  // namespace pooch::tracker
