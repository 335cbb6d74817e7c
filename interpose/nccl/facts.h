// What has to be asked of NCCL about a call: sizes, which rank this is, whose session serves its device.
#pragma once

#include <cstdint>

#include "interpose/calls/call_builder.h"
#include "interpose/calls/extent.h"
#include "interpose/hooks/scope.h"
#include "runtime/session/session.h"
#include "softgpu/include/nccl.h"

namespace pooch::interpose {

template <>
struct NotMade<ncclResult_t> {
  static constexpr ncclResult_t status = ncclUnhandledCudaError;
};

// The session of the device that the communicator is on, whatever device is current; nullptr: pass the call
// through.
runtime::Session* session_of_communicator(const Scope& scope, ncclComm_t comm);

// Extent::unknown() for a type that came later.
Extent nccl_elements(std::uint64_t count, ncclDataType_t datatype);
// So many of every rank; Extent::unknown() where NCCL does not say how many there are.
Extent nccl_elements_of_all(const Scope& scope, ncclComm_t comm, std::uint64_t count,
                            ncclDataType_t datatype);
// The operand where this rank is `root` or nobody knows, else nothing.
Extent nccl_at_root(const Scope& scope, ncclComm_t comm, int root, const Extent& extent);

// The number in device memory that an operator of the program's multiplies by; null where there is none.
const void* nccl_scalar(ncclComm_t comm, ncclRedOp_t op);

}  // namespace pooch::interpose
