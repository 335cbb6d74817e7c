// The runtime on the software GPU: what ordinary programs call.
#include <cstring>
#include <string>
#include <thread>

#include "tests/softgpu/softlib_support.h"

namespace softlib {
namespace {

TEST(Runtime, DeviceAndVersions) {
  int count = 0;
  CUDA_OK(cudaGetDeviceCount(&count));
  ASSERT_EQ(count, 1);
  int runtime = 0;
  int driver = 0;
  CUDA_OK(cudaRuntimeGetVersion(&runtime));
  CUDA_OK(cudaDriverGetVersion(&driver));
  EXPECT_EQ(runtime, CUDART_VERSION);
  EXPECT_GE(driver, runtime);
  cudaDeviceProp p{};
  CUDA_OK(cudaGetDeviceProperties(&p, 0));
  EXPECT_GT(std::strlen(p.name), 0U);
  EXPECT_GT(p.totalGlobalMem, std::size_t{1} << 20);
  EXPECT_EQ(p.warpSize, 32);
  EXPECT_GE(p.asyncEngineCount, 1);
  EXPECT_EQ(cudnnGetVersion(), std::size_t{CUDNN_VERSION});
}

TEST(Runtime, LastErrorBelongsToTheThread) {
  EXPECT_EQ(cudaSetDevice(77), cudaErrorInvalidDevice);
  cudaError_t elsewhere = cudaErrorUnknown;
  std::thread([&] { elsewhere = cudaPeekAtLastError(); }).join();
  EXPECT_EQ(elsewhere, cudaSuccess);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_STREQ(cudaGetErrorName(cudaErrorInvalidDevice), "cudaErrorInvalidDevice");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
}

TEST(Runtime, CopiesOfAllKinds) {
  const Floats content = values(1000, 1);
  const std::size_t bytes = content.size() * sizeof(float);
  Floats back(content.size());
  Floats host(content.size());
  Buffer a(content);
  Buffer b(content.size());
  CUDA_OK(cudaMemcpy(b.data(), a.data(), bytes, cudaMemcpyDeviceToDevice));
  CUDA_OK(cudaMemcpy(back.data(), b.data(), bytes, cudaMemcpyDefault));
  EXPECT_EQ(back, content);
  CUDA_OK(cudaMemcpy(host.data(), back.data(), bytes, cudaMemcpyHostToHost));
  EXPECT_EQ(host, content);
  CUDA_OK(cudaMemset(b.data(), 0, bytes));
  EXPECT_EQ(b.get(), Floats(content.size()));
  EXPECT_EQ(cudaMemcpy(back.data(), b.data(), bytes, static_cast<cudaMemcpyKind>(9)),
            cudaErrorInvalidMemcpyDirection);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidMemcpyDirection);
}

TEST(Runtime, CopyOfColumns) {
  const Floats content = values(6 * 8, 2);
  Floats back(6 * 5);
  Buffer a(content);
  CUDA_OK(cudaMemcpy2D(back.data(), 5 * sizeof(float), a.data(), 8 * sizeof(float), 5 * sizeof(float), 6,
                       cudaMemcpyDeviceToHost));
  for (std::size_t row = 0; row < 6; ++row) {
    for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(back[row * 5 + i], content[row * 8 + i]);
  }
}

TEST(Runtime, StreamsEventsAndHostFunctions) {
  cudaStream_t stream = nullptr;
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  CUDA_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CUDA_OK(cudaEventCreate(&begin));
  CUDA_OK(cudaEventCreate(&end));
  float* pinned = nullptr;
  CUDA_OK(cudaMallocHost(reinterpret_cast<void**>(&pinned), 1 << 20));
  void* device = nullptr;
  CUDA_OK(cudaMallocAsync(&device, 1 << 20, stream));
  CUDA_OK(cudaEventRecord(begin, stream));
  std::memset(pinned, 1, 1 << 20);
  CUDA_OK(cudaMemcpyAsync(device, pinned, 1 << 20, cudaMemcpyHostToDevice, stream));
  int called = 0;
  CUDA_OK(cudaLaunchHostFunc(
      stream, [](void* data) { ++*static_cast<int*>(data); }, &called));
  CUDA_OK(cudaStreamAddCallback(
      stream,
      [](cudaStream_t, cudaError_t status, void* data) {
        if (status == cudaSuccess) *static_cast<int*>(data) += 10;
      },
      &called, 0));
  CUDA_OK(cudaEventRecord(end, stream));
  CUDA_OK(cudaStreamWaitEvent(nullptr, end, 0));
  CUDA_OK(cudaStreamSynchronize(stream));
  EXPECT_EQ(called, 11);
  EXPECT_EQ(cudaEventQuery(end), cudaSuccess);
  float milliseconds = 0;
  CUDA_OK(cudaEventElapsedTime(&milliseconds, begin, end));
  EXPECT_GT(milliseconds, 0.0F);
  CUDA_OK(cudaFreeAsync(device, stream));
  CUDA_OK(cudaStreamSynchronize(stream));
  CUDA_OK(cudaFreeHost(pinned));
  CUDA_OK(cudaEventDestroy(begin));
  CUDA_OK(cudaEventDestroy(end));
  CUDA_OK(cudaStreamDestroy(stream));
}

TEST(Runtime, Pools) {
  cudaMemPool_t pool = nullptr;
  CUDA_OK(cudaDeviceGetDefaultMemPool(&pool, 0));
  std::uint64_t threshold = 1 << 20;
  CUDA_OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
  std::uint64_t read = 0;
  CUDA_OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &read));
  EXPECT_EQ(read, threshold);
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  cudaMemPool_t own = nullptr;
  CUDA_OK(cudaMemPoolCreate(&own, &properties));
  void* memory = nullptr;
  CUDA_OK(cudaMallocFromPoolAsync(&memory, 4096, own, nullptr));
  CUDA_OK(cudaFreeAsync(memory, nullptr));
  CUDA_OK(cudaDeviceSynchronize());
  CUDA_OK(cudaMemPoolTrimTo(own, 0));
  CUDA_OK(cudaMemPoolDestroy(own));
}

