// faults_program memory|train|unforeseen|graphs|threads: a program of few calls, any of which may fail. It
// prints hashes of what its memory holds as it goes, frees everything, and ends with exit code 0; where a
// call of CUDA's fails, with one line on stderr that names the call, and exit code 1.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <iterator>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/preload/elementwise.h"

namespace {

using namespace test_kernels;

struct Refused {
  const char* call;
  int status;
};
#define OK(call)                                                                              \
  do {                                                                                        \
    if (const int status = static_cast<int>(call); status != 0) throw Refused{#call, status}; \
  } while (false)

constexpr softgpu::KernelEntry entries[] = {{fill_name, one_array, 3, touch_all<1>, run_fill},
                                            {add_name, three_arrays, 3, touch_all<3>, run_add},
                                            {clamp_name, two_arrays, 3, touch_all<2>, run_clamp},
                                            {threshold_name, binary_arrays, 3, touch_all<3>, run_threshold},
                                            {"through_mask", three_words, 3, touch_masked, run_masked}};
constexpr softgpu::Image image{softgpu::image_magic, std::size(entries), entries};

// Every buffer is as large as the smallest that pooch manages: runs are short, and memory is short all the
// same.
constexpr std::size_t bytes = std::size_t{2} << 20;
constexpr int count = bytes / sizeof(float);

CUlibrary library = nullptr;

void start() {
  OK(cudaFree(nullptr));  // the runtime makes the context
  OK(cuLibraryLoadData(&library, &image, nullptr, nullptr, 0, nullptr, nullptr, 0));
}

void launch(const char* name, void** params, cudaStream_t stream) {
  CUkernel kernel = nullptr;
  OK(cuLibraryGetKernel(&kernel, library, name));
  OK(cuLaunchKernel(reinterpret_cast<CUfunction>(kernel), 64, 1, 1, 128, 1, 1, 0,
                    reinterpret_cast<CUstream>(stream), params, nullptr));
}
template <class Functor, class... Pointers>
void elementwise(cudaStream_t stream, int elements, const char* name, Functor functor, Pointers... pointers) {
  std::array<float*, sizeof...(Pointers)> data{pointers...};
  void* params[] = {&elements, &functor, data.data()};
  launch(name, params, stream);
}
void fill(float* to, float value, cudaStream_t stream = nullptr, int elements = count) {
  elementwise(stream, elements, fill_name, value, to);
}
// to = a + factor * b
void add(float* to, float* a, float factor, float* b, cudaStream_t stream = nullptr, int elements = count) {
  elementwise(stream, elements, add_name, factor, to, a, b);
}

float* make(std::size_t size = bytes) {
  void* made = nullptr;
  OK(cudaMalloc(&made, size));
  return static_cast<float*>(made);
}
cudaStream_t make_stream() {
  cudaStream_t made = nullptr;
  OK(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
  return made;
}
void follow(cudaStream_t later, cudaStream_t earlier) {
  cudaEvent_t event = nullptr;
  OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  OK(cudaEventRecord(event, earlier));
  OK(cudaStreamWaitEvent(later, event, 0));
  OK(cudaEventDestroy(event));
}

std::uint64_t hash_of(const float* memory, cudaStream_t stream = nullptr, std::size_t size = bytes) {
  std::vector<std::uint64_t> host(size / sizeof(std::uint64_t));
  OK(cudaMemcpyAsync(host.data(), memory, size, cudaMemcpyDeviceToHost, stream));
  OK(cudaStreamSynchronize(stream));
  std::uint64_t hash = 14695981039346656037U;
  for (const std::uint64_t word : host) hash = (hash ^ word) * 1099511628211U;
  return hash;
}
// At once: what was printed before a call fails counts.
void print(const char* what, int number, std::uint64_t hash) {
  std::printf("%s %d %016llx\n", what, number, static_cast<unsigned long long>(hash));
  std::fflush(stdout);
}
void print_all(const char* what, const std::vector<float*>& all) {
  for (std::size_t i = 0; i < all.size(); ++i) print(what, static_cast<int>(i), hash_of(all[i]));
}
void free_all(const std::vector<float*>& all) {
  for (float* const each : all) OK(cudaFree(each));
}

// Sets, copies of all three kinds and kernels in two streams, on more memory than there is; some is freed and
// allocated again, in the order of a stream or not.
void memory() {
  constexpr int tensors = 12;
  const cudaStream_t first = make_stream(), second = make_stream();
  std::vector<float*> all;
  void* locked = nullptr;
  OK(cudaMallocHost(&locked, bytes));
  for (int i = 0; i < count; ++i) static_cast<float*>(locked)[i] = static_cast<float>(i % 13);
  for (int i = 0; i < tensors; ++i) {
    all.push_back(make());
    if (i % 3 == 0) fill(all[i], static_cast<float>(i), first);
    if (i % 3 == 1) OK(cudaMemsetAsync(all[i], i, bytes, first));
    if (i % 3 == 2) OK(cudaMemcpyAsync(all[i], locked, bytes, cudaMemcpyHostToDevice, first));
  }
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < tensors; ++i) {
      const cudaStream_t here = i % 2 == 0 ? first : second, there = i % 2 == 0 ? second : first;
      add(all[i], all[i], 0.5F, all[(i + 5) % tensors], here);
      follow(there, here);
      if (i % 4 == 3)
        OK(cudaMemcpyAsync(all[i], all[(i + 7) % tensors], bytes, cudaMemcpyDeviceToDevice, there));
      follow(here, there);
    }
    print("round", round, hash_of(all[static_cast<std::size_t>(round)], first));
    OK(cudaFree(all[2]));
    all[2] = make();
    OK(cudaMemsetAsync(all[2], round, bytes, first));
    OK(cudaStreamSynchronize(first));
    OK(cudaFreeAsync(all[5], second));
    void* again = nullptr;
    OK(cudaMallocAsync(&again, bytes, first));
    all[5] = static_cast<float*>(again);
    fill(all[5], 3, first);
    follow(second, first);
  }
  OK(cudaStreamSynchronize(second));
  print_all("memory", all);
  free_all(all);
  OK(cudaFreeHost(locked));
  for (const cudaStream_t each : {first, second}) OK(cudaStreamDestroy(each));
}

// Each layer cuts off what is negative and adds its weights to a part; they get a little of their gradient.
void train() {
  constexpr std::size_t layers = 12;
  constexpr int iterations = 8, part = 1 << 14;
  std::vector<float*> weights, maps;
  float *input = make(), *gradient = make(), *next = make();
  for (std::size_t i = 0; i < layers; ++i) {
    weights.push_back(make(part * sizeof(float)));
    fill(weights.back(), i % 2 == 0 ? 0.25F : -0.125F, nullptr, part);
  }
  for (int step = 0; step < iterations; ++step) {
    fill(input, 0.5F + static_cast<float>(step));
    for (std::size_t i = 0; i < layers; ++i) {
      float* const sum = make();
      maps.push_back(make());
      add(sum, i == 0 ? input : maps[i - 1], 0.5F, input);
      add(sum, sum, 1.0F, weights[i], nullptr, part);
      elementwise(nullptr, count, clamp_name, Clamp{}, maps.back(), sum);
      OK(cudaFree(sum));
    }
    fill(gradient, 1.0F);
    for (std::size_t i = layers; i-- > 0;) {
      elementwise(nullptr, count, threshold_name, Threshold{0, 0}, next, maps[i], gradient);
      std::swap(next, gradient);
      add(weights[i], weights[i], -0.01F / static_cast<float>(step + 1), gradient, nullptr, part);
      OK(cudaFree(maps[i]));
    }
    maps.clear();
    const std::size_t shown = static_cast<std::size_t>(step) % layers;
    print("step", step, hash_of(weights[shown], nullptr, part * sizeof(float)));
  }
  print("gradient", 0, hash_of(gradient));
  for (const float* each : weights) print("weights", 0, hash_of(each, nullptr, part * sizeof(float)));
  free_all(weights);
  free_all({input, gradient, next});
}

// Two tensors that a kernel reaches by addresses that nobody sees, wherever they are then.
void unforeseen() {
  std::vector<float*> hidden{make(), make()}, others;
  fill(hidden[0], 1);
  fill(hidden[1], 2);
  for (int i = 0; i < 10; ++i) {
    others.push_back(make());
    fill(others.back(), static_cast<float>(i));
  }
  const auto touch = [](float* to, float* from) {
    std::uint64_t words = count, masked_to = ~reinterpret_cast<std::uint64_t>(to),
                  masked_from = ~reinterpret_cast<std::uint64_t>(from);
    void* params[] = {&masked_to, &masked_from, &words};
    launch("through_mask", params, nullptr);
  };
  for (int round = 0; round < 4; ++round) {
    for (std::size_t i = 1; i < others.size(); ++i) add(others[i], others[i], 1, others[i - 1]);
    touch(hidden[0], hidden[1]);
    touch(others[3], hidden[0]);
    if (round % 2 == 1) add(hidden[1], hidden[1], 1, hidden[0]);
    print("round", round, hash_of(others[static_cast<std::size_t>(round)]));
  }
  print_all("hidden", hidden);
  print_all("others", others);
  free_all(hidden);
  free_all(others);
}

// A captured step is launched again and again while other memory moves.
void graphs() {
  const cudaStream_t stream = make_stream();
  std::vector<float*> named{make(), make(), make()}, others;
  for (std::size_t i = 0; i < named.size(); ++i) fill(named[i], static_cast<float>(i), stream);
  for (int i = 0; i < 8; ++i) {
    others.push_back(make());
    fill(others.back(), static_cast<float>(i), stream);
  }
  cudaGraph_t graph = nullptr;
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  add(named[0], named[0], 2, named[1], stream);
  OK(cudaMemcpyAsync(named[2], named[0], bytes, cudaMemcpyDeviceToDevice, stream));
  OK(cudaMemsetAsync(named[1], 0, bytes / 2, stream));
  OK(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t exec = nullptr;
  OK(cudaGraphInstantiate(&exec, graph, 0));
  for (int step = 0; step < 4; ++step) {
    OK(cudaGraphLaunch(exec, stream));
    for (std::size_t i = 0; i < others.size(); ++i)
      add(others[i], others[i], 0.5F, others[(i + 1) % others.size()], stream);
    add(named[1], named[1], 1, others[0], stream);
    print("step", step, hash_of(others[static_cast<std::size_t>(step)], stream));
  }
  OK(cudaGraphExecDestroy(exec));
  OK(cudaGraphDestroy(graph));
  for (const float* each : named) print("named", 0, hash_of(each, stream));
  for (const float* each : others) print("others", 0, hash_of(each, stream));
  free_all(named);
  free_all(others);
  OK(cudaStreamDestroy(stream));
}

// Eight threads with a stream and memory of their own each. What they find is printed at the end, in order;
// where one of them fails, the others go on to their end.
void threads() {
  constexpr int all = 8;
  std::array<std::uint64_t, all> found{};
  std::mutex mutex;
  std::optional<Refused> refused;
  const auto body = [](int me) {
    const cudaStream_t stream = make_stream();
    std::vector<float*> mine{make(), make()};
    for (std::size_t i = 0; i < mine.size(); ++i)
      fill(mine[i], static_cast<float>(me) + static_cast<float>(i), stream);
    for (int round = 0; round < 3; ++round) {
      add(mine[0], mine[0], 0.5F, mine[1], stream);
      OK(cudaMemcpyAsync(mine[1], mine[0], bytes / 2, cudaMemcpyDeviceToDevice, stream));
      if (round == 1) OK(cudaStreamSynchronize(stream));
    }
    const std::uint64_t hash = hash_of(mine[0], stream) ^ (3 * hash_of(mine[1], stream));
    free_all(mine);
    OK(cudaStreamDestroy(stream));
    return hash;
  };
  std::vector<std::thread> running;
  for (int i = 0; i < all; ++i)
    running.emplace_back([&, i] {
      try {
        found[static_cast<std::size_t>(i)] = body(i);
      } catch (const Refused& error) {
        const std::lock_guard lock(mutex);
        if (!refused) refused = error;
      }
    });
  for (std::thread& each : running) each.join();
  if (refused) throw *refused;
  for (int i = 0; i < all; ++i) print("thread", i, found[static_cast<std::size_t>(i)]);
}

}  // namespace

int main(int words, char** arguments) {
  const std::string_view what = words == 2 ? arguments[1] : "";
  const std::pair<std::string_view, void (*)()> scenarios[] = {{"memory", memory},
                                                               {"train", train},
                                                               {"unforeseen", unforeseen},
                                                               {"graphs", graphs},
                                                               {"threads", threads}};
  for (const auto& [name, run] : scenarios) {
    if (name != what) continue;
    try {
      start();
      run();
    } catch (const Refused& error) {
      std::fprintf(stderr, "program: %s gives %d\n", error.call, error.status);
      return 1;
    }
    return 0;
  }
  std::fputs("usage: faults_program memory|train|unforeseen|graphs|threads\n", stderr);
  return 2;
}
