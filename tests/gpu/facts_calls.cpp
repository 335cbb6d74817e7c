// What the device is, what its driver's functions are called, and what calls cost the host.
#include <dlfcn.h>

#include "tests/gpu/sections.h"

namespace pooch::facts {
namespace {

// Parameters of three kinds, so that their offsets tell something.
constexpr const char* ptx = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry nothing(.param .u64 a, .param .u32 b, .param .align 8 .b8 c[24]) { ret; }
)";

class Module {
 public:
  Module() { must_call(cuModuleLoadData, &module_, ptx); }
  ~Module() { driver_call(cuModuleUnload, module_); }
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  CUfunction nothing() const {
    CUfunction function = nullptr;
    must_call(cuModuleGetFunction, &function, module_, "nothing");
    return function;
  }

 private:
  CUmodule module_ = nullptr;
};

Json look_up(const char* name, int version, cuuint64_t flags) {
  void* pointer = nullptr;
  CUdriverProcAddressQueryResult status{};
  const CUresult result = driver_call(cuGetProcAddress, name, &pointer, version, flags, &status);
  Dl_info info{};
  if (pointer != nullptr) dladdr(pointer, &info);
  return {{"name", name},
          {"version", version},
          {"flags", flags},
          {"result", static_cast<int>(result)},
          {"dladdr", info.dli_sname != nullptr ? info.dli_sname : ""},
          {"exact", pointer != nullptr && info.dli_saddr == pointer}};
}

// `function` of `library` gives an integer as its result or in its argument; null where it cannot be asked.
template <class Type>
Type* function_of(const char* library, const char* function) {
  void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  return handle == nullptr ? nullptr : reinterpret_cast<Type*>(dlsym(handle, function));
}

// What a launch of it takes.
class Arguments {
 public:
  void** get() { return each_; }

 private:
  unsigned long long a_ = 0;
  unsigned b_ = 0;
  char c_[24] = {};
  void* each_[3] = {&a_, &b_, c_};
};

// The other way to load code, which gives kernels of no context.
class Library {
 public:
  Library() { must_call(cuLibraryLoadData, &library_, ptx, nullptr, nullptr, 0U, nullptr, nullptr, 0U); }
  ~Library() { driver_call(cuLibraryUnload, library_); }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  CUkernel nothing() const {
    CUkernel kernel = nullptr;
    must_call(cuLibraryGetKernel, &kernel, library_, "nothing");
    return kernel;
  }

 private:
  CUlibrary library_ = nullptr;
};

// What a query says of a kernel's parameters, and its name: nothing where it refuses.
struct Kernel {
  std::vector<std::pair<std::size_t, std::size_t>> parameters;  // offset, bytes
  std::string name;
  Json json() const { return {{"parameters", parameters}, {"name", name}}; }
};
template <class Handle>
Kernel ask(Handle handle, CUresult (*parameter)(Handle, std::size_t, std::size_t*, std::size_t*),
           CUresult (*name)(const char**, Handle)) {
  Kernel found;
  std::size_t offset = 0, bytes = 0;
  while (parameter(handle, found.parameters.size(), &offset, &bytes) == CUDA_SUCCESS)
    found.parameters.emplace_back(offset, bytes);
  const char* text = nullptr;
  if (name(&text, handle) == CUDA_SUCCESS && text != nullptr) found.name = text;
  return found;
}
Kernel ask_as_function(CUfunction handle) {
  return ask(handle, driver_function(cuFuncGetParamInfo), driver_function(cuFuncGetName));
}
Kernel ask_as_kernel(CUkernel handle) {
  return ask(handle, driver_function(cuKernelGetParamInfo), driver_function(cuKernelGetName));
}

}  // namespace

