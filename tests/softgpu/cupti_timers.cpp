// pooch's two timers and its link probe against the software GPU, whose times are known.
#include <algorithm>
#include <map>
#include <thread>

#include "cupti/cupti_timer.h"
#include "cupti/event_timer.h"
#include "cupti/link_probe.h"
#include "interpose/device/real_device.h"
#include "softgpu/activity.h"
#include "tests/softgpu/cupti.h"

using namespace softgpu_test;
using pooch::cupti::CuptiTimer;
using pooch::cupti::open_op_timer;
using pooch::cupti::OpTime;
using pooch::cupti::OpTimer;
using pooch::cupti::TimerChoice;

namespace {

constexpr const char* timing = "v100-pcie3:timing";

pooch::Device& device() {
  static auto opened = pooch::interpose::RealDevice::open();
  EXPECT_TRUE(opened);
  return **opened;
}
pooch::StreamHandle handle(CUstream stream) {
  return pooch::StreamHandle{reinterpret_cast<std::uintptr_t>(stream)};
}
std::unique_ptr<OpTimer> open_timer(TimerChoice choice) {
  auto timer = open_op_timer(device(), choice);
  EXPECT_TRUE(timer) << (timer ? "" : timer.error().message);
  return std::move(*timer);
}

// The stream is busy for some 20 ms, so that the host is ahead of it.
void keep_busy(CUdeviceptr a, CUstream stream) {
  for (int i = 0; i < 20; ++i) EXPECT_EQ(fill(a, 192 * MiB, 1, stream), CUDA_SUCCESS);
}
// An op of `kernels` fills of `words` each.
void run(OpTimer& timer, std::uint64_t op, CUdeviceptr a, std::uint64_t words, int kernels, CUstream stream) {
  EXPECT_TRUE(timer.begin(op, handle(stream)));
  for (int i = 0; i < kernels; ++i) EXPECT_EQ(fill(a, words, 1, stream), CUDA_SUCCESS);
  EXPECT_TRUE(timer.end(op, handle(stream)));
}
double model_us(std::uint64_t words, int kernels) {
  return kernels * (2 + static_cast<double>(words) * 4 / 740e9 * 1e6);
}
std::map<std::uint64_t, double> lengths(const std::vector<OpTime>& times) {
  std::map<std::uint64_t, double> all;
  for (const OpTime& time : times) EXPECT_TRUE(all.emplace(time.op, time.end_us - time.start_us).second);
  return all;
}

// As libcudart does around what it asks of the driver.
const softgpu::ActivityTable& activity() {
  const void* table = nullptr;
  EXPECT_EQ(cuGetExportTable(&table, &softgpu::activity_table_id), CUDA_SUCCESS);
  return *static_cast<const softgpu::ActivityTable*>(table);
}

// The hook of the driver's function is inside the runtime's call, whose number the kernel has.
TEST(Timers, TellWhatTheRuntimeLaunchesToo) {
  ON_DEVICE(timing, "", {
    const CUdeviceptr a = allocate(768 * MiB);
    const CUstream stream = new_stream(), copies = new_stream(), others = new_stream();
    void* host = nullptr;
    ASSERT_EQ(cuMemHostAlloc(&host, 64 * MiB, 0), CUDA_SUCCESS);
    const auto timer = open_timer(TimerChoice::cupti);
    std::vector<OpTime> times;
    keep_busy(a, stream);
    for (std::uint64_t op = 0; op < 20; ++op) {
      activity().begin_runtime_call();
      activity().begin_runtime_call();                   // a library's own runtime
      EXPECT_EQ(fill(a, MiB, 1, stream), CUDA_SUCCESS);  // a replay ahead of the op
      activity().end_runtime_call();
      run(*timer, op, a, (9 + op) * MiB, 1, stream);
      activity().end_runtime_call();
      run(*timer, 100 + op, a, (9 + op) * MiB, 1, stream);
    }
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    activity().begin_runtime_call();
    EXPECT_TRUE(timer->begin(200, handle(copies)));
    EXPECT_EQ(cuMemcpyHtoDAsync(a, host, 32 * MiB, copies), CUDA_SUCCESS);
    EXPECT_EQ(cuMemcpyDtoHAsync(static_cast<std::byte*>(host) + 32 * MiB, a + 64 * MiB, 32 * MiB, others),
              CUDA_SUCCESS);  // an eviction
    EXPECT_TRUE(timer->end(200, handle(copies)));
    activity().end_runtime_call();
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
    EXPECT_TRUE(timer->stop(times));
    auto measured = lengths(times);
    ASSERT_EQ(measured.size(), 41u);
    EXPECT_NEAR(measured[200], 9 + 32.0 * MiB / 12e3, 1);
    for (std::uint64_t op = 0; op < 20; ++op) {
      EXPECT_NEAR(measured[op], model_us((9 + op) * MiB, 1), 1) << op;
      EXPECT_NEAR(measured[100 + op], model_us((9 + op) * MiB, 1), 1) << op;
    }
  });
}

TEST(Timers, TellTheOpsOfOneCallOfTheRuntimeApart) {
  ON_DEVICE(timing, "", {
    const CUdeviceptr a = allocate(768 * MiB);
    const CUstream stream = new_stream();
    const auto timer = open_timer(TimerChoice::cupti);
    std::vector<OpTime> times;
    keep_busy(a, stream);
    activity().begin_runtime_call();
    for (std::uint64_t op = 0; op < 3; ++op) run(*timer, op, a, (9 + op) * MiB, 1, stream);
    activity().end_runtime_call();
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
    EXPECT_TRUE(timer->stop(times));
    auto measured = lengths(times);
    ASSERT_EQ(measured.size(), 3u);
    for (std::uint64_t op = 0; op < 3; ++op) EXPECT_NEAR(measured[op], model_us((9 + op) * MiB, 1), 1) << op;
  });
}

// All of its kernels have the number of the runtime's call.
TEST(Timers, TellTheTimeOfAWholeGraphThatTheRuntimeLaunches) {
  ON_DEVICE(timing, "", {
    const CUdeviceptr a = allocate(768 * MiB);
    const CUstream stream = new_stream();
    ASSERT_EQ(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
    for (int i = 0; i < 5; ++i) EXPECT_EQ(fill(a, 16 * MiB, 1, stream), CUDA_SUCCESS);
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    ASSERT_EQ(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
    ASSERT_EQ(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
    const auto timer = open_timer(TimerChoice::cupti);
    std::vector<OpTime> times;
    keep_busy(a, stream);
    activity().begin_runtime_call();
    EXPECT_TRUE(timer->begin(1, handle(stream)));
    EXPECT_EQ(cuGraphLaunch(exec, stream), CUDA_SUCCESS);
    EXPECT_TRUE(timer->end(1, handle(stream)));
    activity().end_runtime_call();
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
    EXPECT_TRUE(timer->stop(times));
    auto measured = lengths(times);
    ASSERT_EQ(measured.size(), 1u);
    EXPECT_NEAR(measured[1], model_us(16 * MiB, 5), 10);
  });
}

TEST(Timers, AgreeWithTheModelAndWithEachOther) {
  ON_DEVICE(timing, "", {
    const CUdeviceptr a = allocate(768 * MiB);
    const CUstream stream = new_stream();
    std::map<std::uint64_t, double> measured[2];
    for (const TimerChoice choice : {TimerChoice::cupti, TimerChoice::events}) {
      const auto timer = open_timer(choice);
      EXPECT_EQ(timer->source(), choice == TimerChoice::cupti ? "cupti" : "events");
      std::vector<OpTime> times;
      keep_busy(a, stream);
      for (std::uint64_t op = 0; op < 60; ++op)
        run(*timer, op, a, (9 + op) * MiB, 1 + static_cast<int>(op % 3), stream);
      EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
      EXPECT_TRUE(timer->stop(times));
      measured[choice == TimerChoice::events] = lengths(times);
    }
    ASSERT_EQ(measured[0].size(), 60u);
    ASSERT_EQ(measured[1].size(), 60u);
    for (std::uint64_t op = 0; op < 60; ++op) {
      const double expected = model_us((9 + op) * MiB, 1 + static_cast<int>(op % 3));
      EXPECT_GE(expected, 50);
      EXPECT_NEAR(measured[0][op], expected, 1) << op;
      EXPECT_NEAR(measured[1][op], expected, 1) << op;
      EXPECT_NEAR(measured[0][op] / measured[1][op], 1, 0.02) << op;
    }
  });
}

TEST(Timers, OnlyWhatRunsBetweenBeginAndEndCounts) {
  ON_DEVICE(timing, "", {
    const CUdeviceptr a = allocate(768 * MiB);
    const CUstream stream = new_stream();
    void* host = nullptr;
    ASSERT_EQ(cuMemHostAlloc(&host, 32 * MiB, 0), CUDA_SUCCESS);
    for (const TimerChoice choice : {TimerChoice::cupti, TimerChoice::events}) {
      const auto timer = open_timer(choice);
      keep_busy(a, stream);
      run(*timer, 1, a, 16 * MiB, 1, stream);
      EXPECT_EQ(cuMemcpyHtoDAsync(a, host, 32 * MiB, stream), CUDA_SUCCESS);
      EXPECT_TRUE(timer->begin(2, handle(stream)));
      EXPECT_EQ(cuMemsetD8Async(a, 0, 64 * MiB, stream), CUDA_SUCCESS);
      EXPECT_EQ(cuMemcpyDtoHAsync(host, a, 32 * MiB, stream), CUDA_SUCCESS);
      EXPECT_TRUE(timer->end(2, handle(stream)));
      EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
      std::vector<OpTime> times;
      EXPECT_TRUE(timer->stop(times));
      auto length = lengths(times);
      EXPECT_NEAR(length[1], model_us(16 * MiB, 1), 1);
      EXPECT_NEAR(length[2], 2 + 64.0 * MiB / 760e3 + 9 + 32.0 * MiB / 12e3, 1);
      const auto one = std::find_if(times.begin(), times.end(), [](const OpTime& t) { return t.op == 1; });
      const auto two = std::find_if(times.begin(), times.end(), [](const OpTime& t) { return t.op == 2; });
      ASSERT_TRUE(one != times.end() && two != times.end());
      EXPECT_NEAR(two->start_us - one->end_us, 9 + 32.0 * MiB / 12e3, 1);  // the copy between them
    }
  });
}

TEST(Timers, CollectDoesNotWaitForTheDevice) {
  ON_DEVICE(timing, "", {
    const CUdeviceptr a = allocate(768 * MiB);
    const CUstream stream = new_stream();
    for (const TimerChoice choice : {TimerChoice::cupti, TimerChoice::events}) {
      const auto timer = open_timer(choice);
      std::vector<OpTime> times;
      keep_busy(a, stream);
      for (std::uint64_t op = 0; op < 3; ++op) run(*timer, op, a, 16 * MiB, 1, stream);
      std::uint64_t before = 0, after = 0;
      EXPECT_EQ(cuptiGetTimestamp(&before), CUPTI_SUCCESS);
      EXPECT_TRUE(timer->collect(times));
      EXPECT_EQ(cuptiGetTimestamp(&after), CUPTI_SUCCESS);
      EXPECT_LT(after - before, 50'000u);
      EXPECT_TRUE(times.empty());
      EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
      for (int i = 0; i < 3; ++i) EXPECT_TRUE(timer->collect(times));
      EXPECT_GE(times.size(), 2u);  // CUPTI cannot know yet that the last one is whole
      EXPECT_TRUE(timer->stop(times));
      EXPECT_EQ(lengths(times).size(), 3u);
    }
  });
}

TEST(Timers, StopGivesNoTimeToAnOpThatStillRuns) {
  ON_DEVICE(timing, "", {
    const CUdeviceptr a = allocate(768 * MiB);
    const CUstream stream = new_stream();
    for (const TimerChoice choice : {TimerChoice::cupti, TimerChoice::events}) {
      const auto timer = open_timer(choice);
      run(*timer, 1, a, 64 * MiB, 1, stream);
      const CUevent half = new_event();
      EXPECT_TRUE(timer->begin(2, handle(stream)));
      EXPECT_EQ(fill(a, 64 * MiB, 1, stream), CUDA_SUCCESS);
      EXPECT_EQ(cuEventRecord(half, stream), CUDA_SUCCESS);
      EXPECT_EQ(fill(a, 192 * MiB, 1, stream), CUDA_SUCCESS);
      EXPECT_TRUE(timer->end(2, handle(stream)));
      EXPECT_EQ(cuEventSynchronize(half), CUDA_SUCCESS);
      std::vector<OpTime> times;
      EXPECT_TRUE(timer->stop(times));
      ASSERT_EQ(times.size(), 1u);
      EXPECT_EQ(times[0].op, 1u);
      EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
    }
  });
}

TEST(Timers, CuptiAssemblesOpsFromBuffersHoweverSmall) {
  ON_DEVICE(timing, "", {
    const CUdeviceptr a = allocate(768 * MiB);
    const CUstream stream = new_stream();
    auto opened = CuptiTimer::open(512);  // two kernels' records
    ASSERT_TRUE(opened) << opened.error().message;
    OpTimer& timer = **opened;
    std::vector<OpTime> times;
    for (std::uint64_t op = 0; op < 200; ++op) {
      run(timer, op, a, 16 * MiB, 3, stream);
      if (op % 7 == 0) {
        EXPECT_TRUE(timer.collect(times));
      }
      if (op % 20 == 0) {
        EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
      }
    }
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
    EXPECT_TRUE(timer.stop(times));
    const auto length = lengths(times);
    EXPECT_EQ(length.size(), 200u);
    for (const auto& [op, us] : length) EXPECT_GE(us, model_us(16 * MiB, 3) - 1) << op;
  });
}

TEST(Timers, CuptiTellsTheOpsOfThreadsApart) {
  ON_DEVICE(timing, "", {
    CUcontext context = nullptr;
    ASSERT_EQ(cuCtxGetCurrent(&context), CUDA_SUCCESS);
    const auto timer = open_timer(TimerChoice::cupti);
    const auto work = [&](std::uint64_t first, std::uint64_t words) {
      EXPECT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
      const CUdeviceptr a = allocate(768 * MiB);
      const CUstream stream = new_stream();
      for (std::uint64_t op = first; op < first + 50; ++op) run(*timer, op, a, words, 1, stream);
    };
    std::thread one(work, 0, 16 * MiB), other(work, 1000, 64 * MiB);
    one.join();
    other.join();
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    std::vector<OpTime> times;
    EXPECT_TRUE(timer->stop(times));
    const auto length = lengths(times);
    ASSERT_EQ(length.size(), 100u);
    for (const auto& [op, us] : length) EXPECT_NEAR(us, model_us(op < 1000 ? 16 * MiB : 64 * MiB, 1), 1);
  });
}

TEST(Timers, NothingIsLeftRunningAfterStop) {
  ON_DEVICE(timing, "", {
    const CUdeviceptr a = allocate(64 * MiB);
    const CUstream stream = new_stream();
    const auto call_ns = [&] {
      std::uint64_t before = 0, after = 0;
      EXPECT_EQ(cuptiGetTimestamp(&before), CUPTI_SUCCESS);
      EXPECT_EQ(fill(a, 100, 1, stream), CUDA_SUCCESS);
      EXPECT_EQ(cuptiGetTimestamp(&after), CUPTI_SUCCESS);
      return after - before;
    };
    const std::uint64_t plain = call_ns();
    for (int i = 0; i < 2; ++i) {  // it can be had again
      const auto timer = open_timer(TimerChoice::cupti);
      EXPECT_GT(call_ns(), plain);
      std::vector<OpTime> times;
      EXPECT_TRUE(timer->stop(times));
      EXPECT_EQ(call_ns(), plain);
      EXPECT_TRUE(timer->stop(times));
      EXPECT_FALSE(timer->begin(1, handle(stream)));
    }
    { const auto forgotten = open_timer(TimerChoice::cupti); }
    EXPECT_EQ(call_ns(), plain);
    CUpti_SubscriberHandle subscriber = nullptr;
    EXPECT_EQ(cuptiSubscribe(&subscriber, nullptr, nullptr), CUPTI_SUCCESS);
  });
}

TEST(Timers, AnotherProfilerIsLeftAlone) {
  ON_DEVICE(timing, "", {
    CUpti_SubscriberHandle subscriber = nullptr;
    CUpti_SubscriberParams params{};
    params.structSize = CUpti_SubscriberParams_STRUCT_SIZE;
    params.subscriberName = "somebody";
    ASSERT_EQ(cuptiSubscribe_v2(&subscriber, nullptr, nullptr, &params), CUPTI_SUCCESS);
    enable({CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL});
    const auto refused = open_op_timer(device(), TimerChoice::cupti);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, pooch::ErrorCode::not_supported);
    EXPECT_NE(refused.error().message.find("somebody"), std::string::npos) << refused.error().message;
    const auto timer = open_timer(TimerChoice::automatic);
    EXPECT_EQ(timer->source(), "events");
    const CUdeviceptr a = allocate(64 * MiB);
    run(*timer, 1, a, 16 * MiB, 1, new_stream());
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    std::vector<OpTime> times;
    EXPECT_TRUE(timer->stop(times));
    EXPECT_EQ(times.size(), 1u);
    finish_and_flush();
    EXPECT_EQ(profiler().kernels.size(), 1u);
  });
}

TEST(LinkProbe, FindsTheModelsLink) {
  ON_DEVICE(timing, "", {
    constexpr std::size_t bytes = 128 * MiB;
    const CUdeviceptr a = allocate(bytes);
    void* host = nullptr;
    ASSERT_EQ(cuMemHostAlloc(&host, bytes, 0), CUDA_SUCCESS);
    const auto samples = pooch::cupti::probe_link(device(), handle(new_stream()), handle(new_stream()),
                                                  {pooch::Address{a}, static_cast<std::byte*>(host), bytes});
    ASSERT_TRUE(samples) << samples.error().message;
    EXPECT_EQ(samples->size(), 16u);  // four sizes, each way, alone and both at once
    for (const auto& sample : *samples) {
      const double alone = 9 + static_cast<double>(sample.bytes) / 12e3;
      // Of two at once the one that is submitted first keeps its rate, and the other has 0.78 of it
      // meanwhile: 0.89 in the mean.
      if (!sample.both)
        EXPECT_NEAR(sample.microseconds, alone, 1) << sample.bytes;
      else if (sample.bytes >= 16 * MiB)
        EXPECT_NEAR(sample.microseconds, alone / 0.89, 0.01 * alone) << sample.bytes;
      else
        EXPECT_NEAR(sample.microseconds, alone * 1.06, 0.07 * alone) << sample.bytes;
    }
  });
}

}  // namespace
