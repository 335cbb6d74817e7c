// The software libcupti: what a profiler that uses the activity API may rely on.
#include "tests/softgpu/cupti.h"

#include <cmath>

using namespace softgpu_test;

namespace {

constexpr const char* timing = "v100-pcie3:timing";
constexpr const char* small = "v100-pcie3:compute:memory=64MiB";

// The model's numbers for v100-pcie3.
constexpr std::uint64_t launch_gap = 2000, copy_latency = 9000;

// ceil(bytes / (bytes/s)) in ns.
std::uint64_t at_rate(double bytes, double rate) {
  return static_cast<std::uint64_t>(std::ceil(bytes / rate * 1e9));
}

TEST(SoftgpuCupti, KernelRecordsHoldTheModelsDurations) {
  ON_DEVICE(timing, "", {
    enable({CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_DRIVER});
    const CUstream stream = new_stream();
    const CUdeviceptr a = allocate(64 * MiB);
    const CUevent begin = new_event(), end = new_event();
    EXPECT_EQ(cuEventRecord(begin, stream), CUDA_SUCCESS);
    EXPECT_EQ(fill(a, 16 * MiB, 1, stream), CUDA_SUCCESS);
    EXPECT_EQ(add(a, a, 16 * MiB, stream), CUDA_SUCCESS);
    EXPECT_EQ(cuEventRecord(end, stream), CUDA_SUCCESS);
    finish_and_flush();
    const auto& kernels = profiler().kernels;
    ASSERT_EQ(kernels.size(), 2u);
    EXPECT_STREQ(kernels[0].name, "fill");
    EXPECT_STREQ(kernels[1].name, "add");
    EXPECT_EQ(kernels[0].kind, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    EXPECT_EQ(kernels[0].end - kernels[0].start, launch_gap + at_rate(64.0 * MiB, 740e9));
    EXPECT_EQ(kernels[1].end - kernels[1].start, launch_gap + at_rate(3 * 64.0 * MiB, 720e9));
    EXPECT_EQ(kernels[1].start, kernels[0].end);
    EXPECT_EQ(kernels[0].blockX, 32);
    float milliseconds = 0;
    EXPECT_EQ(cuEventElapsedTime(&milliseconds, begin, end), CUDA_SUCCESS);
    EXPECT_NEAR(milliseconds * 1e6, static_cast<double>(kernels[1].end - kernels[0].start), 10000);
    // The streams' public ids, and the calls that launched them.
    std::uint32_t id = 0;
    unsigned long long driver_id = 0;
    EXPECT_EQ(cuptiGetStreamIdEx(nullptr, stream, 0, &id), CUPTI_SUCCESS);
    EXPECT_EQ(cuStreamGetId(stream, &driver_id), CUDA_SUCCESS);
    EXPECT_EQ(id, driver_id);
    EXPECT_EQ(kernels[0].streamId, id);
    int launches = 0;
    for (const auto& call : profiler().calls) {
      EXPECT_LT(call.start, call.end);
      if (call.cbid != CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel) continue;
      EXPECT_EQ(call.correlationId, kernels[static_cast<std::size_t>(launches)].correlationId);
      EXPECT_LE(call.start, kernels[static_cast<std::size_t>(launches)].start);
      ++launches;
    }
    EXPECT_EQ(launches, 2);
  });
}

TEST(SoftgpuCupti, CopiesAndSetsSayWhereAndHowLong) {
  ON_DEVICE(timing, "", {
    enable({CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET});
    const CUstream stream = new_stream();
    const CUdeviceptr a = allocate(32 * MiB), b = allocate(32 * MiB);
    void* host = nullptr;
    ASSERT_EQ(cuMemHostAlloc(&host, 32 * MiB, 0), CUDA_SUCCESS);
    std::vector<char> pageable(MiB);
    EXPECT_EQ(cuMemcpyHtoDAsync(a, host, 32 * MiB, stream), CUDA_SUCCESS);
    EXPECT_EQ(cuMemcpyDtoDAsync(b, a, 32 * MiB, stream), CUDA_SUCCESS);
    EXPECT_EQ(cuMemcpyDtoHAsync(host, b, 32 * MiB, stream), CUDA_SUCCESS);
    EXPECT_EQ(cuMemsetD8Async(a, 7, 32 * MiB, stream), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
    EXPECT_EQ(cuMemcpyDtoH(pageable.data(), a, MiB), CUDA_SUCCESS);
    finish_and_flush();
    const auto& copies = profiler().copies;
    ASSERT_EQ(copies.size(), 4u);
    EXPECT_EQ(copies[0].copyKind, CUPTI_ACTIVITY_MEMCPY_KIND_HTOD);
    EXPECT_EQ(copies[0].srcKind, CUPTI_ACTIVITY_MEMORY_KIND_PINNED);
    EXPECT_EQ(copies[0].end - copies[0].start, copy_latency + at_rate(32.0 * MiB, 12e9));
    EXPECT_EQ(copies[0].bytes, 32 * MiB);
    EXPECT_EQ(copies[0].flags, CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC);
    EXPECT_EQ(copies[1].copyKind, CUPTI_ACTIVITY_MEMCPY_KIND_DTOD);
    EXPECT_EQ(copies[1].end - copies[1].start, launch_gap + at_rate(2 * 32.0 * MiB, 730e9));
    EXPECT_EQ(copies[2].copyKind, CUPTI_ACTIVITY_MEMCPY_KIND_DTOH);
    EXPECT_EQ(copies[2].end - copies[2].start, copy_latency + at_rate(32.0 * MiB, 12e9));
    EXPECT_EQ(copies[3].dstKind, CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE);
    EXPECT_EQ(copies[3].flags, CUPTI_ACTIVITY_FLAG_NONE);
    ASSERT_EQ(profiler().sets.size(), 1u);
    EXPECT_EQ(profiler().sets[0].value, 7u);
    EXPECT_EQ(profiler().sets[0].bytes, 32 * MiB);
    EXPECT_EQ(profiler().sets[0].end - profiler().sets[0].start, launch_gap + at_rate(32.0 * MiB, 760e9));
    EXPECT_TRUE(profiler().kernels.empty());
    EXPECT_TRUE(profiler().calls.empty());
  });
}

TEST(SoftgpuCupti, ACopyBesideTheOtherDirectionIsRecordedAsLongAsItTook) {
  ON_DEVICE(timing, "", {
    enable({CUPTI_ACTIVITY_KIND_MEMCPY});
    const CUstream first = new_stream(), second = new_stream();
    const CUevent begin = new_event();
    const CUdeviceptr a = allocate(32 * MiB), b = allocate(32 * MiB);
    void *coming = nullptr, *going = nullptr;
    ASSERT_EQ(cuMemHostAlloc(&coming, 32 * MiB, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuMemHostAlloc(&going, 32 * MiB, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuMemcpyHtoDAsync(a, coming, 32 * MiB, first), CUDA_SUCCESS);
    EXPECT_EQ(cuEventRecord(begin, first), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamWaitEvent(second, begin, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuMemcpyHtoDAsync(a, coming, 32 * MiB, first), CUDA_SUCCESS);
    EXPECT_EQ(cuMemcpyDtoHAsync(going, b, 32 * MiB, second), CUDA_SUCCESS);
    finish_and_flush();
    const auto& copies = profiler().copies;
    ASSERT_EQ(copies.size(), 3u);
    EXPECT_EQ(copies[2].copyKind, CUPTI_ACTIVITY_MEMCPY_KIND_DTOH);
    EXPECT_EQ(copies[2].start, copies[1].start);
    EXPECT_NEAR(static_cast<double>(copies[2].end - copies[2].start),
                1.22 * static_cast<double>(copies[1].end - copies[1].start), 2000);
  });
}

TEST(SoftgpuCupti, ExternalIdsAreThoseOfTheInnermostRegionOfTheCallingThread) {
  ON_DEVICE(small, "", {
    constexpr auto custom0 = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;
    constexpr auto custom1 = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1;
    const CUdeviceptr a = allocate(400);
    enable({CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_DRIVER,
            CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION});
    EXPECT_EQ(fill(a, 100, 1), CUDA_SUCCESS);  // outside
    EXPECT_EQ(cuptiActivityPushExternalCorrelationId(custom0, 10), CUPTI_SUCCESS);
    EXPECT_EQ(fill(a, 100, 2), CUDA_SUCCESS);
    EXPECT_EQ(cuptiActivityPushExternalCorrelationId(custom0, 11), CUPTI_SUCCESS);
    EXPECT_EQ(cuptiActivityPushExternalCorrelationId(custom1, 99), CUPTI_SUCCESS);
    EXPECT_EQ(fill(a, 100, 3), CUDA_SUCCESS);
    std::uint64_t last = 0;
    EXPECT_EQ(cuptiActivityPopExternalCorrelationId(custom1, &last), CUPTI_SUCCESS);
    EXPECT_EQ(last, 99u);
    EXPECT_EQ(cuptiActivityPopExternalCorrelationId(custom0, nullptr), CUPTI_SUCCESS);
    EXPECT_EQ(fill(a, 100, 4), CUDA_SUCCESS);
    EXPECT_EQ(cuptiActivityPopExternalCorrelationId(custom0, nullptr), CUPTI_SUCCESS);
    EXPECT_EQ(cuptiActivityPopExternalCorrelationId(custom0, &last), CUPTI_ERROR_QUEUE_EMPTY);
    EXPECT_EQ(cuptiActivityPushExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_SIZE, 1),
              CUPTI_ERROR_INVALID_PARAMETER);
    finish_and_flush();
    ASSERT_EQ(profiler().kernels.size(), 4u);
    std::vector<std::vector<std::uint64_t>> ids;
    for (const auto& kernel : profiler().kernels) {
      ids.emplace_back();
      for (const auto& external : profiler().externals)
        if (external.correlationId == kernel.correlationId) ids.back().push_back(external.externalId);
    }
    EXPECT_EQ(ids, (std::vector<std::vector<std::uint64_t>>{{}, {10}, {11, 99}, {10}}));
    // The record of a call comes right after its external ids.
    const auto& order = profiler().order;
    for (std::size_t i = 0; i + 1 < order.size(); ++i) {
      if (order[i] != CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION) continue;
      EXPECT_TRUE(order[i + 1] == order[i] || order[i + 1] == CUPTI_ACTIVITY_KIND_DRIVER);
    }
  });
}

TEST(SoftgpuCupti, ASecondSubscriberIsRefusedAndToldWhoHasIt) {
  ON_DEVICE(small, "", {
    CUpti_SubscriberHandle first = nullptr, second = nullptr;
    CUpti_SubscriberParams params{};
    char holder[CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN] = {};
    params.structSize = CUpti_SubscriberParams_STRUCT_SIZE;
    params.subscriberName = "somebody";
    params.oldSubscriberName = holder;
    params.oldSubscriberSize = sizeof holder;
    EXPECT_EQ(cuptiSubscribe_v2(&first, nullptr, nullptr, &params), CUPTI_SUCCESS);
    EXPECT_EQ(cuptiSubscribe(&second, nullptr, nullptr), CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
    EXPECT_EQ(cuptiSubscribe_v2(&second, nullptr, nullptr, &params),
              CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
    EXPECT_STREQ(holder, "CUPTI for somebody");
    EXPECT_EQ(cuptiUnsubscribe(second), CUPTI_ERROR_INVALID_PARAMETER);
    EXPECT_EQ(cuptiUnsubscribe(first), CUPTI_SUCCESS);
    EXPECT_EQ(cuptiSubscribe(&second, nullptr, nullptr), CUPTI_SUCCESS);
  });
}

TEST(SoftgpuCupti, NothingIsRecordedBeforeEnableOrAfterDisable) {
  ON_DEVICE(small, "", {
    const CUdeviceptr a = allocate(400);
    EXPECT_EQ(fill(a, 100, 1), CUDA_SUCCESS);
    enable({CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_DRIVER});
    EXPECT_EQ(fill(a, 100, 2), CUDA_SUCCESS);
    EXPECT_EQ(cuptiActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), CUPTI_SUCCESS);
    EXPECT_EQ(cuptiActivityDisable(CUPTI_ACTIVITY_KIND_DRIVER), CUPTI_SUCCESS);
    EXPECT_EQ(fill(a, 100, 3), CUDA_SUCCESS);
    finish_and_flush();
    EXPECT_EQ(profiler().kernels.size(), 1u);
    EXPECT_EQ(profiler().calls.size(), 2u);  // cuLibraryGetKernel, cuLaunchKernel
  });
}

TEST(SoftgpuCupti, CallsCostTimeOnlyWhileTheyAreRecorded) {
  ON_DEVICE(timing, "", {
    const auto cost = [] {
      std::uint64_t before = 0, after = 0;
      EXPECT_EQ(cuptiGetTimestamp(&before), CUPTI_SUCCESS);
      std::size_t free = 0, total = 0;
      for (int i = 0; i < 10; ++i) EXPECT_EQ(cuMemGetInfo(&free, &total), CUDA_SUCCESS);
      EXPECT_EQ(cuptiGetTimestamp(&after), CUPTI_SUCCESS);
      return after - before;
    };
    const std::uint64_t plain = cost();
    enable({CUPTI_ACTIVITY_KIND_DRIVER});
    EXPECT_EQ(cost(), plain + 10 * 500);
    EXPECT_EQ(cuptiActivityDisable(CUPTI_ACTIVITY_KIND_DRIVER), CUPTI_SUCCESS);
    EXPECT_EQ(cost(), plain);
  });
}

TEST(SoftgpuCupti, KindsThatItDoesNotKnowAreRefused) {
  ON_DEVICE(small, "", {
    EXPECT_EQ(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_INVALID), CUPTI_ERROR_INVALID_KIND);
    EXPECT_EQ(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_OPENACC_DATA), CUPTI_ERROR_INVALID_KIND);
    EXPECT_EQ(cuptiActivityEnable(static_cast<CUpti_ActivityKind>(1000)), CUPTI_ERROR_INVALID_KIND);
    EXPECT_EQ(cuptiActivityDisable(CUPTI_ACTIVITY_KIND_PCIE), CUPTI_ERROR_INVALID_KIND);
    enable({CUPTI_ACTIVITY_KIND_KERNEL});
    EXPECT_EQ(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), CUPTI_ERROR_NOT_COMPATIBLE);
    const CUdeviceptr a = allocate(400);
    EXPECT_EQ(fill(a, 100, 1), CUDA_SUCCESS);
    finish_and_flush();
    ASSERT_EQ(profiler().kernels.size(), 1u);
    EXPECT_EQ(profiler().kernels[0].kind, CUPTI_ACTIVITY_KIND_KERNEL);
  });
}

TEST(SoftgpuCupti, RecordsSurviveTheirStream) {
  ON_DEVICE(timing, "", {
    enable({CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL});
    const CUdeviceptr a = allocate(64 * MiB);
    const CUstream stream = new_stream();
    EXPECT_EQ(fill(a, 16 * MiB, 1, stream), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
    finish_and_flush();
    ASSERT_EQ(profiler().kernels.size(), 1u);
    EXPECT_EQ(profiler().kernels[0].end - profiler().kernels[0].start,
              launch_gap + at_rate(64.0 * MiB, 740e9));
  });
}

}  // namespace
