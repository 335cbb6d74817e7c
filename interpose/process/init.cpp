// cuInit: where pooch learns what it is to do.
#include "interpose/hooks/driver_api.h"
#include "interpose/hooks/libraries.h"
#include "interpose/process/start.h"

using namespace pooch::interpose;

namespace {
POOCH_REAL(cuda, cuInit);
}

POOCH_EXPORT CUresult cuInit(unsigned int Flags) {
  const Scope scope;
  auto* const real = real_cuInit.get(scope);
  if (real == nullptr) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
  before_driver_init(scope);
  const CUresult status = real(Flags);
  if (status == CUDA_SUCCESS) after_driver_init(scope);
  return status;
}
