// Libraries, modules, kernels and functions: handles over loaded images.
#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "softgpu/driver/api/api.h"

using namespace softgpu;

namespace {

Library* library_of(CUlibrary library) {
  return reinterpret_cast<Library*>(library);
}
Library* library_of(CUmodule module) {
  return reinterpret_cast<Library*>(module);
}
CUfunction function_of(Kernel* kernel) {
  return reinterpret_cast<CUfunction>(&kernel->function);
}
CUkernel kernel_of(Kernel* kernel) {
  return reinterpret_cast<CUkernel>(kernel);
}

// 90 for 9.0.
int capability(const Machine& m) {
  return m.model().compute_major * 10 + m.model().compute_minor;
}

// Kernels are loaded at their first launch, unless the user wants them at once.
bool loads_lazily() {
  const char* const mode = std::getenv("CUDA_MODULE_LOADING");
  return mode == nullptr || mode != std::string_view("EAGER");
}

bool unload(Call& call, Library* library) {
  if (call.m->modules.known(library)) call.m->overheads.unload(call.lock, *library);
  return call.m->modules.unload(library);
}

// Brings a library's kernels to the devices where the user wants them at once. False: no memory is left, and
// the library is gone.
bool load_kernels(Call& call, Library* library) {
  Machine& m = *call.m;
  if (loads_lazily()) return true;
  for (const auto& [context, owner] : m.contexts) {
    for (const auto& [name, kernel] : m.modules.kernels(*library)) {
      if (!context->alive || m.overheads.load(call.lock, *kernel, context->device)) continue;
      unload(call, library);
      return false;
    }
  }
  return true;
}

// `out`: a CUlibrary or a CUmodule. `read`: makes a library of a machine's.
template <class Handle, class Read>
CUresult load(const char* name, unsigned needs, Handle* out, Read read) {
  SOFTGPU_CALL(name, needs, &Model::module);
  Library* library = nullptr;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult status = read(m, &library); status != CUDA_SUCCESS) return status;
  if (!load_kernels(call, library)) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = reinterpret_cast<Handle>(library);
  return CUDA_SUCCESS;
}

auto from_memory(const void* image) {
  return [image](Machine& m, Library** out) { return m.modules.load(image, capability(m), out); };
}
auto from_file(const char* path) {
  return [path](Machine& m, Library** out) { return m.modules.load_file(path, capability(m), out); };
}

Kernel* find(Machine& m, Library* library, const char* name) {
  return m.modules.known(library) && name != nullptr ? m.modules.find(*library, name) : nullptr;
}

// What a query gets: launches take either handle, but each query of names and parameters only its own,
// unless the device is told otherwise.
const Kernel* asked_of(Machine& m, CUfunction handle) {
  Kernel* const kernel = m.modules.kernel(handle);
  if (kernel == nullptr || m.choice.options.queries_of_both) return kernel;
  return function_of(kernel) == handle ? kernel : nullptr;
}
const Kernel* asked_of(Machine& m, CUkernel handle) {
  Kernel* const kernel = m.modules.kernel(handle);
  if (kernel == nullptr || m.choice.options.queries_of_both) return kernel;
  return kernel_of(kernel) == handle ? kernel : nullptr;
}

template <typename Handle>
CUresult get_name(const char* call_name, const char** out, Handle handle) {
  SOFTGPU_CALL(call_name, needs_driver);
  const Kernel* const kernel = asked_of(m, handle);
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = kernel->name;
  return CUDA_SUCCESS;
}

// Past the last parameter: CUDA_ERROR_INVALID_VALUE, which is how callers find the end.
template <typename Handle>
CUresult get_param(const char* name, Handle handle, std::size_t index, std::size_t* offset,
                   std::size_t* size) {
  SOFTGPU_CALL(name, needs_driver);
  const Kernel* const kernel = asked_of(m, handle);
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (offset == nullptr || index >= kernel->params.size()) return CUDA_ERROR_INVALID_VALUE;
  *offset = kernel->params[index].offset;
  if (size != nullptr) *size = kernel->params[index].bytes;
  return CUDA_SUCCESS;
}

