// Copies and sets.
#include "softgpu/cudart/driver.h"
#include "softgpu/cudart/export.h"

using namespace softgpu::cudart;

namespace {

bool valid(cudaMemcpyKind kind) {
  return kind >= cudaMemcpyHostToHost && kind <= cudaMemcpyDefault;
}

cudaError_t copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, Streams streams) {
  if (!valid(kind)) return record(cudaErrorInvalidMemcpyDirection);
  if (bytes == 0) return record(enter_context());
  const CUdeviceptr to_address = device_address(to);
  const CUdeviceptr from_address = device_address(from);
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return in_context(&DriverTable::MemcpyHtoD, streams, to_address, from, bytes);
    case cudaMemcpyDeviceToHost:
      return in_context(&DriverTable::MemcpyDtoH, streams, to, from_address, bytes);
    case cudaMemcpyDeviceToDevice:
      return in_context(&DriverTable::MemcpyDtoD, streams, to_address, from_address, bytes);
    default:  // unified addresses tell the driver what lies where
      return in_context(&DriverTable::Memcpy, streams, to_address, from_address, bytes);
  }
}

cudaError_t copy_async(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                       cudaStream_t stream, Streams streams) {
  if (!valid(kind)) return record(cudaErrorInvalidMemcpyDirection);
  if (bytes == 0) return record(enter_context());
  const CUdeviceptr to_address = device_address(to);
  const CUdeviceptr from_address = device_address(from);
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return in_context(&DriverTable::MemcpyHtoDAsync, streams, to_address, from, bytes, stream);
    case cudaMemcpyDeviceToHost:
      return in_context(&DriverTable::MemcpyDtoHAsync, streams, to, from_address, bytes, stream);
    case cudaMemcpyDeviceToDevice:
      return in_context(&DriverTable::MemcpyDtoDAsync, streams, to_address, from_address, bytes, stream);
    default:
      return in_context(&DriverTable::MemcpyAsync, streams, to_address, from_address, bytes, stream);
  }
}

// Fills one end of a 2-D copy.
struct End {
  CUmemorytype& type;
  CUdeviceptr& device;
};

void set_end(End end, const void* pointer, bool host, bool unified) {
  end.type = unified ? CU_MEMORYTYPE_UNIFIED : host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  end.device = device_address(pointer);
}

CUDA_MEMCPY2D describe(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                       std::size_t width, std::size_t height, cudaMemcpyKind kind) {
  CUDA_MEMCPY2D c{};
  const bool unified = kind == cudaMemcpyDefault;
  set_end({c.srcMemoryType, c.srcDevice}, from,
          kind == cudaMemcpyHostToHost || kind == cudaMemcpyHostToDevice, unified);
  set_end({c.dstMemoryType, c.dstDevice}, to, kind == cudaMemcpyHostToHost || kind == cudaMemcpyDeviceToHost,
          unified);
  c.srcHost = from;
  c.dstHost = to;
  c.srcPitch = from_pitch;
  c.dstPitch = to_pitch;
  c.WidthInBytes = width;
  c.Height = height;
  return c;
}

cudaError_t check_2d(std::size_t to_pitch, std::size_t from_pitch, std::size_t width, cudaMemcpyKind kind) {
  if (!valid(kind)) return cudaErrorInvalidMemcpyDirection;
  return width > to_pitch || width > from_pitch ? cudaErrorInvalidPitchValue : cudaSuccess;
}

cudaError_t copy_2d(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                    std::size_t width, std::size_t height, cudaMemcpyKind kind, Streams streams) {
  if (cudaError_t error = check_2d(to_pitch, from_pitch, width, kind); error != cudaSuccess)
    return record(error);
  if (width == 0 || height == 0) return record(enter_context());
  const CUDA_MEMCPY2D c = describe(to, to_pitch, from, from_pitch, width, height, kind);
  return in_context(&DriverTable::Memcpy2DUnaligned, streams, &c);
}

cudaError_t copy_2d_async(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                          std::size_t width, std::size_t height, cudaMemcpyKind kind, cudaStream_t stream,
                          Streams streams) {
  if (cudaError_t error = check_2d(to_pitch, from_pitch, width, kind); error != cudaSuccess)
    return record(error);
  if (width == 0 || height == 0) return record(enter_context());
  const CUDA_MEMCPY2D c = describe(to, to_pitch, from, from_pitch, width, height, kind);
  return in_context(&DriverTable::Memcpy2DAsync, streams, &c, stream);
}

unsigned char byte(int value) {
  return static_cast<unsigned char>(value);
}

cudaError_t set(void* at, int value, std::size_t bytes, Streams streams) {
  if (bytes == 0) return record(enter_context());
  return in_context(&DriverTable::MemsetD8, streams, device_address(at), byte(value), bytes);
}

