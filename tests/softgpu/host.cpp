// The program's own loads and stores to page-locked buffers while copies that it has not waited for use them.
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "tests/softgpu/driver.h"

using namespace softgpu_test;

namespace {

constexpr const char* small = "v100-pcie3:compute:memory=64MiB";
constexpr std::size_t bytes = 2 * MiB;

char* pinned(std::size_t size) {
  void* memory = nullptr;
  EXPECT_EQ(cuMemHostAlloc(&memory, size, 0), CUDA_SUCCESS);
  return static_cast<char*>(memory);
}

char load(const char* from) {
  return *const_cast<const volatile char*>(from);
}
void store(char* to, char value) {
  *const_cast<volatile char*>(to) = value;
}

TEST(SoftgpuHost, ReadingAResultBeforeItsCopyEndedIsARace) {
  ON_DEVICE(
      small,
      "softgpu: race: op A .the program's own code, host, call [0-9]+. reads, op B .cuMemcpyDtoHAsync_v2, "
      "stream [0-9]+, call [0-9]+. writes.*host addresses",
      {
        const CUstream stream = new_stream();
        const CUdeviceptr device = allocate(bytes);
        EXPECT_EQ(fill(device, bytes / 4, 7, stream), CUDA_SUCCESS);
        char* const host = pinned(bytes);
        EXPECT_EQ(cuMemcpyDtoHAsync(host, device, bytes, stream), CUDA_SUCCESS);
        (void)load(host + 5000);
        EXPECT_EQ(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
      });
}

TEST(SoftgpuHost, WritingASourceBeforeItsCopyEndedIsARaceAndReadingItIsNot) {
  ON_DEVICE(small, "softgpu: race: op A .the program's own code.* writes, op B .cuMemcpyHtoDAsync_v2.* reads",
            {
              const CUstream stream = new_stream();
              const CUdeviceptr device = allocate(bytes);
              char* const host = pinned(bytes);
              std::memset(host, 3, bytes);
              EXPECT_EQ(cuMemcpyHtoDAsync(device, host, bytes, stream), CUDA_SUCCESS);
              EXPECT_EQ(load(host + 100), 3);
              EXPECT_EQ(cuCtxGetFlags(nullptr), CUDA_ERROR_INVALID_VALUE) << "no violation yet";
              store(host + 100, 4);
              EXPECT_EQ(load(host + 100), 4) << "the access goes on";
              EXPECT_EQ(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
            });
}

TEST(SoftgpuHost, AfterAnyKindOfWaitAllIsWell) {
  ON_DEVICE(small, "^$", {
    const CUstream stream = new_stream();
    const CUdeviceptr device = allocate(bytes);
    EXPECT_EQ(fill(device, bytes / 4, 7, stream), CUDA_SUCCESS);
    char* const host = pinned(bytes);
    const CUevent event = new_event();
    for (int kind = 0; kind < 4; ++kind) {
      EXPECT_EQ(cuMemcpyDtoHAsync(host, device, bytes, stream), CUDA_SUCCESS);
      EXPECT_EQ(cuMemcpyHtoDAsync(device, host, bytes, stream), CUDA_SUCCESS) << "the driver may, in order";
      EXPECT_EQ(cuEventRecord(event, stream), CUDA_SUCCESS);
      if (kind == 0) {
        EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
      }
      if (kind == 1) {
        EXPECT_EQ(cuEventSynchronize(event), CUDA_SUCCESS);
      }
      if (kind == 2) {
        EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
      }
      if (kind == 3) {
        while (cuEventQuery(event) == CUDA_ERROR_NOT_READY) continue;
      }
      EXPECT_EQ(load(host + 4), 7);
      store(host + 4, 7);
    }
  });
}

TEST(SoftgpuHost, AHostFunctionSeesWhatItsStreamDidBefore) {
  ON_DEVICE(small, "^$", {
    const CUstream stream = new_stream();
    const CUdeviceptr device = allocate(bytes);
    EXPECT_EQ(fill(device, bytes / 4, 7, stream), CUDA_SUCCESS);
    static char* host;
    host = pinned(bytes);
    EXPECT_EQ(cuMemcpyDtoHAsync(host, device, bytes, stream), CUDA_SUCCESS);
    const auto look = [](void* seen) { *static_cast<char*>(seen) = load(host); };
    static char seen = 0;
    EXPECT_EQ(cuLaunchHostFunc(stream, look, &seen), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
    EXPECT_EQ(seen, 7);
  });
}

TEST(SoftgpuHost, WhatSharesAPageWithABufferIsTheProgramsOwn) {
  ON_DEVICE(small, "^$", {
    const CUstream stream = new_stream();
    const CUdeviceptr device = allocate(bytes);
    EXPECT_EQ(fill(device, bytes / 4, 7, stream), CUDA_SUCCESS);
    char* const host = pinned(8192);
    EXPECT_EQ(cuMemcpyDtoHAsync(host + 100, device, 6000, stream), CUDA_SUCCESS);
    store(host, 1);
    store(host + 8191, 2);
    EXPECT_EQ(load(host) + load(host + 8191), 3);
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  });
}

TEST(SoftgpuHost, AForkedChildMayUseItsCopyOfABuffer) {
  ON_DEVICE(small, "^$", {
    const CUstream stream = new_stream();
    const CUdeviceptr device = allocate(bytes);
    EXPECT_EQ(fill(device, bytes / 4, 7, stream), CUDA_SUCCESS);
    char* const host = pinned(bytes);
    EXPECT_EQ(cuMemcpyDtoHAsync(host, device, bytes, stream), CUDA_SUCCESS);
    const pid_t child = fork();
    if (child == 0) {
      store(host, 9);
      _exit(load(host) == 9 ? 0 : 1);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
    EXPECT_EQ(load(host), 7);
  });
}

}  // namespace
