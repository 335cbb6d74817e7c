// What every exported function shares. An export takes the one lock, is counted and costs time, and fails
// where the driver is not up, the context is gone, the caller is a host function, or a violation has made all
// calls fail. Then it asks the machine; it holds no logic of its own beyond reading its arguments.
#pragma once

// softgpu/meson.build has cuda.h declare all prototypes, the older ABIs and the per-thread variants included,
// so that the compiler compares them with ours.
#include <cuda.h>
#include <cudaProfiler.h>

#include "softgpu/driver/api/activity.h"
#include "softgpu/driver/machine/machine.h"

// Defines an exported function, and a hidden name for the very same code, which proc_address.cpp uses: a
// preloaded library that exports the name too must not get between.
#define SOFTGPU_EXPORT(name)                                                                      \
  extern "C" __attribute__((visibility("hidden"), alias(#name))) decltype(::name) softgpu_##name; \
  extern "C" __attribute__((visibility("default"))) CUresult name

// Declares that hidden name where another file calls the function.
#define SOFTGPU_OWN(name) extern "C" __attribute__((visibility("hidden"))) decltype(::name) softgpu_##name;

namespace softgpu {

enum Needs : unsigned {
  needs_driver = 0,      // cuInit
  needs_context = 1,     // and a current context
  even_after_error = 2,  // works after a violation
};

// One call: holds the lock from construction on.
class Call {
 public:
  explicit Call(const char* name, unsigned needs = needs_context, Nanoseconds Model::*cost = nullptr);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  CUresult status = CUDA_SUCCESS;  // where not success, return it at once
  const char* name;
  std::uint64_t number = 0;
  Machine* m = nullptr;
  Context* context = nullptr;
  Lock lock;
  bool noted = false;  // for a profiler, at its end
  Nanoseconds began = 0;

  Memory::Caller caller() const { return {name, number, context, context != nullptr ? context->device : 0}; }
  Access host_access() const { return m->scheduler.host_access(name, number); }
  Work work() const;
  // What is noted of its work while a profiler listens.
  WorkActivity activity(ActivityKinds kind) const;
  // The result of a call that has waited for the device.
  CUresult waited() const { return m->violations.sticky() ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS; }
};

#define SOFTGPU_CALL(...)                              \
  Call call(__VA_ARGS__);                              \
  if (call.status != CUDA_SUCCESS) return call.status; \
  [[maybe_unused]] Machine& m = *call.m

// What every call on one stream begins with.
#define SOFTGPU_STREAM_CALL(name, per_thread, cost)                   \
  SOFTGPU_CALL(name, needs_context, cost);                            \
  const StreamPtr stream = m.stream(which, per_thread, call.context); \
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE

// An export and its per-thread variant.
#define SOFTGPU_BOTH(function, variant, inner, parameters, ...) \
  SOFTGPU_EXPORT(function) parameters {                         \
    return inner(#function, false, __VA_ARGS__);                \
  }                                                             \
  SOFTGPU_EXPORT(variant) parameters {                          \
    return inner(#variant, true, __VA_ARGS__);                  \
  }

}  // namespace softgpu
