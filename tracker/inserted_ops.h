// Phases that are others but for a few ops in between: what a program does once in so many iterations, such
// as reading the loss.
#pragma once

#include <cstdint>
#include <optional>

#include "core/profile.h"

namespace pooch::tracker {

// Positions [at, at + count) of an iteration that has them; count 0: there are none.
struct InsertedOps {
  std::int32_t at = 0, count = 0;

  // How many ops of the shorter phase are among the first `passed` of the longer.
  std::int32_t without(std::int32_t passed) const {
    return passed < at ? passed : passed < at + count ? at : passed - count;
  }
  bool contains(std::int32_t position) const { return position >= at && position < at + count; }

  friend bool operator==(const InsertedOps&, const InsertedOps&) = default;
};

// At most this many are a few.
constexpr std::int32_t most_inserted_ops = 16;

// The ops that `longer` has in one place, where it is `shorter` otherwise: the same calls in the same order,
// on buffers that correspond one to one and live as long. They are ahead of the last op. Nothing: it is
// another phase.
std::optional<InsertedOps> inserted_ops(const PhaseProfile& shorter, const PhaseProfile& longer);

}  // namespace pooch::tracker