CUresult get_attribute(const char* name, int* out, CUfunction_attribute attribute, const void* handle) {
  SOFTGPU_CALL(name, needs_driver);
  const Kernel* const kernel = m.modules.kernel(handle);
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (out == nullptr || attribute < 0 || attribute >= CU_FUNC_ATTRIBUTE_MAX) return CUDA_ERROR_INVALID_VALUE;
  if (const auto set = kernel->attributes.find(attribute); set != kernel->attributes.end()) {
    *out = set->second;
    return CUDA_SUCCESS;
  }
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *out = 1024;
      break;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
      *out = static_cast<int>(kernel->local_bytes);
      break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *out = 32;
      break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      *out = capability(m);
      break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *out = 49152;
      break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      *out = -1;
      break;
    default:
      *out = 0;
      break;
  }
  return CUDA_SUCCESS;
}

CUresult set_attribute(const char* name, const void* handle, CUfunction_attribute attribute, int value) {
  SOFTGPU_CALL(name, needs_driver);
  Kernel* const kernel = m.modules.kernel(handle);
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES &&
      attribute != CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  kernel->attributes[attribute] = value;
  return CUDA_SUCCESS;
}

template <typename Handle, typename Make>
CUresult enumerate(const char* name, Library* library, Handle* out, unsigned capacity, Make make) {
  SOFTGPU_CALL(name, needs_driver);
  if (!m.modules.known(library)) return CUDA_ERROR_INVALID_HANDLE;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  unsigned at = 0;
  for (const auto& [key, kernel] : m.modules.kernels(*library)) {
    if (at == capacity) break;
    out[at++] = make(kernel.get());
  }
  return CUDA_SUCCESS;
}

CUresult count(const char* name, Library* library, unsigned* out) {
  SOFTGPU_CALL(name, needs_driver);
  if (!m.modules.known(library)) return CUDA_ERROR_INVALID_HANDLE;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = static_cast<unsigned>(m.modules.kernels(*library).size());
  return CUDA_SUCCESS;
}

bool known_device(CUdevice device) {
  const Machine* const m = machine();
  return m != nullptr && m->has(device);
}

}  // namespace

SOFTGPU_EXPORT(cuLibraryLoadData)
(CUlibrary* out, const void* code, CUjit_option*, void**, unsigned, CUlibraryOption*, void**, unsigned) {
  return load(__func__, needs_driver, out, from_memory(code));
}
SOFTGPU_EXPORT(cuLibraryLoadFromFile)
(CUlibrary* out, const char* path, CUjit_option*, void**, unsigned, CUlibraryOption*, void**, unsigned) {
  return load(__func__, needs_driver, out, from_file(path));
}

