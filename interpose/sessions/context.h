// The calling thread's context: asked of the driver, or known without asking.
//
// Where a process sees one device and has created no context, nothing but that device's primary context can
// be current on a thread, or nothing at all. So a thread that was found in a session's context stays in it
// until a call that may leave a thread without one, and all ways to such a call lead through
// driver/context.cpp (hooks/lookup.cpp). The runtime's own ways past the exported functions lead to other
// devices' primary contexts only; where there are several devices or contexts, the driver is asked once in
// every call of the program's.
#pragma once

#include "interpose/hooks/driver_api.h"

#include "core/function_ref.h"
#include "interpose/hooks/scope.h"
#include "runtime/session/session.h"

namespace pooch::interpose {

// nullptr without one. The driver is asked once in a call of the program's at most.
CUcontext current_context(const Scope& scope);
// It may be another one from now on.
void forget_context();
// The program creates a context that is no device's primary one.
void note_context_created();

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

// visit(session) for all, in the order in which they were opened, each with its context current.
void each_session(const Scope& scope, FunctionRef<void(runtime::Session&)> visit);

}  // namespace pooch::interpose
