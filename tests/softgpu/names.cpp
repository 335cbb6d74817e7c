// How the software GPU's driver is found: exported names, look-up by version and flags, and the choice of a
// device.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "tests/softgpu/driver.h"

using namespace softgpu_test;

namespace {

std::string symbol(const char* base, int version, cuuint64_t flags = CU_GET_PROC_ADDRESS_DEFAULT) {
  void* function = nullptr;
  CUdriverProcAddressQueryResult status{};
  const CUresult result = cuGetProcAddress(base, &function, version, flags, &status);
  if (result != CUDA_SUCCESS) {
    EXPECT_EQ(result, CUDA_ERROR_NOT_FOUND);
    EXPECT_EQ(function, nullptr);
    return status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT ? "too old" : "unknown";
  }
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SUCCESS);
  Dl_info info{};
  if (dladdr(function, &info) == 0 || info.dli_sname == nullptr) return "unnamed";
  EXPECT_EQ(info.dli_saddr, function);
  return info.dli_sname;
}

TEST(SoftgpuNames, LookUpHonoursVersionAndFlags) {
  constexpr cuuint64_t per_thread = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  EXPECT_EQ(symbol("", 13000), "unknown");
  EXPECT_EQ(symbol("cuNoSuchThing", 13000), "unknown");
  EXPECT_EQ(symbol("cuMemAlloc", 13000), "cuMemAlloc_v2");
  EXPECT_EQ(symbol("cuMemAlloc", 2000), "too old");
  EXPECT_EQ(symbol("cuCtxCreate", 11000), "cuCtxCreate_v2");
  EXPECT_EQ(symbol("cuCtxCreate", 12000), "cuCtxCreate_v3");
  EXPECT_EQ(symbol("cuCtxCreate", 13000), "cuCtxCreate_v4");
  EXPECT_EQ(symbol("cuCtxSynchronize", 12080), "cuCtxSynchronize");
  EXPECT_EQ(symbol("cuCtxSynchronize", 13000), "cuCtxSynchronize_v2");
  EXPECT_EQ(symbol("cuGetProcAddress", 11040), "cuGetProcAddress");
  EXPECT_EQ(symbol("cuGetProcAddress", 12000), "cuGetProcAddress_v2");
  EXPECT_EQ(symbol("cuLaunchKernel", 13000), "cuLaunchKernel");
  EXPECT_EQ(symbol("cuLaunchKernel", 13000, per_thread), "cuLaunchKernel_ptsz");
  EXPECT_EQ(symbol("cuMemcpyHtoD", 13000, per_thread), "cuMemcpyHtoD_v2_ptds");
  EXPECT_EQ(symbol("cuMemcpyHtoD", 6000, per_thread), "cuMemcpyHtoD_v2");
  EXPECT_EQ(symbol("cuMemMap", 13000, per_thread), "cuMemMap");
  EXPECT_EQ(symbol("cuStreamWaitValue32", 11000), "cuStreamWaitValue32");
  void* function = nullptr;
  EXPECT_EQ(cuGetProcAddress("cuInit", &function, 13010, 0, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGetProcAddress(nullptr, &function, 13000, 0, nullptr), CUDA_ERROR_INVALID_VALUE);
  const void* table = nullptr;
  const CUuuid id{};
  EXPECT_EQ(cuGetExportTable(&table, &id), CUDA_ERROR_NOT_FOUND);
}

// Everything exported can be looked up, and by nobody's name but its own.
TEST(SoftgpuNames, EveryExportHasARow) {
  Dl_info info{};
  ASSERT_NE(dladdr(reinterpret_cast<void*>(&cuInit), &info), 0);
  FILE* const names = popen(("nm -D --defined-only " + std::string(info.dli_fname)).c_str(), "r");
  ASSERT_NE(names, nullptr);
  int seen = 0;
  char address[64], type[8], name[4096];
  while (std::fscanf(names, "%63s %7s %4095s", address, type, name) == 3) {
    const std::string exported = name;
    if (exported.rfind("cu", 0) != 0) continue;
    ++seen;
    std::string base = exported;
    if (base.size() > 5 && (base.ends_with("_ptsz") || base.ends_with("_ptds"))) base.resize(base.size() - 5);
    if (base.size() > 3 && base[base.size() - 3] == '_' && base[base.size() - 2] == 'v')
      base.resize(base.size() - 3);
    bool found = false;
    for (int version = 2000; version <= 13000 && !found; version += 10) {
      for (const cuuint64_t flags :
           {CU_GET_PROC_ADDRESS_LEGACY_STREAM, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM}) {
        found = found || symbol(base.c_str(), version, flags) == exported;
      }
    }
    EXPECT_TRUE(found) << exported;
  }
  EXPECT_EQ(pclose(names), 0);
  EXPECT_GT(seen, 200);
}

TEST(SoftgpuNames, NothingWorksBeforeInit) {
  int count = 0;
  EXPECT_EQ(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
  int version = 0;
  EXPECT_EQ(cuDriverGetVersion(&version), CUDA_SUCCESS);
  EXPECT_EQ(version, 13000);
  const char* text = nullptr;
  EXPECT_EQ(cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &text), CUDA_SUCCESS);
  EXPECT_STREQ(text, "CUDA_ERROR_OUT_OF_MEMORY");
  EXPECT_EQ(cuGetErrorString(static_cast<CUresult>(12345), &text), CUDA_ERROR_INVALID_VALUE);
}

TEST(SoftgpuNames, BadDevicesAreRefusedInOneLine) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const char* bad :
       {"h99", "v100-pcie3:fast", "v100-pcie3:vmm=-1", "v100-pcie3:vmm=1x", "v100-pcie3:noise=2,",
        "v100-pcie3:addresses=odd", "v100-pcie3:memory=lots", "v100-pcie3:memory=0", "../x", ":"}) {
    EXPECT_EXIT(
        {
          setenv("SOFTGPU_DEVICE", bad, 1);
          const bool refused = cuInit(0) == CUDA_ERROR_NO_DEVICE && cuInit(0) == CUDA_ERROR_NO_DEVICE;
          std::exit(refused ? 0 : 1);
        },
        ::testing::ExitedWithCode(0),
        "^softgpu: SOFTGPU_DEVICE='.*accepted: MODEL.*devices=1..8.*v100-nvlink2, v100-pcie3\n$");
  }
}

TEST(SoftgpuNames, AForkedChildHasNoDevice) {
  ON_DEVICE("v100-pcie3:timing", "", {
    const pid_t child = fork();
    if (child == 0) {
      int count = 0;
      _exit(cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  });
}

}  // namespace
