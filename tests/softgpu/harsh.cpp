// Where the software GPU is no kinder than silicon: each test plants an assumption that a kind model lets
// pass.
#include <atomic>
#include <chrono>
#include <cmath>
#include <numeric>
#include <thread>
#include <vector>

#include "tests/softgpu/driver.h"

using namespace softgpu_test;

namespace {

double between_us(CUevent begin, CUevent end) {
  EXPECT_EQ(cuEventSynchronize(end), CUDA_SUCCESS);
  float milliseconds = 0;
  EXPECT_EQ(cuEventElapsedTime(&milliseconds, begin, end), CUDA_SUCCESS);
  return 1e3 * static_cast<double>(milliseconds);
}

// Virtual host time that `work` takes. The stream is idle, so its events have the host's time.
template <class Work>
double host_us(Work work) {
  const CUstream stream = new_stream();
  const CUevent begin = new_event(), end = new_event();
  EXPECT_EQ(cuEventRecord(begin, stream), CUDA_SUCCESS);
  work();
  EXPECT_EQ(cuEventRecord(end, stream), CUDA_SUCCESS);
  return between_us(begin, end);
}

// 32 MiB mapped as so many handles.
struct Mapped {
  static constexpr std::size_t bytes = 32 * MiB;
  CUdeviceptr at = reserve(bytes);

