// What the tests of the software GPU's driver share: a module image with three kernels, and a way to run each
// test in a process of its own, since a process has one device and a violation makes every later call fail.
#pragma once

#include <cuda.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "softgpu/image.h"

namespace softgpu_test {

inline constexpr std::uint32_t three_params[] = {8, 8, 8};

// fill(to, words, value)
inline void fill_footprint(const void* const* p, softgpu::Footprint& out) {
  const auto words = *static_cast<const std::uint64_t*>(p[1]);
  out.touches.push_back({*static_cast<const std::uint64_t*>(p[0]), words * 4, softgpu::TouchKind::write});
  out.bytes = static_cast<double>(words) * 4;
}
inline void fill_run(const void* const* p) {
  auto* const to = *static_cast<std::uint32_t* const*>(p[0]);
  const auto words = *static_cast<const std::uint64_t*>(p[1]);
  for (std::uint64_t i = 0; i < words; ++i) to[i] = *static_cast<const std::uint32_t*>(p[2]);
}

// add(to, from, words): to += from, at the cost of a convolution
inline void add_footprint(const void* const* p, softgpu::Footprint& out) {
  const auto bytes = *static_cast<const std::uint64_t*>(p[2]) * 4;
  out.touches.push_back({*static_cast<const std::uint64_t*>(p[0]), bytes, softgpu::TouchKind::read_write});
  out.touches.push_back({*static_cast<const std::uint64_t*>(p[1]), bytes, softgpu::TouchKind::read});
  out.kind = "conv_fwd";
  out.bytes = static_cast<double>(bytes) * 3;
}
inline void add_run(const void* const* p) {
  auto* const to = *static_cast<std::uint32_t* const*>(p[0]);
  const auto* const from = *static_cast<const std::uint32_t* const*>(p[1]);
  const auto words = *static_cast<const std::uint64_t*>(p[2]);
  for (std::uint64_t i = 0; i < words; ++i) to[i] += from[i];
}

// read(from, words, -)
inline void read_footprint(const void* const* p, softgpu::Footprint& out) {
  const auto words = *static_cast<const std::uint64_t*>(p[1]);
  out.touches.push_back({*static_cast<const std::uint64_t*>(p[0]), words * 4, softgpu::TouchKind::read});
  out.bytes = static_cast<double>(words) * 4;
}
inline void read_run(const void* const*) {}

inline constexpr softgpu::KernelEntry entries[] = {{"fill", three_params, 3, fill_footprint, fill_run},
                                                   {"add", three_params, 3, add_footprint, add_run},
                                                   {"read", three_params, 3, read_footprint, read_run}};
inline constexpr softgpu::Image image{softgpu::image_magic, 3, entries};

inline CUlibrary library = nullptr;

// Initialises the driver on `device` and makes its primary context current.
inline void start(const char* device) {
  setenv("SOFTGPU_DEVICE", device, 1);
  CUcontext context = nullptr;
  ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
  ASSERT_EQ(cuLibraryLoadData(&library, &image, nullptr, nullptr, 0, nullptr, nullptr, 0), CUDA_SUCCESS);
}

// Runs `...` in a fresh process on `device`; what it prints to stderr must match `pattern`.
#define ON_DEVICE(device, pattern, ...)                     \
  do {                                                      \
    GTEST_FLAG_SET(death_test_style, "threadsafe");         \
    const auto on_device_body = [] { __VA_ARGS__ };         \
    EXPECT_EXIT(                                            \
        {                                                   \
          softgpu_test::start(device);                      \
          on_device_body();                                 \
          std::fflush(stdout);                              \
          std::exit(::testing::Test::HasFailure() ? 1 : 0); \
        },                                                  \
        ::testing::ExitedWithCode(0), pattern);             \
  } while (false)

inline CUresult launch(const char* name, CUstream stream, std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  CUkernel kernel = nullptr;
  if (const CUresult found = cuLibraryGetKernel(&kernel, library, name); found != CUDA_SUCCESS) return found;
  void* params[] = {&a, &b, &c};
  return cuLaunchKernel(reinterpret_cast<CUfunction>(kernel), 1, 1, 1, 32, 1, 1, 0, stream, params, nullptr);
}
inline CUresult fill(CUdeviceptr to, std::uint64_t words, std::uint32_t value, CUstream stream = nullptr) {
  return launch("fill", stream, to, words, value);
}
inline CUresult add(CUdeviceptr to, CUdeviceptr from, std::uint64_t words, CUstream stream = nullptr) {
  return launch("add", stream, to, from, words);
}
inline CUresult read(CUdeviceptr from, std::uint64_t words, CUstream stream = nullptr) {
  return launch("read", stream, from, words, 0);
}

inline CUstream new_stream() {
  CUstream stream = nullptr;
  EXPECT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  return stream;
}
inline CUevent new_event(unsigned flags = CU_EVENT_DEFAULT) {
  CUevent event = nullptr;
  EXPECT_EQ(cuEventCreate(&event, flags), CUDA_SUCCESS);
  return event;
}
// `second` follows all that is in `first`.
inline void follow(CUstream second, CUstream first) {
  CUevent event = new_event(CU_EVENT_DISABLE_TIMING);
  EXPECT_EQ(cuEventRecord(event, first), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamWaitEvent(second, event, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuEventDestroy(event), CUDA_SUCCESS);
}

inline constexpr std::size_t MiB = std::size_t{1} << 20;

inline CUdeviceptr allocate(std::size_t bytes) {
  CUdeviceptr address = 0;
  EXPECT_EQ(cuMemAlloc(&address, bytes), CUDA_SUCCESS);
  return address;
}
inline std::size_t free_bytes() {
  std::size_t free = 0, total = 0;
  EXPECT_EQ(cuMemGetInfo(&free, &total), CUDA_SUCCESS);
  return free;
}

// Virtual memory of the device.
inline CUmemAllocationProp device_memory() {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  return prop;
}
inline CUdeviceptr reserve(std::size_t bytes) {
  CUdeviceptr address = 0;
  EXPECT_EQ(cuMemAddressReserve(&address, bytes, 0, 0, 0), CUDA_SUCCESS);
  return address;
}
inline CUmemGenericAllocationHandle create(std::size_t bytes) {
  CUmemGenericAllocationHandle handle = 0;
  const CUmemAllocationProp prop = device_memory();
  EXPECT_EQ(cuMemCreate(&handle, bytes, &prop, 0), CUDA_SUCCESS);
  return handle;
}
inline CUresult allow(CUdeviceptr at, std::size_t bytes,
                      CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.flags = flags;
  return cuMemSetAccess(at, bytes, &access, 1);
}
inline void map(CUdeviceptr at, std::size_t bytes, CUmemGenericAllocationHandle handle) {
  EXPECT_EQ(cuMemMap(at, bytes, 0, handle, 0), CUDA_SUCCESS);
  EXPECT_EQ(allow(at, bytes), CUDA_SUCCESS);
}

}  // namespace softgpu_test
