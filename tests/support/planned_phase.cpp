#include "tests/support/planned_phase.h"

#include <set>

#include "tests/support/random_profile.h"

namespace pooch::test {

runtime::KnownPhase known_phase(const PhaseProfile& phase) {
  runtime::KnownPhase known;
  known.profile = phase;
  for (const ProfileOp& op : phase.ops) {
    std::set<std::uint32_t> buffers(op.scratch.begin(), op.scratch.end());
    for (const auto* list : {&op.reads, &op.writes})
      for (const std::uint32_t v : *list) buffers.insert(phase.versions[v].buffer);
    known.operands.emplace_back(buffers.begin(), buffers.end());
  }
  return known;
}

Profile planned_profile() {
  return random_profile(24, 1);
}

}  // namespace pooch::test
