// A phase as this process knows it.
#pragma once

#include <cstdint>
#include <vector>

#include "core/ids.h"
#include "core/profile.h"
#include "tracker/iterations.h"

namespace pooch::runtime {

// Of a buffer, in the iterations that were described.
struct SeenBytes {
  std::uint64_t least = 0, most = 0;
};

struct KnownPhase {
  tracker::PhaseIndex index{};
  bool any_size = false;       // its iterations have one form, and the sizes here have room for all
  PhaseProfile profile;        // its times: from `profile.measured` iterations; 0: estimated
  std::uint64_t revision = 0;  // grows with every change of structure or times
  std::vector<std::uint64_t> local_keys;  // by position
  // Only if any_size:
  std::vector<std::uint64_t> volumes;  // by position: bytes that the op touches
  std::vector<SeenBytes> seen_bytes;   // by buffer; the profile's sizes leave room for more
  std::vector<Address> bases;          // by buffer: where it was in the latest iteration that was described
  std::vector<Address> earlier;        // ... and in the one before that
  std::vector<bool> quiet;             // by buffer: only ops touch it, and copies before the first op
  std::vector<bool> fixed;             // by buffer: it is quiet, and had one address in all iterations
  std::vector<bool>
      alternates;        // by buffer: it is quiet, and is at two addresses in turn, as double buffers are
  bool settled = false;  // enough iterations were described for `bases` and `fixed` to be relied on
};

}  // namespace pooch::runtime
