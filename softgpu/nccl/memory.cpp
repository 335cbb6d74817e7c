// Memory that a communicator knows by address: allocations of the library's, registered buffers, operators'
// numbers.
#include "softgpu/nccl/communicator.h"
#include "softgpu/nccl/exchange.h"

using namespace softgpu;
using namespace softgpu::nccl;

namespace {

template <class Handle>
ncclResult_t enter(ncclComm_t comm, void* memory, std::size_t bytes, Handle* handle) {
  if (comm == nullptr || memory == nullptr || bytes == 0 || handle == nullptr) return ncclInvalidArgument;
  void* const made = new char;  // an address of its own
  const std::lock_guard lock(comm->clique->mutex);
  comm->registered[made] = {reinterpret_cast<std::uint64_t>(memory), bytes};
  *handle = static_cast<Handle>(made);
  return ncclSuccess;
}

ncclResult_t leave(ncclComm_t comm, void* handle) {
  if (comm == nullptr) return ncclInvalidArgument;
  const std::lock_guard lock(comm->clique->mutex);
  if (comm->registered.erase(handle) == 0) return ncclInvalidUsage;
  delete static_cast<char*>(handle);
  return ncclSuccess;
}

}  // namespace

SOFTGPU_NCCL_BOTH(ncclMemAlloc, (void** memory, size_t bytes), (memory, bytes)) {
  if (memory == nullptr) return ncclInvalidArgument;
  return cudaMalloc(memory, bytes) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}
SOFTGPU_NCCL_BOTH(ncclMemFree, (void* memory), (memory)) {
  return cudaFree(memory) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

SOFTGPU_NCCL_BOTH(ncclCommRegister, (const ncclComm_t comm, void* memory, size_t bytes, void** handle),
                  (comm, memory, bytes, handle)) {
  return enter(comm, memory, bytes, handle);
}
SOFTGPU_NCCL_BOTH(ncclCommDeregister, (const ncclComm_t comm, void* handle), (comm, handle)) {
  return leave(comm, handle);
}
SOFTGPU_NCCL_BOTH(ncclCommWindowRegister,
                  (ncclComm_t comm, void* memory, size_t bytes, ncclWindow_t* window, int flags),
                  (comm, memory, bytes, window, flags)) {
  return enter(comm, memory, bytes, window);
}
SOFTGPU_NCCL_BOTH(ncclCommWindowDeregister, (ncclComm_t comm, ncclWindow_t window), (comm, window)) {
  return leave(comm, window);
}

SOFTGPU_NCCL_BOTH(ncclRedOpCreatePreMulSum,
                  (ncclRedOp_t * op, void* scalar, ncclDataType_t type, ncclScalarResidence_t residence,
                   ncclComm_t comm),
                  (op, scalar, type, residence, comm)) {
  if (op == nullptr || scalar == nullptr || comm == nullptr) return ncclInvalidArgument;
  if (element_bytes(type) == 0)
    return refuse(ncclInvalidArgument, "ncclRedOpCreatePreMulSum", "no such type of elements here");
  const bool on_device = residence == ncclScalarDevice;
  const std::lock_guard lock(comm->clique->mutex);
  comm->operators[comm->next_operator] = {on_device ? 0 : number_at(scalar, type),
                                          on_device ? reinterpret_cast<std::uint64_t>(scalar) : 0, type};
  *op = static_cast<ncclRedOp_t>(comm->next_operator++);
  return ncclSuccess;
}
SOFTGPU_NCCL_BOTH(ncclRedOpDestroy, (ncclRedOp_t op, ncclComm_t comm), (op, comm)) {
  if (comm == nullptr) return ncclInvalidArgument;
  const std::lock_guard lock(comm->clique->mutex);
  return comm->operators.erase(op) == 1 ? ncclSuccess : ncclInvalidArgument;
}
