// The software GPU's order and virtual time: streams, events, host functions, wait-values, launches.
#include <atomic>
#include <thread>

#include "tests/softgpu/driver.h"

using namespace softgpu_test;

namespace {

constexpr const char* small = "v100-pcie3:compute:memory=64MiB";

float between(CUevent begin, CUevent end) {
  float milliseconds = -1;
  EXPECT_EQ(cuEventElapsedTime(&milliseconds, begin, end), CUDA_SUCCESS);
  return milliseconds;
}

TEST(SoftgpuOrder, CopiesTakeTheLinksTime) {
  ON_DEVICE("v100-pcie3:timing", "", {
    const CUstream stream = new_stream();
    const CUevent begin = new_event(), end = new_event();
    const CUdeviceptr a = allocate(1'200'000'000);
    void* host = nullptr;
    ASSERT_EQ(cuMemHostAlloc(&host, 1'200'000'000, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuEventRecord(begin, stream), CUDA_SUCCESS);
    EXPECT_EQ(cuMemcpyHtoDAsync(a, host, 1'200'000'000, stream), CUDA_SUCCESS);
    EXPECT_EQ(cuEventRecord(end, stream), CUDA_SUCCESS);
    EXPECT_EQ(cuEventQuery(end), CUDA_ERROR_NOT_READY);
    float none = 0;
    EXPECT_EQ(cuEventElapsedTime(&none, begin, end), CUDA_ERROR_NOT_READY);
    EXPECT_EQ(cuEventSynchronize(end), CUDA_SUCCESS);
    EXPECT_NEAR(between(begin, end), 100, 1);  // 1.2 GB at 12 GB/s
  });
}

TEST(SoftgpuOrder, EnginesOverlapAndStreamsShareThem) {
  ON_DEVICE("v100-pcie3:timing", "", {
    const CUstream first = new_stream(), second = new_stream();
    const CUevent begin = new_event(), in = new_event(), out = new_event(), again = new_event();
    const CUdeviceptr a = allocate(120'000'000), b = allocate(120'000'000);
    void* host = nullptr;
    ASSERT_EQ(cuMemHostAlloc(&host, 240'000'000, 0), CUDA_SUCCESS);
    auto* const other = static_cast<char*>(host) + 120'000'000;
    EXPECT_EQ(cuMemsetD8(b, 0, 120'000'000), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    EXPECT_EQ(cuEventRecord(begin, first), CUDA_SUCCESS);
    EXPECT_EQ(cuMemcpyHtoDAsync(a, host, 120'000'000, first), CUDA_SUCCESS);
    EXPECT_EQ(cuEventRecord(in, first), CUDA_SUCCESS);
    EXPECT_EQ(cuMemcpyDtoHAsync(other, b, 120'000'000, second), CUDA_SUCCESS);
    EXPECT_EQ(cuEventRecord(out, second), CUDA_SUCCESS);
    EXPECT_EQ(cuMemcpyHtoDAsync(b, other, 120'000'000, second), CUDA_SUCCESS);
    EXPECT_EQ(cuEventRecord(again, second), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    EXPECT_NEAR(between(begin, in), 10, 0.5);
    // The other direction, at the same time: 0.78 of its rate, 2 * both_ways - 1, while the first runs.
    EXPECT_NEAR(between(begin, out), 12.2, 0.1);
    EXPECT_NEAR(between(begin, again), 22.2, 0.1);
  });
}

TEST(SoftgpuOrder, QueriesMakeProgress) {
  ON_DEVICE("v100-pcie3:timing", "", {
    const CUstream stream = new_stream();
    EXPECT_EQ(cuStreamQuery(stream), CUDA_SUCCESS);
    const CUdeviceptr a = allocate(64 * MiB);
    EXPECT_EQ(fill(a, 16 * MiB, 1, stream), CUDA_SUCCESS);
    int asked = 0;
    while (cuStreamQuery(stream) == CUDA_ERROR_NOT_READY) ASSERT_LT(++asked, 1000000);
    EXPECT_GT(asked, 0);
    EXPECT_EQ(cuEventQuery(new_event()), CUDA_SUCCESS);  // never recorded
  });
}

struct Blocked {
  std::atomic<bool> release{false};
  std::atomic<int> ran{0};
  CUresult inside = CUDA_SUCCESS;
};

void hold(void* data) {
  auto* const blocked = static_cast<Blocked*>(data);
  std::size_t free = 0, total = 0;
  blocked->inside = cuMemGetInfo(&free, &total);
  while (!blocked->release) std::this_thread::yield();
  ++blocked->ran;
}

TEST(SoftgpuOrder, HostFunctionsHoldTheirStreamBack) {
  ON_DEVICE(small, "^$", {
    Blocked blocked;
    const CUstream held = new_stream(), follower = new_stream(), free = new_stream();
    const CUdeviceptr a = allocate(400), b = allocate(400);
    EXPECT_EQ(cuLaunchHostFunc(held, hold, &blocked), CUDA_SUCCESS);
    EXPECT_EQ(fill(a, 100, 5, held), CUDA_SUCCESS);
    const CUevent event = new_event();
    EXPECT_EQ(cuEventRecord(event, held), CUDA_SUCCESS);
    follow(follower, held);
    EXPECT_EQ(add(a, a, 100, follower), CUDA_SUCCESS);
    EXPECT_EQ(fill(b, 100, 1, free), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamSynchronize(free), CUDA_SUCCESS);  // not concerned
    EXPECT_EQ(cuStreamQuery(held), CUDA_ERROR_NOT_READY);
    EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY);
    blocked.release = true;
    EXPECT_EQ(cuStreamSynchronize(follower), CUDA_SUCCESS);
    EXPECT_EQ(blocked.ran, 1);
    EXPECT_EQ(blocked.inside, CUDA_ERROR_NOT_PERMITTED);
    std::uint32_t value = 0;
    EXPECT_EQ(cuMemcpyDtoH(&value, a, 4), CUDA_SUCCESS);
    EXPECT_EQ(value, 10u);
  });
}

TEST(SoftgpuOrder, WaitValueHoldsUntilTheHostWrites) {
  ON_DEVICE(small, "^$", {
    const CUstream stream = new_stream(), writer = new_stream();
    void* memory = nullptr;
    ASSERT_EQ(cuMemHostAlloc(&memory, 64, 0), CUDA_SUCCESS);
    auto* const word = static_cast<std::atomic<std::uint32_t>*>(memory);
    const auto address = reinterpret_cast<CUdeviceptr>(memory);
    const CUdeviceptr a = allocate(400);
    EXPECT_EQ(cuStreamWaitValue32(stream, address, 1, CU_STREAM_WAIT_VALUE_GEQ), CUDA_SUCCESS);
    EXPECT_EQ(fill(a, 100, 1, stream), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    word->store(1);
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
    // Between streams, through device memory.
    const CUdeviceptr flag = allocate(8);
    EXPECT_EQ(cuMemsetD32(flag, 0, 2), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamWaitValue64(stream, flag, 7, CU_STREAM_WAIT_VALUE_EQ), CUDA_SUCCESS);
    EXPECT_EQ(add(a, a, 100, stream), CUDA_SUCCESS);
    EXPECT_EQ(fill(a, 100, 20, writer), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamWriteValue64(writer, flag, 7, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
    std::uint32_t value = 0;
    EXPECT_EQ(cuMemcpyDtoH(&value, a, 4), CUDA_SUCCESS);
    EXPECT_EQ(value, 40u);
  });
}

TEST(SoftgpuOrder, LaunchesTakeEveryForm) {
  ON_DEVICE(small, "", {
    const CUdeviceptr a = allocate(400);
    CUkernel kernel = nullptr;
    CUfunction function = nullptr;
    ASSERT_EQ(cuLibraryGetKernel(&kernel, library, "fill"), CUDA_SUCCESS);
    ASSERT_EQ(cuKernelGetFunction(&function, kernel), CUDA_SUCCESS);
    EXPECT_NE(reinterpret_cast<void*>(function), reinterpret_cast<void*>(kernel));
    std::size_t offset = 0, size = 0;
    EXPECT_EQ(cuFuncGetParamInfo(function, 2, &offset, &size), CUDA_SUCCESS);
    EXPECT_EQ(offset, 16u);
    EXPECT_EQ(size, 8u);
    EXPECT_EQ(cuKernelGetParamInfo(kernel, 3, &offset, &size), CUDA_ERROR_INVALID_VALUE);
    const char* name = nullptr;
    EXPECT_EQ(cuFuncGetName(&name, function), CUDA_SUCCESS);
    EXPECT_STREQ(name, "fill");
    EXPECT_EQ(cuFuncGetName(&name, reinterpret_cast<CUfunction>(kernel)), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cuKernelGetName(&name, reinterpret_cast<CUkernel>(function)), CUDA_ERROR_INVALID_HANDLE);

    std::uint64_t packed[] = {a, 100, 9};
    std::size_t bytes = sizeof packed;
    void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     CU_LAUNCH_PARAM_END};
    EXPECT_EQ(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra), CUDA_SUCCESS);
    std::uint32_t value = 0;
    EXPECT_EQ(cuMemcpyDtoH(&value, a, 4), CUDA_SUCCESS);
    EXPECT_EQ(value, 9u);
    packed[2] = 11;
    void* params[] = {&packed[0], &packed[1], &packed[2]};
    CUlaunchConfig config{};
    config.gridDimX = config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = config.blockDimY = config.blockDimZ = 1;
    EXPECT_EQ(cuLaunchKernelEx(&config, function, params, nullptr), CUDA_SUCCESS);
    EXPECT_EQ(cuMemcpyDtoH(&value, a, 4), CUDA_SUCCESS);
    EXPECT_EQ(value, 11u);
    EXPECT_EQ(cuLaunchKernel(function, 1, 1, 1, 2048, 1, 1, 0, nullptr, params, nullptr),
              CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(
        cuLaunchKernel(reinterpret_cast<CUfunction>(&value), 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr),
        CUDA_ERROR_INVALID_HANDLE);
    CUmodule module = nullptr;
    EXPECT_EQ(cuModuleLoadData(&module, "no image at all"), CUDA_ERROR_INVALID_IMAGE);
    ASSERT_EQ(cuModuleLoadData(&module, &image), CUDA_SUCCESS);
    EXPECT_EQ(cuModuleGetFunction(&function, module, "none"), CUDA_ERROR_NOT_FOUND);
    EXPECT_EQ(cuModuleGetFunction(&function, module, "add"), CUDA_SUCCESS);
  });
}

TEST(SoftgpuOrder, KernelsOfPtxTextAreTheHostFunctionsOfTheirNames) {
  ON_DEVICE(small, "no host function for the kernel unheard_of .*for the kernel memory_digest with", {
    CUmodule module = nullptr;
    CUfunction function = nullptr;
    EXPECT_EQ(cuModuleLoadData(&module, ".version 7.0 .entry cut_off(.param .u64 a"), CUDA_ERROR_INVALID_PTX);
    ASSERT_EQ(cuModuleLoadData(&module,
                               "// text\n.version 7.0\n.target sm_60 /* one\n two */\n"
                               ".visible .entry memory_digest(.param .u64 from,\n  .param .b8 size[8],"
                               "  .param .align 4 .b32 result[2]) { ret; }\n"
                               ".entry unheard_of() { ret; }\n"),
              CUDA_SUCCESS);
    EXPECT_EQ(cuModuleGetFunction(&function, module, "unheard_of"), CUDA_ERROR_NOT_FOUND);
    ASSERT_EQ(cuModuleGetFunction(&function, module, "memory_digest"), CUDA_SUCCESS);
    const CUdeviceptr a = allocate(4096);
    ASSERT_EQ(cuMemsetD8(a, 1, 4096), CUDA_SUCCESS);
    CUdeviceptr from = a;
    CUdeviceptr result = a + 2048;
    std::uint64_t bytes = 1024;
    void* params[] = {&from, &bytes, &result};
    EXPECT_EQ(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, nullptr, params, nullptr), CUDA_SUCCESS);
    std::uint64_t sum = 0;
    EXPECT_EQ(cuMemcpyDtoH(&sum, result, 8), CUDA_SUCCESS);
    EXPECT_NE(sum, 0x0101010101010101u);
    ASSERT_EQ(cuModuleLoadData(&module, ".version 7.0 .entry memory_digest(.param .u32 other) { ret; }"),
              CUDA_SUCCESS);
    EXPECT_EQ(cuModuleGetFunction(&function, module, "memory_digest"), CUDA_ERROR_NOT_FOUND);
  });
}

TEST(SoftgpuOrder, HostFunctionsOfPtxKernelsAreCheckedLikeOthers) {
  ON_DEVICE(small, "out-of-bounds.*memory_digest", {
    CUmodule module = nullptr;
    CUfunction function = nullptr;
    ASSERT_EQ(
        cuModuleLoadData(&module,
                         ".version 7.0 .entry memory_digest(.param .u64 a, .param .u64 b, .param .u64 c) {}"),
        CUDA_SUCCESS);
    ASSERT_EQ(cuModuleGetFunction(&function, module, "memory_digest"), CUDA_SUCCESS);
    CUdeviceptr from = allocate(4096);
    CUdeviceptr result = from;
    ASSERT_EQ(cuMemsetD8(from, 1, 4096), CUDA_SUCCESS);
    std::uint64_t bytes = 8192;
    void* params[] = {&from, &bytes, &result};
    (void)cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, nullptr, params, nullptr);
    EXPECT_NE(cuCtxSynchronize(), CUDA_SUCCESS);
  });
}

TEST(SoftgpuOrder, ContextsAreStacked) {
  ON_DEVICE(small, "", {
    CUcontext own = nullptr, current = nullptr, popped = nullptr;
    ASSERT_EQ(cuCtxGetCurrent(&current), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxCreate(&own, nullptr, 0, 0), CUDA_SUCCESS);
    const CUdeviceptr a = allocate(4 * MiB);
    EXPECT_NE(a, 0u);
    EXPECT_EQ(cuCtxDestroy(own), CUDA_SUCCESS);
    EXPECT_EQ(free_bytes(), 64 * MiB);  // it took its memory along
    EXPECT_EQ(cuCtxPopCurrent(&popped), CUDA_SUCCESS);
    EXPECT_EQ(popped, current);
    std::size_t free = 0, total = 0;
    EXPECT_EQ(cuMemGetInfo(&free, &total), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(cuCtxSetCurrent(own), CUDA_ERROR_INVALID_CONTEXT);
  });
}

}  // namespace
