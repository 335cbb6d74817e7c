// A program for tests of the hooks: `hooks_program SCENARIO`. Exit code 0, or 1 with a line on stderr that
// says what was not as it should be.
#define __CUDA_API_VERSION_INTERNAL 1
#include <cuda.h>
#include <cudnn.h>
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>

namespace {

constexpr size_t mib = size_t{1} << 20;

void expect(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "not so: %s\n", what.c_str());
  std::exit(1);
}

void* driver_library() {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  expect(library != nullptr, "libcuda.so.1 loads");
  return library;
}

template <class Function>
Function* driver(const char* name) {
  void* const found = dlsym(driver_library(), name);
  expect(found != nullptr, std::string("the driver has ") + name);
  return reinterpret_cast<Function*>(found);
}

// "libpooch.so:cuMemAlloc_v2"
std::string whose(void* address) {
  Dl_info info;
  if (address == nullptr || dladdr(address, &info) == 0) return "nobody";
  const char* const slash = std::strrchr(info.dli_fname, '/');
  const char* const file = slash != nullptr ? slash + 1 : info.dli_fname;
  return std::string(file) + ":" +
         (info.dli_sname != nullptr && info.dli_saddr == address ? info.dli_sname : "?");
}

void expect_whose(void* address, const std::string& expected, const std::string& what) {
  expect(whose(address) == expected, what + " is " + whose(address) + ", not " + expected);
}

void start() {
  expect(driver<decltype(cuInit)>("cuInit")(0) == CUDA_SUCCESS, "cuInit");
  CUcontext context;
  driver<decltype(cuDevicePrimaryCtxRetain)>("cuDevicePrimaryCtxRetain")(&context, 0);
  driver<decltype(cuCtxSetCurrent)>("cuCtxSetCurrent")(context);
}

CUdeviceptr allocate(size_t bytes) {
  CUdeviceptr memory = 0;
  expect(driver<decltype(cuMemAlloc_v2)>("cuMemAlloc_v2")(&memory, bytes) == CUDA_SUCCESS, "cuMemAlloc_v2");
  return memory;
}

void look_up() {
  void* const library = driver_library();
  expect_whose(dlsym(library, "cuMemAlloc_v2"), "libpooch.so:cuMemAlloc_v2", "dlsym cuMemAlloc_v2");
  expect_whose(dlsym(library, "cuMemAlloc"), "libcuda.so.1:cuMemAlloc", "dlsym of the oldest ABI");
  expect_whose(dlsym(library, "cuDeviceGetName"), "libcuda.so.1:cuDeviceGetName", "dlsym without a wrapper");
  expect(dlsym(library, "cuNoSuchThing") == nullptr && dlerror() != nullptr, "a missing name stays missing");
  // A name of the driver in a library that is not the driver.
  expect(dlsym(dlopen("libm.so.6", RTLD_NOW), "cuMemAlloc_v2") == nullptr, "libm has no cuMemAlloc_v2");
  const auto get = driver<decltype(cuGetProcAddress_v2)>("cuGetProcAddress_v2");
  expect_whose(reinterpret_cast<void*>(get), "libpooch.so:cuGetProcAddress_v2", "dlsym cuGetProcAddress_v2");

  const bool unnamed = std::getenv("FAKE_UNNAMED") != nullptr;
  const std::string old = unnamed ? "libcuda.so.1:?" : "libcuda.so.1:cuMemAlloc";
  const struct {
    const char* name;
    int version;
    cuuint64_t flags;
    std::string expected;
  } requests[] = {
      {"cuMemAlloc", 13000, 0, "libpooch.so:cuMemAlloc_v2"},
      {"cuMemAlloc", 3010, 0, old},
      {"cuMemcpy", 13000, CU_GET_PROC_ADDRESS_DEFAULT, "libpooch.so:cuMemcpy"},
      {"cuMemcpy", 13000, CU_GET_PROC_ADDRESS_LEGACY_STREAM, "libpooch.so:cuMemcpy"},
      {"cuMemcpy", 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, "libpooch.so:cuMemcpy_ptds"},
      {"cuDeviceGetName", 13000, 0, "libcuda.so.1:cuDeviceGetName"},
      {"cuGetProcAddress", 13000, 0, "libpooch.so:cuGetProcAddress_v2"},
  };
  for (const auto& request : requests) {
    void* found = nullptr;
    CUdriverProcAddressQueryResult status;
    expect(get(request.name, &found, request.version, request.flags, &status) == CUDA_SUCCESS, request.name);
    expect_whose(found, request.expected, std::string(request.name) + " " + std::to_string(request.version));
  }
  void* found = nullptr;
  expect(get("", &found, 13000, 0, nullptr) == CUDA_ERROR_NOT_FOUND && found == nullptr,
         "the empty probe fails");
}

