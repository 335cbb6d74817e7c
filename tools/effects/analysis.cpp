#include "tools/effects/analysis.h"

#include "tools/effects/machine.h"

namespace pooch::effects {

KernelEffects analyse(const Kernel& kernel, const Code& code) {
  Machine machine(kernel, code);
  const KernelEffects effects = machine.run();
  if (effects.verdict == Verdict::foreseen) return effects;
  // Numbers and addresses may have taken turns in shared memory.
  const auto phases = machine.find_phases();
  if (!phases) return effects;
  const KernelEffects followed = Machine(kernel, code, phases).run();
  return followed.verdict == Verdict::foreseen ? followed : effects;
}

}  // namespace pooch::effects
