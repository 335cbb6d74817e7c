// The link of a software GPU in use from several sides at once, and what a program may not assume of it. Each
// such assumption holds on a kind model, and not on the one that is delivered.
#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>

#include "tests/softgpu/driver.h"

using namespace softgpu_test;

namespace {

constexpr std::size_t bytes = 480'000'000;  // 40 ms at 12 GB/s

// kind: with links that nothing disturbs.
void start_on(bool kind, const std::string& device) {
  start((device + (kind ? ":links=alone" : "")).c_str());
}

char* page_locked(std::size_t size) {
  void* host = nullptr;
  EXPECT_EQ(cuMemHostAlloc(&host, size, 0), CUDA_SUCCESS);
  return static_cast<char*>(host);
}

void use(int device) {
  CUcontext context = nullptr;
  EXPECT_EQ(cuDevicePrimaryCtxRetain(&context, device), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
}

// Work in a stream of its own, between two events.
struct Timed {
  CUstream stream = new_stream();
  CUevent begin = new_event(), end = new_event();

  template <class Submit>
  explicit Timed(Submit submit) {
    EXPECT_EQ(cuEventRecord(begin, stream), CUDA_SUCCESS);
    submit(stream);
    EXPECT_EQ(cuEventRecord(end, stream), CUDA_SUCCESS);
  }
  double milliseconds(const Timed& since) const {
    float found = -1;
    EXPECT_EQ(cuEventSynchronize(end), CUDA_SUCCESS);
    EXPECT_EQ(cuEventElapsedTime(&found, since.begin, end), CUDA_SUCCESS);
    return found;
  }
  double milliseconds() const { return milliseconds(*this); }
};

auto copy_in(CUdeviceptr to, const char* from) {
  return [=](CUstream stream) { EXPECT_EQ(cuMemcpyHtoDAsync(to, from, bytes, stream), CUDA_SUCCESS); };
}
auto copy_out(char* to, CUdeviceptr from) {
  return [=](CUstream stream) { EXPECT_EQ(cuMemcpyDtoHAsync(to, from, bytes, stream), CUDA_SUCCESS); };
}

// A program that hides swapping in and out behind a kernel, and knows of each alone that it fits: how much
// later than the kernel do both end?
double late_behind_a_kernel() {
  char* const host = page_locked(2 * bytes);
  const CUdeviceptr coming = allocate(bytes), going = allocate(bytes),
                    worked = allocate(std::size_t{8} << 30);
  EXPECT_EQ(fill(going, bytes / 4, 1), CUDA_SUCCESS);
  EXPECT_EQ(fill(worked, 4'000'000'000 / 4, 1), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  const auto kernel = [&](CUstream stream) {
    for (int i = 0; i < 8; ++i) EXPECT_EQ(fill(worked, 4'000'000'000 / 4, 1, stream), CUDA_SUCCESS);
  };
  const double needed = Timed(kernel).milliseconds();
  EXPECT_LT(Timed(copy_in(coming, host)).milliseconds(), needed);
  EXPECT_LT(Timed(copy_out(host + bytes, going)).milliseconds(), needed);
  const Timed work(kernel), in(copy_in(coming, host)), out(copy_out(host + bytes, going));
  return std::max(in.milliseconds(work), out.milliseconds(work)) - work.milliseconds();
}

TEST(SoftgpuLinks, CopiesThatHideOneByOneDoNotHideTogether) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto hidden = [](bool kind) {
    start_on(kind, "v100-pcie3:timing");
    std::exit(::testing::Test::HasFailure() ? 2 : late_behind_a_kernel() > 0 ? 1 : 0);
  };
  EXPECT_EXIT(hidden(true), ::testing::ExitedWithCode(0), "") << "the kind model lets it pass";
  EXPECT_EXIT(hidden(false), ::testing::ExitedWithCode(1), "");
}

// A program that reckons with devices that each have a link to themselves: how much longer does the second
// one's copy take beside the first one's than alone?
double longer_beside_another_device() {
  std::array<char*, 2> host{};
  std::array<CUdeviceptr, 2> memory{};
  for (int device : {0, 1}) {
    use(device);
    host[device] = page_locked(bytes);
    memory[device] = allocate(bytes);
  }
  const double alone = Timed(copy_in(memory[1], host[1])).milliseconds();
  use(0);
  const Timed first(copy_in(memory[0], host[0]));
  use(1);
  const Timed second(copy_in(memory[1], host[1]));
  return second.milliseconds() / alone;
}

TEST(SoftgpuLinks, TwoDevicesAreNotTwiceTheLink) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto longer = [](bool kind) {
    start_on(kind, "v100-pcie3:timing:devices=2");
    const double found = longer_beside_another_device();
    std::exit(::testing::Test::HasFailure() ? 2 : found > 1.9 ? 1 : found < 1.001 ? 0 : 3);
  };
  EXPECT_EXIT(longer(true), ::testing::ExitedWithCode(0), "") << "the kind model lets it pass";
  EXPECT_EXIT(longer(false), ::testing::ExitedWithCode(1), "");
}

TEST(SoftgpuLinks, ACopyThatBeginsLateDoesNotHideOneThatRunsNow) {
  ON_DEVICE("v100-pcie3:timing", "", {
    char* const host = page_locked(2 * bytes);
    const CUdeviceptr coming = allocate(bytes), going = allocate(bytes);
    EXPECT_EQ(fill(going, bytes / 4, 1), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    const Timed now(copy_in(coming, host));
    const Timed late([&](CUstream stream) {
      for (int i = 0; i < 400; ++i) EXPECT_EQ(fill(going, bytes / 4, 1, stream), CUDA_SUCCESS);
      copy_in(going, host)(stream);
    });
    const CUdeviceptr gone = allocate(bytes);
    const Timed out(copy_out(host + bytes, gone));
    EXPECT_NEAR(now.milliseconds(), 40, 0.5);
    EXPECT_GT(late.milliseconds(), 200);
    EXPECT_NEAR(out.milliseconds(), 48.4, 0.5) << "0.78 of its rate for the 38 ms that are left of the first";
  });
}

TEST(SoftgpuLinks, AKernelThatReachesHostMemoryWaitsForTheCopiesOnItsWay) {
  ON_DEVICE("v100-pcie3:timing:host_handles=on", "", {
    const std::size_t large = 512 * MiB;
    CUmemAllocationProp prop = device_memory();
    prop.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
    CUmemGenericAllocationHandle handle = 0;
    ASSERT_EQ(cuMemCreate(&handle, large, &prop, 0), CUDA_SUCCESS);
    const CUdeviceptr far = reserve(large);
    map(far, large, handle);
    const CUdeviceptr near = allocate(bytes);
    char* const host = page_locked(bytes);
    const auto reach = [&](CUstream stream) { EXPECT_EQ(fill(far, bytes / 4, 1, stream), CUDA_SUCCESS); };
    EXPECT_EQ(fill(near, bytes / 4, 1), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    const double alone = Timed(reach).milliseconds();
    const Timed same(copy_out(host, near));
    EXPECT_NEAR(Timed(reach).milliseconds(same), 80, 1) << "both write over the link";
    EXPECT_NEAR(same.milliseconds(), 40, 1);
    const Timed opposite(copy_in(near, host));
    const double beside = Timed(reach).milliseconds(opposite);
    EXPECT_GT(beside, alone * 1.15);
    EXPECT_LT(beside, alone * 1.4);
  });
}

// The first of the folders on LD_LIBRARY_PATH is the software GPU's.
std::string model_text() {
  const std::string libraries = std::getenv("LD_LIBRARY_PATH");
  std::ifstream file(libraries.substr(0, libraries.find(':')) + "/models/v100-pcie3.json");
  return std::string(std::istreambuf_iterator<char>(file), {});
}

TEST(SoftgpuLinks, AModelWithoutAShareForBothWaysIsRefused) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const char* const wrong : {"\"other\": 1", "\"both_ways\": 1.5", "\"both_ways\": 0"}) {
    const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "wrong_models";
    std::filesystem::create_directories(folder);
    const std::string text = std::regex_replace(model_text(), std::regex("\"both_ways\": [0-9.]+"), wrong);
    EXPECT_NE(text.find(wrong), std::string::npos);
    std::ofstream(folder / "v100-pcie3.json") << text;
    const auto refused = [&] {
      setenv("SOFTGPU_MODELS", folder.c_str(), 1);
      setenv("SOFTGPU_DEVICE", "v100-pcie3", 1);
      std::exit(cuInit(0) == CUDA_ERROR_NO_DEVICE ? 0 : 1);
    };
    EXPECT_EXIT(refused(), ::testing::ExitedWithCode(0), "model's file cannot be read.*both_ways") << wrong;
    std::filesystem::remove_all(folder);
  }
}

}  // namespace
