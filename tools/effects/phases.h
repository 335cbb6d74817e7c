// A kernel's ways through its code between the barriers that all threads of a block pass together: what one
// of them finds in shared memory another has stored since the last barrier, or was there before.
//
//   region 0            region 1            region 2
//   STS [R0], R4 ─ BAR ─ LDS R6, [R2] ─ BAR ─ STS [R0], R8 …
//
// Only kernels are followed that share nothing but so: no calls, no clusters, no other barriers. And each
// barrier must lie on every way to the next one, so that threads cannot meet at different ones.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "tools/effects/sass.h"

namespace pooch::effects {

// BAR.SYNC 0x0 without a number of threads.
bool is_full_barrier(const Instruction& one);

class Phases {
 public:
  using Graph = std::vector<std::set<std::size_t>>;  // by block: what may be run next

  // The last instruction of a block is `lasts[block]`. Nothing: they cannot be followed.
  static std::optional<Phases> find(const Code& code, const std::vector<std::size_t>& lasts,
                                    const Graph& successors);

  std::size_t regions() const { return after_.size(); }
  std::size_t region(std::size_t block) const { return region_[block]; }
  // Whether a thread can be in `later` after, or while, another is in `earlier`.
  bool follows(std::size_t later, std::size_t earlier) const { return after_[earlier][later]; }
  bool leads(std::size_t block, std::size_t to) const { return successors_[block].contains(to); }
  // Whether a thread may run it more than once.
  bool repeats(std::size_t block) const { return repeats_[block]; }

 private:
  Graph successors_;
  std::vector<std::size_t> region_;       // by block
  std::vector<bool> repeats_;             // by block
  std::vector<std::vector<bool>> after_;  // by region
};

}  // namespace pooch::effects