void allocations() {
  start();
  const CUdeviceptr small = allocate(1000), big = allocate(8 * mib);
  expect(small < 0x7100000000 && big > 0x7100000000, "the small one is the driver's, the big one is not");

  size_t free = 0, total = 0;
  const auto info = driver<decltype(cuMemGetInfo_v2)>("cuMemGetInfo_v2");
  expect(info(nullptr, &total) == CUDA_SUCCESS && info(&free, nullptr) == CUDA_SUCCESS,
         "null pointers are fine");
  expect(total == size_t{1} << 30 && free < total, "no cap is named: the device has all that it has");
  size_t device_total = 0;
  driver<decltype(cuDeviceTotalMem_v2)>("cuDeviceTotalMem_v2")(&device_total, 0);
  expect(device_total == total, "cuDeviceTotalMem tells the same story");

  CUdeviceptr base = 0;
  size_t bytes = 0;
  driver<decltype(cuMemGetAddressRange_v2)>("cuMemGetAddressRange_v2")(&base, &bytes, big + 5);
  expect(base == big && bytes == 8 * mib, "the range of an address");
  unsigned int type = 0;
  const auto attribute = driver<decltype(cuPointerGetAttribute)>("cuPointerGetAttribute");
  attribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, big + 5);
  expect(type == CU_MEMORYTYPE_DEVICE, "device memory");

  CUdeviceptr pitched = 0;
  size_t pitch = 0;
  driver<decltype(cuMemAllocPitch_v2)>("cuMemAllocPitch_v2")(&pitched, &pitch, 4100, 1024, 4);
  expect(pitched > 0x7100000000 && pitch == 4608, "rows begin at multiples of 512");

  const auto release = driver<decltype(cuMemFree_v2)>("cuMemFree_v2");
  expect(release(big + 512) == CUDA_ERROR_INVALID_VALUE, "not the start of an allocation");
  expect(release(big) == CUDA_SUCCESS, "freed");
  expect(release(big) == CUDA_ERROR_INVALID_VALUE, "freed twice");
  expect(attribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, big) == CUDA_ERROR_INVALID_VALUE, "dead memory");
  expect(release(small) == CUDA_SUCCESS && release(0) == CUDA_SUCCESS, "the driver's own");
}

size_t free_bytes() {
  size_t free = 0;
  driver<decltype(cuMemGetInfo_v2)>("cuMemGetInfo_v2")(&free, nullptr);
  return free;
}

void pools() {
  start();
  const auto create = driver<decltype(cuMemPoolCreate)>("cuMemPoolCreate");
  const auto allocate_from = driver<decltype(cuMemAllocFromPoolAsync)>("cuMemAllocFromPoolAsync");
  const auto release = driver<decltype(cuMemFreeAsync)>("cuMemFreeAsync");
  CUmemPoolProps props = {};
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  CUmemoryPool plain, shared, host;
  create(&plain, &props);
  props.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  create(&shared, &props);
  props = {};
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location = {CU_MEM_LOCATION_TYPE_HOST_NUMA, {0}};
  create(&host, &props);

  allocate(4 * mib);
  const size_t before = free_bytes();
  CUdeviceptr managed, another, third;
  allocate_from(&managed, 8 * mib, plain, nullptr);
  expect(managed > 0x7100000000 && before - free_bytes() == 8 * mib,
         "a pool of this device alone is managed");
  allocate_from(&another, 8 * mib, shared, nullptr);
  expect(another < 0x7100000000, "what other processes may import is the driver's");
  const size_t counted = before - free_bytes();
  expect(counted >= 16 * mib, "and counts against the cap");
  allocate_from(&third, 64 * mib, host, nullptr);
  expect(third < 0x7100000000 && before - free_bytes() == counted, "the host's memory does neither");
  for (const CUdeviceptr each : {managed, another, third})
    expect(release(each, nullptr) == CUDA_SUCCESS, "freed");
}

