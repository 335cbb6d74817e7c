// Several software devices in one process.
#include <cstring>

#include "tests/softgpu/driver.h"

using namespace softgpu_test;

namespace {

constexpr const char* two = "v100-pcie3:compute:memory=64MiB:devices=2";

// Makes the primary context of the second device current.
void use_second() {
  CUcontext context = nullptr;
  EXPECT_EQ(cuDevicePrimaryCtxRetain(&context, 1), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
}

std::size_t free_bytes() {
  std::size_t free = 0, total = 0;
  EXPECT_EQ(cuMemGetInfo(&free, &total), CUDA_SUCCESS);
  return free;
}

TEST(SoftgpuDevices, EachHasANameAndMemoryOfItsOwn) {
  ON_DEVICE(two, "^$", {
    int count = 0;
    EXPECT_EQ(cuDeviceGetCount(&count), CUDA_SUCCESS);
    EXPECT_EQ(count, 2);
    CUdevice device = -1;
    EXPECT_EQ(cuDeviceGet(&device, 2), CUDA_ERROR_INVALID_DEVICE);
    CUuuid first{}, second{};
    EXPECT_EQ(cuDeviceGetUuid(&first, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuDeviceGetUuid(&second, 1), CUDA_SUCCESS);
    EXPECT_NE(std::memcmp(&first, &second, sizeof first), 0);
    EXPECT_EQ(cuDeviceGetByPCIBusId(&device, "0000:02:00.0"), CUDA_SUCCESS);
    EXPECT_EQ(device, 1);
    EXPECT_NE(allocate(40 * MiB), 0U);
    EXPECT_EQ(free_bytes(), 24 * MiB);
    use_second();
    EXPECT_EQ(cuCtxGetDevice(&device), CUDA_SUCCESS);
    EXPECT_EQ(device, 1);
    EXPECT_EQ(free_bytes(), 64 * MiB);
    const CUdeviceptr here = allocate(40 * MiB);
    EXPECT_EQ(free_bytes(), 24 * MiB);
    CUdeviceptr more = 0;
    EXPECT_EQ(cuMemAlloc(&more, 40 * MiB), CUDA_ERROR_OUT_OF_MEMORY);
    int ordinal = -1;
    EXPECT_EQ(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, here), CUDA_SUCCESS);
    EXPECT_EQ(ordinal, 1);
  });
}

TEST(SoftgpuDevices, CopiesReachBothAndKernelsTheirOwn) {
  ON_DEVICE(two, "other-device", {
    const CUdeviceptr first = allocate(400);
    EXPECT_EQ(fill(first, 100, 7, nullptr), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    use_second();
    const CUdeviceptr second = allocate(400);
    EXPECT_EQ(cuMemcpy(second, first, 400), CUDA_SUCCESS);
    EXPECT_EQ(add(second, second, 100, nullptr), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    (void)add(second, first, 100, nullptr);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
  });
}

TEST(SoftgpuDevices, HostHandlesServeTheDevicesThatWereGivenAccess) {
  ON_DEVICE("v100-pcie3:compute:memory=64MiB:devices=2:host_handles=on", "other-device", {
    CUmemAllocationProp prop = device_memory();
    prop.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
    CUmemGenericAllocationHandle handle = 0;
    EXPECT_EQ(cuMemCreate(&handle, 2 * MiB, &prop, 0), CUDA_SUCCESS);
    const CUdeviceptr shared = reserve(2 * MiB), firsts = reserve(2 * MiB);
    map(shared, 2 * MiB, handle);  // for the first device
    map(firsts, 2 * MiB, handle);
    EXPECT_EQ(fill(firsts, 100, 7), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    use_second();
    CUmemAccessDesc access{device_memory().location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    access.location.id = 1;
    EXPECT_EQ(cuMemSetAccess(shared, 2 * MiB, &access, 1), CUDA_SUCCESS);
    const CUdeviceptr second = allocate(400);
    EXPECT_EQ(fill(second, 100, 1, nullptr), CUDA_SUCCESS);
    EXPECT_EQ(add(second, shared, 100, nullptr), CUDA_SUCCESS);
    std::uint32_t sum = 0;
    EXPECT_EQ(cuMemcpyDtoH(&sum, second, sizeof sum), CUDA_SUCCESS);
    EXPECT_EQ(sum, 8U);
    (void)add(second, firsts, 100, nullptr);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
  });
}

}  // namespace