  explicit Mapped(std::size_t handles) {
    for (std::size_t i = 0; i < handles; ++i)
      EXPECT_EQ(cuMemMap(at + i * (bytes / handles), bytes / handles, 0, create(bytes / handles), 0),
                CUDA_SUCCESS);
  }
  double access_us() {
    return host_us([&] { EXPECT_EQ(allow(at, bytes), CUDA_SUCCESS); });
  }
  double unmap_us() {
    return host_us([&] { EXPECT_EQ(cuMemUnmap(at, bytes), CUDA_SUCCESS); });
  }
};

TEST(SoftgpuHarsh, MappingManyHandlesAtOnceCostsAsMuchAsOneByOne) {
  ON_DEVICE("v100-pcie3:timing:vmm=1", "", {
    Mapped one(1);
    Mapped many(16);
    EXPECT_NEAR(one.access_us(), 36, 3);
    EXPECT_NEAR(many.access_us(), 16 * 36, 6);
    EXPECT_NEAR(one.unmap_us(), 26, 3);
    EXPECT_NEAR(many.unmap_us(), 16 * 26, 6);
  });
  ON_DEVICE("v100-pcie3:timing:vmm=percall", "", {
    Mapped many(16);
    EXPECT_NEAR(many.access_us(), 36, 3);
    EXPECT_NEAR(many.unmap_us(), 26, 3);
  });
}

TEST(SoftgpuHarsh, ThePriceOfMappingIsScaled) {
  ON_DEVICE("v100-pcie3:timing:vmm=3", "", {
    Mapped many(16);
    EXPECT_NEAR(many.access_us(), 3 * 16 * 36, 6);
    EXPECT_NEAR(many.unmap_us(), 3 * 16 * 26, 6);
  });
  ON_DEVICE("v100-pcie3:timing:vmm=0", "", {
    Mapped many(16);
    EXPECT_LT(many.access_us(), 3);
    EXPECT_LT(many.unmap_us(), 3);
  });
}

// 3 ms of work, then access to memory that it does not use.
double access_beside_work_us() {
  const CUdeviceptr busy = allocate(1'000'000'000);
  const CUstream stream = new_stream();
  Mapped one(1);
  EXPECT_EQ(cuMemsetD8Async(busy, 0, 1'000'000'000, stream), CUDA_SUCCESS);
  return one.access_us();
}

TEST(SoftgpuHarsh, MappingMayWaitForTheDevice) {
  ON_DEVICE("v100-pcie3:timing:vmm=1", "", { EXPECT_LT(access_beside_work_us(), 50); });
  ON_DEVICE("v100-pcie3:timing:vmm=1:vmm_sync=on", "", { EXPECT_GT(access_beside_work_us(), 1000); });
}

// Measured on an H200: 28 us a handle, idle and beside copies in, 1.05 ms beside copies to the host.
TEST(SoftgpuHarsh, EachHandleWaitsForTheEngineThatCopiesToTheHost) {
  ON_DEVICE("h200:timing:vmm=1", "", {
    constexpr std::size_t bytes = 512 * MiB;  // 10 ms
    const CUdeviceptr from = allocate(bytes);
    void* to = nullptr;
    EXPECT_EQ(cuMemHostAlloc(&to, bytes, 0), CUDA_SUCCESS);
    const CUstream stream = new_stream();
    Mapped some(4);
    EXPECT_EQ(cuMemcpyHtoDAsync(from, to, bytes, stream), CUDA_SUCCESS);
    EXPECT_NEAR(some.access_us(), 4 * 36, 6);
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
    EXPECT_EQ(cuMemcpyDtoHAsync(to, from, bytes, stream), CUDA_SUCCESS);
    EXPECT_NEAR(some.access_us(), 4 * 1050, 6);
    Mapped many(16);  // the copy ends before the tenth
    EXPECT_LT(many.access_us(), 10 * 1050);
    EXPECT_NEAR(many.unmap_us(), 16 * 26, 6);
  });
}

TEST(SoftgpuHarsh, ReservationsLieWhereIntegersLookLikeAddresses) {
#if !defined(__SANITIZE_ADDRESS__)
  ON_DEVICE("v100-pcie3:timing", "", { EXPECT_EQ(reserve(2 * MiB), CUdeviceptr{0x302000000}); });
#endif
  ON_DEVICE("v100-pcie3:timing:addresses=high", "", { EXPECT_GT(reserve(2 * MiB), CUdeviceptr{1} << 44); });
}

TEST(SoftgpuHarsh, HostHandlesThatAreSaidToWorkMayBeRefused) {
  ON_DEVICE("v100-pcie3:timing:host_handles=refused", "", {
    int says = 0;
    EXPECT_EQ(
        cuDeviceGetAttribute(&says, CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0),
        CUDA_SUCCESS);
    EXPECT_EQ(says, 1);
    CUmemAllocationProp prop = device_memory();
    prop.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
    CUmemGenericAllocationHandle handle = 0;
    EXPECT_EQ(cuMemCreate(&handle, 2 * MiB, &prop, 0), CUDA_ERROR_NOT_PERMITTED);
  });
}

TEST(SoftgpuHarsh, HandlesAskedForOnTheHostMayBeOfTheDevicesMemory) {
  ON_DEVICE("v100-pcie3:timing:host_handles=misreported", "", {
    CUmemAllocationProp prop = device_memory();
    prop.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
    const std::size_t before = free_bytes();
    CUmemGenericAllocationHandle handle = 0;
    EXPECT_EQ(cuMemCreate(&handle, 2 * MiB, &prop, 0), CUDA_SUCCESS);
    EXPECT_EQ(free_bytes(), before - 2 * MiB);
    const CUdeviceptr at = reserve(2 * MiB);
    map(at, 2 * MiB, handle);
    const CUmemAccessDesc for_the_program{prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    EXPECT_EQ(cuMemSetAccess(at, 2 * MiB, &for_the_program, 1), CUDA_SUCCESS);
    CUmemAllocationProp says{};
    EXPECT_EQ(cuMemGetAllocationPropertiesFromHandle(&says, handle), CUDA_SUCCESS);
    EXPECT_EQ(says.location.type, CU_MEM_LOCATION_TYPE_DEVICE);
  });
}

// A kernel, asked as if it were a function.
CUresult ask_as_a_function() {
  CUkernel kernel = nullptr;
  const char* name = nullptr;
  EXPECT_EQ(cuLibraryGetKernel(&kernel, library, "fill"), CUDA_SUCCESS);
  return cuFuncGetName(&name, reinterpret_cast<CUfunction>(kernel));
}

TEST(SoftgpuHarsh, AQueryThatAnswersDoesNotTellTheKindOfAHandle) {
  ON_DEVICE("v100-pcie3:timing", "", { EXPECT_EQ(ask_as_a_function(), CUDA_ERROR_INVALID_HANDLE); });
  ON_DEVICE("v100-pcie3:timing:kernel_queries=both", "", { EXPECT_EQ(ask_as_a_function(), CUDA_SUCCESS); });
}

// How long each of `count` equal sets took on the device.
std::vector<double> sets_us(std::size_t count) {
  const CUstream stream = new_stream();
  const CUdeviceptr at = allocate(100'000'000);
  std::vector<double> took;
  for (std::size_t i = 0; i < count; ++i) {
    const CUevent begin = new_event(), end = new_event();
    EXPECT_EQ(cuEventRecord(begin, stream), CUDA_SUCCESS);
    EXPECT_EQ(cuMemsetD8Async(at, 0, 100'000'000, stream), CUDA_SUCCESS);
    EXPECT_EQ(cuEventRecord(end, stream), CUDA_SUCCESS);
    took.push_back(between_us(begin, end));
  }
  return took;
}
double mean(const std::vector<double>& all) {
  return std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size());
}
double deviation(const std::vector<double>& all) {
  double squares = 0;
  for (const double one : all) squares += (one - mean(all)) * (one - mean(all));
  return std::sqrt(squares / static_cast<double>(all.size()));
}

TEST(SoftgpuHarsh, EqualWorkTakesUnequalTimes) {
  ON_DEVICE("v100-pcie3:timing", "", { EXPECT_LT(deviation(sets_us(400)), 1e-3); });
  ON_DEVICE("v100-pcie3:timing:noise=2,5", "", {
    const std::vector<double> took = sets_us(400);
    EXPECT_GT(deviation(took) / mean(took), 0.015);
    EXPECT_LT(deviation(took) / mean(took), 0.03);
  });
}

TEST(SoftgpuHarsh, EventsTakeTheDevicesTime) {
  ON_DEVICE("v100-pcie3:timing", "", {
    const CUstream stream = new_stream();
    const CUevent begin = new_event(), end = new_event(), between = new_event(CU_EVENT_DISABLE_TIMING);
    const CUdeviceptr at = allocate(100'000'000);
    EXPECT_EQ(cuMemsetD8Async(at, 0, 100'000'000, stream), CUDA_SUCCESS);  // the host is ahead from here on
    EXPECT_EQ(cuEventRecord(begin, stream), CUDA_SUCCESS);
    for (int i = 0; i < 20; ++i) EXPECT_EQ(cuEventRecord(between, stream), CUDA_SUCCESS);
    EXPECT_EQ(cuEventRecord(end, stream), CUDA_SUCCESS);
    EXPECT_GE(between_us(begin, end), 10);
  });
}

TEST(SoftgpuHarsh, ALaunchWaitsWhileTheDeviceHasTooManyAheadOfIt) {
  ON_DEVICE("v100-pcie3:timing", "", {
    const CUstream stream = new_stream();
    const CUdeviceptr at = allocate(100'000'000);
    const auto launch_us = [&] {
      return host_us([&] { EXPECT_EQ(fill(at, 25'000'000, 0, stream), CUDA_SUCCESS); });
    };
    for (int i = 0; i < 1000; ++i) EXPECT_LT(launch_us(), 20);
    for (int i = 0; i < 1000; ++i) EXPECT_EQ(fill(at, 25'000'000, 0, stream), CUDA_SUCCESS);
    EXPECT_GT(launch_us(), 100);  // for one fill of 0.1 ms to end
  });
}

TEST(SoftgpuHarsh, ALaunchIntoAFullQueueWaitsForWhatHoldsItsStreamBack) {
  ON_DEVICE("v100-pcie3:compute:memory=64MiB", "", {
    const CUstream stream = new_stream();
    const CUdeviceptr gate = allocate(4), at = allocate(4);
    EXPECT_EQ(cuMemsetD32(gate, 0, 1), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamWaitValue32(stream, gate, 1, CU_STREAM_WAIT_VALUE_EQ), CUDA_SUCCESS);
    std::atomic<int> launched = 0;
    CUcontext context = nullptr;
    EXPECT_EQ(cuCtxGetCurrent(&context), CUDA_SUCCESS);
    std::thread launcher([&] {
      EXPECT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
      for (; launched < 1100; ++launched) EXPECT_EQ(fill(at, 1, 0, stream), CUDA_SUCCESS);
    });
    while (launched < 1024) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_EQ(launched, 1024);
    EXPECT_EQ(cuStreamWriteValue32(new_stream(), gate, 1, CU_STREAM_WRITE_VALUE_DEFAULT), CUDA_SUCCESS);
    launcher.join();
    EXPECT_EQ(launched, 1100);
  });
}

constexpr std::uint32_t deep_bytes = 8192;
constexpr softgpu::KernelEntry deep_entries[] = {
    {"deep", three_params, 3, read_footprint, read_run, deep_bytes}};
constexpr softgpu::Image deep_image{softgpu::image_magic, 1, deep_entries};

TEST(SoftgpuHarsh, TheFirstLaunchTakesMemoryForCode) {
  ON_DEVICE("v100-pcie3:timing:memory=64MiB", "", {
    const CUdeviceptr at = allocate(2 * MiB);
    EXPECT_EQ(free_bytes(), 62 * MiB);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(fill(at, 1, 0), CUDA_SUCCESS);
    EXPECT_EQ(free_bytes(), 60 * MiB);
    EXPECT_EQ(add(at, at, 1), CUDA_SUCCESS);
    EXPECT_EQ(free_bytes(), 60 * MiB) << "kernels share granules";
    EXPECT_EQ(cuLibraryUnload(library), CUDA_SUCCESS);
    EXPECT_EQ(free_bytes(), 62 * MiB);
  });
}

TEST(SoftgpuHarsh, ALaunchOnAFullDeviceIsOutOfMemory) {
  ON_DEVICE("v100-pcie3:compute:memory=64MiB", "", {
    const CUdeviceptr most = allocate(62 * MiB), last = allocate(2 * MiB);
    EXPECT_EQ(fill(most, 1, 0), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(cuMemFree(last), CUDA_SUCCESS);
    EXPECT_EQ(fill(most, 1, 0), CUDA_SUCCESS);
  });
  ON_DEVICE("v100-pcie3:compute:memory=64MiB:overheads=off", "",
            { EXPECT_EQ(fill(allocate(64 * MiB), 1, 0), CUDA_SUCCESS); });
}

TEST(SoftgpuHarsh, WhereModulesAreLoadedEagerlyTheLoadTakesTheMemory) {
  setenv("CUDA_MODULE_LOADING", "EAGER", 1);
  ON_DEVICE("v100-pcie3:timing:memory=64MiB", "", {
    EXPECT_EQ(free_bytes(), 62 * MiB);
    allocate(62 * MiB);
    CUmodule more = nullptr;
    while (cuModuleLoadData(&more, &image) == CUDA_SUCCESS) EXPECT_LT(free_bytes(), 2 * MiB);
    EXPECT_EQ(cuModuleLoadData(&more, &image), CUDA_ERROR_OUT_OF_MEMORY);
  });
  unsetenv("CUDA_MODULE_LOADING");
}

TEST(SoftgpuHarsh, LocalMemoryGrowsAtALaunch) {
  ON_DEVICE("v100-pcie3:timing:memory=2GiB", "", {
    ASSERT_EQ(cuLibraryLoadData(&library, &deep_image, nullptr, nullptr, 0, nullptr, nullptr, 0),
              CUDA_SUCCESS);
    const auto deep = [] { return launch("deep", nullptr, 0, 0, 0); };
    const CUdeviceptr most = allocate(1024 * MiB);
    EXPECT_EQ(deep(), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(free_bytes(), 1024 * MiB) << "nothing was taken";
    EXPECT_EQ(cuMemFree(most), CUDA_SUCCESS);
    for (int i = 0; i < 2; ++i) EXPECT_EQ(deep(), CUDA_SUCCESS);
    EXPECT_EQ(2048 * MiB - free_bytes(), 80u * 2048 * (deep_bytes - 1024) + 2 * MiB);
  });
}

TEST(SoftgpuHarsh, AMappingNeedsMemoryForItsTable) {
  ON_DEVICE("v100-pcie3:timing:memory=16MiB", "", {
    const CUdeviceptr at = reserve(16 * MiB);
    const CUmemGenericAllocationHandle most = create(14 * MiB), last = create(2 * MiB);
    EXPECT_EQ(cuMemMap(at, 14 * MiB, 0, most, 0), CUDA_SUCCESS);
    EXPECT_EQ(allow(at, 14 * MiB), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(cuMemRelease(last), CUDA_SUCCESS);
    EXPECT_EQ(allow(at, 14 * MiB), CUDA_SUCCESS);
    EXPECT_EQ(free_bytes(), 0u) << "the driver keeps the table";
  });
}

// So kernels may read past their operands to the end of a page, whatever lies there.
TEST(SoftgpuHarsh, APageIsMappedAsAWholeOrNotAtAll) {
  ON_DEVICE("v100-pcie3:timing:memory=64MiB", "", {
    const CUdeviceptr at = reserve(8 * MiB);
    const CUmemGenericAllocationHandle handle = create(4 * MiB);
    EXPECT_EQ(cuMemMap(at, 3 * MiB, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemMap(at + MiB, 2 * MiB, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemMap(at, 2 * MiB, MiB, handle, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemMap(at, 4 * MiB, 0, handle, 0), CUDA_SUCCESS);
    EXPECT_EQ(allow(at, 3 * MiB), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(allow(at, 4 * MiB), CUDA_SUCCESS);
    EXPECT_EQ(cuMemUnmap(at + 3 * MiB, MiB), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemUnmap(at, MiB), CUDA_ERROR_INVALID_VALUE);
  });
}

}  // namespace
