#include "softgpu/driver/api/api.h"

#include <pthread.h>

#include "softgpu/driver/machine/delay.h"

namespace softgpu {

Call::Call(const char* called, unsigned needs, Nanoseconds Model::*cost) : name(called), m(machine()) {
  if (in_host_function()) {
    status = CUDA_ERROR_NOT_PERMITTED;
    return;
  }
  if (m == nullptr) {
    status = CUDA_ERROR_NOT_INITIALIZED;
    return;
  }
  delay(called);
  lock = Lock(m->scheduler.mutex);
  if (m->exited) {
    status = CUDA_ERROR_DEINITIALIZED;
    return;
  }
  number = ++m->statistics.api_calls;
  ++m->statistics.calls[name];
  began = m->scheduler.now;
  const bool profiled = activity_feed().wants(activity_calls);
  noted = profiled && ActivityFeed::runtime_call() == 0;
  m->scheduler.now += m->model().api + (cost != nullptr ? m->model().*cost : 0);
  if (profiled) m->scheduler.now += m->model().profiled_call;
  const std::vector<Context*>& stack = context_stack();
  context = stack.empty() ? nullptr : stack.back();
  if (m->violations.sticky() && (needs & even_after_error) == 0) {
    status = CUDA_ERROR_ILLEGAL_ADDRESS;
  } else if ((needs & needs_context) != 0) {
    if (context == nullptr) {
      status = CUDA_ERROR_INVALID_CONTEXT;
    } else if (!context->alive) {
      status = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    }
  }
  if (status == CUDA_SUCCESS && !m->captures.admit(name)) status = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  m->call_paths.note(name, number);
  if (!m->failure.strikes(name, number)) return;
  const bool stays = m->failure.code() == CUDA_ERROR_ILLEGAL_ADDRESS;
  if (stays) m->break_down(lock);
  if (stays && (needs & even_after_error) != 0)
    m->failure.succeeds();
  else
    status = m->failure.code();
}

Call::~Call() {
  if (!noted) return;
  activity_feed().note({name, static_cast<std::uint32_t>(number), began, m->scheduler.now, status});
}

WorkActivity Call::activity(ActivityKinds kind) const {
  WorkActivity activity = {};
  activity.kind = kind;
  const std::uint32_t of_runtime = ActivityFeed::runtime_call();
  activity.correlation = of_runtime != 0 ? of_runtime : static_cast<std::uint32_t>(number);
  activity.context = static_cast<std::uint32_t>(context->id);
  activity.thread = static_cast<std::uint32_t>(pthread_self());
  return activity;
}

Work Call::work() const {
  Work work;
  work.by.name = name;
  work.by.call = number;
  return work;
}

}  // namespace softgpu
