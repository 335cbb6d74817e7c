// What an address is.
#include <cstring>

#include "softgpu/driver/api/api.h"

using namespace softgpu;

namespace {

// An address, looked up once.
struct Found {
  const Object* object = nullptr;
  const Pinned* pinned = nullptr;
  std::uint64_t address = 0;
};

template <typename Value>
CUresult put(void* out, Value value) {
  std::memcpy(out, &value, sizeof value);
  return CUDA_SUCCESS;
}

CUresult answer(Machine& m, Context* current, const Found& f, CUpointer_attribute attribute, void* out) {
  const bool device = f.object != nullptr;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: {
      Context* const owner = device && f.object->context != nullptr ? f.object->context : current;
      return put(out, device && f.object->kind == ObjectKind::mapping ? nullptr : owner);
    }
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return put<unsigned>(out, device && !f.object->on_host ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return put(out, f.address);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      return device ? CUDA_ERROR_INVALID_VALUE : put(out, f.address);
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
      return put<unsigned char>(out, 0);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      return put<unsigned long long>(out, device ? f.object->id : (std::uint64_t{1} << 63) | f.pinned->id);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return put<int>(out, device && !f.object->on_host
                               ? m.physical.device_of(f.object->extents.front().offset)
                           : current != nullptr ? current->device
                                                : 0);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      return put<unsigned char>(out, device && f.object->kind == ObjectKind::allocation);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return put(out, device ? f.object->base : f.pinned->base);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return put<std::size_t>(out, device ? f.object->bytes : f.pinned->bytes);
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return put<unsigned char>(out, !device || f.object->readable);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      return put<unsigned long long>(out, 0);
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return put<unsigned>(out, device && !f.object->writable ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ
                                                              : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return put(out, device ? f.object->pool : nullptr);
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR: {
      if (!device) return CUDA_ERROR_INVALID_VALUE;
      const bool size = attribute == CU_POINTER_ATTRIBUTE_MAPPING_SIZE;
      return put<std::uint64_t>(out, size ? f.object->bytes : f.object->base);
    }
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

std::size_t width(CUpointer_attribute attribute) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return 1;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return 4;
    default:
      return 8;
  }
}

Found look_up(Machine& m, CUdeviceptr address) {
  return {m.addresses.find(address), m.host.find(address), address};
}

}  // namespace

SOFTGPU_EXPORT(cuPointerGetAttribute)(void* out, CUpointer_attribute attribute, CUdeviceptr address) {
  SOFTGPU_CALL(__func__, needs_driver);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Found found = look_up(m, address);
  if (found.object == nullptr && found.pinned == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return answer(m, call.context, found, attribute, out);
}

// Unlike the singular form this one knows no bad address: what it cannot answer reads as zero.
SOFTGPU_EXPORT(cuPointerGetAttributes)
(unsigned count, CUpointer_attribute* attributes, void** out, CUdeviceptr address) {
  SOFTGPU_CALL(__func__, needs_driver);
  if (attributes == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Found found = look_up(m, address);
  const bool known = found.object != nullptr || found.pinned != nullptr;
  for (unsigned i = 0; i < count; ++i) {
    if (out[i] == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (known && answer(m, call.context, found, attributes[i], out[i]) == CUDA_SUCCESS) continue;
    std::memset(out[i], 0, width(attributes[i]));
    if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) put<int>(out[i], CU_DEVICE_INVALID);
  }
  return CUDA_SUCCESS;
}
