// The simulator: what an iteration costs with a given choice of classes.
//
// Three engines work beside each other: the device's compute, in program order with replays just before their
// consumers; copies to the host, in the order in which maps are used last before their pause; copies to the
// device, in the order in which maps are needed.
//
// Memory is granted in the plan's order, never by the clock. Whether a choice fits therefore depends on
// positions alone (`schedule`): at every step the bytes granted by the plan and not yet returned must be
// within the cap. The clock then only determines who waits, and for what: an evicted map's bytes are free
// when its copy has ended; until then whoever needs them waits. So a plan that fits cannot fail because
// something takes longer than measured; it only gets slower.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "core/pages.h"
#include "policy/problem.h"

namespace pooch::policy {

enum class Class : std::uint8_t { keep, swap, recompute };

struct Choice {
  std::vector<Class> of;                 // by map
  std::vector<std::uint64_t> part = {};  // by map, bytes that are swapped; empty or 0: the whole map
  // By map: each replay that reads the map before the map returns recomputes it in temporary memory. Empty:
  // never.
  std::vector<std::uint8_t> brief = {};
  std::uint64_t swapped(const Problem& problem, std::size_t map) const {
    return part.empty() || part[map] == 0 ? problem.maps[map].bytes : part[map];
  }
  bool is_brief(std::size_t map) const { return !brief.empty() && brief[map] != 0; }
  friend bool operator==(const Choice&, const Choice&) = default;
};

// When a swapped map's prefetch starts.
enum class Prefetch : std::uint8_t {
  early,                 // as soon as there is memory for it up to its use (PooCH 4.3)
  previous_layer,        // with the layer before its reader
  previous_convolution,  // with the convolution before its reader
  at_need,               // right before its reader
};

struct Rules {
  std::uint64_t cap = 0;
  Prefetch prefetch = Prefetch::early;
  bool eviction_blocks = false;  // the next op waits until the copy to the host has ended
  bool eviction_beside = false;  // the copy starts together with the map's last reader, not after it
  bool replays_ahead = false;    // before MovableMap::remade, not right before the reader
  // Every stay has its frames by a layout. Without one, moving handles costs host time, and the host waits
  // before it takes a handle from work in flight.
  bool placed = true;
  // Measured costs of unmap, map and access: for a chunk, and for each handle in it.
  double chunk_us = 0, handle_us = 0;
  double launch_us = 0;                                  // from the host's decision to the device's start
  std::uint64_t chunk_bytes = std::uint64_t{128} << 20;  // largest
  std::uint64_t piece_bytes = std::uint64_t{512} << 20;  // most that is copied at once: piece_of
  std::uint64_t handle_bytes = std::uint64_t{2} << 20;   // under a plan
};

enum class Engine : std::uint8_t { compute, out, in };
struct Span {
  Engine engine;
  double start = 0, end = 0;
  std::int32_t position = nowhere;  // of the op, on compute
  std::int32_t map = nowhere;       // that is moved, or that the replay is for
};
// Compute waits.
struct Stall {
  enum class Cause : std::uint8_t {
    memory,      // for the copy out of `map` to end
    fetch,       // for `map` to arrive; the link was busy all the time
    fetch_late,  // for `map` to arrive; its copy could not start earlier for want of memory
    host,        // for the host to move handles
  };
  Cause cause;
  std::int32_t segment = 0, map = nowhere;
  double us = 0;
};
struct Trace {
  std::vector<Span> spans;
  std::vector<Stall> stalls;
};

// What a choice results in, in order.
struct Step {
  std::int32_t segment = 0;
  std::int32_t replay = nowhere;  // position of the op that is replayed; nowhere: the segment itself
  std::int32_t map = nowhere;     // for whose return it is replayed
  double us = 0;
};
struct Fetch {
  std::uint32_t map = 0;
  std::uint64_t bytes = 0;
  std::int32_t trigger = 0, deadline = 0;  // steps: memory is granted before `trigger`; read by `deadline`
  bool squeezed = false;                   // memory forbade an earlier trigger
};
struct Schedule {
  std::vector<Step> steps;
  std::vector<std::uint64_t> live;    // by step: bytes granted
  std::vector<Fetch> fetches;         // in the link's order
  std::vector<std::int32_t> step_of;  // by segment
  std::uint64_t peak = 0;
  double replay_us = 0;
  bool possible = true;  // false: something must be recomputed that cannot be
};

struct Outcome {
  double us = 0;
  std::uint64_t peak = 0;    // bytes granted at once
  std::uint64_t excess = 0;  // of the peak over the cap; 0: feasible
  double out_busy_us = 0, in_busy_us = 0, replay_us = 0;
  bool feasible() const { return excess == 0; }
};

class Simulator {
 public:
  Simulator(const Problem& problem, const Rules& rules) : problem_(problem), rules_(rules) {}

  // The time is meaningful for a feasible choice only.
  Outcome run(const Choice& choice, Trace* trace = nullptr);
  // The same, but stops once time plus a price for every byte over the cap is certain to exceed `most`
  // microseconds; `us` and `excess` are then lower bounds whose price still exceeds `most`.
  Outcome run_within(const Choice& choice, double most, double per_excess_byte, Trace* trace = nullptr);
  // Makes the last run, complete and of this choice, the base: later runs start their clocks where they first
  // differ from it. Outcomes are still the same bits. schedule() is invalid from then on.
  void rebase(const Choice& choice);
  // Of the last run.
  const Schedule& schedule() const { return schedule_; }
  const Problem& problem() const { return problem_; }
  const Rules& rules() const { return rules_; }
  Rules& rules() {
    base_.valid = false;
    return rules_;
  }

