// Phases for scripts.
#pragma once

#include "core/profile.h"
#include "tests/support/random_profile.h"

namespace pooch::test {

// Of the plans in fuzz/corpus/plan: some maps are kept, some swapped, some made again.
Profile planned_profile();

}  // namespace pooch::test
