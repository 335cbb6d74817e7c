#include "interpose/sessions/context.h"

#include <atomic>

#include "interpose/hooks/libraries.h"
#include "interpose/sessions/configuration.h"
#include "interpose/sessions/served.h"

namespace pooch::interpose {
namespace {

POOCH_REAL(cuda, cuCtxGetCurrent);
POOCH_REAL(cuda, cuCtxPushCurrent_v2);
POOCH_REAL(cuda, cuCtxPopCurrent_v2);
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
  runtime::Session* const session = open_session();
  return session != nullptr ? context_of(*session) : nullptr;
}

}  // namespace

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

void note_context_created() {
  created.store(true);
}

// With one device nobody need look: what is done in its name is done in its context.
InContext::InContext(const Scope& scope, const runtime::Session& session)
    : InContext(scope, served().size() < 2 ? nullptr : context_of(session)) {}

InContext::InContext(const Scope& scope, CUcontext wanted) : scope_(scope) {
  if (wanted == nullptr || served().size() < 2) return;
  auto* const get_current = real_cuCtxGetCurrent.get(scope);
  auto* const push = real_cuCtxPushCurrent_v2.get(scope);
  CUcontext current = nullptr;
  if (get_current == nullptr || push == nullptr || get_current(&current) != CUDA_SUCCESS || current == wanted)
    return;
  pushed_ = push(wanted) == CUDA_SUCCESS;
}

InContext::~InContext() {
  CUcontext popped = nullptr;
  if (!pushed_) return;
  if (auto* const pop = real_cuCtxPopCurrent_v2.get(scope_)) (void)pop(&popped);
}

[[gnu::hot]] void each_session(const Scope& scope, FunctionRef<void(runtime::Session&)> visit) {
  if (stood_down()) return;
  for (const Served* const one : served()) {
    const InContext there(scope, *one->session);
    visit(*one->session);
  }
}

}  // namespace pooch::interpose
