// The software GPU's checks: every planted fault is found, both operations are named, and every later call
// fails; ordered programs pass.
#include "tests/softgpu/driver.h"

using namespace softgpu_test;

namespace {

// The device has seen a fault: all calls fail from here on.
void expect_dead() {
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
  CUdeviceptr address = 0;
  EXPECT_EQ(cuMemAlloc(&address, 100), CUDA_ERROR_ILLEGAL_ADDRESS);
}

constexpr const char* small = "v100-pcie3:compute:memory=64MiB";

TEST(SoftgpuChecks, OutOfBounds) {
  ON_DEVICE(small, "softgpu: out-of-bounds: op A .fill, stream 1, call [0-9]+. writes.*\\(4 bytes\\)", {
    const CUdeviceptr a = allocate(400);
    EXPECT_EQ(fill(a, 101, 1), CUDA_SUCCESS);
    expect_dead();
  });
}

TEST(SoftgpuChecks, UseAfterFree) {
  ON_DEVICE(small, "softgpu: freed: op A .fill.*op B .cuMemFree_v2, host", {
    const CUdeviceptr a = allocate(4 * MiB);
    EXPECT_EQ(cuMemFree(a), CUDA_SUCCESS);
    EXPECT_EQ(fill(a, 100, 1), CUDA_SUCCESS);
    expect_dead();
  });
}

TEST(SoftgpuChecks, ReadOfWhatNobodyWrote) {
  ON_DEVICE(small, "softgpu: unwritten: op A .read", {
    const CUdeviceptr a = allocate(400);
    EXPECT_EQ(fill(a, 50, 1), CUDA_SUCCESS);
    EXPECT_EQ(read(a, 50), CUDA_SUCCESS);
    EXPECT_EQ(read(a, 51), CUDA_SUCCESS);
    expect_dead();
  });
}

TEST(SoftgpuChecks, UnwrittenBytesTravelWithCopies) {
  ON_DEVICE(small, "softgpu: unwritten: op A .read", {
    const CUdeviceptr a = allocate(4 * MiB), b = allocate(4 * MiB);
    void* host = nullptr;
    ASSERT_EQ(cuMemHostAlloc(&host, 4 * MiB, 0), CUDA_SUCCESS);
    EXPECT_EQ(fill(a, 1000, 1), CUDA_SUCCESS);
    EXPECT_EQ(cuMemcpyDtoHAsync(host, a, 4 * MiB, nullptr), CUDA_SUCCESS);  // no error by itself
    EXPECT_EQ(cuMemcpyHtoDAsync(b, host, 4 * MiB, nullptr), CUDA_SUCCESS);
    EXPECT_EQ(read(b, 1000), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    EXPECT_EQ(read(b, 1001), CUDA_SUCCESS);
    expect_dead();
  });
}

TEST(SoftgpuChecks, NoAccessBeforeSetAccess) {
  ON_DEVICE(small, "softgpu: unmapped: op A .fill", {
    const CUdeviceptr at = reserve(2 * MiB);
    EXPECT_EQ(cuMemMap(at, 2 * MiB, 0, create(2 * MiB), 0), CUDA_SUCCESS);
    EXPECT_EQ(fill(at, 1, 1), CUDA_SUCCESS);
    expect_dead();
  });
}

TEST(SoftgpuChecks, UseAfterUnmapNamesTheUnmap) {
  ON_DEVICE(small, "softgpu: unmapped: op A .fill.*op B .cuMemUnmap, host.*unmapped it", {
    const CUdeviceptr at = reserve(4 * MiB);
    map(at, 2 * MiB, create(2 * MiB));
    map(at + 2 * MiB, 2 * MiB, create(2 * MiB));
    EXPECT_EQ(fill(at, MiB, 1), CUDA_SUCCESS);  // across both
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    EXPECT_EQ(cuMemUnmap(at + 2 * MiB, 2 * MiB), CUDA_SUCCESS);
    EXPECT_EQ(fill(at, MiB, 1), CUDA_SUCCESS);
    expect_dead();
  });
}

TEST(SoftgpuChecks, UnmapUnderRunningWork) {
  ON_DEVICE(small, "softgpu: race: op A .cuMemUnmap, host, call [0-9]+. unmaps, op B .fill, stream [0-9]+", {
    const CUdeviceptr at = reserve(2 * MiB);
    map(at, 2 * MiB, create(2 * MiB));
    EXPECT_EQ(fill(at, 100, 1, new_stream()), CUDA_SUCCESS);
    EXPECT_EQ(cuMemUnmap(at, 2 * MiB), CUDA_SUCCESS);
    expect_dead();
  });
}

TEST(SoftgpuChecks, UnmapAfterAWaitIsFine) {
  ON_DEVICE(small, "^$", {
    const CUdeviceptr at = reserve(2 * MiB);
    const CUstream stream = new_stream();
    const CUevent event = new_event(CU_EVENT_DISABLE_TIMING);
    for (const bool ask : {false, true}) {
      const auto handle = create(2 * MiB);
      map(at, 2 * MiB, handle);
      EXPECT_EQ(fill(at, 100, 1, stream), CUDA_SUCCESS);
      EXPECT_EQ(cuEventRecord(event, stream), CUDA_SUCCESS);
      if (ask) {
        while (cuEventQuery(event) == CUDA_ERROR_NOT_READY) {
        }
      } else {
        EXPECT_EQ(cuEventSynchronize(event), CUDA_SUCCESS);
      }
      EXPECT_EQ(cuMemUnmap(at, 2 * MiB), CUDA_SUCCESS);
      EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
    }
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  });
}

TEST(SoftgpuChecks, DroppedWaitBetweenStreams) {
  ON_DEVICE(small,
            "softgpu: race: op A .add, stream .*op B .cuMemcpyHtoDAsync_v2, stream .*writes, unordered", {
              const CUstream copies = new_stream(), compute = new_stream();
              const CUdeviceptr a = allocate(4 * MiB), b = allocate(4 * MiB);
              EXPECT_EQ(fill(b, MiB, 1, compute), CUDA_SUCCESS);
              void* host = nullptr;
              ASSERT_EQ(cuMemHostAlloc(&host, 4 * MiB, 0), CUDA_SUCCESS);
              EXPECT_EQ(cuMemcpyHtoDAsync(a, host, 4 * MiB, copies), CUDA_SUCCESS);
              follow(compute, copies);
              EXPECT_EQ(add(b, a, MiB, compute), CUDA_SUCCESS);
              EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);  // ordered so far
              EXPECT_EQ(cuMemcpyHtoDAsync(a, host, 4 * MiB, copies), CUDA_SUCCESS);
              EXPECT_EQ(add(b, a, MiB, compute), CUDA_SUCCESS);
              expect_dead();
            });
}

TEST(SoftgpuChecks, OneHandleAtTwoAddresses) {
  ON_DEVICE(small, "softgpu: race: op A .fill, stream .*op B .fill, stream", {
    const auto handle = create(2 * MiB);
    const CUdeviceptr at = reserve(4 * MiB);
    map(at, 2 * MiB, handle);
    map(at + 2 * MiB, 2 * MiB, handle);
    const CUstream first = new_stream(), second = new_stream();
    EXPECT_EQ(fill(at, 100, 1, first), CUDA_SUCCESS);
    follow(second, first);
    EXPECT_EQ(fill(at + 2 * MiB, 100, 1, second), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    EXPECT_EQ(fill(at, 100, 1, first), CUDA_SUCCESS);
    EXPECT_EQ(fill(at + 2 * MiB, 100, 1, second), CUDA_SUCCESS);
    expect_dead();
  });
}

TEST(SoftgpuChecks, HostBufferReusedTooEarly) {
  ON_DEVICE(small, "softgpu: race: op A .cuMemcpyDtoHAsync_v2.*op B .cuMemcpyHtoDAsync_v2.*host addresses", {
    const CUdeviceptr a = allocate(4 * MiB), b = allocate(4 * MiB);
    void* host = nullptr;
    ASSERT_EQ(cuMemHostAlloc(&host, 4 * MiB, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuMemsetD8(a, 1, 4 * MiB), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    EXPECT_EQ(cuMemcpyHtoDAsync(b, host, 4 * MiB, new_stream()), CUDA_SUCCESS);
    EXPECT_EQ(cuMemcpyDtoHAsync(host, a, 4 * MiB, new_stream()), CUDA_SUCCESS);
    expect_dead();
  });
}

TEST(SoftgpuChecks, EarlyStreamOrderedFree) {
  ON_DEVICE(small, "softgpu: race: op A .cuMemFreeAsync.*frees, op B .fill", {
    const CUstream owner = new_stream(), user = new_stream();
    CUdeviceptr a = 0;
    ASSERT_EQ(cuMemAllocAsync(&a, 4 * MiB, owner), CUDA_SUCCESS);
    follow(user, owner);
    EXPECT_EQ(fill(a, 100, 1, user), CUDA_SUCCESS);
    EXPECT_EQ(cuMemFreeAsync(a, owner), CUDA_SUCCESS);
    expect_dead();
  });
}

TEST(SoftgpuChecks, LegacyStreamOrdersBlockingStreams) {
  ON_DEVICE(small, "^$", {
    CUstream first = nullptr, second = nullptr;
    ASSERT_EQ(cuStreamCreate(&first, CU_STREAM_DEFAULT), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamCreate(&second, CU_STREAM_DEFAULT), CUDA_SUCCESS);
    const CUdeviceptr a = allocate(400);
    EXPECT_EQ(fill(a, 100, 1, first), CUDA_SUCCESS);
    EXPECT_EQ(fill(a, 100, 2, nullptr), CUDA_SUCCESS);
    EXPECT_EQ(fill(a, 100, 3, second), CUDA_SUCCESS);
    std::uint32_t value = 0;
    EXPECT_EQ(cuMemcpyDtoH(&value, a, 4), CUDA_SUCCESS);
    EXPECT_EQ(value, 3u);
  });
}

TEST(SoftgpuChecks, LegacyStreamDoesNotOrderNonBlockingOnes) {
  ON_DEVICE(small, "softgpu: race", {
    const CUdeviceptr a = allocate(400);
    EXPECT_EQ(fill(a, 100, 1, nullptr), CUDA_SUCCESS);
    EXPECT_EQ(fill(a, 100, 1, new_stream()), CUDA_SUCCESS);
    expect_dead();
  });
}

TEST(SoftgpuChecks, ReadersDoNotRace) {
  ON_DEVICE(small, "softgpu: race: op A .fill.*op B .read, stream", {
    const CUdeviceptr a = allocate(400);
    EXPECT_EQ(fill(a, 100, 1), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    const CUstream first = new_stream(), second = new_stream();
    EXPECT_EQ(read(a, 100, first), CUDA_SUCCESS);
    EXPECT_EQ(read(a, 100, second), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamSynchronize(second), CUDA_SUCCESS);
    EXPECT_EQ(fill(a, 100, 1, second), CUDA_SUCCESS);  // the first reader may still be at it
    expect_dead();
  });
}

TEST(SoftgpuChecks, CopiesToBadAddressesAreRefused) {
  ON_DEVICE(small, "softgpu: freed: op A .cuMemcpyHtoD_v2.*op B .cuMemFree_v2", {
    const CUdeviceptr a = allocate(4 * MiB);
    EXPECT_EQ(cuMemFree(a), CUDA_SUCCESS);
    int value = 0;
    EXPECT_EQ(cuMemcpyHtoD(a, &value, 4), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemcpyHtoD(reinterpret_cast<CUdeviceptr>(&value), &value, 4), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  });
}

TEST(SoftgpuChecks, SeedsFindWhatOneOrderHides) {
  setenv("SOFTGPU_SEED", "3", 1);
  // A legal program gives the same content under any order.
  ON_DEVICE(small, "^$", {
    const CUstream first = new_stream(), second = new_stream();
    const CUdeviceptr a = allocate(400), b = allocate(400);
    for (int i = 0; i < 50; ++i) {
      EXPECT_EQ(fill(a, 100, static_cast<std::uint32_t>(i), first), CUDA_SUCCESS);
      follow(second, first);
      EXPECT_EQ(cuMemcpyDtoDAsync(b, a, 400, second), CUDA_SUCCESS);
      EXPECT_EQ(add(b, a, 100, second), CUDA_SUCCESS);
      follow(first, second);
    }
    std::uint32_t value = 0;
    EXPECT_EQ(cuStreamSynchronize(second), CUDA_SUCCESS);
    EXPECT_EQ(cuMemcpyDtoH(&value, b, 4), CUDA_SUCCESS);
    EXPECT_EQ(value, 98u);
  });
  unsetenv("SOFTGPU_SEED");
}

}  // namespace
