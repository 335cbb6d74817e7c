#include "tools/effects/analysis.h"

#include "tools/effects/machine.h"

namespace pooch::effects {

KernelEffects analyse(const Kernel& kernel, const Code& code) {
  Machine machine(kernel, code);
  return machine.run();
}

}  // namespace pooch::effects