SOFTGPU_EXPORT(cuLibraryUnload)(CUlibrary library) {
  SOFTGPU_CALL(__func__, needs_driver);
  return unload(call, library_of(library)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

SOFTGPU_EXPORT(cuLibraryGetKernel)(CUkernel* out, CUlibrary library, const char* name) {
  SOFTGPU_CALL(__func__, needs_driver);
  if (!m.modules.known(library_of(library))) return CUDA_ERROR_INVALID_HANDLE;
  if (out == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Kernel* const kernel = find(m, library_of(library), name);
  if (kernel == nullptr) return CUDA_ERROR_NOT_FOUND;
  *out = kernel_of(kernel);
  return CUDA_SUCCESS;
}

SOFTGPU_EXPORT(cuLibraryGetKernelCount)(unsigned* out, CUlibrary library) {
  return count(__func__, library_of(library), out);
}

SOFTGPU_EXPORT(cuLibraryEnumerateKernels)(CUkernel* out, unsigned capacity, CUlibrary library) {
  return enumerate(__func__, library_of(library), out, capacity, kernel_of);
}

// A library's module is the library itself here.
SOFTGPU_EXPORT(cuLibraryGetModule)(CUmodule* out, CUlibrary library) {
  SOFTGPU_CALL(__func__);
  if (!m.modules.known(library_of(library))) return CUDA_ERROR_INVALID_HANDLE;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUmodule>(library);
  return CUDA_SUCCESS;
}

// Images carry no variables.
SOFTGPU_EXPORT(cuLibraryGetGlobal)(CUdeviceptr*, size_t*, CUlibrary library, const char*) {
  SOFTGPU_CALL(__func__);
  return m.modules.known(library_of(library)) ? CUDA_ERROR_NOT_FOUND : CUDA_ERROR_INVALID_HANDLE;
}

SOFTGPU_EXPORT(cuKernelGetFunction)(CUfunction* out, CUkernel handle) {
  SOFTGPU_CALL(__func__);
  Kernel* const kernel = m.modules.kernel(handle);
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = function_of(kernel);
  return CUDA_SUCCESS;
}

SOFTGPU_EXPORT(cuKernelGetLibrary)(CUlibrary* out, CUkernel handle) {
  SOFTGPU_CALL(__func__, needs_driver);
  const Kernel* const kernel = m.modules.kernel(handle);
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUlibrary>(kernel->library);
  return CUDA_SUCCESS;
}

SOFTGPU_EXPORT(cuKernelGetName)(const char** out, CUkernel kernel) {
  return get_name(__func__, out, kernel);
}
SOFTGPU_EXPORT(cuFuncGetName)(const char** out, CUfunction function) {
  return get_name(__func__, out, function);
}
SOFTGPU_EXPORT(cuKernelGetParamInfo)(CUkernel kernel, size_t index, size_t* offset, size_t* size) {
  return get_param(__func__, kernel, index, offset, size);
}
SOFTGPU_EXPORT(cuFuncGetParamInfo)(CUfunction function, size_t index, size_t* offset, size_t* size) {
  return get_param(__func__, function, index, offset, size);
}
SOFTGPU_EXPORT(cuFuncGetAttribute)(int* out, CUfunction_attribute attribute, CUfunction function) {
  return get_attribute(__func__, out, attribute, function);
}
SOFTGPU_EXPORT(cuKernelGetAttribute)
(int* out, CUfunction_attribute attribute, CUkernel kernel, CUdevice device) {
  return !known_device(device) ? CUDA_ERROR_INVALID_DEVICE : get_attribute(__func__, out, attribute, kernel);
}
SOFTGPU_EXPORT(cuFuncSetAttribute)(CUfunction function, CUfunction_attribute attribute, int value) {
  return set_attribute(__func__, function, attribute, value);
}
SOFTGPU_EXPORT(cuKernelSetAttribute)
(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device) {
  return !known_device(device) ? CUDA_ERROR_INVALID_DEVICE
                               : set_attribute(__func__, kernel, attribute, value);
}

SOFTGPU_EXPORT(cuFuncGetModule)(CUmodule* out, CUfunction function) {
  SOFTGPU_CALL(__func__, needs_driver);
  const Kernel* const kernel = m.modules.kernel(function);
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUmodule>(kernel->library);
  return CUDA_SUCCESS;
}

// Blocks of so many threads that a multiprocessor holds; registers are no limit here.
SOFTGPU_EXPORT(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags)
(int* blocks, CUfunction function, int block_threads, size_t shared_bytes, unsigned) {
  SOFTGPU_CALL(__func__, needs_driver);
  if (m.modules.kernel(function) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (blocks == nullptr || block_threads <= 0) return CUDA_ERROR_INVALID_VALUE;
  constexpr int warp = 32, most_threads = threads_per_multiprocessor, most_blocks = 32;
  constexpr std::size_t most_shared = 98304;
  const int rounded = (block_threads + warp - 1) / warp * warp;
  const int by_shared = shared_bytes == 0 ? most_blocks : static_cast<int>(most_shared / shared_bytes);
  *blocks = std::min({most_blocks, most_threads / rounded, by_shared});
  return CUDA_SUCCESS;
}
SOFTGPU_EXPORT(cuOccupancyMaxActiveBlocksPerMultiprocessor)
(int* blocks, CUfunction function, int block_threads, size_t shared_bytes) {
  return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, block_threads, shared_bytes,
                                                              CU_OCCUPANCY_DEFAULT);
}

// As many as all multiprocessors hold, a block on each.
SOFTGPU_EXPORT(cuOccupancyMaxActiveClusters)
(int* clusters, CUfunction function, const CUlaunchConfig* config) {
  SOFTGPU_CALL(__func__, needs_driver);
  if (m.modules.kernel(function) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (clusters == nullptr || config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  unsigned blocks = 1;
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const CUlaunchAttribute& one = config->attrs[i];
    if (one.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
      blocks = one.value.clusterDim.x * one.value.clusterDim.y * one.value.clusterDim.z;
  }
  if (blocks == 0) return CUDA_ERROR_INVALID_VALUE;
  *clusters = m.model().multiprocessors / static_cast<int>(blocks);
  return CUDA_SUCCESS;
}

SOFTGPU_EXPORT(cuFuncSetCacheConfig)(CUfunction function, CUfunc_cache) {
  SOFTGPU_CALL(__func__, needs_driver);
  return m.modules.kernel(function) == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

SOFTGPU_EXPORT(cuFuncLoad)(CUfunction function) {
  SOFTGPU_CALL(__func__);
  Kernel* const kernel = m.modules.kernel(function);
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return m.overheads.load(call.lock, *kernel, call.context->device) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

SOFTGPU_EXPORT(cuFuncIsLoaded)(CUfunctionLoadingState* state, CUfunction function) {
  SOFTGPU_CALL(__func__);
  const Kernel* const kernel = m.modules.kernel(function);
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (state == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *state = Overheads::loaded(*kernel, call.context->device) ? CU_FUNCTION_LOADING_STATE_LOADED
                                                            : CU_FUNCTION_LOADING_STATE_UNLOADED;
  return CUDA_SUCCESS;
}

SOFTGPU_EXPORT(cuModuleLoad)(CUmodule* out, const char* path) {
  return load(__func__, needs_context, out, from_file(path));
}
SOFTGPU_EXPORT(cuModuleLoadData)(CUmodule* out, const void* image) {
  return load(__func__, needs_context, out, from_memory(image));
}
SOFTGPU_EXPORT(cuModuleLoadDataEx)(CUmodule* out, const void* image, unsigned, CUjit_option*, void**) {
  return load(__func__, needs_context, out, from_memory(image));
}
SOFTGPU_EXPORT(cuModuleLoadFatBinary)(CUmodule* out, const void* image) {
  return load(__func__, needs_context, out, from_memory(image));
}

SOFTGPU_EXPORT(cuModuleUnload)(CUmodule module) {
  SOFTGPU_CALL(__func__);
  return unload(call, library_of(module)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

SOFTGPU_EXPORT(cuModuleGetFunction)(CUfunction* out, CUmodule module, const char* name) {
  SOFTGPU_CALL(__func__);
  if (!m.modules.known(library_of(module))) return CUDA_ERROR_INVALID_HANDLE;
  if (out == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Kernel* const kernel = find(m, library_of(module), name);
  if (kernel == nullptr) return CUDA_ERROR_NOT_FOUND;
  *out = function_of(kernel);
  return CUDA_SUCCESS;
}

SOFTGPU_EXPORT(cuModuleGetFunctionCount)(unsigned* out, CUmodule module) {
  return count(__func__, library_of(module), out);
}

SOFTGPU_EXPORT(cuModuleEnumerateFunctions)(CUfunction* out, unsigned capacity, CUmodule module) {
  return enumerate(__func__, library_of(module), out, capacity, function_of);
}

SOFTGPU_EXPORT(cuModuleGetGlobal_v2)(CUdeviceptr*, size_t*, CUmodule module, const char*) {
  SOFTGPU_CALL(__func__);
  return m.modules.known(library_of(module)) ? CUDA_ERROR_NOT_FOUND : CUDA_ERROR_INVALID_HANDLE;
}

SOFTGPU_EXPORT(cuModuleGetLoadingMode)(CUmoduleLoadingMode* mode) {
  SOFTGPU_CALL(__func__, needs_driver);
  if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *mode = loads_lazily() ? CU_MODULE_LAZY_LOADING : CU_MODULE_EAGER_LOADING;
  return CUDA_SUCCESS;
}
