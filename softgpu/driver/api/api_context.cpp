// The primary context, and contexts of the program's own.
#include "softgpu/driver/api/api.h"

using namespace softgpu;

namespace {

CUcontext handle(Context* context) {
  return reinterpret_cast<CUcontext>(context);
}

// Null where it is none, or a destroyed one.
Context* find(Machine& m, CUcontext context) {
  const auto found = m.contexts.find(reinterpret_cast<Context*>(context));
  return found == m.contexts.end() || !found->second->alive ? nullptr : found->second.get();
}

CUresult create(const char* name, CUcontext* out, unsigned flags, CUdevice device) {
  SOFTGPU_CALL(name, needs_driver, &Model::context);
  if (out == nullptr || (flags & ~CU_CTX_FLAGS_MASK) != 0) return CUDA_ERROR_INVALID_VALUE;
  if (!m.has(device)) return CUDA_ERROR_INVALID_DEVICE;
  Context* const context = m.create_context(device, flags, false);
  context_stack().push_back(context);
  *out = handle(context);
  return CUDA_SUCCESS;
}

CUresult destroy(const char* name, CUcontext which) {
  SOFTGPU_CALL(name, needs_driver | even_after_error);
  Context* const context = find(m, which);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (context->primary) return CUDA_ERROR_INVALID_CONTEXT;
  m.destroy_context(call.lock, context, call.name, call.number);
  auto& stack = context_stack();
  if (!stack.empty() && stack.back() == context) stack.pop_back();
  return CUDA_SUCCESS;
}

CUresult push(const char* name, CUcontext which) {
  SOFTGPU_CALL(name, needs_driver | even_after_error);
  Context* const context = find(m, which);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  context_stack().push_back(context);
  return CUDA_SUCCESS;
}

CUresult pop(const char* name, CUcontext* out) {
  SOFTGPU_CALL(name, needs_driver | even_after_error);
  auto& stack = context_stack();
  if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (out != nullptr) *out = handle(stack.back());
  stack.pop_back();
  return CUDA_SUCCESS;
}

CUresult release_primary(const char* name, CUdevice device) {
  SOFTGPU_CALL(name, needs_driver | even_after_error);
  if (!m.has(device)) return CUDA_ERROR_INVALID_DEVICE;
  Context* const primary = m.primaries[static_cast<std::size_t>(device)].context;
  if (primary == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (--primary->retained == 0) m.destroy_context(call.lock, primary, call.name, call.number);
  return CUDA_SUCCESS;
}

CUresult reset_primary(const char* name, CUdevice device) {
  SOFTGPU_CALL(name, needs_driver | even_after_error);
  if (!m.has(device)) return CUDA_ERROR_INVALID_DEVICE;
  Context* const primary = m.primaries[static_cast<std::size_t>(device)].context;
  if (primary != nullptr) m.destroy_context(call.lock, primary, call.name, call.number);
  return CUDA_SUCCESS;
}

CUresult set_primary_flags(const char* name, CUdevice device, unsigned flags) {
  SOFTGPU_CALL(name, needs_driver);
  if (!m.has(device)) return CUDA_ERROR_INVALID_DEVICE;
  if ((flags & ~CU_CTX_FLAGS_MASK) != 0) return CUDA_ERROR_INVALID_VALUE;
  Machine::Primary& primary = m.primaries[static_cast<std::size_t>(device)];
  primary.flags = flags;
  if (primary.context != nullptr) primary.context->flags = flags;
  return CUDA_SUCCESS;
}

CUresult synchronize(const char* name, CUcontext which) {
  SOFTGPU_CALL(name, which == nullptr ? needs_context : needs_driver, &Model::synchronize);
  Context* const context = which == nullptr ? call.context : find(m, which);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  m.scheduler.wait_context(call.lock, context);
  return call.waited();
}

}  // namespace

SOFTGPU_EXPORT(cuDevicePrimaryCtxRetain)(CUcontext* out, CUdevice device) {
  SOFTGPU_CALL(__func__, needs_driver);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!m.has(device)) return CUDA_ERROR_INVALID_DEVICE;
  Machine::Primary& primary = m.primaries[static_cast<std::size_t>(device)];
  if (primary.context == nullptr) {
    m.scheduler.now += m.model().context;
    primary.context = m.create_context(device, primary.flags, true);
  }
  ++primary.context->retained;
  *out = handle(primary.context);
  return CUDA_SUCCESS;
}