cudaError_t set_async(void* at, int value, std::size_t bytes, cudaStream_t stream, Streams streams) {
  if (bytes == 0) return record(enter_context());
  return in_context(&DriverTable::MemsetD8Async, streams, device_address(at), byte(value), bytes, stream);
}

cudaError_t set_2d(void* at, std::size_t pitch, int value, std::size_t width, std::size_t height,
                   Streams streams) {
  if (width == 0 || height == 0) return record(enter_context());
  return in_context(&DriverTable::MemsetD2D8, streams, device_address(at), pitch, byte(value), width, height);
}

cudaError_t set_2d_async(void* at, std::size_t pitch, int value, std::size_t width, std::size_t height,
                         cudaStream_t stream, Streams streams) {
  if (width == 0 || height == 0) return record(enter_context());
  return in_context(&DriverTable::MemsetD2D8Async, streams, device_address(at), pitch, byte(value), width,
                    height, stream);
}

}  // namespace

SOFTGPU_CUDART cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return copy(to, from, bytes, kind, Streams::legacy);
}
SOFTGPU_CUDART cudaError_t cudaMemcpy_ptds(void* to, const void* from, std::size_t bytes,
                                           cudaMemcpyKind kind) {
  return copy(to, from, bytes, kind, Streams::per_thread);
}

SOFTGPU_CUDART cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                                           cudaStream_t stream) {
  return copy_async(to, from, bytes, kind, stream, Streams::legacy);
}
SOFTGPU_CUDART cudaError_t cudaMemcpyAsync_ptsz(void* to, const void* from, std::size_t bytes,
                                                cudaMemcpyKind kind, cudaStream_t stream) {
  return copy_async(to, from, bytes, kind, stream, Streams::per_thread);
}

SOFTGPU_CUDART cudaError_t cudaMemcpy2D(void* to, std::size_t to_pitch, const void* from,
                                        std::size_t from_pitch, std::size_t width, std::size_t height,
                                        cudaMemcpyKind kind) {
  return copy_2d(to, to_pitch, from, from_pitch, width, height, kind, Streams::legacy);
}
SOFTGPU_CUDART cudaError_t cudaMemcpy2D_ptds(void* to, std::size_t to_pitch, const void* from,
                                             std::size_t from_pitch, std::size_t width, std::size_t height,
                                             cudaMemcpyKind kind) {
  return copy_2d(to, to_pitch, from, from_pitch, width, height, kind, Streams::per_thread);
}

SOFTGPU_CUDART cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from,
                                             std::size_t from_pitch, std::size_t width, std::size_t height,
                                             cudaMemcpyKind kind, cudaStream_t stream) {
  return copy_2d_async(to, to_pitch, from, from_pitch, width, height, kind, stream, Streams::legacy);
}
SOFTGPU_CUDART cudaError_t cudaMemcpy2DAsync_ptsz(void* to, std::size_t to_pitch, const void* from,
                                                  std::size_t from_pitch, std::size_t width,
                                                  std::size_t height, cudaMemcpyKind kind,
                                                  cudaStream_t stream) {
  return copy_2d_async(to, to_pitch, from, from_pitch, width, height, kind, stream, Streams::per_thread);
}

SOFTGPU_CUDART cudaError_t cudaMemset(void* at, int value, std::size_t bytes) {
  return set(at, value, bytes, Streams::legacy);
}
SOFTGPU_CUDART cudaError_t cudaMemset_ptds(void* at, int value, std::size_t bytes) {
  return set(at, value, bytes, Streams::per_thread);
}

SOFTGPU_CUDART cudaError_t cudaMemsetAsync(void* at, int value, std::size_t bytes, cudaStream_t stream) {
  return set_async(at, value, bytes, stream, Streams::legacy);
}
SOFTGPU_CUDART cudaError_t cudaMemsetAsync_ptsz(void* at, int value, std::size_t bytes, cudaStream_t stream) {
  return set_async(at, value, bytes, stream, Streams::per_thread);
}

SOFTGPU_CUDART cudaError_t cudaMemset2D(void* at, std::size_t pitch, int value, std::size_t width,
                                        std::size_t height) {
  return set_2d(at, pitch, value, width, height, Streams::legacy);
}
SOFTGPU_CUDART cudaError_t cudaMemset2D_ptds(void* at, std::size_t pitch, int value, std::size_t width,
                                             std::size_t height) {
  return set_2d(at, pitch, value, width, height, Streams::per_thread);
}

SOFTGPU_CUDART cudaError_t cudaMemset2DAsync(void* at, std::size_t pitch, int value, std::size_t width,
                                             std::size_t height, cudaStream_t stream) {
  return set_2d_async(at, pitch, value, width, height, stream, Streams::legacy);
}
SOFTGPU_CUDART cudaError_t cudaMemset2DAsync_ptsz(void* at, std::size_t pitch, int value, std::size_t width,
                                                  std::size_t height, cudaStream_t stream) {
  return set_2d_async(at, pitch, value, width, height, stream, Streams::per_thread);
}
