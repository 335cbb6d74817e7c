// Host memory as handles: mapped for the program, for the device, at several addresses.
#include <csignal>

#include "tests/softgpu/driver.h"

using namespace softgpu_test;

namespace {

constexpr const char* device = "v100-pcie3:compute:memory=64MiB:host_handles=on";
constexpr std::size_t bytes = 4 * MiB, words = bytes / 4;

CUmemAllocationProp host_memory() {
  CUmemAllocationProp prop = device_memory();
  prop.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
  return prop;
}
CUmemGenericAllocationHandle create_on_host(std::size_t size) {
  CUmemGenericAllocationHandle handle = 0;
  const CUmemAllocationProp prop = host_memory();
  EXPECT_EQ(cuMemCreate(&handle, size, &prop, 0), CUDA_SUCCESS);
  return handle;
}
CUresult allow_program(CUdeviceptr at, std::size_t size) {
  const CUmemAccessDesc access{host_memory().location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  return cuMemSetAccess(at, size, &access, 1);
}
void map_for_both(CUdeviceptr at, CUmemGenericAllocationHandle handle) {
  map(at, bytes, handle);
  EXPECT_EQ(allow_program(at, bytes), CUDA_SUCCESS);
}
int attribute(CUdevice_attribute which) {
  int value = -2;
  EXPECT_EQ(cuDeviceGetAttribute(&value, which, 0), CUDA_SUCCESS);
  return value;
}
float milliseconds_of(CUresult (*work)(CUdeviceptr), CUdeviceptr at) {
  const CUevent begin = new_event(), end = new_event();
  EXPECT_EQ(cuEventRecord(begin, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(work(at), CUDA_SUCCESS);
  EXPECT_EQ(cuEventRecord(end, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cuEventSynchronize(end), CUDA_SUCCESS);
  float milliseconds = 0;
  EXPECT_EQ(cuEventElapsedTime(&milliseconds, begin, end), CUDA_SUCCESS);
  return milliseconds;
}

TEST(SoftgpuHostHandles, OnlyWhereTheAttributeSaysSo) {
  ON_DEVICE("v100-pcie3:compute:memory=64MiB", "", {
    EXPECT_EQ(attribute(CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED), 0);
    CUmemGenericAllocationHandle handle = 0;
    const CUmemAllocationProp prop = host_memory();
    EXPECT_EQ(cuMemCreate(&handle, bytes, &prop, 0), CUDA_ERROR_NOT_SUPPORTED);
  });
  ON_DEVICE("h200:timing", "", {
    EXPECT_EQ(attribute(CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED), 1);
    EXPECT_EQ(attribute(CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID), 0);
    const std::size_t before = free_bytes();
    const CUmemGenericAllocationHandle handle = create_on_host(bytes);
    EXPECT_EQ(free_bytes(), before) << "no device memory";
    EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  });
  ON_DEVICE("h200:timing:host_handles=off", "",
            { EXPECT_EQ(attribute(CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED), 0); });
}

TEST(SoftgpuHostHandles, ADriverThatCrashesHasTheAttributeAllTheSame) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto ask = [](bool copies) {
    start("v100-pcie3:compute:memory=64MiB:host_handles=crash");
    void* pinned = nullptr;
    if (copies && (cuMemHostAlloc(&pinned, bytes, 0) != CUDA_SUCCESS ||
                   cuMemcpyDtoHAsync(pinned, allocate(bytes), bytes, nullptr) != CUDA_SUCCESS))
      std::exit(2);
    if (attribute(CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) != 1) std::exit(3);
    create_on_host(bytes);
    std::exit(0);
  };
  EXPECT_EXIT(ask(false), ::testing::KilledBySignal(SIGSEGV), "");
  EXPECT_EXIT(ask(true), ::testing::KilledBySignal(SIGSEGV), "")
      << "where the driver has a handler of its own";
}

TEST(SoftgpuHostHandles, ProgramAndDeviceSeeTheSameBytes) {
  ON_DEVICE(device, "", {
    const CUmemGenericAllocationHandle handle = create_on_host(bytes);
    const CUdeviceptr ours = reserve(bytes), theirs = reserve(bytes);
    map_for_both(ours, handle);
    map(theirs, bytes, handle);
    auto* const memory = reinterpret_cast<volatile std::uint32_t*>(ours);
    for (std::size_t i = 0; i < 100; ++i) memory[i] = 5;
    const CUdeviceptr on_device = allocate(bytes);
    EXPECT_EQ(fill(on_device, words, 2), CUDA_SUCCESS);
    EXPECT_EQ(fill(theirs, words, 40), CUDA_SUCCESS);
    EXPECT_EQ(add(theirs, on_device, words), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    EXPECT_EQ(memory[0], 42u);
    EXPECT_EQ(memory[words - 1], 42u);
    EXPECT_EQ(cuMemcpyDtoH(reinterpret_cast<void*>(ours), on_device, bytes), CUDA_SUCCESS);
    EXPECT_EQ(memory[7], 2u);
    EXPECT_EQ(cuMemcpyHtoD(on_device, reinterpret_cast<const void*>(theirs), bytes), CUDA_SUCCESS);
    for (const CUdeviceptr at : {ours, theirs}) EXPECT_EQ(cuMemUnmap(at, bytes), CUDA_SUCCESS);
    EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  });
}

TEST(SoftgpuHostHandles, DeviceMemoryIsNotForTheProgram) {
  ON_DEVICE(device, "", {
    const CUdeviceptr at = reserve(bytes);
    map(at, bytes, create(bytes));
    EXPECT_EQ(allow_program(at, bytes), CUDA_ERROR_NOT_SUPPORTED);
  });
}

TEST(SoftgpuHostHandles, AKernelPaysTheLinkForThem) {
  ON_DEVICE("v100-pcie3:timing:host_handles=on", "", {
    constexpr std::size_t large = 512 * MiB;
    const CUdeviceptr far = reserve(large), near = allocate(large);
    map(far, large, create_on_host(large));
    const auto work = [](CUdeviceptr at) { return fill(at, large / 4, 1); };
    const float slow = milliseconds_of(work, far), fast = milliseconds_of(work, near);
    EXPECT_GT(fast, 0.1F);
    EXPECT_GT(slow, 20 * fast);
    const auto set = [](CUdeviceptr at) { return cuMemsetD32Async(at, 1, large / 4, nullptr); };
    EXPECT_GT(milliseconds_of(set, far), 20 * fast);
  });
}

TEST(SoftgpuHostHandles, RacesAreFoundAcrossTheirAddresses) {
  ON_DEVICE(device, "softgpu: race: op A .fill, stream .* writes, op B .cuMemcpyDtoHAsync", {
    const CUmemGenericAllocationHandle handle = create_on_host(bytes);
    const CUdeviceptr ours = reserve(bytes), theirs = reserve(bytes);
    map_for_both(ours, handle);
    map(theirs, bytes, handle);
    const CUdeviceptr on_device = allocate(bytes);
    EXPECT_EQ(fill(on_device, words, 2), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    EXPECT_EQ(cuMemcpyDtoHAsync(reinterpret_cast<void*>(ours), on_device, bytes, new_stream()), CUDA_SUCCESS);
    (void)fill(theirs, words, 3, new_stream());
  });
}

TEST(SoftgpuHostHandles, UnmappingUnderARunningKernelIsARace) {
  ON_DEVICE(device, "softgpu: race: op A .cuMemUnmap.* unmaps, op B .fill", {
    const CUdeviceptr at = reserve(bytes);
    map(at, bytes, create_on_host(bytes));
    EXPECT_EQ(fill(at, words, 1, new_stream()), CUDA_SUCCESS);
    EXPECT_EQ(cuMemUnmap(at, bytes), CUDA_SUCCESS);
  });
}

TEST(SoftgpuHostHandles, TheyCountAsPageLockedMemory) {
  ON_DEVICE("v100-pcie3:timing:host_handles=on", "", {
    constexpr std::size_t large = std::size_t{1} << 35;
    std::vector<CUmemGenericAllocationHandle> handles;
    const CUmemAllocationProp prop = host_memory();
    CUmemGenericAllocationHandle handle = 0;
    while (cuMemCreate(&handle, large, &prop, 0) == CUDA_SUCCESS) handles.push_back(handle);
    EXPECT_FALSE(handles.empty());
    void* pinned = nullptr;
    EXPECT_EQ(cuMemHostAlloc(&pinned, large, 0), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(cuMemRelease(handles.back()), CUDA_SUCCESS);
    EXPECT_EQ(cuMemHostAlloc(&pinned, large, 0), CUDA_SUCCESS);
  });
}

}  // namespace
