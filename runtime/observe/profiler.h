// Measures the first iterations of every phase and keeps what was learnt.
//
//   a phase is expected that has been timed too seldom -> its iteration is timed -> … -> often enough
//
// Before any phase is known everything is timed, within limits, so that the first phase can be planned as
// soon as it is found.
//
// While nothing is to be timed no timer exists: no event, no activity record. The session's mutex guards it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "core/device.h"
#include "core/profile.h"
#include "cupti/op_timer.h"
#include "runtime/observe/host_gaps.h"
#include "runtime/observe/known_phase.h"
#include "runtime/observe/op_times.h"
#include "runtime/observe/substitute_trials.h"
#include "tracker/tracker.h"

namespace pooch::runtime {

// As in profiles and plans.
std::string phase_id(const tracker::Phase& phase);

struct TimedIteration {
  tracker::PhaseIndex phase{};
  tracker::StepIndex start = 0, end = 0;
  std::vector<TimedOp> steps;
  std::vector<std::pair<std::uint64_t, TimedOp>> copies;  // with their numbers
  std::vector<std::uint64_t> volumes;                     // as KnownPhase::volumes

  bool complete() const { return std::all_of(steps.begin(), steps.end(), measured); }
};

// What was timed while no phase was known.
struct EarlyTimes {
  tracker::StepIndex start = 0;  // of the first of `steps`
  std::vector<TimedOp> steps;
  std::map<std::uint64_t, TimedOp> copies;  // by number
};

class Profiler {
 public:
  // Timed iterations per phase: enough for a median.
  static constexpr std::uint32_t wanted = 3;

  // No `choice`: nothing is timed. `substitutes`: whether they are tried.
  Profiler(Device& device, tracker::Tracker& tracker, std::optional<cupti::TimerChoice> choice,
           bool substitutes)
      : tracker_(tracker), trials_(device, substitutes), times_(device, choice) {}

  SubstituteTrials& trials() { return trials_; }

  // Whether ops are timed at present. Then every launch is to be bracketed.
  bool timing() const { return timing_; }
  // Whether the next op's description may enter the profile. Not in phases that are known well enough.
  bool describing() const;
  // Whether a timer still holds times, or waits for some.
  bool measuring() const { return times_.measuring(); }
  // Around the launch of an op. Returns its number, for end(): where the launch blocks, other threads' ops
  // come in between.
  std::uint64_t begin(StreamHandle stream) { return times_.begin(stream); }
  // `disturbed`: pooch moved memory or waited for the op, so idle time before it says nothing about the
  // program.
  void end(std::uint64_t number, StreamHandle stream, const tracker::Op& op, bool disturbed);
  // An op has been launched and tracked.
  void launched();
  // Before the program destroys it.
  void stream_destroyed(StreamHandle stream) { times_.stream_destroyed(stream); }

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

  // How many have been timed as often as is wanted, and are described. `training`: with a backward pass.
  std::uint64_t measured_phases(bool training = false) const;

  // Collects the last times and ends the measuring. The device must be idle, or these times are lost.
  void finish();
  // `estimates`: with the times of plannable(); else what was not measured has none.
  void fill(Profile& profile, bool estimates) const;

 private:
  struct Known {
    std::optional<KnownPhase> structure;
    std::uint32_t described = 0;
    bool describes() const { return !structure || !structure->settled; }
    bool tells = false;                     // it tells weights from a batch: good enough for plans
    std::optional<std::uint32_t> times_of;  // of the structure: from so many iterations; 0: estimated
    std::vector<std::uint64_t> copies;      // numbers of the structure's copies
    std::vector<TimedIteration> timed;
  };

  // Iterations of a phase that are described. In a run's first iterations, weights just copied in cannot be
  // told from a batch, nor persistent buffers from new ones.
  static constexpr std::uint32_t most_described = 3;
  // As long as buffers are found elsewhere: see memory/address_habits.h.
  static constexpr std::uint32_t most_changing = 9;
  static constexpr std::uint64_t untold = 1;  // iterations of the run
  static constexpr tracker::StepIndex most_early = 20'000;

  void decide(tracker::StepIndex next);
  void decide_early();
  std::optional<TimedIteration> timed_part(const tracker::Iteration& iteration);
  void keep(const tracker::Iteration& iteration);
  void describe(Known& known, const tracker::Iteration& iteration);
  bool outgrows(const Known& known, const tracker::Iteration& iteration) const;
  static bool places_change(const KnownPhase& phase);
  void find_bases(KnownPhase& phase, tracker::StepIndex start, const std::optional<KnownPhase>& before) const;
  void collect();
  const TimedOp* find_step(tracker::StepIndex step) const;
  TimedOp* find(const TimedCall& call);
  void end_timer();
  void fill_in();
  PhaseProfile profile_of(const Known& known, const tracker::Phase& phase) const;
  bool estimate(PhaseProfile& phase) const;
  void add_findings(const KnownPhase& structure, PhaseProfile& phase) const;

  tracker::Tracker& tracker_;
  mutable SubstituteTrials trials_;  // asking takes what has come
  OpTimes times_;
  bool timing_ = false;
  std::optional<TimedIteration> running_;
  std::optional<EarlyTimes> early_;
  std::map<tracker::PhaseIndex, Known> known_;
  std::uint64_t completed_ = 0;  // iterations, as far as they came here
  std::uint64_t revisions_ = 0;
};

}  // namespace pooch::runtime
