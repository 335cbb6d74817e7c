// What pooch knows of a program after watching it: per phase the ops with their times, what they read and
// write, allocations and frees, and the layer graph. Written as profile.json (docs/profile.md), enough to
// plan and to explain offline.
//
// Positions count a phase's ops from 0. "Before position p" means: between op p - 1 and op p; p may be the
// number of ops. All times are microseconds of device time, all sizes bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/call.h"
#include "core/effect.h"
#include "core/ids.h"
#include "core/result.h"
#include "core/shape.h"
#include "core/substitute.h"

namespace pooch {

inline constexpr std::int32_t outside = -1;  // before the iteration, or after it
inline constexpr std::uint32_t no_buffer = ~std::uint32_t{0};

// One allocation that the iteration touches or makes.
struct ProfileBuffer {
  std::uint64_t bytes = 0;       // as requested
  bool managed = false;          // pooch moves it
  std::int32_t from = outside;   // allocated before this position; outside: it was there already
  std::int32_t until = outside;  // freed before this position; outside: it outlives the iteration
  // Where it lies: indices into Profile::ranges. One, or two in turn, as double buffers have; none: not
  // known.
  std::vector<std::uint32_t> ranges;
};

enum class Role : std::uint8_t {
  feature_map,  // written in forward, read in backward
  activation,   // written in forward, read in forward only
  gradient,     // written in backward
  parameter,    // there before the iteration: weights, optimiser state, constants
  input,        // copied in from the host for this iteration
};
std::string_view name(Role role);

// A region's content from one write to the next.
struct ProfileVersion {
  std::uint32_t buffer = 0;  // index into PhaseProfile::buffers
  std::uint64_t offset = 0, bytes = 0;
  std::int32_t producer = outside;    // position of the op that wrote it
  std::vector<std::int32_t> readers;  // positions, ascending
  Role role = Role::activation;
};

// How the op's result can be recomputed otherwise (core/substitute.h): indices of the versions read and
// written. The written version may be what a later in-place op made of the result.
struct ProfileSubstitute {
  std::vector<std::uint32_t> reads, makes;
  std::int32_t through = outside;  // position of that in-place op; outside: there is none
  Clip clip = Clip::none;          // what that op does
  std::optional<Formula> formula;  // with the same bits; empty: not known
  double us = 0;                   // its duration

