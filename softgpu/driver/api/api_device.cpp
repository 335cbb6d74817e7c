// Initialisation and what a device says about itself.
#include <fmt/core.h>

#include <cstring>

#include "softgpu/driver/api/api.h"

using namespace softgpu;

namespace {

constexpr int driver_version = 13000;

std::string bus_id(CUdevice device) {
  return fmt::format("0000:{:02x}:00.0", device + 1);
}

CUresult uuid_of(CUuuid* uuid, CUdevice device, const char* name) {
  SOFTGPU_CALL(name, needs_driver | even_after_error);
  if (uuid == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!m.has(device)) return CUDA_ERROR_INVALID_DEVICE;
  // Stable per model: FNV-1a over its id.
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : m.model().id) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  std::memcpy(uuid->bytes, "softgpu\0", 8);
  uuid->bytes[7] = static_cast<char>(device);
  std::memcpy(uuid->bytes + 8, &hash, 8);
  return CUDA_SUCCESS;
}

// Attributes that follow from the model; false for all others.
bool from_model(const Model& model, CUdevice_attribute attribute, int& value) {
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      value = model.compute_major;
      return true;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      value = model.compute_minor;
      return true;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      value = model.multiprocessors;
      return true;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
      value = model.clock_khz;
      return true;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
      value = model.memory_clock_khz;
      return true;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
      value = model.memory_bus_bits;
      return true;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
      value = static_cast<int>(model.l2_bytes);
      return true;
    case CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
      value = model.host_handles ? 1 : 0;
      return true;
    case CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID:
      value = model.host_handles ? 0 : -1;
      return true;
    default:
      return false;
  }
}

// What every device of these generations has; what is not listed, it has not.
int constant_attribute(CUdevice_attribute attribute) {
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
      return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
      return 64;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_PITCH:
      return 2147483647;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
      return 65535;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
      return 49152;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
      return 98304;
    case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY:
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
      return 65536;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
    case CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
      return 32;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT:
    case CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT:
      return 512;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
      return threads_per_multiprocessor;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
    case CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO:
      return 2;
    case CU_DEVICE_ATTRIBUTE_GPU_OVERLAP:
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
    case CU_DEVICE_ATTRIBUTE_ECC_ENABLED:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR:
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
      return 1;
    case CU_DEVICE_ATTRIBUTE_NUMA_ID:
      return -1;
    default:
      return 0;
  }
}

}  // namespace

SOFTGPU_EXPORT(cuInit)(unsigned int flags) {
  if (in_host_function()) return CUDA_ERROR_NOT_PERMITTED;
  return flags != 0 ? CUDA_ERROR_INVALID_VALUE : start_machine();
}

SOFTGPU_EXPORT(cuDriverGetVersion)(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = driver_version;
  return CUDA_SUCCESS;
}

SOFTGPU_EXPORT(cuDeviceGet)(CUdevice* device, int ordinal) {
  SOFTGPU_CALL(__func__, needs_driver | even_after_error);
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!m.has(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

SOFTGPU_EXPORT(cuDeviceGetCount)(int* count) {
  SOFTGPU_CALL(__func__, needs_driver | even_after_error);
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = m.choice.options.devices;
  return CUDA_SUCCESS;
}

SOFTGPU_EXPORT(cuDeviceGetName)(char* name, int length, CUdevice device) {
  SOFTGPU_CALL(__func__, needs_driver | even_after_error);
  if (name == nullptr || length <= 0) return CUDA_ERROR_INVALID_VALUE;
  if (!m.has(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::strncpy(name, m.model().name.c_str(), static_cast<std::size_t>(length) - 1);
  name[length - 1] = '\0';
  return CUDA_SUCCESS;
}

SOFTGPU_EXPORT(cuDeviceGetUuid)(CUuuid* uuid, CUdevice device) {
  return uuid_of(uuid, device, __func__);
}
SOFTGPU_EXPORT(cuDeviceGetUuid_v2)(CUuuid* uuid, CUdevice device) {
  return uuid_of(uuid, device, __func__);
}

SOFTGPU_EXPORT(cuDeviceGetPCIBusId)(char* id, int length, CUdevice device) {
  SOFTGPU_CALL(__func__, needs_driver | even_after_error);
  const std::string text = bus_id(device);
  if (id == nullptr || length <= static_cast<int>(text.size())) return CUDA_ERROR_INVALID_VALUE;
  if (!m.has(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::strcpy(id, text.c_str());
  return CUDA_SUCCESS;
}

SOFTGPU_EXPORT(cuDeviceGetByPCIBusId)(CUdevice* device, const char* id) {
  SOFTGPU_CALL(__func__, needs_driver | even_after_error);
  if (device == nullptr || id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (int each = 0; each < m.choice.options.devices; ++each) {
    const std::string whole = bus_id(each);
    if (whole != id && whole.substr(0, 10) != id && whole.substr(5) != id) continue;
    *device = each;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_DEVICE;
}

SOFTGPU_EXPORT(cuDeviceTotalMem_v2)(size_t* bytes, CUdevice device) {
  SOFTGPU_CALL(__func__, needs_driver | even_after_error);
  if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!m.has(device)) return CUDA_ERROR_INVALID_DEVICE;
  *bytes = m.physical.capacity() + m.model().context_bytes;
  return CUDA_SUCCESS;
}

SOFTGPU_EXPORT(cuDeviceGetAttribute)(int* value, CUdevice_attribute attribute, CUdevice device) {
  SOFTGPU_CALL(__func__, needs_driver | even_after_error);
  if (value == nullptr || attribute <= 0 || attribute >= CU_DEVICE_ATTRIBUTE_MAX)
    return CUDA_ERROR_INVALID_VALUE;
  if (!m.has(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (attribute == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID) {
    *value = device + 1;
  } else if (attribute == CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED) {
    // Where memory holds nothing, nobody is to write to as much of the host's.
    *value = m.compute() ? 1 : 0;
  } else if (!from_model(m.model(), attribute, *value)) {
    *value = constant_attribute(attribute);
  }
  return CUDA_SUCCESS;
}

SOFTGPU_EXPORT(cuDeviceComputeCapability)(int* major, int* minor, CUdevice device) {
  SOFTGPU_CALL(__func__, needs_driver | even_after_error);
  if (major == nullptr || minor == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!m.has(device)) return CUDA_ERROR_INVALID_DEVICE;
  *major = m.model().compute_major;
  *minor = m.model().compute_minor;
  return CUDA_SUCCESS;
}

SOFTGPU_EXPORT(cuDeviceCanAccessPeer)(int* can, CUdevice device, CUdevice peer) {
  SOFTGPU_CALL(__func__, needs_driver | even_after_error);
  if (can == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!m.has(device) || !m.has(peer)) return CUDA_ERROR_INVALID_DEVICE;
  *can = 0;
  return CUDA_SUCCESS;
}
