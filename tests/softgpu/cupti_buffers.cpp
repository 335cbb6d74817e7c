// The software libcupti's buffers: who has them when, and what becomes of records without room.
#include <dlfcn.h>

#include <chrono>
#include <thread>

#include "tests/softgpu/cupti.h"

using namespace softgpu_test;

namespace {

constexpr const char* timing = "v100-pcie3:timing";
constexpr const char* small = "v100-pcie3:compute:memory=64MiB";

std::size_t kernels_seen() {
  const std::lock_guard<std::mutex> lock(profiler().mutex);
  return profiler().kernels.size();
}

TEST(SoftgpuCuptiBuffers, FullOnesComeBackByThemselves) {
  ON_DEVICE(small, "", {
    profiler().buffer_bytes = 4 * sizeof(CUpti_ActivityKernel10) + 8;
    enable({CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL});
    const CUdeviceptr a = allocate(400);
    for (int i = 0; i < 9; ++i) {
      EXPECT_EQ(fill(a, 100, 1), CUDA_SUCCESS);
      EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    }
    for (int i = 0; kernels_seen() < 8 && i < 5000; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(kernels_seen(), 8u);
    EXPECT_EQ(cuptiActivityFlushAll(0), CUPTI_SUCCESS);
    EXPECT_EQ(kernels_seen(), 9u);
    EXPECT_EQ(profiler().requested, 3);
    EXPECT_EQ(profiler().completed, 3);
    EXPECT_EQ(profiler().last, CUPTI_ERROR_MAX_LIMIT_REACHED);
    std::size_t dropped = 1;
    EXPECT_EQ(cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped), CUPTI_SUCCESS);
    EXPECT_EQ(dropped, 0u);
  });
}

TEST(SoftgpuCuptiBuffers, TheClientMayLimitTheRecords) {
  ON_DEVICE(small, "", {
    profiler().max_records = 2;
    enable({CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL});
    const CUdeviceptr a = allocate(400);
    for (int i = 0; i < 5; ++i) EXPECT_EQ(fill(a, 100, 1), CUDA_SUCCESS);
    finish_and_flush();
    EXPECT_EQ(kernels_seen(), 5u);
    EXPECT_EQ(profiler().completed, 3);
  });
}

TEST(SoftgpuCuptiBuffers, RecordsWithoutABufferAreCountedAsDropped) {
  ON_DEVICE(small, "", {
    profiler().refuse = true;
    enable({CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL});
    const CUdeviceptr a = allocate(400);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(fill(a, 100, 1), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    profiler().refuse = false;
    profiler().buffer_bytes = 64;  // less than a record
    EXPECT_EQ(fill(a, 100, 1), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    profiler().buffer_bytes = 4096;
    EXPECT_EQ(fill(a, 100, 1), CUDA_SUCCESS);
    finish_and_flush();
    EXPECT_EQ(kernels_seen(), 1u);
    EXPECT_EQ(profiler().completed, 2);  // the small one too
    std::size_t dropped = 0;
    EXPECT_EQ(cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped), CUPTI_SUCCESS);
    EXPECT_EQ(dropped, 4u);
    EXPECT_EQ(cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped), CUPTI_SUCCESS);
    EXPECT_EQ(dropped, 0u);
  });
}

TEST(SoftgpuCuptiBuffers, AFlushLeavesBuffersWithUnfinishedWork) {
  ON_DEVICE(timing, "", {
    EXPECT_EQ(cuptiActivityFlushAll(0), CUPTI_ERROR_INVALID_OPERATION);  // nobody takes them
    enable({CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL});
    const CUdeviceptr a = allocate(64 * MiB);
    EXPECT_EQ(fill(a, 16 * MiB, 1), CUDA_SUCCESS);
    EXPECT_EQ(cuptiActivityFlushAll(0), CUPTI_SUCCESS);
    EXPECT_EQ(profiler().completed, 0);
    finish_and_flush();
    EXPECT_EQ(kernels_seen(), 1u);
  });
}

TEST(SoftgpuCuptiBuffers, AForcedFlushMarksUnfinishedWorkAsInvalid) {
  ON_DEVICE(timing, "", {
    enable({CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL});
    const CUdeviceptr a = allocate(64 * MiB);
    EXPECT_EQ(fill(a, 16 * MiB, 1), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    EXPECT_EQ(fill(a, 16 * MiB, 2), CUDA_SUCCESS);
    EXPECT_EQ(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), CUPTI_SUCCESS);
    EXPECT_EQ(kernels_seen(), 1u);
    EXPECT_EQ(profiler().last, CUPTI_ERROR_INVALID_KIND);
  });
}

TEST(SoftgpuCuptiBuffers, ThreadsHaveTheirOwnUnlessTheClientWantsOne) {
  ON_DEVICE(small, "", {
    std::uint8_t own = 9;
    std::size_t bytes = sizeof own;
    EXPECT_EQ(cuptiActivityGetAttribute(CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER, &bytes, &own),
              CUPTI_SUCCESS);
    EXPECT_EQ(own, 1);
    enable({CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL});
    CUcontext context = nullptr;
    ASSERT_EQ(cuCtxGetCurrent(&context), CUDA_SUCCESS);
    const CUdeviceptr a = allocate(400);
    const auto twice = [&] {
      EXPECT_EQ(fill(a, 100, 1), CUDA_SUCCESS);
      std::thread([&] {
        EXPECT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
        EXPECT_EQ(fill(a, 100, 1), CUDA_SUCCESS);
      }).join();
      finish_and_flush();
    };
    twice();
    EXPECT_EQ(profiler().requested, 2);
    own = 0;
    EXPECT_EQ(cuptiActivitySetAttribute(CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER, &bytes, &own),
              CUPTI_SUCCESS);
    twice();
    EXPECT_EQ(profiler().requested, 3);
    EXPECT_EQ(kernels_seen(), 4u);
    bytes = 4;
    std::size_t size = 0;
    EXPECT_EQ(cuptiActivityGetAttribute(CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE, &bytes, &size),
              CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT);
  });
}

TEST(SoftgpuCuptiBuffers, FinalizeLeavesNothingAndEverythingCanBeginAgain) {
  ON_DEVICE(timing, "", {
    CUpti_SubscriberHandle subscriber = nullptr;
    EXPECT_EQ(cuptiSubscribe(&subscriber, nullptr, nullptr), CUPTI_SUCCESS);
    enable({CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_DRIVER});
    const CUdeviceptr a = allocate(64 * MiB);
    EXPECT_EQ(fill(a, 16 * MiB, 1), CUDA_SUCCESS);
    finish_and_flush();
    EXPECT_EQ(cuptiFinalize(), CUPTI_SUCCESS);
    const int requested = profiler().requested;
    EXPECT_EQ(fill(a, 16 * MiB, 1), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    EXPECT_EQ(profiler().requested, requested);
    EXPECT_EQ(cuptiActivityFlushAll(0), CUPTI_ERROR_INVALID_OPERATION);
    EXPECT_EQ(cuptiSubscribe(&subscriber, nullptr, nullptr), CUPTI_SUCCESS);
    enable({CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL});
    EXPECT_EQ(fill(a, 16 * MiB, 1), CUDA_SUCCESS);
    finish_and_flush();
    EXPECT_EQ(kernels_seen(), 2u);
  });
}

TEST(SoftgpuCuptiBuffers, SymbolsHaveTheVendorsVersion) {
  void* const library = dlopen("libcupti.so.13", RTLD_NOLOAD | RTLD_NOW);
  ASSERT_NE(library, nullptr);
  for (const char* name : {"cuptiSubscribe_v2", "cuptiActivityEnable", "cuptiGetVersion"})
    EXPECT_NE(dlvsym(library, name, "libcupti.so.13"), nullptr) << name;
}

TEST(SoftgpuCuptiBuffers, ResultsHaveNames) {
  const char* text = nullptr;
  EXPECT_EQ(cuptiGetResultString(CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED, &text), CUPTI_SUCCESS);
  EXPECT_STREQ(text, "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED");
  EXPECT_EQ(cuptiGetResultString(static_cast<CUptiResult>(47), &text), CUPTI_ERROR_INVALID_PARAMETER);
  std::uint32_t version = 0;
  EXPECT_EQ(cuptiGetVersion(&version), CUPTI_SUCCESS);
  EXPECT_EQ(version, static_cast<std::uint32_t>(CUPTI_API_VERSION));
}

}  // namespace