void capture() {
  start();
  const auto allocate_async = driver<decltype(cuMemAllocAsync)>("cuMemAllocAsync");
  const auto release = driver<decltype(cuMemFreeAsync)>("cuMemFreeAsync");
  const auto stream = reinterpret_cast<CUstream>(0x77), other = reinterpret_cast<CUstream>(0x78);
  const CUdeviceptr early = allocate(8 * mib);
  const size_t before = free_bytes();
  driver<decltype(cuStreamBeginCapture_v2)>("cuStreamBeginCapture_v2")(stream,
                                                                       CU_STREAM_CAPTURE_MODE_RELAXED);
  CUdeviceptr node, beside;
  allocate_async(&node, 8 * mib, stream);
  expect(node < 0x7100000000 && free_bytes() == before, "what is captured is the graph's memory");
  expect(release(node, stream) == CUDA_SUCCESS, "and freed by the graph");
  expect(release(early, stream) == CUDA_ERROR_INVALID_VALUE, "which frees nothing else");
  allocate_async(&beside, 8 * mib, other);
  expect(beside > 0x7100000000, "other streams go on");
  expect(allocate(8 * mib) < 0x7100000000, "what is allocated for a graph stays where it is");
  CUgraph graph;
  driver<decltype(cuStreamEndCapture)>("cuStreamEndCapture")(stream, &graph);
  expect(allocate(8 * mib) > 0x7100000000, "afterwards all is as before");
  expect(release(early, stream) == CUDA_SUCCESS, "so is the stream");
}

// The driver's pool keeps what is freed; the cap has room for half of what was alive together, and not for
// both.
void kept_by_pool() {
  start();
  CUmemoryPool pool;
  driver<decltype(cuDeviceGetDefaultMemPool)>("cuDeviceGetDefaultMemPool")(&pool, 0);
  cuuint64_t all = ~cuuint64_t{0}, told = 0;
  driver<decltype(cuMemPoolSetAttribute)>("cuMemPoolSetAttribute")(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
                                                                   &all);
  driver<decltype(cuMemPoolGetAttribute)>("cuMemPoolGetAttribute")(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
                                                                   &told);
  expect(told == all, "the program's threshold is told");
  const auto allocate_async = driver<decltype(cuMemAllocAsync)>("cuMemAllocAsync");
  CUdeviceptr small[20];
  for (CUdeviceptr& each : small)
    expect(allocate_async(&each, 2 * mib - 512, nullptr) == CUDA_SUCCESS, "small");
  for (const CUdeviceptr each : small) driver<decltype(cuMemFreeAsync)>("cuMemFreeAsync")(each, nullptr);
  const auto plain = driver<decltype(cuMemAlloc_v2)>("cuMemAlloc_v2");
  CUdeviceptr other;
  for (int i = 0; i < 20; ++i)
    expect(plain(&other, 2 * mib - 512) == CUDA_SUCCESS, "what the pool only keeps refuses nobody");
}

void other_device() {
  start();
  const CUdeviceptr big = allocate(8 * mib);
  expect(big > 0x7100000000, "it is served like the first");
  int ordinal = -1;
  const auto attribute = driver<decltype(cuPointerGetAttribute)>("cuPointerGetAttribute");
  attribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, big);
  expect(ordinal == 3, "an address knows its device");
  size_t first = 0, own = 0, total = 0;
  const auto device_total = driver<decltype(cuDeviceTotalMem_v2)>("cuDeviceTotalMem_v2");
  device_total(&first, 0), device_total(&own, 3);
  driver<decltype(cuMemGetInfo_v2)>("cuMemGetInfo_v2")(nullptr, &total);
  expect(own == total && first == own, "of a device that is not used yet the story is the same");
}

void starts_program(bool with_pooch) {
  start();
  const int status = std::system("case $LD_PRELOAD in *libpooch*) exit 1;; esac");
  expect(WEXITSTATUS(status) == (with_pooch ? 1 : 0), "what programs that it starts load");
}

