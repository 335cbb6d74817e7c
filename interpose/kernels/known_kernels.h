// What is known of each kernel that the program launches: what the driver says of it, the rule for its name,
// and what its machine code says, which another process reads where no rule serves.
//
//   first launch ─▶ name and layout, by the driver ─▶ a rule understands it? ─▶ yes: that is all
//                                                            │ no
//                                                            ▼
//                        its machine code is asked for; launches are unforeseen until all that was asked is
//                        answered, so that they change what they are at one moment and not one by one
#pragma once

// First: the other vendor headers must not pull in cuda.h without its internal names.
#include "interpose/hooks/driver_api.h"

#include <memory>
#include <vector>

#include "core/result.h"
#include "core/summary.h"
#include "interpose/hooks/scope.h"
#include "interpose/kernels/kernel_facts.h"

namespace pooch::interpose {

// A kernel as it is known now. The handle is a CUfunction or a CUkernel.
using KnownKernel = std::shared_ptr<const KernelFacts>;

// Error: device, a driver that has the queries does not answer.
Result<KnownKernel> facts_of(const Scope& scope, CUfunction function);
// A launch of it was not understood: what its machine code says is wanted. With POOCH_WAIT_FOR_PLANS the
// answer is waited for. Returns the kernel as it is known then.
KnownKernel want_code(const Scope& scope, CUfunction function, const KnownKernel& facts);
// A launch of it may touch any memory.
void count_unforeseen(const KernelFacts& facts);
// Those of which one did, the most frequent first.
std::vector<UnforeseenKernel> unforeseen_kernels();

// Handles may come to mean other kernels: code was unloaded.
void forget_kernels();

}  // namespace pooch::interpose