  friend bool operator==(const ProfileSubstitute&, const ProfileSubstitute&) = default;
};

struct ProfileOp {
  std::uint64_t key = 0;       // see "op key" in docs/architecture.md
  std::uint32_t function = 0;  // index into PhaseProfile::functions
  OpKind kind = OpKind::bare_launch;
  std::uint32_t stream = 0;  // ordinal by first use
  double us = 0;             // median over the measured iterations, without its waits
  double gap_us = 0;         // the device's idle time before it that the host causes
  bool outlier = false;      // some iteration differed from the median by more than half
  std::vector<std::uint32_t> reads,
      writes;                          // indices into versions; an operand both read and written is in both
  std::vector<std::uint32_t> scratch;  // indices into buffers
  // By operand of the call: the index of the buffer that it is in, or `no_buffer`.
  std::vector<std::uint32_t> operands;
  // From the call's descriptors, if it has any.
  Shape shape;   // of its result
  Shape filter;  // of a convolution's or matrix product's weights
  Window window;
  std::string mode;
  std::uint32_t site = 0;  // index + 1 into Profile::sites; 0: not known
  // The algorithm that it ran with, of those that the program tried for it.
  std::uint32_t trials = 0;     // index + 1 into Profile::trials; 0: none
  std::uint32_t algorithm = 0;  // index + 1 into that one's algorithms; 0: another
  std::optional<ProfileSubstitute> substitute;
};

// A copy between host and device that the program made itself.
struct ProfileCopy {
  std::int32_t before = 0;  // position
  bool to_device = false;
  std::uint64_t bytes = 0;
  std::uint32_t stream = 0;
  double us = 0;
  std::optional<std::uint32_t> version;  // the one it writes or reads
  double lead_us = 0;                    // how long before the previous op's end it began, in another stream
};

// One allocation or free, in the program's order.
struct MemoryEvent {
  std::int32_t before = 0;  // position
  std::uint32_t buffer = 0;
  bool allocated = false;
};

struct Layer {
  std::string name;                   // "conv3_2 3x3/1 256->256"; the same in every run of the same program
  std::string kind;                   // "convolution", "batch_norm", "relu", "max_pooling", …
  std::vector<std::uint32_t> inputs;  // indices into maps
  std::uint32_t output = 0;           // index into maps
  Shape shape;                        // of the output
  std::uint64_t bytes = 0;            // of the output
  Window window;
  std::vector<std::int32_t> forward, backward;  // positions of its ops; empty forward: a view of its inputs
  double forward_us = 0, backward_us = 0;
};

// A layer's output, or an input of the network.
struct Map {
  std::string name;  // "input", "conv3_2.out"
  std::uint64_t bytes = 0;
  bool kept = false;         // read in backward: a feature map
  std::uint32_t memory = 0;  // index of the map in whose memory it lies: itself, or for a layer that works in
                             // place its first input's, or the concatenation that it is a part of
  std::vector<std::uint32_t> versions;  // indices into PhaseProfile::versions
};

struct LayerGraph {
  std::vector<Layer> layers;  // in order of execution
  std::vector<Map> maps;
  struct Edge {
    std::uint32_t from, to;  // indices into layers
  };
  std::vector<Edge> edges;
};

struct PhaseProfile {
  std::string id;               // hexadecimal hash of the op keys
  std::string kind;             // "train", "validate", …: inferred from the ops
  std::uint64_t seen = 0;       // iterations of this phase in the run
  std::uint32_t measured = 0;   // of those, how many were timed
  double iteration_us = 0;      // median, from the first op's start to the last one's end
  std::int32_t turn = outside;  // position of the first backward op; outside: forward only
  std::vector<std::string> functions;
  std::vector<ProfileBuffer> buffers;
  std::vector<ProfileVersion> versions;
  std::vector<ProfileOp> ops;
  std::vector<ProfileCopy> copies;
  std::vector<MemoryEvent> memory;  // in order
  LayerGraph graph;
};

// One measured copy over the link.
struct LinkSample {
  bool to_device = false;
  std::uint64_t bytes = 0;
  double us = 0;
  bool both_ways = false;  // while another copy ran in the other direction
};

// Of large copies to the host without one the other way; 0: not measured.
inline double out_us_per_byte(const std::vector<LinkSample>& link) {
  double found = 0;
  for (const LinkSample& sample : link)
    if (!sample.to_device && !sample.both_ways && sample.bytes >= 16 * MiB)
      found = sample.us / static_cast<double>(sample.bytes);
  return found;
}

// Host time to unmap so many handles, map them elsewhere and allow access, with one call each of unmap and
// set_access.
struct MoveSample {
  std::uint32_t handles = 0;
  std::uint64_t bytes = 0;  // of each
  double us = 0;
};

// A loaded file with code; without a path: memory that belongs to no file.
struct Module {
  std::string path;
  std::string build_id;  // hexadecimal; empty: it has none
};

// `offset` is a virtual address of the module's ELF file, inside of the call instruction.
struct CallFrame {
  std::uint32_t module = 0;  // index into Profile::modules
  std::uint64_t offset = 0;
};

// Where in the program an op is called: docs/callsites.md.
struct CallSite {
  std::vector<CallFrame> frames;    // native ones, innermost first
  std::vector<std::string> python;  // "file:line function", innermost first
};

// A range of addresses in the process that the profile is of, where buffers may lie: for layouts.
struct ProfileRange {
  std::uint64_t bytes = 0;  // whole pages
  bool in_use = false;      // an allocation has it now

  friend bool operator==(const ProfileRange&, const ProfileRange&) = default;
};

// One way to compute a convolution, as the library told the program after trying it.
struct Algorithm {
  std::string name;             // "winograd"
  double us = 0;                // that it took
  std::uint64_t workspace = 0;  // bytes that it needs
};
// What the program's own trials found for convolutions of one form: direction, shapes, strides, types,
// window.
struct Trials {
  std::vector<Algorithm> algorithms;  // those that worked; names are distinct
};

struct Profile {
  int schema = 1;
  std::string device;
  std::uint64_t device_bytes = 0;  // of the device
  std::uint64_t cap_bytes = 0, host_budget_bytes = 0;
  std::uint64_t need_bytes = 0;
  // Device memory that pooch does not manage, at most: the driver's, small tensors, workspaces of libraries;
  // 0: not known.
  std::uint64_t outside_bytes = 0;
  std::string policy;            // in effect while it was measured
  std::string timer;             // "cupti" or "events"; empty: nothing was timed
  std::uint64_t iterations = 0;  // of all phases; 0: the stream has no period
  std::uint64_t ops = 0;         // of the whole run
  std::vector<LinkSample> link;
  std::vector<MoveSample> moves;
  double launch_us = 0;  // from the host's decision to launch to the device's start; 0: not measured
  std::vector<Module> modules;
  std::vector<CallSite> sites;
  std::vector<Trials> trials;
  std::vector<ProfileRange> ranges;  // by address; none: not known
  std::vector<PhaseProfile> phases;  // the one with the most device time first
};

// Hexadecimal hash of everything in the phase that is not a measurement or a guess: memory, ops, versions,
// copies. Equal in two profiles of one program.
std::string structure_of(const PhaseProfile& phase);

std::string to_json(const Profile& profile);
// Error: invalid_argument with the path of the value that is wrong or missing and what it is. Indices are
// checked: a profile that is returned can be walked without further checks.
Result<Profile> profile_from_json(std::string_view text);

}  // namespace pooch