void launches() {
  start();
  struct {
    void* words[3];
  } argument = {};
  int count = 7;
  argument.words[1] = reinterpret_cast<void*>(allocate(4 * mib) + 100);
  argument.words[2] = reinterpret_cast<void*>(0x123456789);
  void* parameters[] = {&count, &argument};
  const auto launch = driver<decltype(cuLaunchKernel)>("cuLaunchKernel");
  const auto function = reinterpret_cast<CUfunction>(0x42);
  expect(launch(function, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr) == CUDA_SUCCESS,
         "by parameters");

  struct {
    std::uint64_t number, pointer;
  } buffer = {1, allocate(6 * mib)};
  size_t bytes = sizeof buffer;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                   CU_LAUNCH_PARAM_END};
  expect(launch(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra) == CUDA_SUCCESS, "by buffer");
  expect(launch(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr) == CUDA_SUCCESS, "without any");
}

// On a thread of its own, which has no context current: cuDNN's runtime would set one.
void library_calls() {
  start();
  const CUdeviceptr tensor = allocate(4 * mib);
  void* const cudnn = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
  expect(cudnn != nullptr, "libcudnn.so.9 loads");
  cudnnHandle_t handle;
  const auto create = reinterpret_cast<decltype(&cudnnCreate)>(dlsym(cudnn, "cudnnCreate"));
  expect(create(&handle) == CUDNN_STATUS_SUCCESS, "cuDNN's own look-ups find cuDNN");
  void* const scale = dlsym(cudnn, "cudnnScaleTensor");
  expect_whose(scale, "libpooch.so:cudnnScaleTensor", "the program's look-up");
  std::thread([&] {
    const float factor = 2;
    expect(reinterpret_cast<decltype(&cudnnScaleTensor)>(scale)(
               handle, nullptr, reinterpret_cast<void*>(tensor), &factor) == CUDNN_STATUS_SUCCESS,
           "cudnnScaleTensor");
  }).join();
}

void contexts() {
  start();
  const auto managed = [] { return allocate(4 * mib) >= 0x7100000000; };
  for (int i = 0; i < 5; ++i) expect(managed(), "the first context's memory is managed");
  const auto set_current = driver<decltype(cuCtxSetCurrent)>("cuCtxSetCurrent");
  CUcontext first, created;
  driver<decltype(cuDevicePrimaryCtxRetain)>("cuDevicePrimaryCtxRetain")(&first, 0);
  set_current(nullptr);
  expect(!managed(), "without a context a call passes through");
  set_current(first);
  expect(managed(), "the first context is current again");
  driver<decltype(cuCtxCreate_v2)>("cuCtxCreate_v2")(&created, 0, 0);
  expect(!managed(), "a call in another context passes through");
  set_current(first);
  for (int i = 0; i < 3; ++i) expect(managed(), "back in the first context");
}

