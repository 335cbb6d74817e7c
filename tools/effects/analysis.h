// What a kernel touches, by its machine code.
//
//   image ── images.h ──▶ Kernel ─┐
//     └──── nvdisasm ──▶ Code ────┴── analyse ──▶ KernelEffects
//
// It is sound before it is precise: what the analysis does not follow makes the kernel `unknown`, never
// foreseen (docs/effects.md, docs/decisions/0069-effects-from-machine-code.md).
#pragma once

#include "tools/effects/kernel.h"
#include "tools/effects/sass.h"

namespace pooch::effects {

KernelEffects analyse(const Kernel& kernel, const Code& code);

}  // namespace pooch::effects
