// The software GPU's memory: plain, stream-ordered, virtual, page-locked.
#include "tests/softgpu/driver.h"

using namespace softgpu_test;

namespace {

TEST(SoftgpuMemory, CapacityIsTheModels) {
  ON_DEVICE("v100-pcie3:timing", "", {
    std::size_t free = 0, total = 0, device_total = 0;
    ASSERT_EQ(cuMemGetInfo(&free, &total), CUDA_SUCCESS);
    ASSERT_EQ(cuDeviceTotalMem(&device_total, 0), CUDA_SUCCESS);
    EXPECT_EQ(free, std::size_t{1} << 34);
    EXPECT_EQ(total, device_total);
    EXPECT_GT(total, free);  // the context's own
    const CUdeviceptr all = allocate(free);
    CUdeviceptr more = 0;
    EXPECT_EQ(cuMemAlloc(&more, 1), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(cuMemFree(all), CUDA_SUCCESS);
    EXPECT_EQ(free_bytes(), free);
  });
}

TEST(SoftgpuMemory, SmallAllocationsShareGranules) {
  ON_DEVICE("v100-pcie3:compute:memory=64MiB", "", {
    const std::size_t before = free_bytes();
    const CUdeviceptr a = allocate(1), b = allocate(1000), c = allocate(3 * MiB);
    EXPECT_EQ(b - a, 512u);
    EXPECT_EQ(c % (2 * MiB), 0u);
    EXPECT_EQ(before - free_bytes(), 6 * MiB);
    for (const CUdeviceptr each : {a, b, c}) EXPECT_EQ(cuMemFree(each), CUDA_SUCCESS);
    EXPECT_EQ(free_bytes(), before);
    EXPECT_EQ(allocate(1), a);  // addresses come again
  });
}

TEST(SoftgpuMemory, ContentArrives) {
  ON_DEVICE("v100-pcie3:compute:memory=64MiB", "", {
    const CUdeviceptr a = allocate(4000), b = allocate(8 * MiB);
    std::vector<std::uint32_t> host(1000);
    for (std::uint32_t i = 0; i < 1000; ++i) host[i] = i;
    EXPECT_EQ(cuMemcpyHtoD(a, host.data(), 4000), CUDA_SUCCESS);
    EXPECT_EQ(fill(b, 1000, 7), CUDA_SUCCESS);
    EXPECT_EQ(add(b, a, 1000), CUDA_SUCCESS);
    EXPECT_EQ(cuMemcpyDtoH(host.data(), b, 4000), CUDA_SUCCESS);
    for (std::uint32_t i = 0; i < 1000; ++i) ASSERT_EQ(host[i], i + 7);
    EXPECT_EQ(cuMemsetD32(b, 5, 1000), CUDA_SUCCESS);
    CUDA_MEMCPY2D rows{};
    rows.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    rows.srcDevice = b;
    rows.srcPitch = 400;
    rows.dstMemoryType = CU_MEMORYTYPE_HOST;
    rows.dstHost = host.data();
    rows.dstPitch = 200;
    rows.WidthInBytes = 100;
    rows.Height = 10;
    EXPECT_EQ(cuMemcpy2D(&rows), CUDA_SUCCESS);
    EXPECT_EQ(host[0], 5u);
    EXPECT_EQ(host[25], 25u + 7);  // between the rows
    EXPECT_EQ(host[50], 5u);
  });
}

TEST(SoftgpuMemory, BadFreesAreNamed) {
  ON_DEVICE("v100-pcie3:compute:memory=64MiB",
            "invalid-free.*cuMemFree_v2(.|\n)*double-free.*op B .cuMemFree_v2", {
              const CUdeviceptr a = allocate(100), b = allocate(4 * MiB);
              EXPECT_EQ(cuMemFree(a + 512), CUDA_ERROR_INVALID_VALUE);
              EXPECT_EQ(cuMemFree(b), CUDA_SUCCESS);
              EXPECT_EQ(cuMemFree(b), CUDA_ERROR_INVALID_VALUE);
              EXPECT_EQ(cuMemFree(a), CUDA_SUCCESS);  // no lasting harm
            });
}

TEST(SoftgpuMemory, StreamOrderedMemoryIsReusedInOrder) {
  ON_DEVICE("v100-pcie3:compute:memory=16MiB:overheads=off", "", {
    const CUstream first = new_stream(), second = new_stream();
    CUdeviceptr a = 0, b = 0;
    for (int i = 0; i < 10; ++i) {
      ASSERT_EQ(cuMemAllocAsync(&a, 10 * MiB, first), CUDA_SUCCESS);
      EXPECT_EQ(fill(a, 1000, 1, first), CUDA_SUCCESS);
      EXPECT_EQ(cuMemFreeAsync(a, first), CUDA_SUCCESS);
      // The other stream gets the same memory, behind the first one's free.
      ASSERT_EQ(cuMemAllocAsync(&b, 10 * MiB, second), CUDA_SUCCESS);
      EXPECT_EQ(fill(b, 1000, 2, second), CUDA_SUCCESS);
      EXPECT_EQ(cuMemFreeAsync(b, second), CUDA_SUCCESS);
    }
    ASSERT_EQ(cuMemAllocAsync(&a, 10 * MiB, first), CUDA_SUCCESS);
    EXPECT_EQ(cuMemAllocAsync(&b, 10 * MiB, first), CUDA_ERROR_OUT_OF_MEMORY);
    CUmemoryPool pool = nullptr;
    ASSERT_EQ(cuDeviceGetDefaultMemPool(&pool, 0), CUDA_SUCCESS);
    cuuint64_t used = 0, high = 0;
    EXPECT_EQ(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used), CUDA_SUCCESS);
    EXPECT_EQ(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &high), CUDA_SUCCESS);
    EXPECT_EQ(used, 10 * MiB);
    EXPECT_EQ(high, 10 * MiB);
    EXPECT_EQ(cuMemFree(a), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    EXPECT_EQ(free_bytes(), 16 * MiB);
  });
}

TEST(SoftgpuMemory, PlainAllocationWaitsForAStreamsFree) {
  ON_DEVICE("v100-pcie3:timing:memory=16MiB:overheads=off", "", {
    const CUstream stream = new_stream();
    CUdeviceptr a = 0;
    ASSERT_EQ(cuMemAllocAsync(&a, 16 * MiB, stream), CUDA_SUCCESS);
    EXPECT_EQ(fill(a, 1000, 1, stream), CUDA_SUCCESS);
    EXPECT_EQ(cuMemFreeAsync(a, stream), CUDA_SUCCESS);
    const CUdeviceptr b = allocate(16 * MiB);
    EXPECT_EQ(fill(b, 1000, 1, new_stream()), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  });
}

TEST(SoftgpuMemory, MappingFollowsTheRules) {
  ON_DEVICE("v100-pcie3:compute:memory=64MiB:overheads=off", "", {
    const CUdeviceptr at = reserve(16 * MiB);
    const auto handle = create(4 * MiB);
    CUmemGenericAllocationHandle bad = 0;
    const CUmemAllocationProp prop = device_memory();
    EXPECT_EQ(cuMemCreate(&bad, MiB, &prop, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemCreate(&bad, 128 * MiB, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(cuMemMap(at, 2 * MiB, 2 * MiB, handle, 0), CUDA_ERROR_INVALID_VALUE);  // an offset
    EXPECT_EQ(cuMemMap(at + MiB, 4 * MiB, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemMap(at, 8 * MiB, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemMap(at + 14 * MiB, 4 * MiB, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemMap(at, 4 * MiB, 0, handle, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuMemMap(at, 4 * MiB, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);  // taken
    EXPECT_EQ(cuMemMap(at + 8 * MiB, 4 * MiB, 0, handle, 0), CUDA_SUCCESS);    // a second address
    EXPECT_EQ(allow(at, 8 * MiB), CUDA_ERROR_INVALID_VALUE);                   // a hole
    EXPECT_EQ(allow(at, 4 * MiB), CUDA_SUCCESS);
    EXPECT_EQ(allow(at + 8 * MiB, 4 * MiB), CUDA_SUCCESS);
    EXPECT_EQ(fill(at, 100, 3), CUDA_SUCCESS);
    std::uint32_t value = 0;
    EXPECT_EQ(cuMemcpyDtoH(&value, at + 8 * MiB, 4), CUDA_SUCCESS);  // the same memory
    EXPECT_EQ(value, 3u);
    EXPECT_EQ(cuMemUnmap(at, 2 * MiB), CUDA_ERROR_INVALID_VALUE);  // whole mappings only
    EXPECT_EQ(cuMemAddressFree(at, 16 * MiB), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
    EXPECT_EQ(free_bytes(), 60 * MiB);  // mappings keep it
    EXPECT_EQ(cuMemUnmap(at, 4 * MiB), CUDA_SUCCESS);
    EXPECT_EQ(cuMemUnmap(at, 4 * MiB), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemUnmap(at + 8 * MiB, 4 * MiB), CUDA_SUCCESS);
    EXPECT_EQ(free_bytes(), 64 * MiB);
    EXPECT_EQ(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemAddressFree(at, 16 * MiB), CUDA_SUCCESS);
  });
}

TEST(SoftgpuMemory, RetainedHandlesAndAccess) {
  ON_DEVICE("v100-nvlink2:timing", "", {
    const CUdeviceptr at = reserve(4 * MiB);
    map(at, 2 * MiB, create(2 * MiB));
    CUmemGenericAllocationHandle again = 0;
    ASSERT_EQ(cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(at + 5)), CUDA_SUCCESS);
    CUmemAllocationProp prop{};
    EXPECT_EQ(cuMemGetAllocationPropertiesFromHandle(&prop, again), CUDA_SUCCESS);
    EXPECT_EQ(prop.location.type, CU_MEM_LOCATION_TYPE_DEVICE);
    unsigned long long flags = 0;
    CUmemLocation device{};
    device.type = CU_MEM_LOCATION_TYPE_DEVICE;
    EXPECT_EQ(cuMemGetAccess(&flags, &device, at), CUDA_SUCCESS);
    EXPECT_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    EXPECT_EQ(cuMemGetAccess(&flags, &device, at + 2 * MiB), CUDA_ERROR_INVALID_VALUE);
  });
}

TEST(SoftgpuMemory, PageLockedMemoryHasTheHostsSize) {
  ON_DEVICE("v100-pcie3:timing", "", {
    void* all = nullptr;
    void* more = nullptr;
    ASSERT_EQ(cuMemHostAlloc(&all, 191'000'000'000, 0), CUDA_SUCCESS);  // costs nothing until touched
    EXPECT_EQ(cuMemHostAlloc(&more, 2'000'000'000, 0), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(cuMemFreeHost(all), CUDA_SUCCESS);
    EXPECT_EQ(cuMemFreeHost(all), CUDA_ERROR_INVALID_VALUE);
    std::vector<char> own(100000);
    EXPECT_EQ(cuMemHostRegister(own.data(), own.size(), 0), CUDA_SUCCESS);
    EXPECT_EQ(cuMemHostRegister(own.data() + 5, 10, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    unsigned type = 0;
    const auto address = reinterpret_cast<CUdeviceptr>(own.data());
    EXPECT_EQ(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address), CUDA_SUCCESS);
    EXPECT_EQ(type, CU_MEMORYTYPE_HOST);
    EXPECT_EQ(cuMemHostUnregister(own.data()), CUDA_SUCCESS);
    EXPECT_EQ(cuMemHostUnregister(own.data()), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    EXPECT_EQ(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address),
              CUDA_ERROR_INVALID_VALUE);
  });
}

TEST(SoftgpuMemory, PointersTellWhatTheyAre) {
  ON_DEVICE("v100-pcie3:timing", "", {
    const CUdeviceptr a = allocate(3 * MiB);
    CUdeviceptr base = 0;
    std::size_t bytes = 0;
    EXPECT_EQ(cuMemGetAddressRange(&base, &bytes, a + 100), CUDA_SUCCESS);
    EXPECT_EQ(base, a);
    EXPECT_EQ(bytes, 3 * MiB);
    unsigned type = 7;
    CUdeviceptr start = 0;
    CUpointer_attribute keys[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR};
    void* values[] = {&type, &start};
    EXPECT_EQ(cuPointerGetAttributes(2, keys, values, a + 100), CUDA_SUCCESS);
    EXPECT_EQ(type, CU_MEMORYTYPE_DEVICE);
    EXPECT_EQ(start, a);
    int local = 0;
    EXPECT_EQ(cuPointerGetAttributes(2, keys, values, reinterpret_cast<CUdeviceptr>(&local)), CUDA_SUCCESS);
    EXPECT_EQ(type, 0u);
    EXPECT_EQ(start, 0u);
  });
}

}  // namespace
