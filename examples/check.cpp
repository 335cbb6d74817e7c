#include "check.h"

#include <fmt/core.h>

namespace train {
namespace {

[[noreturn]] void fail(bool out_of_memory, const std::string& call, const char* reason) {
  if (out_of_memory) throw Failure(Exit::out_of_memory, fmt::format("out of memory: {}: {}", call, reason));
  throw Failure(Exit::failed, fmt::format("{}: {}", call, reason));
}

}  // namespace

void check(cudaError_t status, const std::string& call) {
  if (status == cudaSuccess) return;
  fail(status == cudaErrorMemoryAllocation, call, cudaGetErrorString(status));
}

void check(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  const bool memory = status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED ||
                      status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
  fail(memory, call, cudnnGetErrorString(status));
}

void check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  fail(status == CUBLAS_STATUS_ALLOC_FAILED, call, cublasGetStatusString(status));
}

std::string readable_bytes(std::size_t bytes) {
  constexpr double kib = 1024;
  const double size = static_cast<double>(bytes);
  if (size >= kib * kib * kib) return fmt::format("{:.2f} GiB", size / (kib * kib * kib));
  if (size >= kib * kib) return fmt::format("{:.1f} MiB", size / (kib * kib));
  return fmt::format("{:.1f} KiB", size / kib);
}

}  // namespace train
