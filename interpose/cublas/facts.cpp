#include "interpose/cublas/facts.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <span>

#include "interpose/hooks/libraries.h"
#include "interpose/hooks/stream.h"

namespace pooch::interpose {
namespace {

POOCH_REAL(cublas, cublasGetStream_v2);
POOCH_REAL(cublas, cublasGetPointerMode_v2);
POOCH_REAL(cublas, cublasSetWorkspace_v2);
POOCH_REAL(cublas, cublasSetStream_v2);
POOCH_REAL(cublas, cublasDestroy_v2);

constinit std::mutex workspaces_mutex;

// Never destroyed: handles may be used until the very end of the process.
std::map<cublasHandle_t, GivenWorkspace>& workspaces() {
  static auto* const all = new std::map<cublasHandle_t, GivenWorkspace>;
  return *all;
}

// 0 for types of less than a byte and those that came later.
std::uint64_t element_bytes(cudaDataType type) {
  switch (type) {
    case CUDA_R_8I:
    case CUDA_R_8U:
    case CUDA_R_8F_E4M3:
    case CUDA_R_8F_E5M2:
    case CUDA_R_8F_UE8M0:
      return 1;
    case CUDA_R_16F:
    case CUDA_R_16BF:
    case CUDA_R_16I:
    case CUDA_R_16U:
    case CUDA_C_8I:
    case CUDA_C_8U:
      return 2;
    case CUDA_R_32F:
    case CUDA_R_32I:
    case CUDA_R_32U:
    case CUDA_C_16F:
    case CUDA_C_16BF:
    case CUDA_C_16I:
    case CUDA_C_16U:
      return 4;
    case CUDA_R_64F:
    case CUDA_R_64I:
    case CUDA_R_64U:
    case CUDA_C_32F:
    case CUDA_C_32I:
    case CUDA_C_32U:
      return 8;
    case CUDA_C_64F:
    case CUDA_C_64I:
    case CUDA_C_64U:
      return 16;
    default:
      return 0;
  }
}

bool is_complex(cudaDataType type) {
  return type == CUDA_C_16F || type == CUDA_C_16BF || type == CUDA_C_32F || type == CUDA_C_64F ||
         type == CUDA_C_8I || type == CUDA_C_8U;
}

// Its place is kept: frameworks set both before each product.
[[gnu::hot]] void note_workspace(cublasHandle_t handle, const GivenWorkspace& now) {
  const std::lock_guard lock(workspaces_mutex);
  workspaces()[handle] = now;
}

}  // namespace

StreamHandle cublas_stream(const Scope& scope, cublasHandle_t handle) {
  cudaStream_t stream = nullptr;
  auto* const get = real_cublasGetStream_v2.get(scope);
  if (get == nullptr || get(handle, &stream) != CUBLAS_STATUS_SUCCESS) stream = nullptr;
  return stream_of(stream);
}

bool cublas_scalars_on_device(const Scope& scope, cublasHandle_t handle) {
  cublasPointerMode_t mode = CUBLAS_POINTER_MODE_HOST;
  auto* const get = real_cublasGetPointerMode_v2.get_if_present(scope);
  return get != nullptr && get(handle, &mode) == CUBLAS_STATUS_SUCCESS && mode == CUBLAS_POINTER_MODE_DEVICE;
}

GivenWorkspace cublas_workspace(cublasHandle_t handle) {
  const std::lock_guard lock(workspaces_mutex);
  const auto found = workspaces().find(handle);
  return found == workspaces().end() ? GivenWorkspace{} : found->second;
}

void add_cublas_workspace(CallBuilder& call, cublasHandle_t handle) {
  const GivenWorkspace given = cublas_workspace(handle);
  if (given.memory != nullptr) call.add(given.memory, given.bytes, Effect::scratch);
}

bool host_scalar_not_zero(const void* scalar, const Extent& extent) {
  if (scalar == nullptr || !extent.known) return true;
  const std::span bytes(static_cast<const unsigned char*>(scalar), extent.bytes);
  return std::ranges::any_of(bytes, [](unsigned char byte) { return byte != 0; });
}

Extent typed(cudaDataType type) {
  const std::uint64_t bytes = element_bytes(type);
  return bytes == 0 ? Extent::unknown() : Extent(bytes);
}

Extent typed_matrix(std::int64_t rows, std::int64_t columns, std::int64_t leading, cudaDataType type) {
  const std::uint64_t bytes = element_bytes(type);
  return bytes == 0 ? Extent::unknown() : matrix(rows, columns, leading, bytes);
}

Extent typed_vector(std::int64_t count, std::int64_t increment, cudaDataType type) {
  const std::uint64_t bytes = element_bytes(type);
  return bytes == 0 ? Extent::unknown() : vector(count, increment, bytes);
}

Extent typed_batched(const Extent& one, std::int64_t stride, std::int64_t count, cudaDataType type) {
  return one.known ? batched(one, stride, count, element_bytes(type)) : one;
}

Extent scale_of(cublasComputeType_t compute, cudaDataType result) {
  switch (compute) {
    case CUBLAS_COMPUTE_16F:
    case CUBLAS_COMPUTE_16F_PEDANTIC:
      return 2;
    case CUBLAS_COMPUTE_32I:
    case CUBLAS_COMPUTE_32I_PEDANTIC:
      return 4;
    case CUBLAS_COMPUTE_32F:
    case CUBLAS_COMPUTE_32F_PEDANTIC:
    case CUBLAS_COMPUTE_32F_FAST_16F:
    case CUBLAS_COMPUTE_32F_FAST_16BF:
    case CUBLAS_COMPUTE_32F_FAST_TF32:
    case CUBLAS_COMPUTE_32F_EMULATED_16BFX9:
      return is_complex(result) ? 8 : 4;
    case CUBLAS_COMPUTE_64F:
    case CUBLAS_COMPUTE_64F_PEDANTIC:
    case CUBLAS_COMPUTE_64F_EMULATED_FIXEDPOINT:
      return is_complex(result) ? 16 : 8;
    default:
      return Extent::unknown();
  }
}

}  // namespace pooch::interpose

using namespace pooch::interpose;

POOCH_HOT_EXPORT cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void* workspace,
                                                      size_t workspaceSizeInBytes) {
  const Scope scope;
  auto* const real = real_cublasSetWorkspace_v2.get(scope);
  if (real == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  const cublasStatus_t status = real(handle, workspace, workspaceSizeInBytes);
  if (status == CUBLAS_STATUS_SUCCESS)
    note_workspace(handle, {workspace, workspaceSizeInBytes, /*given=*/true});
  return status;
}

// Setting the stream puts the handle back to its own workspace.
POOCH_HOT_EXPORT cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t streamId) {
  const Scope scope;
  auto* const real = real_cublasSetStream_v2.get(scope);
  if (real == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  const cublasStatus_t status = real(handle, streamId);
  if (status == CUBLAS_STATUS_SUCCESS) note_workspace(handle, {});
  return status;
}

POOCH_EXPORT cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  const Scope scope;
  auto* const real = real_cublasDestroy_v2.get(scope);
  if (real == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  {
    const std::lock_guard lock(workspaces_mutex);
    workspaces().erase(handle);
  }
  return real(handle);
}
