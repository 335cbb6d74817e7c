// The life of pooch in one process: configured at the first cuInit, a session from the first call that needs
// one, a summary at exit, and inert in a forked child.
//
// One session per process: it belongs to the context that was current when it opened, whatever its device:
// each rank of a job has one of its own. Calls in other contexts pass through.
#pragma once

#include "interpose/driver_api.h"

#include <cstdint>
#include <optional>
#include <span>

#include "core/call.h"
#include "core/config.h"
#include "interpose/scope.h"
#include "runtime/session.h"

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
// The session if one is open, whatever context is current.
runtime::Session* open_session();

// The context that the session belongs to, and its device; nullptr and 0 without a session.
CUcontext context_of_session();
CUdevice device_of_session();

// What this process was configured with; nullptr before cuInit or where pooch is inert.
const Config* configuration();

// --- what a library does inside a wrapped call

// The session's mutex is held around the real call, so allocations made in there are noted and accounted for
// afterwards. True exactly for calls that the library makes itself, not for those that the driver makes
// below.
bool directly_inside_submit(const Scope& scope);
void note_allocated_inside(Address address, std::uint64_t bytes);
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

// --- small helpers
CUresult to_cuda(const Error& error);

// StreamHandle::legacy or per_thread stand for a zero handle, by the ABI it was given to.
inline StreamHandle stream_of(const void* stream, StreamHandle for_zero = StreamHandle::legacy) {
  return stream == nullptr ? for_zero : StreamHandle{reinterpret_cast<std::uintptr_t>(stream)};
}

}  // namespace pooch::interpose