void in_a_fork() {
  start();
  allocate(4 * mib);
  const pid_t child = fork();
  if (child == 0) {
    // Inert: the driver itself is asked.
    expect(allocate(4 * mib) < 0x7100000000, "a child's allocation passes through");
    std::exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child is fine");
}

void missing_library() {
  const auto scale = reinterpret_cast<decltype(&cudnnScaleTensor)>(dlsym(RTLD_DEFAULT, "cudnnScaleTensor"));
  expect(scale != nullptr, "the preload exports it");
  for (int i = 0; i < 2; ++i) {
    expect(scale(nullptr, nullptr, nullptr, nullptr) == CUDNN_STATUS_NOT_INITIALIZED, "cuDNN's own error");
  }
}

// Memory that pooch has no part in.
void outside() {
  start();
  const CUdeviceptr managed = allocate(4 * mib);
  CUdeviceptr unified = 0, opened = 0, small = 0;
  CUarray array = nullptr;
  CUipcMemHandle handle{};
  const CUDA_ARRAY3D_DESCRIPTOR volume{};
  const auto unify = driver<decltype(cuMemAllocManaged)>("cuMemAllocManaged");
  const auto get_handle = driver<decltype(cuIpcGetMemHandle)>("cuIpcGetMemHandle");
  const auto create = driver<decltype(cuArray3DCreate_v2)>("cuArray3DCreate_v2");
  expect(unify(&unified, 8 * mib, CU_MEM_ATTACH_GLOBAL) == CUDA_SUCCESS, "managed memory passes through");
  expect(create(&array, &volume) == CUDA_SUCCESS, "an array passes through");
  expect(create(&array, nullptr) == CUDA_ERROR_INVALID_VALUE, "the driver's own errors come through");
  expect(driver<decltype(cuArrayCreate_v2)>("cuArrayCreate_v2")(&array, nullptr) == CUDA_SUCCESS,
         "a flat one too");
  expect(driver<decltype(cuMemAlloc_v2)>("cuMemAlloc_v2")(&small, 1000) == CUDA_SUCCESS, "small memory");
  expect(get_handle(&handle, small) == CUDA_SUCCESS, "passed-through memory can be shared");
  expect(get_handle(&handle, managed) == CUDA_ERROR_NOT_SUPPORTED, "memory that moves cannot");
  expect(driver<decltype(cuIpcOpenMemHandle_v2)>("cuIpcOpenMemHandle_v2")(&opened, handle, 1) == CUDA_SUCCESS,
         "another process's memory passes through");
  expect(driver<decltype(cuCtxEnablePeerAccess)>("cuCtxEnablePeerAccess")(nullptr, 0) == CUDA_SUCCESS,
         "another device may be let in");
}

// What a program puts into an object of the driver's and names no more.
void named_for_later() {
  start();
  const CUdeviceptr mapped = allocate(4 * mib), textured = allocate(4 * mib), bound = allocate(4 * mib);
  CUtensorMap map = {};
  CUtexObject texture = 0;
  CUDA_RESOURCE_DESC what = {};
  what.resType = CU_RESOURCE_TYPE_LINEAR;
  what.res.linear.devPtr = textured + 512;
  const auto replace = driver<decltype(cuTensorMapReplaceAddress)>("cuTensorMapReplaceAddress");
  expect(replace(&map, reinterpret_cast<void*>(mapped + 1024)) == CUDA_SUCCESS, "a tensor map");
  expect(driver<decltype(cuTexObjectCreate)>("cuTexObjectCreate")(&texture, &what, nullptr, nullptr) ==
             CUDA_SUCCESS,
         "a texture");
  expect(driver<decltype(cuMulticastBindAddr)>("cuMulticastBindAddr")(1, 0, bound, 2 * mib, 0) ==
             CUDA_ERROR_NOT_SUPPORTED,
         "memory that moves cannot be bound");
}

// Not followed: said once, and the driver is called.
void obsolete_launches() {
  start();
  allocate(4 * mib);
  for (int i = 0; i < 3; ++i)
    expect(driver<decltype(cuLaunch)>("cuLaunch")(nullptr) == CUDA_SUCCESS, "it is launched");
}

// Another device is let into what there is and what comes later.
void peers() {
  start();
  const auto set = driver<decltype(cuMemsetD32Async)>("cuMemsetD32Async");
  expect(set(allocate(2 * mib), 0, mib / 2, nullptr) == CUDA_SUCCESS, "one is used");
  CUmemoryPool pool;
  driver<decltype(cuDeviceGetDefaultMemPool)>("cuDeviceGetDefaultMemPool")(&pool, 0);
  CUmemAccessDesc right = {};
  right.location = {CU_MEM_LOCATION_TYPE_DEVICE, {1}};
  right.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  const auto let_in = driver<decltype(cuMemPoolSetAccess)>("cuMemPoolSetAccess");
  expect(let_in(pool, &right, 1) == CUDA_SUCCESS && let_in(pool, &right, 1) == CUDA_SUCCESS, "let in");
  expect(set(allocate(2 * mib), 0, mib / 2, nullptr) == CUDA_SUCCESS, "another one is used");
}

}  // namespace

int main(int count, char** arguments) {
  const std::map<std::string, std::function<void()>> scenarios = {
      {"look_up", look_up},
      {"allocations", allocations},
      {"launches", launches},
      {"library_calls", library_calls},
      {"contexts", contexts},
      {"fork", in_a_fork},
      {"missing_library", missing_library},
      {"pools", pools},
      {"capture", capture},
      {"kept_by_pool", kept_by_pool},
      {"other_device", other_device},
      {"outside", outside},
      {"named_for_later", named_for_later},
      {"obsolete_launches", obsolete_launches},
      {"peers", peers},
      {"starts_with", [] { starts_program(true); }},
      {"starts_without", [] { starts_program(false); }},
      {"start", start},
      {"allocate", [] { start(), allocate(4 * mib); }},
  };
  const auto scenario = scenarios.find(count == 2 ? arguments[1] : "");
  if (scenario == scenarios.end()) return 2;
  scenario->second();
  return 0;
}
