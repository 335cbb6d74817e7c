// A phase whose first half of ops make a map of 2 MiB each, which the second half reads in reverse order.
#pragma once

#include <cstdint>

#include "core/ids.h"
#include "core/profile.h"

namespace pooch::test {

// The op that reads a map of a chain of so many.
constexpr std::int32_t reader_in_chain(int maps, int map) {
  return 2 * maps - 1 - map;
}

inline PhaseProfile chain_of(int maps, double op_us) {
  PhaseProfile phase;
  phase.id = "chain";
  phase.functions = {"work"};
  for (int map = 0; map < maps; ++map) {
    const std::int32_t read = reader_in_chain(maps, map);
    phase.buffers.push_back({2 * MiB, true, map, read + 1});
    phase.versions.push_back({static_cast<std::uint32_t>(map), 0, 2 * MiB, map, {read}, Role::feature_map});
  }
  for (int p = 0; p < 2 * maps; ++p) {
    ProfileOp op;
    op.us = op_us;
    const auto map = static_cast<std::uint32_t>(p < maps ? p : 2 * maps - 1 - p);
    (p < maps ? op.writes : op.reads).push_back(map);
    op.operands = {map};
    phase.ops.push_back(op);
  }
  return phase;
}

}  // namespace pooch::test
