// Calls of one device with operands in the memory of another.
#pragma once

#include <span>

#include "core/call.h"
#include "core/function_ref.h"
#include "interpose/hooks/scope.h"
#include "runtime/session/session.h"

namespace pooch::interpose {

// Where several devices are served, the session, other than `own`, that owns some of the memory; else
// nullptr.
runtime::Session* other_owner(const runtime::Session& own, std::span<const Access> accesses);
// A call in one device's stream with operands in the memory of another, whose session is `other`: they are
// there and stay while `launch`, the call in its own session, and its stream's work run. The host waits.
int submit_across(const Scope& scope, const runtime::Session& own, runtime::Session& other, const Call& call,
                  FunctionRef<int()> launch, runtime::Refusal refusal);

}  // namespace pooch::interpose
