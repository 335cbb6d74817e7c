// Calls that fail because SOFTGPU_FAIL says so.
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/softgpu/driver.h"

namespace {

using namespace softgpu_test;

constexpr const char* small = "v100-pcie3:compute:memory=64MiB";

int value_of(CUdeviceptr a) {
  int value = 0;
  EXPECT_EQ(cuMemcpyDtoH(&value, a, 4), CUDA_SUCCESS);
  return value;
}

// The k-th call of all, as the body counts them: start() makes three.
constexpr const char* made_by_start = "cuLibraryLoadData";

TEST(SoftgpuFailures, OneCallOfAFunctionFailsAndDoesNothing) {
  setenv("SOFTGPU_FAIL", "cuMemsetD32_v2:2", 1);
  ON_DEVICE(small, "^$", {
    const CUdeviceptr a = allocate(400);
    EXPECT_EQ(cuMemsetD32(a, 1, 100), CUDA_SUCCESS);
    EXPECT_EQ(cuMemsetD32(a, 2, 100), CUDA_ERROR_UNKNOWN);
    EXPECT_EQ(value_of(a), 1);
    EXPECT_EQ(cuMemsetD32(a, 3, 100), CUDA_SUCCESS);
    EXPECT_EQ(value_of(a), 3);
  });
  unsetenv("SOFTGPU_FAIL");
}

TEST(SoftgpuFailures, AllCallsFromOneOnFailWithTheCodeThatWasChosen) {
  setenv("SOFTGPU_FAIL", "cuMemsetD32_v2:2+=OUT_OF_MEMORY", 1);
  ON_DEVICE(small, "^$", {
    const CUdeviceptr a = allocate(400);
    EXPECT_EQ(cuMemsetD32(a, 1, 100), CUDA_SUCCESS);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(cuMemsetD32(a, 2, 100), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(value_of(a), 1);
  });
  unsetenv("SOFTGPU_FAIL");
}

TEST(SoftgpuFailures, ACallByItsNumberOverAllFunctionsFails) {
  setenv("SOFTGPU_FAIL", "*:5=OUT_OF_MEMORY", 1);
  ON_DEVICE(small, "^$", {
    const CUdeviceptr a = allocate(400);  // the fourth: start makes three
    EXPECT_EQ(cuMemsetD32(a, 1, 100), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(cuMemsetD32(a, 2, 100), CUDA_SUCCESS);
    EXPECT_EQ(value_of(a), 2);
  });
  unsetenv("SOFTGPU_FAIL");
}

TEST(SoftgpuFailures, AnIllegalAddressStaysForAllCalls) {
  setenv("SOFTGPU_FAIL", "cuMemsetD32_v2:1=ILLEGAL_ADDRESS", 1);
  ON_DEVICE(small, "^$", {
    const CUdeviceptr a = allocate(400);
    EXPECT_EQ(cuMemsetD32(a, 1, 100), CUDA_ERROR_ILLEGAL_ADDRESS);
    CUstream stream = nullptr;
    EXPECT_EQ(cuStreamCreate(&stream, 0), CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT_EQ(cuMemFree(a), CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    int count = 0;
    EXPECT_EQ(cuDeviceGetCount(&count), CUDA_SUCCESS);  // says nothing of the context
  });
  unsetenv("SOFTGPU_FAIL");
}

TEST(SoftgpuFailures, ACallThatWorksInABrokenContextDoesNotSayThatItBroke) {
  setenv("SOFTGPU_FAIL", "cuDeviceGetCount:1=ILLEGAL_ADDRESS", 1);
  ON_DEVICE(small, "^$", {
    const CUdeviceptr a = allocate(400);
    int count = 0;
    EXPECT_EQ(cuDeviceGetCount(&count), CUDA_SUCCESS);
    EXPECT_EQ(count, 1);
    EXPECT_EQ(cuMemsetD32(a, 1, 100), CUDA_ERROR_ILLEGAL_ADDRESS);
  });
  unsetenv("SOFTGPU_FAIL");
}

TEST(SoftgpuFailures, TheReportSaysWhatWasCalledAndWhoMadeTheCallThatFailed) {
  const std::string path = ::testing::TempDir() + "softgpu_failures." + std::to_string(getpid());
  setenv("SOFTGPU_FAIL", "cuMemsetD32_v2:2+", 1);
  setenv("SOFTGPU_REPORT", path.c_str(), 0);  // the process of the body's own already has one
  ON_DEVICE(small, "^$", {
    const CUdeviceptr a = allocate(400);
    for (int i = 0; i < 3; ++i) (void)cuMemsetD32(a, 1, 100);
  });
  const auto report = nlohmann::json::parse(std::ifstream(path));
  EXPECT_EQ(report.at("api_calls"), 7);
  EXPECT_EQ(report.at("calls").at("cuMemsetD32_v2"), 3);
  EXPECT_EQ(report.at("calls").at(made_by_start), 1);
  const auto& failed = report.at("failed");
  EXPECT_EQ(failed.at("function"), "cuMemsetD32_v2");
  EXPECT_EQ(failed.at("call"), 6);
  EXPECT_EQ(failed.at("times"), 2);
  EXPECT_EQ(failed.at("told"), true);
  EXPECT_NE(failed.at("callers").at(0).at("library").get<std::string>().find("softgpu_test"),
            std::string::npos);
  std::remove(path.c_str());
  unsetenv("SOFTGPU_FAIL");
  unsetenv("SOFTGPU_REPORT");
}

TEST(SoftgpuFailures, NoReportNamesAFailureWhereNoneStruck) {
  const std::string path = ::testing::TempDir() + "softgpu_no_failure." + std::to_string(getpid());
  setenv("SOFTGPU_FAIL", "*:100", 1);
  setenv("SOFTGPU_REPORT", path.c_str(), 0);
  ON_DEVICE(small, "^$", { EXPECT_NE(allocate(400), 0u); });
  EXPECT_TRUE(nlohmann::json::parse(std::ifstream(path)).at("failed").is_null());
  std::remove(path.c_str());
  unsetenv("SOFTGPU_FAIL");
  unsetenv("SOFTGPU_REPORT");
}

TEST(SoftgpuFailures, WhatCannotBeUnderstoodIsNamed) {
  for (const char* const text :
       {"*", "*:0", "*:x", "memset:1", "cuMemFree_v2:1=NO_SUCH", "cuMemFree_v2:1=", "*:1+1"}) {
    setenv("SOFTGPU_FAIL", text, 1);
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(std::exit(cuInit(0) == CUDA_ERROR_NO_DEVICE ? 0 : 1), ::testing::ExitedWithCode(0),
                "SOFTGPU_FAIL='.*': accepted: FUNCTION:N");
  }
  unsetenv("SOFTGPU_FAIL");
}

}  // namespace
