// memory_info_program SCENARIO: asks how much memory there is and takes it, as frameworks and their tools do.
// Prints what it decided, for a comparison with a device of that size; exit code 0, or 1 with a line on
// stderr.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ok.h"

namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

void expect(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "not so: %s\n", what.c_str());
  std::exit(1);
}

struct Info {
  std::size_t free, total;
};
Info memory_info() {
  Info info{};
  OK(cudaMemGetInfo(&info.free, &info.total));
  return info;
}

// Memory that is written and read again.
class Tensors {
 public:
  // False: the device has no memory for it.
  bool add(std::size_t bytes) {
    void* made = nullptr;
    const cudaError_t status = cudaMallocAsync(&made, bytes, nullptr);
    (void)cudaGetLastError();
    if (status == cudaErrorMemoryAllocation) return false;
    OK(status);
    all_.push_back({static_cast<unsigned char*>(made), bytes, static_cast<unsigned char>(all_.size() + 1)});
    OK(cudaMemsetAsync(made, all_.back().value, bytes, nullptr));
    used_ += bytes;
    return true;
  }
  void check() {
    for (const One& one : all_) {
      std::vector<unsigned char> host(one.bytes);
      OK(cudaMemcpy(host.data(), one.data, one.bytes, cudaMemcpyDeviceToHost));
      expect(std::all_of(host.begin(), host.end(), [&](unsigned char b) { return b == one.value; }),
             "a tensor holds what was written");
    }
  }
  void clear() {
    for (const One& one : all_) OK(cudaFreeAsync(one.data, nullptr));
    OK(cudaStreamSynchronize(nullptr));
    all_.clear();
    used_ = 0;
  }
  std::size_t used() const { return used_; }

 private:
  struct One {
    unsigned char* data;
    std::size_t bytes;
    unsigned char value;
  };
  std::vector<One> all_;
  std::size_t used_ = 0;
};

// PyTorch with cudnn.benchmark: what is free is asked for in one piece, halved until it is had; engines whose
// workspace is no larger are tried (CUDAMallocAsyncAllocator::cacheInfo).
std::size_t probe(std::size_t used) {
  const Info info = memory_info();
  expect(info.free + used <= info.total, "what is free and what is used fit into the total");
  for (std::size_t guess = info.free; guess > 0; guess /= 2) {
    void* dummy = nullptr;
    const cudaError_t status = cudaMallocAsync(&dummy, guess, nullptr);
    if (status == cudaErrorMemoryAllocation) {
      (void)cudaGetLastError();
      continue;
    }
    OK(status);
    OK(cudaFreeAsync(dummy, nullptr));
    return guess;
  }
  expect(false, "something is free");
  return 0;
}
void print_engines(std::size_t most) {
  std::printf("engines with workspaces of");
  for (const std::size_t workspace : {1, 3, 6, 12, 25, 50, 100, 200, 400})
    if (workspace * mib <= most) std::printf(" %zu", workspace);
  std::printf(" MiB\n");
}
void benchmark() {
  Tensors tensors;
  for (int i = 0; i < 4; ++i) {
    print_engines(probe(tensors.used()));
    expect(tensors.add(10 * mib), "a tensor of the network is had");
  }
  tensors.check();
}
// ... of a network that needs three times the device.
void benchmark_beyond() {
  Tensors tensors;
  std::size_t least = ~std::size_t{0};
  for (int i = 0; i < 19; ++i) {
    least = std::min(least, probe(tensors.used()));
    expect(tensors.add(10 * mib), "a tensor of the network is had");
  }
  std::printf("at least %zu MiB for a workspace\n", least / mib);
  tensors.check();
}

// accelerate's device_map="auto": layers go to the device while 90 % of what is free holds them, others
// elsewhere.
void device_map() {
  constexpr std::size_t layer = 4 * mib;
  const std::size_t budget = memory_info().free / 10 * 9;
  Tensors weights;
  int placed = 0;
  for (; placed < 24 && weights.used() + layer <= budget; ++placed)
    expect(weights.add(layer), "a layer that was found room for is had");
  std::printf("%d layers of 24 on the device\n", placed);
  weights.check();
}

// A batch is made as large as what is free allows.
void batch_from_free() {
  Tensors weights, activations;
  expect(weights.add(12 * mib), "weights");
  constexpr std::size_t sample = mib / 2, layers = 4;
  const std::size_t batch = memory_info().free / 10 * 9 / (sample * layers);
  std::printf("batch %zu\n", batch);
  for (std::size_t i = 0; i < layers; ++i) expect(activations.add(batch * sample), "activations");
  weights.check();
  activations.check();
}

// A batch is doubled until it is refused; the last that was not is used.
void batch_by_trial() {
  constexpr std::size_t sample = mib, layers = 4;
  Tensors activations;
  const auto runs = [&](std::size_t batch) {
    for (std::size_t i = 0; i < layers; ++i)
      if (!activations.add(batch * sample)) return false;
    return true;
  };
  std::size_t batch = 1;
  while (runs(batch)) {
    activations.check();
    activations.clear();
    batch *= 2;
    expect(batch < 4096, "there is an end");
  }
  activations.clear();
  batch /= 2;
  std::printf("batch %zu\n", batch);
  for (int step = 0; step < 3; ++step) {
    expect(runs(batch), "what was found works");
    activations.check();
    activations.clear();
  }
}

// JAX takes 75 % of what is free at once and cuts all of its own from that.
void preallocate() {
  const std::size_t bytes = memory_info().free / 4 * 3;
  void* arena = nullptr;
  OK(cudaMalloc(&arena, bytes));
  std::printf("%zu pieces\n", bytes / (5 * mib));
  for (int round = 0; round < 3; ++round)
    for (std::size_t at = 0; at + 5 * mib <= bytes; at += 5 * mib) {
      const int value = static_cast<int>((at / mib + static_cast<std::size_t>(round)) % 251);
      OK(cudaMemset(static_cast<char*>(arena) + at, value, 5 * mib));
      unsigned char read = 0;
      OK(cudaMemcpy(&read, static_cast<char*>(arena) + at + mib, 1, cudaMemcpyDeviceToHost));
      expect(read == value, "a piece holds what was written");
    }
}

// How much the device has is the same before and after the first use of memory.
void totals() {
  cudaDeviceProp properties{};
  OK(cudaGetDeviceProperties(&properties, 0));
  const std::size_t before = properties.totalGlobalMem;
  const Info info = memory_info();
  OK(cudaGetDeviceProperties(&properties, 0));
  expect(before == info.total && properties.totalGlobalMem == before, "one device has one size");
  std::printf("%zu MiB, all but %zu free\n", info.total / mib, (info.total - info.free + mib - 1) / mib);
}

}  // namespace

int main(int count, char** words) {
  const std::map<std::string, std::function<void()>> scenarios = {
      {"benchmark", benchmark},
      {"benchmark_beyond", benchmark_beyond},
      {"device_map", device_map},
      {"batch_from_free", batch_from_free},
      {"batch_by_trial", batch_by_trial},
      {"preallocate", preallocate},
      {"totals", totals},
  };
  const auto scenario = scenarios.find(count == 2 ? words[1] : "");
  if (scenario == scenarios.end()) return 2;
  scenario->second();
  std::printf("done\n");
  return 0;
}
