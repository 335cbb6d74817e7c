#include "interpose/device/real_device.h"

#include <dlfcn.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iterator>
#include <map>
#include <string_view>

#include "core/log.h"
#include "interpose/device/driver_table.h"
#include "interpose/device/peers.h"
#include "interpose/device/touched_memory.h"
#include "interpose/hooks/driver_api.h"
#include "interpose/hooks/real_symbol.h"

namespace pooch::interpose {
namespace {

Status load(DriverTable& driver) {
  void* library = loaded_library("libcuda.so.1");
  if (library == nullptr) library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return Error{ErrorCode::device, "libcuda.so.1 cannot be loaded: is a driver installed?"};
  const char* missing = nullptr;
#define POOCH_LOAD(name)                                                               \
  driver.name = reinterpret_cast<decltype(driver.name)>(real_dlsym()(library, #name)); \
  if (driver.name == nullptr) missing = #name;
  POOCH_DRIVER_FUNCTIONS(POOCH_LOAD)
#undef POOCH_LOAD
  if (missing != nullptr) {
    return Error{ErrorCode::not_supported,
                 fmt::format("libcuda.so.1 has no {}: the driver is too old", missing)};
  }
  return Done{};
}

std::string bus_id_of(const DriverTable& driver, CUdevice device) {
  char id[32] = {};
  return driver.cuDeviceGetPCIBusId(id, sizeof id - 1, device) == CUDA_SUCCESS ? id : "";
}

// -1 where sysfs does not know the device.
int numa_node_of(std::string bus_id) {
  if (bus_id.empty()) return -1;
  std::transform(bus_id.begin(), bus_id.end(), bus_id.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  std::ifstream file("/sys/bus/pci/devices/" + bus_id + "/numa_node");
  int node = -1;
  return file >> node ? node : -1;
}

// Drivers ask the kernel where memory lies when they make handles of it. Containers may forbid that, and a
// driver then refuses or, before 595, crashes (NVIDIA/nccl issues 2106 and 2190), whatever the attribute
// says.
bool may_ask_for_nodes() {
  if (syscall(SYS_get_mempolicy, nullptr, nullptr, 0, nullptr, 0) == 0) return true;
  log::info("get_mempolicy is not allowed here: no host memory is mapped at device addresses");
  return false;
}

// The NUMA node that handles of host memory are made on; -1 where the device cannot map them.
int host_handles_of(const DriverTable& driver, CUdevice device) {
  // Without them, what an unforeseen kernel reads faults where it could have landed: no chance answer may do
  // that.
  const auto attribute = [&](int& value, CUdevice_attribute which) {
    return driver.cuDeviceGetAttribute(&value, which, device) == CUDA_SUCCESS ||
           driver.cuDeviceGetAttribute(&value, which, device) == CUDA_SUCCESS;
  };
  int offered = 0, node = -1;
  if (!attribute(offered, CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) ||
      offered == 0 || !may_ask_for_nodes())
    return -1;
  if (!attribute(node, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID)) return 0;
  return std::max(node, 0);  // a driver that knows of no node has one
}

// Whether the device reaches memory that is registered, at the address that the host has for it.
bool registers_on(const DriverTable& driver, CUdevice device) {
  const auto has = [&](CUdevice_attribute which) {
    int value = 0;
    return driver.cuDeviceGetAttribute(&value, which, device) == CUDA_SUCCESS && value != 0;
  };
  return has(CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED) &&
         has(CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM);
}

// 1 where it does not tell: grids are smaller then.
int multiprocessors_of(const DriverTable& driver, CUdevice device) {
  int value = 0;
  (void)driver.cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
  return std::max(value, 1);
}

bool has_others(const DriverTable& driver) {
  int devices = 0;
  return driver.cuDeviceGetCount(&devices) == CUDA_SUCCESS && devices > 1;
}

// While it lives, memory that this thread touches first comes from one NUMA node, if that has any left.
class PreferredNode {
 public:
  explicit PreferredNode(int node) {
    constexpr int bits = 8 * sizeof(unsigned long);
    if (node < 0 || node >= bits) return;
    if (syscall(SYS_get_mempolicy, &old_mode_, old_mask_, max_nodes, nullptr, 0) != 0) return;
    const unsigned long mask = 1UL << node;
    changed_ = syscall(SYS_set_mempolicy, MPOL_PREFERRED, &mask, bits + 1) == 0;
  }
  ~PreferredNode() {
    if (changed_) syscall(SYS_set_mempolicy, old_mode_, old_mask_, max_nodes);
  }
  PreferredNode(const PreferredNode&) = delete;
  PreferredNode& operator=(const PreferredNode&) = delete;

 private:
  static constexpr unsigned long max_nodes = 1024;
  int old_mode_ = 0;
  unsigned long old_mask_[max_nodes / (8 * sizeof(unsigned long))] = {};
  bool changed_ = false;
};

// Page-locked memory of all devices.
struct HostMemory {
  struct Block {
    std::uint64_t counted;
    std::size_t touched = 0;  // bytes that were mapped by us and registered; 0: the driver's own
  };
  std::mutex mutex;  // held while the driver allocates
  std::uint64_t most = ~std::uint64_t{0}, taken = 0;
  std::map<const void*, Block> blocks;

  // What pooch needs besides the arena is a trifle, and does not count: else the last piece would not fit.
  static constexpr std::uint64_t trifle = 64 << 10;

  Status has_room_for(std::uint64_t bytes) const {
    if (bytes <= trifle || bytes <= most - std::min(most, taken)) return Done{};
    return Error{ErrorCode::out_of_memory, "the process's devices have taken the host budget"};
  }
  std::byte* took(void* memory, std::uint64_t bytes, std::size_t touched = 0) {
    const std::uint64_t counted = bytes <= trifle ? 0 : bytes;
    taken += counted;
    blocks.emplace(memory, Block{counted, touched});
    return static_cast<std::byte*>(memory);
  }
  // What it was; nothing known of it: all 0.
  Block gave(const void* memory) {
    const auto found = blocks.find(memory);
    if (found == blocks.end()) return {};
    const Block block = found->second;
    taken -= block.counted;
    blocks.erase(found);
    return block;
  }
};
HostMemory& host_memory() {
  static auto* const one = new HostMemory;  // never destroyed, like the devices
  return *one;
}

CUmemAllocationProp properties(int ordinal) {
  CUmemAllocationProp prop = {};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  prop.location.id = ordinal;
  return prop;
}

}  // namespace

Result<std::unique_ptr<RealDevice>> RealDevice::open() {
  auto driver = std::make_unique<DriverTable>();
  if (Status loaded = load(*driver); !loaded) return loaded.error();
  CUdevice device = 0;
  if (const CUresult status = driver->cuCtxGetDevice(&device); status != CUDA_SUCCESS) {
    return Error{ErrorCode::device, "no context is current on this thread", status};
  }
  return std::unique_ptr<RealDevice>(new RealDevice(std::move(driver), device));
}

RealDevice::RealDevice(std::unique_ptr<DriverTable> driver, int ordinal)
    : driver_(std::move(driver)),
      ordinal_(ordinal),
      bus_id_(bus_id_of(*driver_, ordinal)),
      numa_node_(numa_node_of(bus_id_)),
      peers_(std::make_unique<Peers>(ordinal, has_others(*driver_))),
      host_numa_id_(host_handles_of(*driver_, ordinal)),
      registers_(registers_on(*driver_, ordinal)),
      multiprocessors_(multiprocessors_of(*driver_, ordinal)) {}

RealDevice::~RealDevice() = default;

// Calls that may want memory that pooch could give back.
constexpr std::string_view takes_memory[] = {"cuMemAddressReserve", "cuMemCreate",    "cuMemMap",
                                             "cuMemSetAccess",      "cuMemHostAlloc", "cuMemHostRegister_v2"};

Status RealDevice::check(int status, const char* function) const {
  // At exit the driver may be gone before us, and took everything with it.
  if (status == CUDA_SUCCESS || status == CUDA_ERROR_DEINITIALIZED) return Done{};
  const char* name = nullptr;
  if (driver_->cuGetErrorName(static_cast<CUresult>(status), &name) != CUDA_SUCCESS || name == nullptr)
    name = "?";
  const bool takes = std::find(std::begin(takes_memory), std::end(takes_memory),
                               std::string_view(function)) != std::end(takes_memory);
  const ErrorCode code =
      takes && status == CUDA_ERROR_OUT_OF_MEMORY ? ErrorCode::out_of_memory : ErrorCode::device;
  return Error{code, fmt::format("{} failed: {} ({})", function, name, status), status};
}

Result<std::uint64_t> RealDevice::free_bytes() {
  std::size_t free = 0, total = 0;
  if (Status s = POOCH_CALL(cuMemGetInfo_v2, &free, &total); !s) return s.error();
  return free;
}

Result<DeviceInfo> RealDevice::info() {
  DeviceInfo info = {};
  char name[256] = {};
  std::size_t total = 0, granularity = 0;
  const CUmemAllocationProp prop = properties(ordinal_);
  if (Status s = POOCH_CALL(cuDeviceGetName, name, sizeof name - 1, ordinal_); !s) return s.error();
  if (Status s = POOCH_CALL(cuDeviceTotalMem_v2, &total, ordinal_); !s) return s.error();
  if (Status s =
          POOCH_CALL(cuMemGetAllocationGranularity, &granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
      !s) {
    return s.error();
  }
  info.name = name;
  info.total_bytes = total;
  info.granularity = granularity;
  info.numa_node = numa_node_;
  info.host_handles = host_numa_id_ >= 0;
  info.bus_id = bus_id_;
  Dl_info library{};
  if (dladdr(reinterpret_cast<void*>(driver_->cuMemCreate), &library) != 0) info.driver = library.dli_fname;
  return info;
}

// Drivers hand out low addresses, 0x302000000 for one, and a pair of small integers looks like one of those.
// So places are asked for whose upper half is no number that often occurs: none below 10,000 or so, nor near
// where programs (0x55…) and their libraries (0x7f…) lie. Whichever the driver does not give is left to it.
Result<Address> RealDevice::reserve(std::uint64_t bytes) {
  CUdeviceptr base = 0;
  for (const CUdeviceptr odd : {0x6a5a'4c00'0000, 0x5a5a'4c00'0000, 0x3a5a'4c00'0000, 0x2a5a'4c00'0000}) {
    if (driver_->cuMemAddressReserve(&base, bytes, 0, odd, 0) != CUDA_SUCCESS) continue;
    if (base == odd) return Address{base};
    (void)driver_->cuMemAddressFree(base, bytes);
  }
  if (Status s = POOCH_CALL(cuMemAddressReserve, &base, bytes, 0, 0, 0); !s) return s.error();
  return Address{base};
}

Status RealDevice::release(Address base, std::uint64_t bytes) {
  return POOCH_CALL(cuMemAddressFree, raw(base), bytes);
}

Result<PhysicalHandle> RealDevice::create(std::uint64_t bytes) {
  CUmemGenericAllocationHandle handle = 0;
  const CUmemAllocationProp prop = properties(ordinal_);
  if (Status s = POOCH_CALL(cuMemCreate, &handle, bytes, &prop, 0); !s) return s.error();
  return PhysicalHandle{handle};
}

Status RealDevice::destroy(PhysicalHandle handle) {
  return POOCH_CALL(cuMemRelease, static_cast<CUmemGenericAllocationHandle>(handle));
}

Status RealDevice::map(Address at, std::uint64_t bytes, PhysicalHandle handle) {
  Status done = POOCH_CALL(cuMemMap, raw(at), bytes, 0, static_cast<CUmemGenericAllocationHandle>(handle), 0);
  if (done) peers_->mapped(at, bytes);
  return done;
}

Status RealDevice::set_access(Address at, std::uint64_t bytes) {
  const auto rights = peers_->rights();
  return POOCH_CALL(cuMemSetAccess, raw(at), bytes, rights.data(), rights.size());
}

Status RealDevice::unmap(Address at, std::uint64_t bytes) {
  peers_->unmapped(at, bytes);
  return POOCH_CALL(cuMemUnmap, raw(at), bytes);
}

Status RealDevice::let_in(int peer) {
  return peers_->add(peer, [this](Address at, std::uint64_t bytes, const CUmemAccessDesc& right) {
    return POOCH_CALL(cuMemSetAccess, raw(at), bytes, &right, 1);
  });
}

void RealDevice::share_host_memory(std::uint64_t bytes) {
  const std::lock_guard lock(host_memory().mutex);
  host_memory().most = bytes;
}

Result<std::byte*> RealDevice::host_allocate(std::uint64_t bytes) {
  HostMemory& shared = host_memory();
  const std::lock_guard lock(shared.mutex);
  if (const Status room = shared.has_room_for(bytes); !room) return room.error();
  const PreferredNode near_the_device(numa_node_);
  constexpr std::uint64_t large = 32 << 20;  // below, starting threads takes as long
  if (registers_ && bytes >= large) {
    void* const touched = map_touched(bytes);
    if (touched != nullptr && POOCH_CALL(cuMemHostRegister_v2, touched, bytes, CU_MEMHOSTREGISTER_PORTABLE))
      return shared.took(touched, bytes, bytes);
    if (touched != nullptr) unmap_touched(touched, bytes);
  }
  void* memory = nullptr;
  if (Status s = POOCH_CALL(cuMemHostAlloc, &memory, bytes, CU_MEMHOSTALLOC_PORTABLE); !s) return s.error();
  return shared.took(memory, bytes);
}

Status RealDevice::host_free(std::byte* memory) {
  HostMemory& shared = host_memory();
  const std::lock_guard lock(shared.mutex);
  const HostMemory::Block block = shared.gave(memory);
  if (block.touched == 0) return POOCH_CALL(cuMemFreeHost, memory);
  // What the device may still reach must not become somebody else's.
  Status gone = POOCH_CALL(cuMemHostUnregister, memory);
  if (gone) unmap_touched(memory, block.touched);
  return gone;
}

// Mapped for good where the processor and copies find it, as NCCL does with its buffers.
Result<HostHandle> RealDevice::create_host(std::uint64_t bytes) {
  if (host_numa_id_ < 0) return Error{ErrorCode::not_supported, "no host memory at device addresses"};
  HostMemory& shared = host_memory();
  const std::lock_guard lock(shared.mutex);
  if (const Status room = shared.has_room_for(bytes); !room) return room.error();
  CUmemAllocationProp prop = properties(ordinal_);
  const CUmemLocation device = prop.location;
  prop.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
  prop.location.id = host_numa_id_;
  const CUmemAccessDesc rights[] = {{device, CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
                                    {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE}};
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr base = 0;
  if (Status s = POOCH_CALL(cuMemCreate, &handle, bytes, &prop, 0); !s) return s.error();
  Status done = POOCH_CALL(cuMemAddressReserve, &base, bytes, 0, 0, 0);
  if (done) {
    done = POOCH_CALL(cuMemMap, base, bytes, 0, handle, 0);
    if (done) {
      done = POOCH_CALL(cuMemSetAccess, base, bytes, rights, 2);
      if (done) return HostHandle{PhysicalHandle{handle}, shared.took(reinterpret_cast<void*>(base), bytes)};
      (void)driver_->cuMemUnmap(base, bytes);
    }
    (void)driver_->cuMemAddressFree(base, bytes);
  }
  (void)driver_->cuMemRelease(handle);
  return done.error();
}

Status RealDevice::destroy_host(const HostHandle& made, std::uint64_t bytes) {
  {
    const std::lock_guard lock(host_memory().mutex);
    host_memory().gave(made.memory);
  }
  const auto base = reinterpret_cast<CUdeviceptr>(made.memory);
  Status done = POOCH_CALL(cuMemUnmap, base, bytes);
  if (done) done = POOCH_CALL(cuMemAddressFree, base, bytes);
  const Status released = destroy(made.handle);
  return done ? released : done;
}

Result<StreamHandle> RealDevice::create_stream() {
  CUstream stream = nullptr;
  if (Status s = POOCH_CALL(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING); !s) return s.error();
  return StreamHandle{reinterpret_cast<std::uintptr_t>(stream)};
}

Status RealDevice::destroy_stream(StreamHandle stream) {
  return POOCH_CALL(cuStreamDestroy_v2, vendor(stream));
}

Result<EventHandle> RealDevice::create_event() {
  CUevent event = nullptr;
  if (Status s = POOCH_CALL(cuEventCreate, &event, CU_EVENT_DISABLE_TIMING); !s) return s.error();
  return EventHandle{reinterpret_cast<std::uintptr_t>(event)};
}

Result<EventHandle> RealDevice::create_timing_event() {
  CUevent event = nullptr;
  if (Status s = POOCH_CALL(cuEventCreate, &event, CU_EVENT_DEFAULT); !s) return s.error();
  return EventHandle{reinterpret_cast<std::uintptr_t>(event)};
}

Result<double> RealDevice::elapsed_us(EventHandle from, EventHandle to) {
  float milliseconds = 0;
  if (Status s = POOCH_CALL(cuEventElapsedTime, &milliseconds, vendor(from), vendor(to)); !s)
    return s.error();
  return 1000.0 * milliseconds;
}

Status RealDevice::destroy_event(EventHandle event) {
  return POOCH_CALL(cuEventDestroy_v2, vendor(event));
}

Status RealDevice::record(EventHandle event, StreamHandle stream) {
  return POOCH_CALL(cuEventRecord, vendor(event), vendor(stream));
}

Status RealDevice::wait(StreamHandle stream, EventHandle event) {
  return POOCH_CALL(cuStreamWaitEvent, vendor(stream), vendor(event), 0);
}

Result<bool> RealDevice::finished(EventHandle event) {
  const CUresult status = ask_twice(
      [&] { return beside_captures(*driver_, [&] { return driver_->cuEventQuery(vendor(event)); }); });
  if (status == CUDA_ERROR_NOT_READY) return false;
  if (Status s = check(status, "cuEventQuery"); !s) return s.error();
  return true;
}

Status RealDevice::synchronize(EventHandle event) {
  return POOCH_CALL(cuEventSynchronize, vendor(event));
}

Status RealDevice::synchronize_all() {
  return POOCH_CALL(cuCtxSynchronize);
}

Result<bool> RealDevice::capturing(StreamHandle stream) {
  CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUresult status = ask_twice([&] { return driver_->cuStreamIsCapturing(vendor(stream), &capture); });
  // The legacy stream says so while another stream captures; it does not capture itself.
  if (status == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) return false;
  if (Status s = check(status, "cuStreamIsCapturing"); !s) return s.error();
  return capture != CU_STREAM_CAPTURE_STATUS_NONE;
}

Status RealDevice::copy_out(std::byte* to, Address from, std::uint64_t bytes, StreamHandle stream) {
  return POOCH_CALL(cuMemcpyDtoHAsync_v2, to, raw(from), bytes, vendor(stream));
}

Status RealDevice::copy_in(Address to, const std::byte* from, std::uint64_t bytes, StreamHandle stream) {
  return POOCH_CALL(cuMemcpyHtoDAsync_v2, raw(to), from, bytes, vendor(stream));
}

}  // namespace pooch::interpose
