// Other algorithms for a phase's convolutions, among those that the program tried, and the phase that
// results. They change the numbers, so only policies whose names end in :m or :p ask for them.
#pragma once

#include <cstdint>
#include <vector>

#include "core/plan.h"
#include "core/profile.h"

namespace pooch::policy {

// By position: index + 1 into the algorithms of the op's trials; 0: it stays as it ran.
using Picks = std::vector<std::uint32_t>;

// Rhu et al. 2016: memory-optimal algorithms (:m) need the least workspace, performance-optimal ones (:p) the
// least time; ties go to the one that is better in the other respect.
enum class Preference : std::uint8_t { memory, performance };

class Algorithms {
 public:
  // Both must outlive it.
  Algorithms(const Profile& profile, const PhaseProfile& phase);

  // Whether there is anything to choose from.
  bool any() const;
  Picks preferred(Preference preference) const;
  // Gives the op the fastest algorithm that needs less workspace than the one it has; false: there is none.
  bool lessen(Picks& picks, std::int32_t position) const;
  // The phase with the picked algorithms' durations and workspace sizes; new buffers come last.
  PhaseProfile applied(const Picks& picks) const;
  std::vector<PlanAlgorithm> described(const Picks& picks) const;

 private:
  const std::vector<Algorithm>& of(std::int32_t position) const;
  std::uint64_t workspace(const Picks& picks, std::int32_t position) const;
  std::uint32_t add_workspace(PhaseProfile& to, std::int32_t position, std::uint64_t bytes) const;

  const Profile& profile_;
  const PhaseProfile& phase_;
  std::vector<bool> has_content_;  // by buffer: it is more than workspace
};

}  // namespace pooch::policy
