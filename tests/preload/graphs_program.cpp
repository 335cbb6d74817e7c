// graphs_program replay|fork|beside|ends|too_much|memory|left_open: a program that captures its work and
// launches it as a graph. Prints hashes of what came out, or what became of single calls.
#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstdio>
#include <functional>
#include <string_view>
#include <thread>
#include <vector>

#include "ok.h"

namespace {

constexpr std::size_t MiB = std::size_t{1} << 20;
constexpr std::size_t bytes = 16 * MiB;

// A stream with a handle of cuBLAS.
struct Lane {
  cudaStream_t stream = nullptr;
  cublasHandle_t blas = nullptr;
  Lane() {
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    OK(cublasCreate(&blas));
    OK(cublasSetStream(blas, stream));
  }
  // to += factor * from
  int add(float factor, const float* from, float* to, std::size_t size = bytes) const {
    return cublasSaxpy(blas, static_cast<int>(size / sizeof(float)), &factor, from, 1, to, 1);
  }
  void wait() const { OK(cudaStreamSynchronize(stream)); }
};

float* filled(const Lane& lane, float value, std::size_t size = bytes) {
  float* made = nullptr;
  OK(cudaMalloc(reinterpret_cast<void**>(&made), size));
  std::vector<float> content(size / sizeof(float));
  for (std::size_t i = 0; i < content.size(); ++i) content[i] = value + static_cast<float>(i % 7);
  OK(cudaMemcpyAsync(made, content.data(), size, cudaMemcpyHostToDevice, lane.stream));
  lane.wait();
  return made;
}

void print(const char* name, const Lane& lane, const float* from) {
  std::vector<std::uint32_t> content(bytes / sizeof(float));
  OK(cudaMemcpyAsync(content.data(), from, bytes, cudaMemcpyDeviceToHost, lane.stream));
  lane.wait();
  std::uint64_t hash = 1;
  for (const std::uint32_t word : content) hash = (hash ^ word) * 0x100000001b3;
  std::printf("%s %016llx\n", name, static_cast<unsigned long long>(hash));
}

cudaGraph_t captured(const Lane& lane, const std::function<void()>& work) {
  cudaGraph_t graph = nullptr;
  OK(cudaStreamBeginCapture(lane.stream, cudaStreamCaptureModeGlobal));
  work();
  OK(cudaStreamEndCapture(lane.stream, &graph));
  return graph;
}

cudaGraphExec_t instantiated(cudaGraph_t graph) {
  cudaGraphExec_t exec = nullptr;
  OK(cudaGraphInstantiate(&exec, graph, 0));
  return exec;
}

// Other memory of the program, more than fits beside the graph's.
struct Others {
  std::vector<float*> all;
  explicit Others(const Lane& lane) {
    for (int i = 0; i < 6; ++i) all.push_back(filled(lane, static_cast<float>(i)));
  }
  void work(const Lane& lane) const {
    for (std::size_t i = 0; i < all.size(); ++i) OK(lane.add(0.5F, all[i], all[(i + 1) % all.size()]));
  }
  void print_all(const Lane& lane) const {
    for (const float* each : all) print("other", lane, each);
  }
};

// y += 2 x, z = y
void replay() {
  const Lane lane;
  float *const x = filled(lane, 1), *const y = filled(lane, 2), *const z = filled(lane, 3);
  const Others others(lane);
  others.work(lane);
  const cudaGraph_t graph = captured(lane, [&] {
    OK(lane.add(2, x, y));
    OK(cudaMemcpyAsync(z, y, bytes, cudaMemcpyDeviceToDevice, lane.stream));
    OK(cudaMemsetAsync(x, 0, bytes / 2, lane.stream));
  });
  const cudaGraphExec_t exec = instantiated(graph);
  for (int step = 0; step < 4; ++step) {
    OK(cudaGraphLaunch(exec, lane.stream));
    others.work(lane);
    OK(lane.add(1, others.all[0], x));
  }
  OK(cudaGraphExecDestroy(exec));
  OK(cudaGraphDestroy(graph));
  others.work(lane);
  for (const float* each : {x, y, z}) print("graph", lane, each);
  others.print_all(lane);
}

// A second stream is part of the capture.
void forked_stream() {
  const Lane lane, second;
  float *const x = filled(lane, 1), *const y = filled(lane, 2), *const z = filled(lane, 3);
  const Others others(lane);
  others.work(lane);
  lane.wait();
  others.work(second);
  second.wait();
  cudaEvent_t forked = nullptr, joined = nullptr;
  OK(cudaEventCreateWithFlags(&forked, cudaEventDisableTiming));
  OK(cudaEventCreateWithFlags(&joined, cudaEventDisableTiming));
  const cudaGraphExec_t exec = instantiated(captured(lane, [&] {
    OK(cudaEventRecord(forked, lane.stream));
    OK(cudaStreamWaitEvent(second.stream, forked, 0));
    OK(second.add(3, x, z));
    OK(lane.add(2, x, y));
    OK(cudaEventRecord(joined, second.stream));
    OK(cudaStreamWaitEvent(lane.stream, joined, 0));
    OK(lane.add(1, z, x));
  }));
  for (int step = 0; step < 3; ++step) {
    OK(cudaGraphLaunch(exec, lane.stream));
    others.work(lane);
  }
  for (const float* each : {x, y, z}) print("graph", lane, each);
}

// y += 2 x by way of memory that the graph allocates, and frees in a stream that nobody joins to the first:
// where that is refused, the program joins it.
void own_memory(bool leaves_open) {
  const Lane lane, second;
  float *const x = filled(lane, 1), *const y = filled(lane, 2);
  const Others others(lane);
  others.work(lane);
  cudaEvent_t used = nullptr, joined = nullptr;
  OK(cudaEventCreateWithFlags(&used, cudaEventDisableTiming));
  OK(cudaEventCreateWithFlags(&joined, cudaEventDisableTiming));
  cudaGraph_t graph = nullptr;
  OK(cudaStreamBeginCapture(lane.stream, cudaStreamCaptureModeThreadLocal));
  void* memory = nullptr;
  OK(cudaMallocAsync(&memory, bytes, lane.stream));
  OK(cudaMemcpyAsync(memory, x, bytes, cudaMemcpyDeviceToDevice, lane.stream));
  OK(lane.add(2, static_cast<float*>(memory), y));
  OK(cudaEventRecord(used, lane.stream));
  OK(cudaStreamWaitEvent(second.stream, used, 0));
  OK(cudaFreeAsync(memory, second.stream));
  if (!leaves_open) {
    OK(cudaEventRecord(joined, second.stream));
    OK(cudaStreamWaitEvent(lane.stream, joined, 0));
  }
  const cudaError_t ended = cudaStreamEndCapture(lane.stream, &graph);
  if (ended != cudaSuccess) {
    std::printf("refused %d\n", ended);
    return;
  }
  const cudaGraphExec_t exec = instantiated(graph);
  for (int step = 0; step < 3; ++step) {
    OK(cudaGraphLaunch(exec, lane.stream));
    others.work(lane);
  }
  for (const float* each : {x, y}) print("graph", lane, each);
  others.print_all(lane);
}

// Another thread works while this one captures, and memory moves under both.
void beside() {
  const Lane lane, second;
  float *const x = filled(lane, 1), *const y = filled(lane, 2);
  const Others others(second);
  others.work(second);
  const cudaGraphExec_t exec = instantiated(captured(lane, [&] {
    OK(lane.add(2, x, y));
    std::thread([&] {
      OK(cudaSetDevice(0));
      others.work(second);
    }).join();
    OK(lane.add(3, y, x));
  }));
  for (int step = 0; step < 3; ++step) {
    OK(cudaGraphLaunch(exec, lane.stream));
    others.work(second);
  }
  for (const float* each : {x, y}) print("graph", lane, each);
  others.print_all(second);
}

// What stays on the device for a graph leaves no room for a large op, until the last of the graph is gone.
void ends() {
  const Lane lane;
  float *const x = filled(lane, 1), *const y = filled(lane, 2), *const z = filled(lane, 3);
  float *const a = filled(lane, 1, 2 * bytes), *const b = filled(lane, 1, 2 * bytes);
  const auto large = [&](const char* when) {
    std::printf("%s: %s\n", when, lane.add(1, a, b, 2 * bytes) == CUBLAS_STATUS_SUCCESS ? "fits" : "refused");
  };
  large("before");
  const cudaGraph_t graph = captured(lane, [&] {
    OK(lane.add(2, x, y));
    OK(lane.add(2, y, z));
  });
  large("captured");
  cudaGraph_t clone = nullptr;
  OK(cudaGraphClone(&clone, graph));
  OK(cudaGraphDestroy(graph));
  large("graph gone");
  const cudaGraphExec_t exec = instantiated(clone);
  OK(cudaGraphDestroy(clone));
  large("clone gone");
  OK(cudaGraphLaunch(exec, lane.stream));
  OK(cudaFree(z));  // of what it names
  OK(cudaGraphExecDestroy(exec));
  large("all gone");
  print("graph", lane, y);
}

void too_much() {
  const Lane lane;
  const Others others(lane);
  OK(cudaStreamBeginCapture(lane.stream, cudaStreamCaptureModeGlobal));
  int refused = 0;
  for (std::size_t i = 0; i + 1 < others.all.size(); ++i)
    refused += lane.add(1, others.all[i], others.all[i + 1]) == CUBLAS_STATUS_SUCCESS ? 0 : 1;
  cudaGraph_t graph = nullptr;
  OK(cudaStreamEndCapture(lane.stream, &graph));
  OK(cudaGraphDestroy(graph));
  std::printf("refused %d\n", refused);
  others.work(lane);
  others.print_all(lane);
}

}  // namespace

int main(int count, char** words) {
  const std::string_view scenario = count == 2 ? words[1] : "";
  if (scenario == "replay") {
    replay();
  } else if (scenario == "fork") {
    forked_stream();
  } else if (scenario == "beside") {
    beside();
  } else if (scenario == "ends") {
    ends();
  } else if (scenario == "too_much") {
    too_much();
  } else if (scenario == "memory" || scenario == "left_open") {
    own_memory(scenario == "left_open");
  } else {
    return 2;
  }
  std::puts("done");
  return 0;
}