 private:
  struct Extent {
    std::int32_t from, to;  // steps, inclusive
    std::int64_t bytes;
    std::uint32_t version;
    std::uint32_t chain;
  };
  // The iteration's microseconds, were there no stalls.
  double lay_out(const Choice& choice);
  bool add_chain(const Choice& choice, std::uint32_t map);
  bool need_version(const Choice& choice, const Source& source, std::int32_t position);
  bool has_left(const Choice& choice, const Source& source, std::int32_t position) const;
  bool stays_there(const Choice& choice, const Source& source, std::int32_t position) const;
  bool need_op(const Choice& choice, std::int32_t op, std::int32_t position);
  std::int32_t replayed_before(std::uint32_t map) const {
    return rules_.replays_ahead ? problem_.maps[map].remade : problem_.maps[map].returns;
  }
  void place_chain(const Choice& choice, std::int32_t segment, std::uint32_t map);
  void keep_temporary(const Extent& extent);
  void account(const Choice& choice);
  void place_fetches();
  void place_early();
  void find_latest_starts();
  std::int32_t layer_trigger(const Fetch& fetch) const;
  // The first step before which the map may be fetched.
  std::int32_t away_from(std::uint32_t map) const {
    return problem_.maps[map].across ? 0 : schedule_.step_of[problem_.maps[map].leaves] + 1;
  }
  struct Clock {
    double compute = 0, out = 0, in = 0, host = 0;  // when each is free
    double op_start = 0;
    double out_busy = 0, in_busy = 0;
    std::size_t next_fetch = 0, next_copy = 0,
                waited = 0;  // fetches granted; host copies made; fetches awaited
    std::size_t evictions_done = 0, arrivals_started = 0;  // prefixes of evictions_ and arrivals_
    std::uint64_t leaving = 0;                             // bytes of evictions under way
    std::uint64_t reserved = 0;  // bytes of fetches that were granted but have not started by `compute`
    std::vector<std::pair<std::int32_t, double>> awaited;  // host copies: segment that reads, end
    Trace* trace = nullptr;
  };
  struct Flight {
    double start, end;
    std::uint64_t bytes;
    std::int32_t map;
    std::int32_t deadline;
    bool late;
  };
  // The clock before a step, with what had been queued by then.
  struct Checkpoint {
    std::int32_t step = 0;
    Clock clock;
    std::size_t evictions = 0, arrivals = 0;
  };
  struct Base {
    bool valid = false;
    Choice choice;
    Schedule schedule;
    std::vector<Flight> evictions, arrivals;
    std::vector<Checkpoint> checkpoints;
  };
  std::int32_t first_difference(const Choice& choice) const;
  Checkpoint begin(const Choice& choice, Trace* trace);
  Checkpoint resume(const Choice& choice, Trace* trace);
  void keep_time(const Choice& choice, Trace* trace, double most_us, Outcome& outcome);
  void begin_with_what_leaves(const Choice& choice, Trace* trace, double most_us, Outcome& outcome);
  bool has_caught_up(const Clock& clock, std::int32_t step) const;
  bool run_clock(Checkpoint from, const Choice& choice, Trace* trace, double most_us, Outcome& outcome);
  void start_fetches(Clock& clock, std::int32_t step);
  void wait_for_memory(Clock& clock, std::int32_t step);
  void wait_for_fetches(Clock& clock, std::int32_t step);
  void copy_out(Clock& clock, const Choice& choice, std::uint32_t map, double ready);
  void evict_what_begins_away(Clock& clock, const Choice& choice);
  void evict(Clock& clock, const Choice& choice, std::int32_t segment);
  std::uint64_t piece(std::size_t map, std::uint64_t left) const {
    return std::min(left, piece_of(problem_.maps[map].bytes, rules_.piece_bytes));
  }
  void host_copies(Clock& clock, std::int32_t segment);
  void copies_for_the_next(Clock& clock) const;
  double copy_us(const LinkFit& link, std::uint64_t bytes, double start, double other_busy_until) const;
  double handles_us(std::uint64_t bytes) const;

  const Problem& problem_;
  Rules rules_;
  Schedule schedule_;
  // Scratch, kept for its memory.
  std::vector<std::int32_t> returned_at_;  // by map: step that brings it back, or nowhere
  std::vector<std::int32_t> needed_at_;    // by map: first step that reads it after the pause (swap)
  std::vector<std::uint32_t> op_seen_;     // by position: number of the chain that it was last part of
  std::vector<std::uint32_t> map_seen_;    // by map: likewise, of those that the chain brings back
  std::uint32_t chain_ = 0;
  std::size_t depth_ = 0;
  std::vector<std::int32_t> chain_ops_;
  std::vector<std::int32_t> chain_maps_;
  std::vector<Extent> temporaries_;
  std::vector<double> left_at_;               // by map: end of its eviction
  std::vector<Flight> evictions_, arrivals_;  // in the order of their engine
  std::vector<std::int64_t> change_;
  struct Top {
    std::int32_t step;
    std::int64_t left;
  };
  std::vector<Top> tops_;
  std::vector<double> starts_;         // by step: its start, were there no stalls
  std::vector<double> latest_starts_;  // by fetch
  Base base_;
  std::vector<Checkpoint> checkpoints_;  // of the last run, ascending
  struct {
    std::vector<Flight> evictions, arrivals;
    std::vector<Checkpoint> checkpoints;
  } first_;  // of the first run, while it is run again with what leaves at its end
};

}  // namespace pooch::policy
