// NCCL's collectives as ops of the session.
//
// What a launch of NCCL's shows of its buffers is NCCL's own business, so the operands come from the calls.
// Outside of a group a collective starts in its call. In a group nothing starts before the outermost
// ncclGroupEnd, and nothing can be taken back once it has been put in; so what is put in is noted, and the
// end makes all of it resident, one op for every stream, and keeps it in place until NCCL has put its kernels
// behind it:
//
//     ncclGroupEnd ── submit(device 0) ── submit(device 1) ── … ── the real ncclGroupEnd
//
// NCCL may wait for other ranks in there, and its threads may allocate memory: no session's mutex is held
// meanwhile. A communicator that does not block starts the work in a thread of its own; the wrapper waits
// until it has.
#pragma once

#include <functional>

#include "core/function_ref.h"
#include "interpose/calls/call_builder.h"
#include "interpose/hooks/scope.h"
#include "softgpu/include/nccl.h"

namespace pooch::interpose {

// Makes the collective that `call` describes, or adds it to the thread's group. ncclUnhandledCudaError where
// memory is short; a group that could not start for this reason fails every later call of its thread.
ncclResult_t submit_collective(const Scope& scope, const CallBuilder& call, ncclComm_t comm,
                               FunctionRef<ncclResult_t()> launch);

// What `act` needs is there when the thread's group has ended: at once where there is none. Given up where it
// fails.
void when_group_has_ended(std::function<void()> act);

}  // namespace pooch::interpose
