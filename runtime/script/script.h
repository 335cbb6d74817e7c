// A plan prepared to be followed: checked against the phase that this process sees, with everything looked up
// that can be before ops come.
//
// Computes, from positions alone and independently of the planner, where every operand of a replay lies. A
// version that nothing has overwritten or freed by then is where it was. For a map that comes back with the
// replays before one op, they write to the map's own memory; everything else goes to temporary memory.
//
// A plan is followed only if every read finds what it would find without the plan: no op touches a dropped
// map that is not back, and what is read of one that is back, by the program or by a replay, was recomputed
// or is newer, and nothing older was written over it since.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/plan.h"
#include "core/profile.h"

namespace pooch::runtime {

struct ScriptMap {
  std::uint32_t number = 0;  // in the plan
  std::uint32_t buffer = 0;
  MapClass of = MapClass::keep;
  std::uint64_t moved = 0;           // swap: bytes from the start
  std::vector<std::uint32_t> chain;  // recompute: indices of the replays that bring it back
  bool across = false;               // swap: away across the iteration's end
  bool leaves_again = false;         // swap: leaves once more after its last use
};

// Where one operand of a replayed op lies.
struct ReplayPlace {
  enum class Kind : std::uint8_t {
    original,   // where it was when the program made the call
    temporary,  // in pooch's own memory: `slot`
  };
  static constexpr std::uint32_t no_map = ~std::uint32_t{0};

  Kind kind = Kind::original;
  std::uint32_t slot = 0;
  // original: the map that owns this memory and comes back with the replays before the same op; if it was not
  // dropped, they use memory that stands in for it.
  std::uint32_t map = no_map;

  friend bool operator==(const ReplayPlace&, const ReplayPlace&) = default;
};

// Temporary memory of a replay. Small pieces lie side by side in memory that is there all the time.
struct ReplaySlot {
  std::uint64_t bytes = 0;
  bool small = false;
  std::uint64_t offset = 0;                       // small: within that memory
  std::pair<std::int32_t, std::int32_t> held{};   // it exists before these ops, inclusive
  std::pair<std::int32_t, std::int32_t> steps{};  // the first and the last that use it
};

struct ScriptReplay {
  std::int32_t position = 0;            // of the op
  std::vector<ReplayPlace> operands;    // by operand of the op
  std::vector<std::uint32_t> restores;  // indices of maps that it writes into
  std::vector<std::uint32_t> serves;    // indices of all maps that need it, ascending
  std::vector<std::uint32_t> ends;      // slots that nothing reads after it
  // By a substitute, not by the call: core/substitute.h.
  std::optional<Formula> formula;
  Clip clip = Clip::none;  // what a later op made of the result in its place: Script::through
};

struct ScriptAction {
  PlanAction::Kind kind = PlanAction::Kind::evict;
  std::uint32_t subject = 0;  // index of a map; replay: index of a ScriptReplay
  std::uint64_t up_to = 0;    // prefetch: bytes from the map's start
  std::optional<PlanTime> time = {};
};

// The actions at the ops of an iteration.
struct ScriptActions {
  std::vector<ScriptAction> list;
  std::vector<std::uint32_t> starts;  // by position, and one more

  std::span<const ScriptAction> at(std::int32_t position) const {
    const std::uint32_t from = starts[position], to = starts[position + 1];
    return std::span(list).subspan(from, to - from);
  }
};

// An op's operand that is the first to touch the map.
struct ScriptTouch {
  std::uint32_t operand, map;
};

// What an op must do to its operand, for the replays whose result includes that.
struct ScriptThrough {
  std::int32_t of = outside;  // position of the op that is replayed; outside: of none
  Clip clip = Clip::none;
};

// When the steps are expected to run: ops and replays.
struct ScriptTimes {
  std::vector<double> starts, ends;     // by step, with waits; one more start for the end
  std::vector<std::int32_t> of_op;      // step, by position
  std::vector<std::int32_t> of_replay;  // step, by replay
};

// From where on a buffer's bytes are back, up to `up_to`. The step is between the ops before and behind it.
struct ScriptReturn {
  std::uint64_t up_to;
  std::int32_t position, step;
  double start_us;     // when its copy or replay is expected to start
  double us_per_byte;  // what a byte of the copy takes
};

// When a buffer's memory is needed, in positions.
struct ScriptLife {
  std::int32_t from = 0, to = -1;  // inclusive; empty: it is not managed, or not touched
  std::int32_t used = 0;           // its first use
  // Until this position the iteration before has its own such content there; 0: it has none. Not a part of
  // `from` to `to`.
  std::int32_t lingers = 0;
  // The same where its own such content has left again: that of another phase's iteration may be there.
  std::int32_t others_linger = 0;
  // [away, back): the first `moved` bytes are not there; 0: never. `across`: they are there in [back, away)
  // alone.
  std::int32_t away = 0, back = 0;
  bool across = false;
  std::vector<ScriptReturn> returns;  // which of its first bytes are back when: ascending
  std::uint64_t moved = 0;
  std::uint64_t bytes = 0;      // of the whole buffer
  double away_us = 0;           // when its copy to the host is expected to have ended
  double away_us_per_byte = 0;  // what a byte of it takes
  std::uint64_t copied = 0;     // bytes of that copy
  bool lasts = false;           // it was there before the iteration, or is there after it
  // The step from which on the bytes up to `end` are back. They must be among the `moved` ones.
  std::int32_t step_back(std::uint64_t end) const { return with(end).step; }
  // When the copy of the bytes from `begin` to `end` is expected to start. They must be among those too.
  double back_us(std::uint64_t begin, std::uint64_t end) const {
    const ScriptReturn& piece = with(end);
    const std::uint64_t first = &piece == returns.data() ? 0 : (&piece - 1)->up_to;
    return piece.start_us + (begin > first ? static_cast<double>(begin - first) * piece.us_per_byte : 0);
  }

