// What there is to decide in one phase: which buffers can leave the device between two uses, when that is,
// and what the rest of the program needs meanwhile.
//
// A *map* here is a managed buffer whose content is read again after a pause, mostly its longest. It may be
// away only during that pause. Feature maps pause between forward and backward. Weights, gradients and
// optimiser states pause there, before the step, or *across* the end of the iteration: then the buffer is
// away when an iteration begins, and between its first use and its last it is there. What the iteration
// before left, as accumulated gradients are, *arrives*: it leaves as the iteration begins. What the next
// iteration frees unread leaves for good. A *segment* is one op that touches a map, or a run of ops that
// touch none; plans act between segments.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/profile.h"

namespace pooch::policy {

inline constexpr std::int32_t nowhere = -1;

struct MovableMap {
  std::uint32_t buffer = 0;
  std::int32_t graph_map = nowhere;  // index into LayerGraph::maps
  std::string name;
  std::uint64_t bytes = 0;  // rounded up to the mapping granularity
  // Segments, inclusive.
  std::int32_t made = 0;     // first use
  std::int32_t leaves = 0;   // last use before the pause
  std::int32_t returns = 0;  // first use after it; before `leaves` if the pause is across the iteration's end
  std::int32_t ends = 0;     // its memory is freed after this one; the last segment if it outlives the phase
  // If it is swapped its memory is free after this one already: nobody writes it after the pause, so it
  // leaves once more without a copy. Else `ends`.
  std::int32_t released = 0;
  std::int32_t remade = 0;              // its replays run before this one: `returns`, or the one ahead of it
  std::vector<std::uint32_t> content;   // versions that are read after the pause
  std::vector<std::int32_t> producers;  // ops that make them, in program order
  bool droppable = false;               // all of it can be recomputed at `returns`
  bool by_convolution = false;          // a convolution made (a part of) it
  bool read_by_convolution = false;     // ... or reads it in forward
  double replay_us = 0;                 // of the ops that write its own memory: the least that a replay takes
  bool across = false;                  // it pauses across the iteration's end
  bool clean = false;     // across: no copy at `leaves`, as no iteration writes it, or it arrives
  bool arrives = false;   // across: the iteration before left it, and this one frees it
  bool for_good = false;  // it does not come back: the next iteration frees it untouched
  // Where it ends away: what the iteration before left so is the buffer `earlier`, which is there until the
  // segment `lingers` (nowhere: not at all), if it has not left.
  std::uint32_t earlier = 0;
  std::int32_t lingers = nowhere;
  bool has_to = false;   // ... in any case: an iteration of another phase may come next
  bool in_turn = false;  // for good: where it is kept, a layout has both ranges for it all the time
  // A plan that moves it has it nowhere on the device after `leaves`.
  bool ends_away() const { return across || for_good; }
  bool leaves_again() const { return released < ends; }
};

struct Segment {
  std::int32_t first = 0, last = 0;  // positions, inclusive
  double us = 0;                     // times of its ops and the host's gaps
  std::uint64_t base = 0;            // most bytes alive in it, maps excluded
  std::uint64_t base_before = 0;     // ... and right before it, where its replays run
  std::int32_t layer = nowhere;      // of its first op
  bool convolution = false;          // it belongs to a convolution's layer
};

// Where an op of a replay finds one of its operands.
struct Source {
  std::uint32_t version = 0;
  std::int32_t map = nowhere;    // it is part of that map's content
  std::int32_t home = nowhere;   // the map in whose buffer it lies, part of its content or not
  std::int32_t valid_until = 0;  // its buffer holds it unchanged before this position
  std::uint64_t bytes = 0;
};

struct HostCopy {
  std::int32_t segment = 0;  // before this one
  bool to_device = false, blocks_compute = false;
  bool ahead = false;  // made for the iteration while the one before it still computes
  double us = 0;
  std::int32_t awaited = nowhere;  // first segment that reads what it brings
};

// Microseconds for a copy of n bytes: latency + n / rate, fitted to what was measured.
struct LinkFit {
  double latency_us = 10, us_per_byte = 0;
  double shared_us_per_byte = 0;  // while the other direction is busy too
  double us(std::uint64_t bytes) const {
    return bytes == 0 ? 0 : latency_us + static_cast<double>(bytes) * us_per_byte;
  }
  // Beside a copy of the other direction at full rate, the share of its own that is left: both then run as
  // fast together as they do when each runs at its shared rate.
  double share_beside() const {
    return shared_us_per_byte <= us_per_byte ? 1 : std::max(0.05, 2 * us_per_byte / shared_us_per_byte - 1);
  }
};

struct Problem {
  std::vector<MovableMap> maps;
  std::vector<Segment> segments;
  std::vector<HostCopy> copies;                      // ascending segments
  std::vector<std::uint32_t> by_return;              // maps in order of `returns`
  std::vector<std::uint32_t> by_remake;              // ... of `remade`, and then of `returns`
  std::vector<std::vector<std::uint32_t>> by_leave;  // by segment: maps whose last use before the pause it is
  std::vector<std::uint32_t> arriving;               // maps that leave as the iteration begins
  std::vector<std::int32_t> segment_of;              // by position
  std::vector<std::vector<Source>> sources;          // by position: what the op reads
  std::vector<double> op_us;                         // by position: of its replay
  std::vector<std::int32_t> producer_of;             // by version: the op whose replay makes it
  std::vector<std::int32_t> map_of;                  // by version: the map whose content it is, or nowhere
  std::vector<std::uint32_t> buffer_of;              // by version
  std::vector<std::int32_t> map_of_buffer;           // by buffer, or nowhere
  std::vector<std::uint64_t> bytes_of;               // by version
  std::vector<std::vector<std::uint32_t>> writes;    // by position: versions that its replay makes
  std::map<std::int32_t, Formula> substitutes;       // by position: the formula of its replay
  LinkFit out, in;
  double compute_us = 0;
  std::int32_t turn = 0;  // first segment of backward

  std::int32_t last_segment() const { return static_cast<std::int32_t>(segments.size()) - 1; }
};

inline constexpr std::uint64_t granularity = std::uint64_t{2} << 20;

// Bytes per second to assume instead of what was measured.
struct LinkRates {
  std::optional<double> out, in;
};

// Which buffers are maps.
enum class Movers : std::uint8_t {
  feature_maps,        // and inputs
  everything,          // ... and what outlives an iteration, where that is a part of the need worth moving
  everything_in_turn,  // ... where iterations of other phases come in between
};

// If pooch copied nothing while it measured, the link's rate comes from the program's own copies. Error:
// invalid_argument if the phase was not timed, or its link was neither measured nor given or carries nothing.
// `memory`: bytes that plans may use; buffers pause so that a plan that swaps all of them fits, if they can.
Result<Problem> make_problem(const Profile& profile, const PhaseProfile& phase, const LinkRates& rates = {},
                             Movers movers = Movers::feature_maps, std::uint64_t memory = ~std::uint64_t{0});

}  // namespace pooch::policy
