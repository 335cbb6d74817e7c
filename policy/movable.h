// Which buffers of a phase are maps, and when each may be away.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "core/profile.h"
#include "policy/problem.h"

namespace pooch::policy {

// What the search for maps needs to know of a phase.
struct BufferUses {
  const PhaseProfile& phase;
  const std::vector<std::vector<std::int32_t>>& positions;  // by buffer: of the ops that use it, ascending
  const std::vector<std::vector<std::uint32_t>>& versions;  // by buffer, by producer
  const std::vector<std::int32_t>& producer_of;             // by version: the op whose replay makes it
  const std::vector<double>& starts_us;                     // by position, and one more for the end
};

// By buffer: pooch moves it, and it is no workspace. A replay of an op needs the op's workspace, and reads no
// version of it, so nothing tells a plan when it must be there.
std::vector<bool> buffers_that_can_leave(const PhaseProfile& phase);

// By buffer, of some: a position at which it is to be away.
using AwayAt = std::map<std::uint32_t, std::int32_t>;

// Positions in the place of segments. Feature maps come first, and are taken for droppable.
std::vector<MovableMap> movable_maps(const BufferUses& uses, Movers movers, const AwayAt& away_at);

// By position: bytes that a layout needs beside the buffers. One that lies in two ranges in turn has both
// while it is there, unless it is alone in them and begins anew in each iteration. Finds `in_turn` of the
// maps.
std::vector<std::uint64_t> bytes_in_turn(const BufferUses& uses, std::vector<MovableMap>& maps);

}  // namespace pooch::policy
