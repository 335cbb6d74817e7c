#include "softgpu/cudart/driver.h"

#include <dlfcn.h>

#include <array>
#include <atomic>
#include <mutex>
#include <string_view>

#include "softgpu/activity.h"

namespace softgpu::cudart {
namespace {

constexpr int cuda_version = 13000;

struct Driver {
  DriverTable legacy;
  DriverTable per_thread;
  const ActivityTable* activity = nullptr;
  bool found = false;

  Driver();
};

template <class Function>
void look_up(decltype(&cuGetProcAddress_v2) get, const char* name, cuuint64_t flags, Function& slot) {
  void* pointer = nullptr;
  CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  // 13.0 added an ABI that takes the context; the prototype without one is the older.
  const std::string_view named(name);
  const int version = named == "cuCtxSynchronize" || named == "cuCtxGetDevice" ? 12000 : cuda_version;
  if (get(name, &pointer, version, flags, &found) == CUDA_SUCCESS && found == CU_GET_PROC_ADDRESS_SUCCESS) {
    slot = reinterpret_cast<Function>(pointer);
  }
}

Driver::Driver() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  if (!library) return;
  auto get = reinterpret_cast<decltype(&cuGetProcAddress_v2)>(dlsym(library, "cuGetProcAddress_v2"));
  if (!get) return;
  // NVIDIA's runtime begins with a probe for the empty name; interposers meet it there too.
  void* probe = nullptr;
  get("", &probe, cuda_version, CU_GET_PROC_ADDRESS_DEFAULT, nullptr);

  const auto tables = reinterpret_cast<decltype(&cuGetExportTable)>(dlsym(library, "cuGetExportTable"));
  const void* table = nullptr;
  if (tables && tables(&table, &activity_table_id) == CUDA_SUCCESS)
    activity = static_cast<const ActivityTable*>(table);
  legacy.get_proc_address = get;
#define SOFTGPU_LOOK_UP(name) look_up(get, "cu" #name, CU_GET_PROC_ADDRESS_DEFAULT, legacy.name);
  SOFTGPU_DRIVER_FUNCTIONS(SOFTGPU_LOOK_UP)
  SOFTGPU_DRIVER_STREAM_FUNCTIONS(SOFTGPU_LOOK_UP)
#undef SOFTGPU_LOOK_UP
  per_thread = legacy;
#define SOFTGPU_LOOK_UP(name) \
  look_up(get, "cu" #name, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, per_thread.name);
  SOFTGPU_DRIVER_STREAM_FUNCTIONS(SOFTGPU_LOOK_UP)
#undef SOFTGPU_LOOK_UP
  found = true;
}

const Driver& instance() {
  static const Driver* const loaded = new Driver;  // never destroyed: used until the very end of the process
  return *loaded;
}

constexpr int max_devices = 64;
std::mutex contexts_mutex;
std::array<CUcontext, max_devices> contexts{};  // retained primary contexts, guarded by contexts_mutex
std::atomic<unsigned> contexts_epoch{1};        // changes when they are forgotten

thread_local int thread_device = 0;
thread_local unsigned thread_epoch = 0;  // the epoch in which this thread last made a context current

cudaError_t retain(int device, CUcontext& context) {
  std::lock_guard lock(contexts_mutex);
  CUcontext& slot = contexts[static_cast<std::size_t>(device)];
  if (!slot) {
    CUdevice handle = 0;
    if (cudaError_t error = call(driver().DeviceGet, &handle, device); error != cudaSuccess) return error;
    if (cudaError_t error = call(driver().DevicePrimaryCtxRetain, &slot, handle); error != cudaSuccess)
      return error;
  }
  context = slot;
  return cudaSuccess;
}

}  // namespace

const DriverTable& driver(Streams streams) {
  return streams == Streams::legacy ? instance().legacy : instance().per_thread;
}

bool driver_found() {
  return instance().found;
}

cudaError_t enter_driver() {
  if (!driver_found()) return cudaErrorInsufficientDriver;
  static std::atomic<bool> initialised{false};
  if (initialised.load(std::memory_order_acquire)) return cudaSuccess;
  cudaError_t error = call(driver().Init, 0U);
  if (error == cudaSuccess) initialised.store(true, std::memory_order_release);
  return error;
}

cudaError_t enter_context() {
  const unsigned epoch = contexts_epoch.load(std::memory_order_acquire);
  if (thread_epoch == epoch) return cudaSuccess;
  if (cudaError_t error = enter_driver(); error != cudaSuccess) return error;
  CUcontext context = nullptr;
  if (cudaError_t error = call(driver().CtxGetCurrent, &context); error != cudaSuccess) return error;
  if (!context) {
    if (cudaError_t error = retain(thread_device, context); error != cudaSuccess) return error;
    if (cudaError_t error = call(driver().CtxSetCurrent, context); error != cudaSuccess) return error;
  }
  thread_epoch = epoch;
  return cudaSuccess;
}

int current_device() {
  return thread_device;
}

cudaError_t set_current_device(int device) {
  if (cudaError_t error = enter_driver(); error != cudaSuccess) return error;
  int count = 0;
  if (cudaError_t error = call(driver().DeviceGetCount, &count); error != cudaSuccess) return error;
  if (device < 0 || device >= count || device >= max_devices) return cudaErrorInvalidDevice;
  const unsigned epoch = contexts_epoch.load(std::memory_order_acquire);
  CUcontext context = nullptr;
  if (cudaError_t error = retain(device, context); error != cudaSuccess) return error;
  if (cudaError_t error = call(driver().CtxSetCurrent, context); error != cudaSuccess) return error;
  thread_device = device;
  thread_epoch = epoch;
  return cudaSuccess;
}

void forget_contexts() {
  std::lock_guard lock(contexts_mutex);
  contexts.fill(nullptr);
  contexts_epoch.fetch_add(1, std::memory_order_release);
}

RuntimeCall::RuntimeCall() {
  if (instance().activity) instance().activity->begin_runtime_call();
}

RuntimeCall::~RuntimeCall() {
  if (instance().activity) instance().activity->end_runtime_call();
}

}  // namespace softgpu::cudart