void device_section(Bench&, Json& out) {
  CUdevice device = 0;
  must_call(cuDeviceGet, &device, 0);
  char name[128] = "";
  int version = 0;
  std::size_t total = 0, free = 0;
  must_call(cuDeviceGetName, name, sizeof name, device);
  must_call(cuDriverGetVersion, &version);
  must_call(cuMemGetInfo, &free, &total);
  out = {{"name", name}, {"driver_cuda_version", version}, {"total_bytes", total}, {"free_bytes", free}};
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  std::size_t granularity = 0;
  must_call(cuMemGetAllocationGranularity, &granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  out["granularity_bytes"] = granularity;
  const std::pair<const char*, CUdevice_attribute> attributes[] = {
      {"capability_major", CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR},
      {"capability_minor", CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR},
      {"multiprocessors", CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT},
      {"clock_khz", CU_DEVICE_ATTRIBUTE_CLOCK_RATE},
      {"memory_clock_khz", CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE},
      {"memory_bus_bits", CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH},
      {"l2_bytes", CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE},
      {"copy_engines", CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT},
      {"host_vmm", CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED},
      {"host_numa_vmm", CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED},
      {"host_numa_id", CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID},
      {"pageable_access", CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS},
  };
  for (const auto& [key, attribute] : attributes) {
    int value = 0;
    must_call(cuDeviceGetAttribute, &value, attribute, device);
    out[key] = value;
  }
}

void versions_section(Bench&, Json& out) {
  for (const auto& [key, library, function] :
       {std::tuple{"cudnn", "libcudnn.so.9", "cudnnGetVersion"},
        std::tuple{"cublaslt", "libcublasLt.so.13", "cublasLtGetVersion"}}) {
    auto* get = function_of<std::size_t()>(library, function);
    out[key] = get != nullptr ? Json(get()) : Json();
  }
  int runtime = 0;
  auto* get_runtime = function_of<int(int*)>("libcudart.so.13", "cudaRuntimeGetVersion");
  out["cudart"] = get_runtime != nullptr && get_runtime(&runtime) == 0 ? Json(runtime) : Json();
  std::uint32_t cupti = 0;
  auto* get_cupti = function_of<int(std::uint32_t*)>("libcupti.so.13", "cuptiGetVersion");
  out["cupti"] = get_cupti != nullptr && get_cupti(&cupti) == 0 ? Json(cupti) : Json();
}

// Does dladdr name what cuGetProcAddress returns, and is the symbol's address the pointer itself?
void naming_section(Bench&, Json& out) {
  Json rows = Json::array();
  int named = 0;
  for (const char* name : {"cuMemAlloc", "cuMemFree", "cuMemAllocAsync", "cuLaunchKernel", "cuLaunchKernelEx",
                           "cuMemcpyAsync", "cuMemGetInfo", "cuCtxSynchronize", "cuGetProcAddress"}) {
    for (const cuuint64_t flags :
         {CU_GET_PROC_ADDRESS_LEGACY_STREAM, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM}) {
      for (const int version : {11000, 12000, 13000}) {
        rows.push_back(look_up(name, version, flags));
        named += rows.back()["exact"].get<bool>() ? 1 : 0;
      }
    }
  }
  out = {{"asked", rows.size()}, {"named_exactly", named}, {"rows", std::move(rows)}};
}

void calls_section(Bench& bench, Json& out) {
  constexpr int times = 200;
  constexpr std::size_t block = 64 * MiB;
  const Event event;
  event.record(bench.stream);
  bench.stream.finish();
  HostClock& clock = bench.clock;
  const auto record = driver_function(cuEventRecord);
  const auto query = driver_function(cuEventQuery);
  out["event_record_us"] = clock.median(times, [&] { record(event, bench.stream); });
  bench.stream.finish();
  out["event_query_us"] = clock.median(times, [&] { query(event); });
  out["stream_synchronize_us"] = clock.median(times, [&] { bench.stream.finish(); });
  const HostMemory host(MiB);
  const DeviceMemory memory(MiB);
  const auto copy_in = driver_function(cuMemcpyHtoDAsync);
  out["copy_submit_us"] = clock.median(times, [&] { copy_in(memory, host.get(), 4 * KiB, bench.stream); });
  bench.stream.finish();
  CUdeviceptr address = 0;
  std::vector<double> allocations, frees;
  for (int i = 0; i < 20; ++i) {
    allocations.push_back(clock.microseconds([&] { must_call(cuMemAlloc, &address, block); }));
    frees.push_back(clock.microseconds([&] { must_call(cuMemFree, address); }));
  }
  out["allocate_64MiB_us"] = median(allocations);
  out["free_64MiB_us"] = median(frees);
}

// Device time from one launch to the next, where the host is ahead: they wait behind sets of memory.
double us_of_each(Bench& bench, CUfunction function, bool events_between) {
  constexpr int launches = 400, sets = 40;
  const DeviceMemory memory(bench.bulk);
  const Event begin, between, end;
  Arguments arguments;
  for (int i = 0; i < sets; ++i) must_call(cuMemsetD8Async, memory, 0, bench.bulk, bench.stream);
  begin.record(bench.stream);
  for (int i = 0; i < launches; ++i) {
    must_call(cuLaunchKernel, function, 1, 1, 1, 1, 1, 1, 0, bench.stream, arguments.get(), nullptr);
    if (events_between) between.record(bench.stream);
  }
  end.record(bench.stream);
  bench.stream.finish();
  return end.microseconds_since(begin) / launches;
}

void kernel_section(Bench& bench, Json& out) {
  const Module module;
  const CUfunction nothing = module.nothing();
  Arguments arguments;
  const auto launch = driver_function(cuLaunchKernel);
  out["launch_us"] = bench.clock.median(
      2000, [&] { launch(nothing, 1, 1, 1, 1, 1, 1, 0, bench.stream, arguments.get(), nullptr); });
  bench.stream.finish();
  const double bare = us_of_each(bench, nothing, false);
  out["event_between_us"] = us_of_each(bench, nothing, true) - bare;
}

// Launches take a CUkernel for a CUfunction as well, and pooch asks the function's queries first: these must
// refuse what is no function, or understand it.
void kernel_handles_section(Bench& bench, Json& out) {
  const Module module;
  const Library library;
  const CUkernel kernel = library.nothing();
  const auto disguised = reinterpret_cast<CUfunction>(kernel);
  const std::pair<const char*, Kernel> answers[] = {{"function", ask_as_function(module.nothing())},
                                                    {"kernel", ask_as_kernel(kernel)},
                                                    {"kernel_as_function", ask_as_function(disguised)}};
  for (const auto& [key, found] : answers) out[key] = found.json();
  const Kernel truth{{{0, 8}, {8, 4}, {16, 24}}, "nothing"};
  Json wrong = Json::array();
  for (const auto& [key, found] : answers) {
    const bool may_refuse = key == answers[2].first;
    if (found.parameters != truth.parameters && !(may_refuse && found.parameters.empty()))
      wrong.push_back(std::string(key) + ": parameters");
    if (found.name != truth.name && !(may_refuse && found.name.empty()))
      wrong.push_back(std::string(key) + ": name");
  }
  Arguments arguments;
  must_call(cuLaunchKernel, disguised, 1, 1, 1, 1, 1, 1, 0, bench.stream, arguments.get(), nullptr);
  bench.stream.finish();
  out["wrong"] = std::move(wrong);
}

}  // namespace pooch::facts
