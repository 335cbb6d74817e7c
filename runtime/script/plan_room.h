// How much of a cap a plan may use: for the runtime, and for who wants to know beforehand what it would do.
#pragma once

#include <cstdint>

#include "core/profile.h"

namespace pooch::runtime {

// All sizes in bytes.
struct CapUse {
  std::uint64_t cap = 0;
  // Taken outside of what pooch manages, at the time and at most: the driver's memory, small tensors,
  // workspaces of libraries.
  std::uint64_t outside = 0, most_outside = 0;
};

struct PlanRoom {
  std::uint64_t reserve = 0;  // of the cap, what the plan must leave free
  std::uint64_t room = 0;     // for its layout
};

// What plans leave free of a cap for what comes and goes beside them.
std::uint64_t reserve_beside_plans(std::uint64_t cap);
// The most bytes that the phase's buffers which are not managed take together, at any op.
std::uint64_t unmanaged_bytes(const PhaseProfile& phase);
// What the cap has to hold beside what the phase's own buffers show, as far as plans do not leave that alone
// anyway: workspaces of libraries, the driver's code, what others on the device have taken.
std::uint64_t unseen_bytes(const PhaseProfile& phase, const CapUse& use);
// `lacking`: what earlier plans were found to lack. `unseen`: as above.
PlanRoom room_with_layout(const CapUse& use, std::uint64_t unseen, std::uint64_t lacking);

}  // namespace pooch::runtime
