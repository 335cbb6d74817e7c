// Measures the first iterations of every phase and keeps what was learnt.
//
//   a phase is expected that has been timed too seldom -> its iteration is timed -> … -> often enough
//
// Before any phase is known everything is timed, within limits, so that the first phase can be planned as
// soon as it is found.
//
// While nothing is to be timed no timer exists: no event, no activity record. The session's mutex guards it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "core/device.h"
#include "core/profile.h"
#include "cupti/op_timer.h"
#include "runtime/observe/host_gaps.h"
#include "runtime/observe/known_phase.h"
#include "runtime/observe/substitute_trials.h"
#include "tracker/tracker.h"

namespace pooch::runtime {

// As in profiles and plans.
std::string phase_id(const tracker::Phase& phase);

class Profiler {
 public:
  // Timed iterations per phase: enough for a median.
  static constexpr std::uint32_t wanted = 3;

  // No `choice`: nothing is timed. `substitutes`: whether they are tried.
  Profiler(Device& device, tracker::Tracker& tracker, std::optional<cupti::TimerChoice> choice,
           bool substitutes)
      : device_(device), tracker_(tracker), choice_(choice), trials_(device, substitutes) {}

  SubstituteTrials& trials() { return trials_; }

  // Whether ops are timed at present. Then every launch is to be bracketed.
  bool timing() const { return timing_; }
  // Whether the next op's description may enter the profile. Not in phases that are known well enough.
  bool describing() const;
  // Whether a timer still holds times, or waits for some.
  bool measuring() const { return timer_ != nullptr; }
  // Around the launch of an op. Returns its number, for end(): where the launch blocks, other threads' ops
  // come in between.
  std::uint64_t begin(StreamHandle stream);
  // `disturbed`: pooch moved memory or waited for the op, so idle time before it says nothing about the
  // program.
  void end(std::uint64_t number, StreamHandle stream, const tracker::Op& op, bool disturbed);
  // An op has been launched and tracked.
  void launched();
  // Before the program destroys it.
  void stream_destroyed(StreamHandle stream);

  // What a plan for the phase can be made from: its structure, with times measured in as many iterations as
  // there were, or estimated from other phases. nullptr: too little is known yet.
  const KnownPhase* plannable(tracker::PhaseIndex phase);
  // Phases whose buffers' places are known for good.
  std::vector<const KnownPhase*> settled() const;
  // Whether the formulas of a plan, by position, gave the phase's own bits in this process.
  enum class Proof : std::uint8_t { yes, no, not_yet };
  Proof proves(const KnownPhase& phase, const std::map<std::uint32_t, Formula>& substitutes);
  // Calls like the ops at these positions are no longer replayed by substitutes.
  void disprove(tracker::PhaseIndex phase, const std::set<std::int32_t>& positions);

  // Collects the last times and ends the measuring. The device must be idle, or these times are lost.
  void finish();
  // `estimates`: with the times of plannable(); else what was not measured has none.
  void fill(Profile& profile, bool estimates) const;

 private:
  struct Target {
    bool step;
    std::uint64_t index;  // of the step, or of the host copy
    bool disturbed;
    bool pending;           // its time has not come yet
    bool launched = false;  // until then nothing but `pending` is known
  };
  // One timed iteration.
  struct Timed {
    tracker::PhaseIndex phase{};
    tracker::StepIndex start = 0, end = 0;
    std::vector<TimedOp> steps;
    std::vector<std::pair<std::uint64_t, TimedOp>> copies;  // with their numbers
  };
  // What was timed while no phase was known.
  struct Early {
    tracker::StepIndex start = 0;  // of the first of `steps`
    std::vector<TimedOp> steps;
    std::map<std::uint64_t, TimedOp> copies;  // by number
  };
  struct Known {
    std::optional<KnownPhase> structure;
    std::uint32_t described = 0;
    bool tells = false;                     // it tells weights from a batch: good enough for plans
    std::optional<std::uint32_t> times_of;  // of the structure: from so many iterations; 0: estimated
    std::vector<std::uint64_t> copies;      // numbers of the structure's copies
    std::vector<Timed> timed;
  };

  // Iterations of a phase that are described. In a run's first iterations, weights just copied in cannot be
  // told from a batch, nor persistent buffers from new ones.
  static constexpr std::uint32_t most_described = 3;
  static constexpr std::uint64_t untold = 1;  // iterations of the run
  static constexpr tracker::StepIndex most_early = 20'000;
  static constexpr std::size_t lacking_share = 8;  // an eighth without times counts as many

  void decide(tracker::StepIndex next);
  void decide_early();
  bool open_timer();
  std::optional<Timed> timed_part(const tracker::Iteration& iteration);
  void keep(const tracker::Iteration& iteration);
  void find_bases(KnownPhase& phase, tracker::StepIndex start, const std::optional<KnownPhase>& before) const;
  void collect();
  void assign(const std::vector<cupti::OpTime>& times);
  static bool measured(const TimedOp& s) { return s.end_us >= s.start_us; }
  static bool is_complete(const Timed& timed);
  const TimedOp* find_step(tracker::StepIndex step) const;
  TimedOp* find(const Target& target);
  bool drained() const { return pending_ == 0; }
  bool passed();
  void mark();
  bool mark(StreamHandle stream);
  void drop_marks();
  void fail(const Error& why);
  void end_timer();
  bool lacks_many() const;
  void turn_to_events();
  void fill_in();
  PhaseProfile profile_of(const Known& known, const tracker::Phase& phase) const;
  bool estimate(PhaseProfile& phase) const;
  void add_findings(const KnownPhase& structure, PhaseProfile& phase) const;

  Device& device_;
  tracker::Tracker& tracker_;
  std::optional<cupti::TimerChoice> choice_;
  mutable SubstituteTrials trials_;  // asking takes what has come
  std::unique_ptr<cupti::OpTimer> timer_;
  std::string source_;
  bool timing_ = false, failed_ = false;
  std::uint64_t next_op_ = 0;
  std::deque<Target> targets_;         // of the timer's latest op numbers, up to next_op_
  std::size_t pending_ = 0;            // of those
  std::size_t timed_steps_ = 0;        // by this timer
  std::size_t under_way_ = 0;          // of those: begun, not ended
  std::vector<StreamHandle> streams_;  // that they are in
  std::vector<EventHandle> marks_;     // behind them, not yet seen to be finished
  bool marked_ = false;
  unsigned since_asked_ = 0;
  std::optional<Timed> running_;
  std::optional<Early> early_;
  std::vector<cupti::OpTime> times_;  // reused storage
  std::map<tracker::PhaseIndex, Known> known_;
  std::uint64_t completed_ = 0;  // iterations, as far as they came here
  std::uint64_t revisions_ = 0;
};

}  // namespace pooch::runtime