TEST(Runtime, PointersTellWhatTheyAre) {
  Buffer device(16);
  void* pinned = nullptr;
  CUDA_OK(cudaHostAlloc(&pinned, 4096, cudaHostAllocDefault));
  float plain = 0;
  cudaPointerAttributes a{};
  CUDA_OK(cudaPointerGetAttributes(&a, device.data()));
  EXPECT_EQ(a.type, cudaMemoryTypeDevice);
  EXPECT_EQ(a.device, 0);
  EXPECT_EQ(a.devicePointer, device.data());
  CUDA_OK(cudaPointerGetAttributes(&a, pinned));
  EXPECT_EQ(a.type, cudaMemoryTypeHost);
  CUDA_OK(cudaPointerGetAttributes(&a, &plain));
  EXPECT_EQ(a.type, cudaMemoryTypeUnregistered);
  CUDA_OK(cudaFreeHost(pinned));
}

TEST(Runtime, MemoryIsCountedAndRunsOut) {
  std::size_t free_before = 0;
  std::size_t free_after = 0;
  std::size_t total = 0;
  CUDA_OK(cudaMemGetInfo(&free_before, &total));
  void* memory = nullptr;
  CUDA_OK(cudaMalloc(&memory, 64 << 20));
  CUDA_OK(cudaMemGetInfo(&free_after, &total));
  EXPECT_EQ(free_before - free_after, std::size_t{64} << 20);
  CUDA_OK(cudaFree(memory));
  EXPECT_EQ(cudaMalloc(&memory, total * 2), cudaErrorMemoryAllocation);
  EXPECT_EQ(memory, nullptr);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  CUDA_OK(cudaMalloc(&memory, 0));
  EXPECT_EQ(memory, nullptr);
  CUDA_OK(cudaFree(nullptr));
}

TEST(Runtime, DriverEntryPoints) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  CUDA_OK(cudaGetDriverEntryPointByVersion("cuMemCreate", &function, 13000, cudaEnableDefault, &found));
  EXPECT_EQ(found, cudaDriverEntryPointSuccess);
  EXPECT_NE(function, nullptr);
  CUDA_OK(cudaGetDriverEntryPointByVersion("cuNoSuchThing", &function, 13000, cudaEnableDefault, &found));
  EXPECT_EQ(found, cudaDriverEntryPointSymbolNotFound);
}

extern "C" cudaError_t cudaMemcpyAsync_ptsz(void*, const void*, std::size_t, cudaMemcpyKind, cudaStream_t);
extern "C" cudaError_t cudaStreamSynchronize_ptsz(cudaStream_t);

TEST(Runtime, PerThreadStream) {
  const Floats content = values(100, 3);
  Floats back(100);
  Buffer a(content);
  CUDA_OK(cudaMemcpyAsync_ptsz(back.data(), a.data(), 400, cudaMemcpyDeviceToHost, nullptr));
  CUDA_OK(cudaStreamSynchronize_ptsz(nullptr));
  EXPECT_EQ(back, content);
}

}  // namespace
}  // namespace softlib
