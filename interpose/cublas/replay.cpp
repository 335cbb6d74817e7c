#include "interpose/cublas/replay.h"

#include "core/log.h"
#include "interpose/cublas/facts.h"
#include "interpose/hooks/libraries.h"

namespace pooch::interpose {
namespace {

POOCH_REAL(cublas, cublasCreate_v2);
POOCH_REAL(cublas, cublasSetStream_v2);
POOCH_REAL(cublas, cublasSetWorkspace_v2);
POOCH_REAL(cublas, cublasGetAtomicsMode);

// What decides about a product's bits. All values are ints or enumerators of an int's size; versions of
// cuBLAS that lack one have nothing to carry over.
struct Setting {
  Real<cublasStatus_t(cublasHandle_t, int*)> get;
  Real<cublasStatus_t(cublasHandle_t, int)> set;
};
#define POOCH_SETTING(name)                \
  {                                        \
    {Library::cublas, "cublasGet" name}, { \
      Library::cublas, "cublasSet" name    \
    }                                      \
  }
constinit Setting all_settings[KeptCublasHandle::settings] = {
    POOCH_SETTING("MathMode"),
    POOCH_SETTING("SmCountTarget"),
    POOCH_SETTING("EmulationStrategy"),
    POOCH_SETTING("EmulationSpecialValuesSupport"),
    POOCH_SETTING("FixedPointEmulationMantissaControl"),
    POOCH_SETTING("FixedPointEmulationMaxMantissaBitCount"),
    POOCH_SETTING("FixedPointEmulationMantissaBitOffset"),
};
#undef POOCH_SETTING
static_assert(sizeof(cublasMath_t) == sizeof(int) && sizeof(cublasEmulationStrategy_t) == sizeof(int) &&
              sizeof(cudaEmulationSpecialValuesSupport) == sizeof(int) &&
              sizeof(cudaEmulationMantissaControl) == sizeof(int));

cublasHandle_t own_handle(const Scope& scope) {
  static const cublasHandle_t own = [&] {
    cublasHandle_t made = nullptr;
    auto* const create = real_cublasCreate_v2.get(scope);
    const bool complete = create != nullptr && real_cublasSetStream_v2.get(scope) != nullptr &&
                          real_cublasSetWorkspace_v2.get(scope) != nullptr;
    if (complete && create(&made) == CUBLAS_STATUS_SUCCESS) return made;
    log::warn(
        "cuBLAS gives no second handle: what its calls computed is copied, and none of it computed again");
    return cublasHandle_t{};
  }();
  return own;
}

bool admits_atomics(const Scope& scope, cublasHandle_t handle) {
  cublasAtomicsMode_t mode = CUBLAS_ATOMICS_ALLOWED;
  auto* const get = real_cublasGetAtomicsMode.get(scope);
  return get == nullptr || get(handle, &mode) != CUBLAS_STATUS_SUCCESS || mode != CUBLAS_ATOMICS_NOT_ALLOWED;
}

}  // namespace

KeptCublasHandle::KeptCublasHandle(const Keeping& keeping, cublasHandle_t programs)
    : workspace_(keep_operand(keeping, cublas_workspace(programs).memory)),
      workspace_bytes_(cublas_workspace(programs).bytes),
      workspace_given_(cublas_workspace(programs).given) {
  if (admits_atomics(keeping.scope, programs)) return;
  for (int i = 0; i < settings; ++i) {
    auto* const get = all_settings[i].get.get_if_present(keeping.scope);
    if (get == nullptr) continue;
    if (all_settings[i].set.get_if_present(keeping.scope) == nullptr ||
        get(programs, &values_[i]) != CUBLAS_STATUS_SUCCESS)
      return;
  }
  own_ = own_handle(keeping.scope);
}

int KeptCublasHandle::prepare(const Run& run) {
  for (int i = 0; i < settings; ++i) {
    auto* const get = all_settings[i].get.known();
    if (get == nullptr) continue;
    int now = 0;
    const bool as_it_was = get(own_, &now) == CUBLAS_STATUS_SUCCESS && now == values_[i];
    if (as_it_was) continue;
    const cublasStatus_t status = all_settings[i].set.known()(own_, values_[i]);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
  }
  // Setting the stream puts the handle back to its own workspace.
  const auto stream = run.stream == StreamHandle::legacy ? 0 : static_cast<std::uintptr_t>(run.stream);
  const cublasStatus_t status = real_cublasSetStream_v2.known()(own_, reinterpret_cast<cudaStream_t>(stream));
  if (status != CUBLAS_STATUS_SUCCESS || !workspace_given_) return status;
  return real_cublasSetWorkspace_v2.known()(own_, workspace_.in(run), workspace_bytes_);
}

}  // namespace pooch::interpose
