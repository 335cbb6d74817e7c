// The session for a call of the program's: one per device, each with the cap, all together with the host
// budget. It is opened by the first call that needs one, and belongs to the context in which the device was
// used first. Calls in other contexts pass through.
#pragma once

#include "interpose/hooks/driver_api.h"

#include <cstdint>

#include "interpose/hooks/scope.h"
#include "runtime/session/session.h"

namespace pooch::interpose {

// The session for a driver call of the program, opened if need be. nullptr: pass the call through.
runtime::Session* session_for_driver_call(const Scope& scope);
// The same for a call into cuDNN or cuBLAS, whose own runtime makes the primary context current where none
// is: this does it ahead of them, because making operands resident needs a context.
runtime::Session* session_for_library_call(const Scope& scope);

// The program lets `peer` into memory of `device`: into what is managed there as well, now and later.
void let_in(const Scope& scope, CUdevice device, CUdevice peer);

// `then` runs when the first session has been opened, before anything is served. Set before cuInit.
void when_first_opened(void (*then)(const Config& config));
// Calls that came in contexts that are not served.
std::uint64_t foreign_calls();

}  // namespace pooch::interpose
