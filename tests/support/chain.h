// A phase whose first half of ops make a map of 2 MiB each, which the second half reads in reverse order.
#pragma once

#include <cstdint>

#include "core/ids.h"
#include "core/plan.h"
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

// Swaps the first `count` maps of such a phase; each leaves behind its op and comes back at its reader.
inline Plan swapping_in_chain(const PhaseProfile& phase, int count) {
  const int maps = static_cast<int>(phase.ops.size()) / 2;
  Plan plan;
  plan.phase = phase.id;
  plan.structure = structure_of(phase);
  for (int i = 0; i < maps; ++i) {
    PlanMap& map = plan.maps.emplace_back();
    map.map = map.buffer = static_cast<std::uint32_t>(i);
    map.name = "map";
    map.bytes = phase.buffers[map.buffer].bytes;
    if (i >= count) continue;
    map.of = MapClass::swap;
    map.moved = map.bytes;
    plan.after[i] = {{PlanAction::Kind::evict, map.map}};
    plan.before[reader_in_chain(maps, i)] = {{PlanAction::Kind::prefetch, map.map}};
  }
  return plan;
}

}  // namespace pooch::test
