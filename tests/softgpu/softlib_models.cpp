// Every model of a device that the software GPU is delivered with.
#include <array>
#include <cstdlib>
#include <string>

#include "tests/softgpu/softlib_support.h"

namespace softlib {
namespace {

struct Model {
  const char* name;
  int compute, multiprocessors, gigabytes;
};

// In a process of its own: 0 where the device is what the model says, and kernels of all libraries run on it.
[[noreturn]] void visit(const Model& model) {
  setenv("SOFTGPU_DEVICE", (std::string(model.name) + ":timing").c_str(), 1);
  cudaDeviceProp properties{};
  if (cudaGetDeviceProperties(&properties, 0) != cudaSuccess) std::_Exit(1);
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  cublasHandle_t blas = nullptr;
  void* data = nullptr;
  if (cudaMemGetInfo(&free_bytes, &total_bytes) != cudaSuccess ||
      cublasCreate(&blas) != CUBLAS_STATUS_SUCCESS || cudaMalloc(&data, 4096) != cudaSuccess ||
      cudaMemset(data, 0, 4096) != cudaSuccess ||
      cublasSscal(blas, 1024, std::array{2.0F}.data(), static_cast<float*>(data), 1) !=
          CUBLAS_STATUS_SUCCESS ||
      cudaDeviceSynchronize() != cudaSuccess) {
    std::_Exit(2);
  }
  const double gigabytes = static_cast<double>(total_bytes) / 1e9;
  const bool same = properties.major * 10 + properties.minor == model.compute &&
                    properties.multiProcessorCount == model.multiprocessors && gigabytes >= model.gigabytes &&
                    gigabytes < model.gigabytes * 1.2;
  std::_Exit(same ? 0 : 3);
}

TEST(ModelsDeathTest, EachLoadsAndIsWhatItSays) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const Model& model :
       {Model{"titanx", 52, 24, 12}, Model{"p100-pcie3", 60, 56, 16}, Model{"p100-nvlink1", 60, 56, 16},
        Model{"v100-pcie3", 70, 80, 16}, Model{"v100-nvlink2", 70, 80, 16}, Model{"h200", 90, 132, 140},
        Model{"a100-40gb-pcie", 80, 108, 40}, Model{"rtx4090", 89, 128, 24}, Model{"h100-pcie", 90, 114, 80},
        Model{"h100-sxm", 90, 132, 80}, Model{"gh200", 90, 132, 96}}) {
    EXPECT_EXIT(visit(model), ::testing::ExitedWithCode(0), "") << model.name;
  }
}

}  // namespace
}  // namespace softlib
