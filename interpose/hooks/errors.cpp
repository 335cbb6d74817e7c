#include "interpose/hooks/errors.h"

#include <fmt/core.h>

#include "core/log.h"

namespace pooch::interpose {

CUresult to_cuda(const Error& error) {
  switch (error.code) {
    case ErrorCode::invalid_argument:
      return CUDA_ERROR_INVALID_VALUE;
    case ErrorCode::out_of_memory:
      return CUDA_ERROR_OUT_OF_MEMORY;
    case ErrorCode::not_supported:
      return CUDA_ERROR_NOT_SUPPORTED;
    case ErrorCode::device:
      return static_cast<CUresult>(error.vendor_status != 0 ? error.vendor_status : CUDA_ERROR_UNKNOWN);
    case ErrorCode::internal:
      break;
  }
  return CUDA_ERROR_UNKNOWN;
}

void report_refused(const char* function, const Error& why) {
  log::failure(fmt::format("{}: {}", function, why.message));
}

}  // namespace pooch::interpose
