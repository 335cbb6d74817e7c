// What a plan learns from being followed: a prefetch that ops waited for starts earlier, as Capuchin does it
// (Peng et al., ASPLOS 2020, section 4.4), within what the plan's own memory allows.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/script/script.h"

namespace pooch::runtime {

struct EarlierPrefetches {
  Plan plan;
  std::uint32_t moved = 0;  // prefetches
  double longest_us = 0;    // longest wait for one of these
};

// `waits_us`: by index of the script's maps, how long an op waited for it. The order of prefetches stays,
// none is moved before its map has left, and at no op is more memory held than the plan holds at its peak.
// Empty: none can be moved that was waited for.
std::optional<EarlierPrefetches> start_earlier(const Script& script, std::span<const double> waits_us);

// Watches a plan being followed, in rounds: some iterations are measured, then prefetches are moved. Ends
// when no op waits any more, when nothing can be moved, or when a round has made iterations longer; then the
// plan of the round before is final.
class Feedback {
 public:
  static constexpr std::size_t iterations = 3;  // that are measured in a round
  static constexpr int most_rounds = 4;

  bool ended() const { return ended_; }
  void end() { ended_ = true; }
  // An iteration was measured. True: the round is complete, ask `next`.
  bool note(std::vector<double> waits_us);
  // `iteration_ms`: what an iteration takes now. The plan to follow from now on; empty: as before.
  std::optional<EarlierPrefetches> next(const Script& script, std::optional<double> iteration_ms);

 private:
  std::vector<std::vector<double>> waits_;  // of this round, by iteration and map
  std::optional<Plan> before_;              // the plan before the last move
  std::optional<double> before_ms_;
  int rounds_ = 0;
  bool ended_ = false;
};

}  // namespace pooch::runtime
