// Which iteration the program is in, without any hint: phases are recognised by the keys of their steps.
//
//              period found                     a key that no known phase has here
//   unknown  ----------------->  in a phase  ------------------------------------->  unknown
//      ^  \_________________________^  |  ^ the last step of a phase: the next one is predicted
//      |        a known phase begins   |__|
//
// After a wrong prediction a longer period may show that the iterations so far are parts of longer ones, like
// the time steps of a recurrent layer. Their phases are given up, and the longer iterations replace them.
//
// Where sizes keep changing (each batch is of another length) iterations are never equal, but their steps
// have the same form. Then steps are compared by that, for good: an iteration of any size is of the same
// phase.
//
// A stretch that fits no phase is cut into iterations once a known phase begins again; each then gets a
// phase. A stretch that holds no iteration, like an optimiser's step after several passes, is added to the
// iteration before it, which then belongs to another phase.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tracker/op_log.h"
#include "tracker/period.h"

namespace pooch::tracker {

enum class PhaseIndex : std::uint32_t {};

struct Phase {
  std::vector<std::uint64_t> keys;  // of its steps, by position
  std::uint64_t id;                 // hash of the keys
  std::uint64_t seen = 0;           // complete iterations
  bool given_up = false;            // they were parts of longer iterations; not counted
};

// An iteration that has just become complete.
struct Iteration {
  PhaseIndex phase;
  StepIndex start, end;
};

class Iterations {
 public:
  explicit Iterations(OpLog& log)
      : log_(log), finder_(log, Likeness::exact), form_finder_(log, Likeness::form) {}

  // The log's last step is new. Appends the iterations that are now known to be complete, in order. An
  // appended iteration may be appended again: longer, as another phase with the same `start`, or, if its
  // phase is given up, inside one that began earlier.
  void push(std::vector<Iteration>& completed);

  // The phase that the program is believed to be in, and the step it began with; none while unknown.
  struct Where {
    PhaseIndex phase;
    StepIndex start;
  };
  std::optional<Where> where() const;
  // Where the next step will be if it has these keys and sources; none if no known phase continues so.
  // Changes nothing.
  std::optional<Where> expect(const StepKeys& keys, std::span<const Source> sources) const;
  // How steps are compared.
  Likeness likeness() const { return likeness_; }
  // Whether the form of steps matters now.
  bool wants_forms() const { return likeness_ == Likeness::form || !current_; }

  const Phase& phase(PhaseIndex index) const { return phases_[static_cast<std::uint32_t>(index)]; }
  std::size_t phases() const { return phases_.size(); }
  std::uint64_t count() const { return count_; }  // complete iterations of the run, of all phases

 private:
  struct Tentative {
    PhaseIndex phase;
    StepIndex start;
  };

  // What has come since a step that was not predicted:
  struct Doubt {
    StepIndex from;
    PeriodFinder finder;
    std::uint64_t examined;             // the longest period examined since the latest such step
    std::vector<Iteration> iterations;  // complete ones
  };

  bool follow(StepIndex step, std::vector<Iteration>& completed);
  std::optional<PhaseIndex> other_phase(std::uint64_t key, std::uint64_t position) const;
  std::optional<PhaseIndex> longer_than_last(std::uint64_t key) const;
  void search(StepIndex step, std::vector<Iteration>& completed);
  bool confirm_start(StepIndex step, std::vector<Iteration>& completed);
  void adopt_period(const Period& period, std::vector<Iteration>& completed);
  void close_unknown(StepIndex end, std::vector<Iteration>& completed);
  void complete(StepIndex end, std::vector<Iteration>& completed);
  void add(StepIndex start, StepIndex end, std::vector<Iteration>& completed);
  void begin(PhaseIndex phase, StepIndex start);
  void lose(StepIndex unknown_from);
  void doubt(StepIndex from);
  bool regroup(std::vector<Iteration>& completed);
  void give_up(StepIndex from, std::vector<Iteration>& completed);
  void compare_by_form();
  bool matches(PhaseIndex phase, StepIndex start, StepIndex end) const;
  std::uint64_t key(StepIndex step, StepIndex start) const {
    return key_within(log_, step, start, likeness_);
  }
  PhaseIndex intern(StepIndex start, StepIndex end);
  PhaseIndex predict() const;
  void trim(const std::vector<Iteration>& completed);

  const Phase& at(PhaseIndex index) const { return phases_[static_cast<std::uint32_t>(index)]; }
  Phase& at(PhaseIndex index) { return phases_[static_cast<std::uint32_t>(index)]; }

  OpLog& log_;
  Likeness likeness_ = Likeness::exact;
  PeriodFinder finder_, form_finder_;
  int novel_ = 0;  // twice the iterations of phases not seen before, less those of others
  std::deque<Phase> phases_;
  std::vector<PhaseIndex> history_;  // of complete iterations; its latest part
  std::uint64_t count_ = 0;
  std::optional<Where> current_;  // none: unknown since unknown_from_
  StepIndex unknown_from_ = 0;
  std::optional<Tentative> tentative_;
  std::optional<Iteration> last_;  // the latest complete iteration
  std::optional<Doubt> doubt_;
  int vain_doubts_ = 0;
};

}  // namespace pooch::tracker
