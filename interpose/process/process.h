// The life of pooch in one process: configured at the first cuInit, a session from the first call that needs
// one, a summary at exit, and inert in a forked child.
//
// One session per device, each with the cap, all together with the host budget: it belongs to the context in
// which the device was used first. Calls in other contexts pass through.
#pragma once

#include "interpose/hooks/driver_api.h"

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>

#include "core/call.h"
#include "core/config.h"
#include "core/function_ref.h"
#include "interpose/sessions/pool_accounts.h"
#include "interpose/hooks/scope.h"
#include "runtime/session/session.h"

namespace pooch::interpose {

// Called by the cuInit hook around the real call. A value that cannot be understood ends the process, exit
// code 2.
void before_driver_init(const Scope& scope);
void after_driver_init(const Scope& scope);

// The session for a driver call of the program, opened if need be. nullptr: pass the call through.
runtime::Session* session_for_driver_call(const Scope& scope);
// The same for a call into cuDNN or cuBLAS, whose own runtime makes the primary context current where none
// is: this does it ahead of them, because making operands resident needs a context.
runtime::Session* session_for_library_call(const Scope& scope);
// Any session that is open, whatever context is current; nullptr: none.
runtime::Session* open_session();
// The one whose managed memory `address` is; nullptr: nobody's.
runtime::Session* session_owning(Address address);
// The one that serves the device; nullptr: none.
runtime::Session* session_on(CUdevice device);
// visit(session) for all, in the order in which they were opened, each with its context current.
void each_session(const Scope& scope, FunctionRef<void(runtime::Session&)> visit);

// The context that a session belongs to, and its device.
CUcontext context_of(const runtime::Session& session);
CUdevice device_of(const runtime::Session& session);
// The device that is served in this context; nothing where none is.
std::optional<CUdevice> device_served_in(CUcontext context);

// While it lives the context, or the session's, is current on this thread; null: whichever is.
class InContext {
 public:
  InContext(const Scope& scope, const runtime::Session& session);
  InContext(const Scope& scope, CUcontext context);
  ~InContext();
  InContext(const InContext&) = delete;
  InContext& operator=(const InContext&) = delete;

 private:
  const Scope& scope_;
  bool pushed_ = false;
};

// A call in one device's stream with operands in the memory of another, whose session is `other`: they are
// there and stay while `launch`, the call in its own session, and its stream's work run. The host waits.
int submit_across(const Scope& scope, const runtime::Session& own, runtime::Session& other, const Call& call,
                  FunctionRef<int()> launch, runtime::Refusal refusal);
// Whether several devices are served; then the session, other than `own`, that owns some of the memory.
runtime::Session* other_owner(const runtime::Session& own, std::span<const Access> accesses);

// The program lets `peer` into memory of `device`: into what is managed there as well, now and later.
void let_in(const Scope& scope, CUdevice device, CUdevice peer);

// What this process was configured with; nullptr before cuInit or where pooch is inert.
const Config* configuration();

// --- what a library does inside a wrapped call

// The first session's, the only one where calls may pass; nullptr: there is none, or pooch is inert.
extern constinit std::atomic<runtime::Watch*> first_watch;

// The wrapped call that the thread is in.
struct Inside {
  int depth = 0;       // of its scope; 0: in none
  bool noted = false;  // it has allocated or freed something
  std::span<const Access> operands;
};
[[gnu::tls_model("initial-exec")]] inline constinit thread_local Inside inside{};

// What was noted inside of the call that has ended is the session's from now on.
void account_for_noted(runtime::Session& session);

// The session's mutex is held around the real call, so allocations made in there are noted and accounted for
// afterwards. True exactly for calls that the library makes itself, not for those that the driver makes
// below.
inline bool directly_inside_submit(const Scope& scope) {
  return inside.depth != 0 && scope.depth() == inside.depth + 1;
}
// Whether the thread is anywhere inside of a submit.
inline bool inside_submit() {
  return inside.depth != 0;
}
void note_allocated_inside(Address address, std::uint64_t bytes, PoolAccount* pool);
void note_freed_inside(Address address);
// The live managed allocation at `address`, also while this thread holds the session's mutex; then what the
// call itself told of it.
std::optional<runtime::Extent> find_allocation(const runtime::Session& session, Address address);

// Brackets Session::submit; the destructor hands over what was noted.
class SubmitGuard {
 public:
  SubmitGuard(const Scope& scope, runtime::Session& session, std::span<const Access> operands);
  ~SubmitGuard();
  SubmitGuard(const SubmitGuard&) = delete;
  SubmitGuard& operator=(const SubmitGuard&) = delete;

 private:
  runtime::Session& session_;
};

// A call of which nobody need know, as long as this lives; false: somebody may. The program's launches all
// come through here first: a few lines of memory decide, whatever session there is and context is current.
class Unwatched {
 public:
  explicit Unwatched(const Scope& scope) {
    runtime::Watch* const watch = first_watch.load(std::memory_order_acquire);
    if (watch == nullptr || !scope.outermost() || !watch->lets_pass()) return;
    passes_ = watch;
    inside.depth = scope.depth();
  }
  ~Unwatched() {
    if (passes_ == nullptr) return;
    inside.depth = 0;
    passes_->passed();
    if (!inside.noted) return;
    if (runtime::Session* const session = open_session()) account_for_noted(*session);
  }
  Unwatched(const Unwatched&) = delete;
  Unwatched& operator=(const Unwatched&) = delete;
  explicit operator bool() const { return passes_ != nullptr; }

 private:
  runtime::Watch* passes_ = nullptr;
};

// --- small helpers

// StreamHandle::legacy or per_thread stand for a zero handle, by the ABI it was given to.
inline StreamHandle stream_of(const void* stream, StreamHandle for_zero = StreamHandle::legacy) {
  return stream == nullptr ? for_zero : StreamHandle{reinterpret_cast<std::uintptr_t>(stream)};
}

}  // namespace pooch::interpose
