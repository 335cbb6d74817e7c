// devices_program each|across|free: a program that computes on two devices. Prints hashes of what came out.
#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstdio>
#include <string_view>
#include <vector>

#include "ok.h"

namespace {

constexpr std::size_t bytes = std::size_t{16} << 20;
constexpr int buffers = 6;

// What the program has on one device: more than the cap.
struct Side {
  int device;
  cudaStream_t stream = nullptr;
  cublasHandle_t blas = nullptr;
  std::vector<float*> all;

  explicit Side(int which) : device(which) {
    OK(cudaSetDevice(device));
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    OK(cublasCreate(&blas));
    OK(cublasSetStream(blas, stream));
    std::vector<float> content(bytes / sizeof(float));
    for (int b = 0; b < buffers; ++b) {
      for (std::size_t i = 0; i < content.size(); ++i)
        content[i] = static_cast<float>(b + 10 * device) + static_cast<float>(i % 7);
      float* made = nullptr;
      OK(cudaMalloc(reinterpret_cast<void**>(&made), bytes));
      OK(cudaMemcpyAsync(made, content.data(), bytes, cudaMemcpyHostToDevice, stream));
      OK(cudaStreamSynchronize(stream));
      all.push_back(made);
    }
  }

  void work() const {
    OK(cudaSetDevice(device));
    const float factor = 0.5F;
    for (int b = 0; b < buffers; ++b)
      OK(cublasSaxpy(blas, bytes / sizeof(float), &factor, all[b], 1, all[(b + 1) % buffers], 1));
  }

  void print() const {
    OK(cudaSetDevice(device));
    std::vector<std::uint32_t> content(bytes / sizeof(float));
    for (const float* each : all) {
      OK(cudaMemcpyAsync(content.data(), each, bytes, cudaMemcpyDeviceToHost, stream));
      OK(cudaStreamSynchronize(stream));
      std::uint64_t hash = 1;
      for (const std::uint32_t word : content) hash = (hash ^ word) * 0x100000001b3;
      std::printf("device %d %016llx\n", device, static_cast<unsigned long long>(hash));
    }
  }
};

void wait_for(const Side& side) {
  OK(cudaSetDevice(side.device));
  OK(cudaStreamSynchronize(side.stream));
}

}  // namespace

int main(int count, char** words) {
  const std::string_view scenario = count == 2 ? words[1] : "";
  if (scenario != "each" && scenario != "across" && scenario != "free") return 2;
  int devices = 0;
  OK(cudaGetDeviceCount(&devices));
  if (devices != 2) return 2;
  Side first(0), second(1);
  for (int step = 0; step < 4; ++step) {
    first.work();
    second.work();
    if (scenario == "across") {
      wait_for(first), wait_for(second);
      // In the stream of the one, then of the other.
      OK(cudaMemcpyAsync(first.all[2], second.all[3], bytes, cudaMemcpyDefault, second.stream));
      wait_for(second);
      OK(cudaSetDevice(0));
      OK(cudaMemcpyAsync(second.all[1], first.all[5], bytes, cudaMemcpyDefault, first.stream));
      wait_for(first);
    } else if (scenario == "free") {
      // Memory of the first device, while the second is current.
      OK(cudaFree(first.all[0]));
      OK(cudaSetDevice(0));
      OK(cudaMalloc(reinterpret_cast<void**>(&first.all[0]), bytes));
      OK(cudaMemsetAsync(first.all[0], step, bytes, first.stream));
    }
  }
  for (const Side* side : {&first, &second}) {
    cudaPointerAttributes of{};
    OK(cudaPointerGetAttributes(&of, side->all[1]));
    std::printf("on device %d\n", of.device);
    side->print();
  }
  std::puts("done");
  return 0;
}
