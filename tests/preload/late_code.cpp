// Stands behind libpooch.so in LD_PRELOAD, between it and the driver, and makes code cost what it costs on
// silicon: a kernel is loaded at its first launch, into LATE_CODE MiB of device memory that nobody has asked
// for. Where those are not to be had the launch returns CUDA_ERROR_OUT_OF_MEMORY. Says at exit how often that
// was.
#include <cuda.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>

namespace {

using Dlsym = void* (*)(void*, const char*);
decltype(cuLaunchKernel)* real_launch = nullptr;
decltype(cuMemCreate)* real_create = nullptr;

Dlsym next_dlsym() {
  static const auto next = reinterpret_cast<Dlsym>(dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5"));
  return next;
}

struct Code {
  std::mutex mutex;
  std::set<CUfunction> loaded;
  int refused = 0;
  ~Code() { std::fprintf(stderr, "late code: %zu loaded, %d refused\n", loaded.size(), refused); }
};

CUresult load(CUfunction f) {
  static Code code;
  const std::lock_guard lock(code.mutex);
  if (code.loaded.contains(f)) return CUDA_SUCCESS;
  CUmemAllocationProp prop = {};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemGenericAllocationHandle handle = 0;
  const char* const mib = std::getenv("LATE_CODE");
  const CUresult made =
      real_create(&handle, (mib == nullptr ? 2 : std::strtoull(mib, nullptr, 10)) << 20, &prop, 0);
  if (made == CUDA_SUCCESS) code.loaded.insert(f);
  code.refused += made == CUDA_ERROR_OUT_OF_MEMORY;
  return made;
}

CUresult launch(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
                unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,
                unsigned int sharedMemBytes, CUstream hStream, void** kernelParams, void** extra) {
  if (const CUresult loaded = load(f); loaded != CUDA_SUCCESS) return loaded;
  return real_launch(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes,
                     hStream, kernelParams, extra);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void* dlsym(void* handle, const char* name) {
  void* const found = next_dlsym()(handle, name);
  if (found == nullptr || std::strcmp(name, "cuLaunchKernel") != 0) return found;
  real_launch = reinterpret_cast<decltype(real_launch)>(found);
  real_create = reinterpret_cast<decltype(real_create)>(next_dlsym()(handle, "cuMemCreate"));
  return reinterpret_cast<void*>(&launch);
}