 private:
  const ScriptReturn& with(std::uint64_t end) const {
    const auto found =
        std::find_if(returns.begin(), returns.end(), [&](const ScriptReturn& r) { return end <= r.up_to; });
    return found == returns.end() ? returns.back() : *found;
  }
};

class Script {
 public:
  // Error invalid_argument: the plan is not of this phase or this structure, or would destroy content.
  // `out_us_per_byte`: of copies to the host, for expected times.
  static Result<Script> compile(const Plan& plan, const PhaseProfile& phase, double out_us_per_byte);

  const Plan& plan() const { return plan_; }
  const std::vector<ScriptMap>& maps() const { return maps_; }
  const std::vector<std::string>& names() const { return names_; }  // of the maps
  const std::vector<ScriptReplay>& replays() const { return replays_; }
  // Steps: ops and replays, in the order in which they run.
  std::int32_t steps() const { return static_cast<std::int32_t>(times_.starts.size()) - 1; }
  std::int32_t step_of_op(std::int32_t position) const { return times_.of_op[position]; }
  std::int32_t step_of_replay(std::uint32_t replay) const { return times_.of_replay[replay]; }
  // The next step before or at the op, if the next replay is `next_replay`.
  std::int32_t next_step(std::int32_t position, std::uint32_t next_replay) const {
    const std::int32_t of_op = times_.of_op[position];
    return next_replay < times_.of_replay.size() ? std::min(of_op, times_.of_replay[next_replay]) : of_op;
  }
  // When the bytes of the buffer up to `end` are expected to have been copied to the host.
  double away_us(std::uint32_t buffer, std::uint64_t end) const {
    const ScriptLife& of = lives_[buffer];
    return of.away_us - (of.copied > end ? static_cast<double>(of.copied - end) * of.away_us_per_byte : 0);
  }
  // The step at which a copy of the buffer must begin in order to arrive by the end, with time to spare.
  std::int32_t step_before_end(std::uint32_t buffer) const;
  // When it is expected to start and to end, waits included; one more start for the iteration's end.
  double step_start_us(std::int32_t step) const { return times_.starts[step]; }
  double step_end_us(std::int32_t step) const { return times_.ends[step]; }
  const ScriptLife& life(std::uint32_t buffer) const { return lives_[buffer]; }
  const std::vector<ReplaySlot>& slots() const { return slots_; }
  std::uint64_t small_bytes() const { return small_bytes_; }  // that all small slots of one chain need
  std::span<const ScriptAction> before(std::int32_t position) const { return before_.at(position); }
  std::span<const ScriptAction> after(std::int32_t position) const { return after_.at(position); }
  std::int32_t positions() const { return static_cast<std::int32_t>(first_touch_.size()); }

  // The maps that are touched by this op for the first time, and by which operand.
  std::span<const ScriptTouch> first_touch(std::int32_t position) const { return first_touch_[position]; }
  // Whether the op at this position will be replayed.
  bool keeps(std::int32_t position) const { return keeps_[position]; }
  ScriptThrough through(std::int32_t position) const { return through_[position]; }

 private:
  friend class ScriptCompiler;
  friend class ScriptLives;
  Plan plan_;
  std::vector<ScriptMap> maps_;
  std::vector<std::string> names_;
  std::vector<ScriptReplay> replays_;
  std::vector<ReplaySlot> slots_;
  std::vector<ScriptLife> lives_;
  ScriptTimes times_;
  std::uint64_t small_bytes_ = 0;
  double us_per_byte_ = 0;  // of copies
  ScriptActions before_, after_;
  std::vector<std::vector<ScriptTouch>> first_touch_;
  std::vector<bool> keeps_;
  std::vector<ScriptThrough> through_;
};

}  // namespace pooch::runtime
