#include "tests/preload/launch_spy.h"

#define __CUDA_API_VERSION_INTERNAL 1  // every ABI under its own name
#include <cuda.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <set>

namespace {

struct Known {
  std::mutex mutex;
  std::map<const void*, const char*> kinds;
  std::set<const void*> launched;
};
Known& known() {
  static auto* const all = new Known;  // launches may come after static destructors
  return *all;
}

template <class Function>
Function* of_driver(const char* name) {
  static void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  return reinterpret_cast<Function*>(next_symbol(driver, name));
}

template <class Handle>
int parameters(const char* query, void* handle) {
  auto* const get = of_driver<CUresult(Handle, std::size_t, std::size_t*, std::size_t*)>(query);
  if (get == nullptr) return -CUDA_ERROR_NOT_FOUND;
  std::size_t offset = 0, bytes = 0;
  int count = 0;
  CUresult end = CUDA_SUCCESS;
  while ((end = get(static_cast<Handle>(handle), static_cast<std::size_t>(count), &offset, &bytes)) ==
         CUDA_SUCCESS)
    ++count;
  return count > 0 || end == CUDA_ERROR_INVALID_VALUE ? count : -static_cast<int>(end);
}

void note_launch(const char* function, CUfunction handle) {
  Known& all = known();
  const std::scoped_lock lock(all.mutex);
  if (!all.launched.insert(handle).second) return;
  const auto found = all.kinds.find(handle);
  char line[256];
  const int length = std::snprintf(line, sizeof line, "launch %s %s %d %d\n", function,
                                   found != all.kinds.end() ? found->second : "unknown",
                                   parameters<CUfunction>("cuFuncGetParamInfo", handle),
                                   parameters<CUkernel>("cuKernelGetParamInfo", handle));
  write_line(line, length);
}

void note_kind(CUresult status, const void* handle, const char* kind) {
  if (status != CUDA_SUCCESS) return;
  const std::scoped_lock lock(known().mutex);
  known().kinds[handle] = kind;
  known().launched.erase(handle);  // a handle may come to mean another kernel
}

// [1]: of the ABI whose default stream is the thread's own.
decltype(cuLaunchKernel)* launch[2] = {};
decltype(cuLaunchKernelEx)* launch_ex[2] = {};
decltype(cuModuleGetFunction)* module_function = nullptr;
decltype(cuKernelGetFunction)* kernel_function = nullptr;
decltype(cuLibraryGetKernel)* library_kernel = nullptr;
decltype(cuModuleEnumerateFunctions)* module_functions = nullptr;
decltype(cuLibraryEnumerateKernels)* library_kernels = nullptr;

template <int abi>
CUresult see_launch(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                    unsigned bz, unsigned shared, CUstream stream, void** params, void** extra) {
  note_launch("cuLaunchKernel", f);
  return launch[abi](f, gx, gy, gz, bx, by, bz, shared, stream, params, extra);
}
template <int abi>
CUresult see_launch_ex(const CUlaunchConfig* config, CUfunction f, void** params, void** extra) {
  note_launch("cuLaunchKernelEx", f);
  return launch_ex[abi](config, f, params, extra);
}
CUresult see_module_function(CUfunction* out, CUmodule module, const char* name) {
  const CUresult status = module_function(out, module, name);
  note_kind(status, status == CUDA_SUCCESS ? *out : nullptr, "function");
  return status;
}
CUresult see_kernel_function(CUfunction* out, CUkernel kernel) {
  const CUresult status = kernel_function(out, kernel);
  note_kind(status, status == CUDA_SUCCESS ? *out : nullptr, "function");
  return status;
}
CUresult see_library_kernel(CUkernel* out, CUlibrary library, const char* name) {
  const CUresult status = library_kernel(out, library, name);
  note_kind(status, status == CUDA_SUCCESS ? *out : nullptr, "kernel");
  return status;
}

CUresult see_module_functions(CUfunction* out, unsigned count, CUmodule module) {
  const CUresult status = module_functions(out, count, module);
  for (unsigned i = 0; status == CUDA_SUCCESS && i < count; ++i) note_kind(status, out[i], "function");
  return status;
}
CUresult see_library_kernels(CUkernel* out, unsigned count, CUlibrary library) {
  const CUresult status = library_kernels(out, count, library);
  for (unsigned i = 0; status == CUDA_SUCCESS && i < count; ++i) note_kind(status, out[i], "kernel");
  return status;
}

template <class Function>
void* stand_before(Function*& next, void* found, Function* own) {
  // Asked again, through the spy, it may be the own one.
  if (found != reinterpret_cast<void*>(own)) next = reinterpret_cast<Function*>(found);
  return reinterpret_cast<void*>(own);
}

}  // namespace

void* watched(const char* name, bool per_thread, void* found) {
  const auto is = [name](const char* base) {
    const std::size_t length = std::strlen(base);
    return std::strncmp(name, base, length) == 0 &&
           (name[length] == '\0' || std::strcmp(name + length, "_ptsz") == 0);
  };
  if (is("cuLaunchKernel"))
    return per_thread ? stand_before(launch[1], found, &see_launch<1>)
                      : stand_before(launch[0], found, &see_launch<0>);
  if (is("cuLaunchKernelEx"))
    return per_thread ? stand_before(launch_ex[1], found, &see_launch_ex<1>)
                      : stand_before(launch_ex[0], found, &see_launch_ex<0>);
  if (is("cuModuleGetFunction")) return stand_before(module_function, found, &see_module_function);
  if (is("cuKernelGetFunction")) return stand_before(kernel_function, found, &see_kernel_function);
  if (is("cuLibraryGetKernel")) return stand_before(library_kernel, found, &see_library_kernel);
  if (is("cuModuleEnumerateFunctions")) return stand_before(module_functions, found, &see_module_functions);
  if (is("cuLibraryEnumerateKernels")) return stand_before(library_kernels, found, &see_library_kernels);
  return nullptr;
}
