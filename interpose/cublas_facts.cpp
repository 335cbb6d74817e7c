#include <map>
#include <mutex>

#include "interpose/libraries.h"
#include "interpose/vendor_facts.h"

namespace pooch::interpose {
namespace {

POOCH_REAL(cublas, cublasGetStream_v2);
POOCH_REAL(cublas, cublasGetPointerMode_v2);
POOCH_REAL(cublas, cublasSetWorkspace_v2);
POOCH_REAL(cublas, cublasSetStream_v2);
POOCH_REAL(cublas, cublasDestroy_v2);

struct Workspace {
  void* memory;
  std::size_t bytes;
};

constinit std::mutex workspaces_mutex;

// Never destroyed: handles may be used until the very end of the process.
std::map<cublasHandle_t, Workspace>& workspaces() {
  static auto* const all = new std::map<cublasHandle_t, Workspace>;
  return *all;
}

void forget_workspace(cublasHandle_t handle) {
  const std::lock_guard lock(workspaces_mutex);
  workspaces().erase(handle);
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

void add_cublas_workspace(CallBuilder& call, cublasHandle_t handle) {
  Workspace workspace;
  {
    const std::lock_guard lock(workspaces_mutex);
    const auto found = workspaces().find(handle);
    if (found == workspaces().end()) return;
    workspace = found->second;
  }
  call.add(workspace.memory, workspace.bytes, Effect::scratch);
}

}  // namespace pooch::interpose

using namespace pooch::interpose;

POOCH_EXPORT cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void* workspace,
                                                  size_t workspaceSizeInBytes) {
  const Scope scope;
  auto* const real = real_cublasSetWorkspace_v2.get(scope);
  if (real == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  const cublasStatus_t status = real(handle, workspace, workspaceSizeInBytes);
  if (status == CUBLAS_STATUS_SUCCESS) {
    const std::lock_guard lock(workspaces_mutex);
    workspaces()[handle] = {workspace, workspaceSizeInBytes};
  }
  return status;
}

// Setting the stream puts the handle back to its own workspace.
POOCH_EXPORT cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t streamId) {
  const Scope scope;
  auto* const real = real_cublasSetStream_v2.get(scope);
  if (real == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  const cublasStatus_t status = real(handle, streamId);
  if (status == CUBLAS_STATUS_SUCCESS) forget_workspace(handle);
  return status;
}

POOCH_EXPORT cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  const Scope scope;
  auto* const real = real_cublasDestroy_v2.get(scope);
  if (real == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  forget_workspace(handle);
  return real(handle);
}
