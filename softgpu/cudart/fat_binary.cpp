#include "softgpu/cudart/fat_binary.h"

#include <vector_types.h>

#include <map>
#include <mutex>

#include "softgpu/cudart/export.h"

namespace softgpu::cudart {
namespace {

// `wrapper` is what nvcc put into .nvFatBinSegment; the driver reads it.
struct FatBinary {
  const void* wrapper = nullptr;
  CUlibrary library = nullptr;  // once loaded
};

struct Function {
  FatBinary* from;
  const char* name;  // mangled
  CUkernel kernel = nullptr;
};

struct Registry {
  std::mutex mutex;
  std::map<const void*, Function> functions;  // by the host function
};

// Registration happens in initialisers of other libraries, and use up to the end of the process.
Registry& registry() {
  static auto* const made = new Registry;
  return *made;
}

cudaError_t load(FatBinary& binary) {
  if (binary.library != nullptr) return cudaSuccess;
  return call(driver().LibraryLoadData, &binary.library, binary.wrapper, static_cast<CUjit_option*>(nullptr),
              static_cast<void**>(nullptr), 0U, static_cast<CUlibraryOption*>(nullptr),
              static_cast<void**>(nullptr), 0U);
}

}  // namespace

cudaError_t kernel_of(const void* host_function, CUkernel& kernel) {
  if (cudaError_t error = enter_context(); error != cudaSuccess) return error;
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  const auto found = all.functions.find(host_function);
  if (found == all.functions.end()) return cudaErrorInvalidDeviceFunction;
  Function& function = found->second;
  if (function.kernel == nullptr) {
    if (cudaError_t error = load(*function.from); error != cudaSuccess) return error;
    const CUresult result =
        driver().LibraryGetKernel(&function.kernel, function.from->library, function.name);
    if (result != CUDA_SUCCESS)
      return result == CUDA_ERROR_NOT_FOUND ? cudaErrorInvalidDeviceFunction : to_error(result);
  }
  kernel = function.kernel;
  return cudaSuccess;
}

}  // namespace softgpu::cudart

using namespace softgpu::cudart;

SOFTGPU_CUDART void** __cudaRegisterFatBinary(void* wrapper) {
  return reinterpret_cast<void**>(new FatBinary{wrapper});
}
SOFTGPU_CUDART void __cudaRegisterFatBinaryEnd(void**) {}

// Handles of the driver's outlive this: a program may be launching in another thread while it exits.
SOFTGPU_CUDART void __cudaUnregisterFatBinary(void** handle) {
  const auto* const binary = reinterpret_cast<FatBinary*>(handle);
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  std::erase_if(all.functions, [&](const auto& entry) { return entry.second.from == binary; });
  delete binary;
}

SOFTGPU_CUDART char __cudaInitModule(void**) {
  return 1;
}

SOFTGPU_CUDART void __cudaRegisterFunction(void** handle, const char* host_function, char*, const char* name,
                                           int, uint3*, uint3*, dim3*, dim3*, int*) {
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  all.functions.insert_or_assign(host_function, Function{reinterpret_cast<FatBinary*>(handle), name});
}

// Variables are not there: nothing here runs the code that uses them.
SOFTGPU_CUDART void __cudaRegisterVar(void**, char*, char*, const char*, int, std::size_t, int, int) {}
SOFTGPU_CUDART void __cudaRegisterManagedVar(void**, void**, char*, const char*, int, std::size_t, int, int) {
}
SOFTGPU_CUDART void __cudaRegisterHostVar(void**, const char*, char*, std::size_t) {}
