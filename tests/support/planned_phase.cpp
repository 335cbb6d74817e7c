#include "tests/support/planned_phase.h"

namespace pooch::test {

Profile planned_profile() {
  return random_profile(24, 1);
}

}  // namespace pooch::test