SOFTGPU_EXPORT(cuDevicePrimaryCtxRelease)(CUdevice device) {
  return release_primary(__func__, device);
}
SOFTGPU_EXPORT(cuDevicePrimaryCtxRelease_v2)(CUdevice device) {
  return release_primary(__func__, device);
}
SOFTGPU_EXPORT(cuDevicePrimaryCtxReset)(CUdevice device) {
  return reset_primary(__func__, device);
}
SOFTGPU_EXPORT(cuDevicePrimaryCtxReset_v2)(CUdevice device) {
  return reset_primary(__func__, device);
}
SOFTGPU_EXPORT(cuDevicePrimaryCtxSetFlags)(CUdevice device, unsigned flags) {
  return set_primary_flags(__func__, device, flags);
}
SOFTGPU_EXPORT(cuDevicePrimaryCtxSetFlags_v2)(CUdevice device, unsigned flags) {
  return set_primary_flags(__func__, device, flags);
}

SOFTGPU_EXPORT(cuDevicePrimaryCtxGetState)(CUdevice device, unsigned* flags, int* active) {
  SOFTGPU_CALL(__func__, needs_driver | even_after_error);
  if (!m.has(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (flags == nullptr || active == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = m.primaries[static_cast<std::size_t>(device)].flags;
  *active = m.primaries[static_cast<std::size_t>(device)].context != nullptr;
  return CUDA_SUCCESS;
}

SOFTGPU_EXPORT(cuCtxCreate_v2)(CUcontext* out, unsigned flags, CUdevice device) {
  return create(__func__, out, flags, device);
}
SOFTGPU_EXPORT(cuCtxCreate_v3)
(CUcontext* out, CUexecAffinityParam* affinities, int count, unsigned flags, CUdevice device) {
  if (affinities != nullptr && count > 0) return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
  return create(__func__, out, flags, device);
}
SOFTGPU_EXPORT(cuCtxCreate_v4)(CUcontext* out, CUctxCreateParams* params, unsigned flags, CUdevice device) {
  if (params != nullptr && (params->numExecAffinityParams > 0 || params->cigParams != nullptr)) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  return create(__func__, out, flags, device);
}
SOFTGPU_EXPORT(cuCtxDestroy)(CUcontext context) {
  return destroy(__func__, context);
}
SOFTGPU_EXPORT(cuCtxDestroy_v2)(CUcontext context) {
  return destroy(__func__, context);
}
SOFTGPU_EXPORT(cuCtxPushCurrent)(CUcontext context) {
  return push(__func__, context);
}
SOFTGPU_EXPORT(cuCtxPushCurrent_v2)(CUcontext context) {
  return push(__func__, context);
}
SOFTGPU_EXPORT(cuCtxPopCurrent)(CUcontext* out) {
  return pop(__func__, out);
}
SOFTGPU_EXPORT(cuCtxPopCurrent_v2)(CUcontext* out) {
  return pop(__func__, out);
}

SOFTGPU_EXPORT(cuCtxSetCurrent)(CUcontext which) {
  SOFTGPU_CALL(__func__, needs_driver | even_after_error);
  auto& stack = context_stack();
  if (which == nullptr) {
    if (!stack.empty()) stack.pop_back();
    return CUDA_SUCCESS;
  }
  Context* const context = find(m, which);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (stack.empty()) {
    stack.push_back(context);
  } else {
    stack.back() = context;
  }
  return CUDA_SUCCESS;
}

SOFTGPU_EXPORT(cuCtxGetCurrent)(CUcontext* out) {
  SOFTGPU_CALL(__func__, needs_driver | even_after_error);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = handle(call.context);
  return CUDA_SUCCESS;
}

SOFTGPU_EXPORT(cuCtxGetDevice)(CUdevice* device) {
  SOFTGPU_CALL(__func__, needs_context | even_after_error);
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = call.context->device;
  return CUDA_SUCCESS;
}

SOFTGPU_EXPORT(cuCtxGetDevice_v2)(CUdevice* device, CUcontext which) {
  SOFTGPU_CALL(__func__, (which == nullptr ? needs_context : needs_driver) | even_after_error);
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Context* const context = which == nullptr ? call.context : find(m, which);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *device = context->device;
  return CUDA_SUCCESS;
}

SOFTGPU_EXPORT(cuCtxGetFlags)(unsigned* flags) {
  SOFTGPU_CALL(__func__);
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = call.context->flags;
  return CUDA_SUCCESS;
}

SOFTGPU_EXPORT(cuCtxSetFlags)(unsigned flags) {
  SOFTGPU_CALL(__func__);
  if ((flags & ~CU_CTX_FLAGS_MASK) != 0) return CUDA_ERROR_INVALID_VALUE;
  call.context->flags = flags;
  return CUDA_SUCCESS;
}

SOFTGPU_EXPORT(cuCtxGetId)(CUcontext which, unsigned long long* id) {
  SOFTGPU_CALL(__func__, which == nullptr ? needs_context : needs_driver);
  Context* const context = which == nullptr ? call.context : find(m, which);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *id = context->id;
  return CUDA_SUCCESS;
}

SOFTGPU_EXPORT(cuCtxGetApiVersion)(CUcontext which, unsigned* version) {
  SOFTGPU_CALL(__func__, needs_driver);
  if (which != nullptr && find(m, which) == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = 3020;
  return CUDA_SUCCESS;
}

SOFTGPU_EXPORT(cuCtxSynchronize)() {
  return synchronize(__func__, nullptr);
}
SOFTGPU_EXPORT(cuCtxSynchronize_v2)(CUcontext context) {
  return synchronize(__func__, context);
}

SOFTGPU_EXPORT(cuCtxGetStreamPriorityRange)(int* least, int* greatest) {
  SOFTGPU_CALL(__func__);
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return CUDA_SUCCESS;
}

SOFTGPU_EXPORT(cuCtxGetLimit)(size_t* value, CUlimit limit) {
  SOFTGPU_CALL(__func__);
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const auto set = call.context->limits.find(limit); set != call.context->limits.end()) {
    *value = set->second;
    return CUDA_SUCCESS;
  }
  switch (limit) {
    case CU_LIMIT_STACK_SIZE:
      *value = 1024;
      return CUDA_SUCCESS;
    case CU_LIMIT_PRINTF_FIFO_SIZE:
      *value = std::size_t{1} << 20;
      return CUDA_SUCCESS;
    case CU_LIMIT_MALLOC_HEAP_SIZE:
      *value = std::size_t{8} << 20;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_UNSUPPORTED_LIMIT;
  }
}

// Kernels here have no stack, no printf and no heap; the number is kept.
SOFTGPU_EXPORT(cuCtxSetLimit)(CUlimit limit, size_t value) {
  SOFTGPU_CALL(__func__);
  if (limit != CU_LIMIT_STACK_SIZE && limit != CU_LIMIT_PRINTF_FIFO_SIZE &&
      limit != CU_LIMIT_MALLOC_HEAP_SIZE) {
    return CUDA_ERROR_UNSUPPORTED_LIMIT;
  }
  call.context->limits[limit] = value;
  return CUDA_SUCCESS;
}

// No profiler listens.
SOFTGPU_EXPORT(cuProfilerStart)() {
  SOFTGPU_CALL(__func__);
  return CUDA_SUCCESS;
}

SOFTGPU_EXPORT(cuProfilerStop)() {
  SOFTGPU_CALL(__func__);
  return CUDA_SUCCESS;
}
