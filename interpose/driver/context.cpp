// The calling thread's context: asked of the driver, or known without asking.
//
// Where a process sees one device and has created no context, nothing but that device's primary context can
// be current on a thread, or nothing at all. So a thread that was found in a session's context stays in it
// until a call that may leave a thread without one, and all ways to such a call lead through here
// (lookup.cpp). The runtime's own ways past the exported functions lead to other devices' primary contexts
// only; where there are several devices or contexts, the driver is asked once in every call of the program's.
#include <atomic>

#include "interpose/sessions/again.h"
#include "interpose/sessions/context.h"
#include "interpose/hooks/libraries.h"
#include "interpose/process/process.h"

using namespace pooch::interpose;

namespace {

POOCH_REAL(cuda, cuCtxGetCurrent);
POOCH_REAL(cuda, cuDeviceGetCount);

constinit std::atomic<bool> created{false};  // a context that is no device's primary one

// What the driver last answered on this thread, and in which call of the program's.
struct Known {
  std::uint64_t call;
  CUcontext context;
  bool stays;  // it is a session's, and no other can be current
};
[[gnu::tls_model("initial-exec")]] thread_local Known known = {};

bool one_device(const Scope& scope) {
  static constinit std::atomic<int> devices{0};  // 0: not asked
  if (devices.load(std::memory_order_relaxed) == 0) {
    auto* const count = real_cuDeviceGetCount.get_if_present(scope);
    int found = 0;
    if (count == nullptr || count(&found) != CUDA_SUCCESS || found == 0) return false;
    devices.store(found, std::memory_order_relaxed);
  }
  return devices.load(std::memory_order_relaxed) == 1;
}

// Null: none. A call that is taken for nobody's passes, and touches what a session has moved. So the driver
// is asked twice, and a thread of which it says nothing is taken to be in the first session's context.
CUcontext ask(const Scope& scope) {
  auto* const get_current = real_cuCtxGetCurrent.get(scope);
  if (get_current == nullptr) return nullptr;
  CUcontext context = nullptr;
  if (get_current(&context) == CUDA_SUCCESS || get_current(&context) == CUDA_SUCCESS) return context;
  pooch::runtime::Session* const session = open_session();
  return session != nullptr ? context_of(*session) : nullptr;
}

}  // namespace

namespace pooch::interpose {

[[gnu::hot]] CUcontext current_context(const Scope& scope) {
  if (scope.outermost() && known.call == scope.call()) return known.context;
  if (known.stays && !created.load(std::memory_order_relaxed)) return known.context;
  CUcontext const context = ask(scope);
  const bool stays = context != nullptr && device_served_in(context).has_value() && one_device(scope);
  if (scope.outermost() || stays) known = {scope.call(), context, stays};
  return context;
}

void forget_context() {
  known = {};
}

}  // namespace pooch::interpose

// Noted ahead of the real call.
#define POOCH_LEAVES_CONTEXT(function, parameters, arguments) \
  POOCH_DRIVER_HOOK(function, parameters, arguments, forget_context(); return launch();)
#define POOCH_MAKES_CONTEXT(function, parameters, arguments) \
  POOCH_DRIVER_HOOK(function, parameters, arguments, created.store(true); return launch();)

POOCH_LEAVES_CONTEXT(cuCtxSetCurrent, (CUcontext ctx), (ctx))
POOCH_LEAVES_CONTEXT(cuCtxPushCurrent, (CUcontext ctx), (ctx))
POOCH_LEAVES_CONTEXT(cuCtxPushCurrent_v2, (CUcontext ctx), (ctx))
POOCH_LEAVES_CONTEXT(cuCtxPopCurrent, (CUcontext * pctx), (pctx))
POOCH_LEAVES_CONTEXT(cuCtxPopCurrent_v2, (CUcontext * pctx), (pctx))

POOCH_MAKES_CONTEXT(cuCtxCreate, (CUcontext * pctx, unsigned int flags, CUdevice dev), (pctx, flags, dev))
POOCH_MAKES_CONTEXT(cuCtxCreate_v2, (CUcontext * pctx, unsigned int flags, CUdevice dev), (pctx, flags, dev))
POOCH_MAKES_CONTEXT(cuCtxCreate_v3,
                    (CUcontext * pctx, CUexecAffinityParam* paramsArray, int numParams, unsigned int flags,
                     CUdevice dev),
                    (pctx, paramsArray, numParams, flags, dev))
POOCH_MAKES_CONTEXT(cuCtxCreate_v4,
                    (CUcontext * pctx, CUctxCreateParams* ctxCreateParams, unsigned int flags, CUdevice dev),
                    (pctx, ctxCreateParams, flags, dev))
POOCH_MAKES_CONTEXT(cuCtxFromGreenCtx, (CUcontext * pContext, CUgreenCtx hCtx), (pContext, hCtx))
