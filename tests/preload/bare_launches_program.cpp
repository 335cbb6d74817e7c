// bare_launches_program train|forms|hidden|written|written-inside, or masked|captured|apart|replaced ROUNDS:
// programs that launch kernels of their own, without any library. The kernels have names and parameters of
// PyTorch's; what they do is told by host functions. Prints hashes of what came out.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "elementwise.h"
#include "ok.h"

namespace {

using namespace test_kernels;

// through_table(table, count): table[0][i] += table[1][i], by addresses that no parameter shows.
struct Table {
  float* to;
  const float* from;
};
void touch_table(const void* const* p, Footprint& out) {
  const Table table = *parameter<const Table*>(p, 0);
  const auto bytes = parameter<std::uint64_t>(p, 1) * sizeof(float);
  out.touches.push_back(
      {reinterpret_cast<std::uint64_t>(parameter<const Table*>(p, 0)), sizeof table, TouchKind::read});
  out.touches.push_back({reinterpret_cast<std::uint64_t>(table.to), bytes, TouchKind::read_write});
  out.touches.push_back({reinterpret_cast<std::uint64_t>(table.from), bytes, TouchKind::read});
  out.bytes = static_cast<double>(3 * bytes);
}
void run_table(const void* const* p) {
  const Table table = *parameter<const Table*>(p, 0);
  for (std::uint64_t i = 0; i < parameter<std::uint64_t>(p, 1); ++i) table.to[i] += table.from[i];
}

// write_table(table, to, from)
void touch_written(const void* const* p, Footprint& out) {
  out.touches.push_back(
      {reinterpret_cast<std::uint64_t>(parameter<Table*>(p, 0)), sizeof(Table), TouchKind::write});
}
void write_table(const void* const* p) {
  *parameter<Table*>(p, 0) = {parameter<float*>(p, 1), parameter<const float*>(p, 2)};
}

// A kernel that a rule knows: its operands begin where its pointers point.
constexpr const char* ruled_write_name = "_ZN2at4cuda6detail11write_tableEPPfS2_S2_";

constexpr std::uint32_t table_params[] = {8, 8};
constexpr softgpu::KernelEntry entries[] = {{fill_name, one_array, 3, touch_all<1>, run_fill},
                                            {add_name, three_arrays, 3, touch_all<3>, run_add},
                                            {clamp_name, two_arrays, 3, touch_all<2>, run_clamp},
                                            {threshold_name, binary_arrays, 3, touch_all<3>, run_threshold},
                                            {"through_table", table_params, 2, touch_table, run_table},
                                            {"write_table", three_words, 3, touch_written, write_table},
                                            {ruled_write_name, three_words, 3, touch_written, write_table},
                                            {"through_mask", three_words, 3, touch_masked, run_masked}};
constexpr softgpu::Image image{softgpu::image_magic, std::size(entries), entries};

CUfunction kernel(const char* name) {
  static CUlibrary library;
  if (library == nullptr) {
    OK(cudaFree(nullptr));  // the runtime makes the context
    OK(cuLibraryLoadData(&library, &image, nullptr, nullptr, 0, nullptr, nullptr, 0));
  }
  CUkernel found = nullptr;
  OK(cuLibraryGetKernel(&found, library, name));
  return reinterpret_cast<CUfunction>(found);
}

enum class Form : std::uint8_t { params, buffer, attributes, cooperative };
Form form = Form::params;
thread_local CUstream stream = nullptr;  // that launches go to

// The parameters one behind the other, where the driver says that they belong.
std::vector<std::byte> packed(CUfunction function, void** params) {
  std::vector<std::byte> buffer;
  std::size_t offset = 0, size = 0;
  const auto asked = reinterpret_cast<CUkernel>(function);  // as `kernel` gives it
  for (std::size_t i = 0; cuKernelGetParamInfo(asked, i, &offset, &size) == CUDA_SUCCESS; ++i) {
    buffer.resize(offset + size);
    std::memcpy(buffer.data() + offset, params[i], size);
  }
  return buffer;
}

void launch(const char* name, void** params) {
  const CUfunction function = kernel(name);
  if (form == Form::params) {
    OK(cuLaunchKernel(function, 64, 1, 1, 128, 1, 1, 0, stream, params, nullptr));
  } else if (form == Form::buffer) {
    auto buffer = packed(function, params);
    std::size_t size = buffer.size();
    void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, buffer.data(), CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
    OK(cuLaunchKernel(function, 64, 1, 1, 128, 1, 1, 0, nullptr, nullptr, extra));
  } else if (form == Form::attributes) {
    CUlaunchAttribute cluster{};
    cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    cluster.value.clusterDim = {2, 1, 1};
    CUlaunchConfig config{};
    config.gridDimX = 64, config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = 128, config.blockDimY = config.blockDimZ = 1;
    config.attrs = &cluster;
    config.numAttrs = 1;
    OK(cuLaunchKernelEx(&config, function, params, nullptr));
  } else {
    OK(cuLaunchCooperativeKernel(function, 64, 1, 1, 128, 1, 1, 0, nullptr, params));
  }
}
template <class Functor, class... Pointers>
void elementwise(const char* name, int count, Functor functor, Pointers... pointers) {
  std::array<float*, sizeof...(Pointers)> data{pointers...};
  void* params[] = {&count, &functor, data.data()};
  launch(name, params);
}

constexpr int count = 1 << 21;  // 8 MiB

float* make() {
  float* made = nullptr;
  OK(cudaMalloc(reinterpret_cast<void**>(&made), count * sizeof(float)));
  return made;
}
std::uint64_t hash_of(const float* memory) {
  std::vector<unsigned char> host(count * sizeof(float));
  OK(cudaMemcpy(host.data(), memory, host.size(), cudaMemcpyDeviceToHost));
  std::uint64_t hash = 14695981039346656037U;
  for (const unsigned char byte : host) hash = (hash ^ byte) * 1099511628211U;
  return hash;
}

// Each layer adds its weights and cuts off what is negative; the weights get a little of their gradient. The
// step's number is among the scalars, as seeds and rates are.
void train() {
  constexpr int layers = 10, iterations = 16;
  std::vector<float*> weights, maps;
  float *input = make(), *gradient = make(), *next = make();
  for (int i = 0; i < layers; ++i) {
    weights.push_back(make());
    elementwise(fill_name, count, i % 2 == 0 ? 0.25F : -0.125F, weights[i]);
  }
  for (int step = 0; step < iterations; ++step) {
    elementwise(fill_name, count, 0.5F + static_cast<float>(step), input);
    for (int i = 0; i < layers; ++i) {
      float* const sum = make();
      maps.push_back(make());
      elementwise(add_name, count, 1.0F, sum, i == 0 ? input : maps[i - 1], weights[i]);
      elementwise(clamp_name, count, Clamp{}, maps[i], sum);
      OK(cudaFree(sum));
    }
    elementwise(fill_name, count, 1.0F, gradient);
    for (int i = layers; i-- > 0;) {
      elementwise(threshold_name, count, Threshold{0, 0}, next, maps[i], gradient);
      std::swap(next, gradient);
      elementwise(add_name, count, -0.01F / static_cast<float>(step + 1), weights[i], weights[i], gradient);
      OK(cudaFree(maps[i]));
    }
    maps.clear();
    if (step % 5 == 0)
      std::printf("step %d %016llx\n", step,
                  static_cast<unsigned long long>(hash_of(weights[step % layers])));
  }
  for (int i = 0; i < layers; ++i)
    std::printf("weights %d %016llx\n", i, static_cast<unsigned long long>(hash_of(weights[i])));
}

// Two tensors whose addresses lie in a table on the device, and a dozen others in use meanwhile. The table is
// copied there, or written by a kernel: at the start of its allocation, or inside.
enum class Made { copied, written, inside };
void hidden(Made made) {
  float *to = make(), *from = make();
  elementwise(fill_name, count, 1.0F, to);
  elementwise(fill_name, count, 2.0F, from);
  std::vector<float*> others;
  for (int i = 0; i < 12; ++i) {
    others.push_back(make());
    elementwise(fill_name, count, static_cast<float>(i), others[i]);  // `to` and `from` make way
  }
  const Table table{to, from};
  Table* on_device = nullptr;
  constexpr std::size_t before = 512;
  void* block = nullptr;
  OK(cudaMalloc(&block, before + sizeof table));
  on_device = reinterpret_cast<Table*>(static_cast<std::byte*>(block) + (made == Made::inside ? before : 0));
  if (made != Made::copied) {
    void* params[] = {&on_device, &to, &from};
    launch(made == Made::inside ? ruled_write_name : "write_table", params);
  } else {
    OK(cudaMemcpy(on_device, &table, sizeof table, cudaMemcpyHostToDevice));
  }
  std::uint64_t words = count;
  void* params[] = {&on_device, &words};
  for (int round = 0; round < 3; ++round) {
    for (int i = 1; i < 12; ++i) elementwise(add_name, count, 1.0F, others[i], others[i], others[i - 1]);
    launch("through_table", params);
  }
  std::printf("to %016llx\n", static_cast<unsigned long long>(hash_of(to)));
  OK(cudaFree(to));
  for (int i = 0; i < 12; ++i)
    std::printf("%d %016llx\n", i, static_cast<unsigned long long>(hash_of(others[i])));
}

void add_masked(float* to, float* from) {
  std::uint64_t words = count, masked_to = ~reinterpret_cast<std::uint64_t>(to),
                masked_from = ~reinterpret_cast<std::uint64_t>(from);
  void* params[] = {&masked_to, &masked_from, &words};
  launch("through_mask", params);
}
std::string hashes(const char* name, const std::vector<float*>& all) {
  std::string text;
  for (std::size_t i = 0; i < all.size(); ++i) {
    char line[64];
    std::snprintf(line, sizeof line, "%s %zu %016llx\n", name, i,
                  static_cast<unsigned long long>(hash_of(all[i])));
    text += line;
  }
  return text;
}

// A dozen tensors in use, and two that a kernel reaches by addresses that nobody sees, wherever they are
// then. `touch` does it, with the two and one of the dozen.
using Touch = std::function<void(float* first, float* second, float* other)>;
std::string masked(int rounds, const Touch& touch) {
  const std::vector<float*> hidden{make(), make()};
  std::vector<float*> others;
  elementwise(fill_name, count, 1.0F, hidden[0]);
  elementwise(fill_name, count, 2.0F, hidden[1]);
  for (int i = 0; i < 12; ++i) {
    others.push_back(make());
    elementwise(fill_name, count, static_cast<float>(i), others[i]);
  }
  for (int round = 0; round < rounds; ++round) {
    for (int i = 1; i < 12; ++i) elementwise(add_name, count, 1.0F, others[i], others[i], others[i - 1]);
    touch(hidden[0], hidden[1], others[3]);
    // Known again: it comes back, with what the kernel wrote.
    if (round % 2 == 1) elementwise(add_name, count, 1.0F, hidden[1], hidden[1], hidden[0]);
  }
  return hashes("hidden", hidden) + hashes("others", others);
}
void touch_both(float* first, float* second, float* other) {
  add_masked(first, second);
  add_masked(other, first);
}

// The same by a graph, which was captured in the first round.
std::string captured(int rounds) {
  cudaGraphExec_t exec = nullptr;
  cudaStream_t other_stream = nullptr;
  OK(cudaStreamCreate(&other_stream));
  return masked(rounds, [&](float* first, float* second, float* other) {
    if (exec == nullptr) {
      cudaGraph_t graph = nullptr;
      OK(cudaStreamBeginCapture(other_stream, cudaStreamCaptureModeGlobal));
      stream = reinterpret_cast<CUstream>(other_stream);
      touch_both(first, second, other);
      elementwise(add_name, count, 1.0F, other, other, other);
      stream = nullptr;
      OK(cudaStreamEndCapture(other_stream, &graph));
      OK(cudaGraphInstantiate(&exec, graph, 0));
      OK(cudaGraphDestroy(graph));
    }
    OK(cudaGraphLaunch(exec, other_stream));
  });
}

// The same in two threads, on one device each where there are two.
std::string apart(int rounds) {
  int devices = 0;
  OK(cudaGetDeviceCount(&devices));
  (void)kernel(fill_name);
  std::string text[2];
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i)
    threads.emplace_back([&, i] {
      OK(cudaSetDevice(i % devices));
      text[i] = masked(rounds, touch_both);
    });
  for (std::thread& thread : threads) thread.join();
  return text[0] + text[1];
}

// Tensors that leave the device and are freed there, by the host or in a stream's order; others come instead.
std::string replaced(int rounds) {
  std::vector<float*> all(16, nullptr);
  float* const seen = make();
  elementwise(fill_name, count, 1.0F, seen);
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i] != nullptr && i % 2 == 0) OK(cudaFree(all[i]));
      if (all[i] != nullptr && i % 2 == 1) OK(cudaFreeAsync(all[i], nullptr));
      all[i] = make();
      elementwise(fill_name, count, static_cast<float>(round + 1) + static_cast<float>(i), all[i]);
      if (i > 3) add_masked(all[i - 3], seen);
    }
  }
  return hashes("left", all);
}

// The same by each way there is to launch a kernel.
void forms() {
  std::vector<float*> all;
  for (int i = 0; i < 12; ++i) {
    all.push_back(make());
    form = static_cast<Form>(i % 4);
    elementwise(fill_name, count, static_cast<float>(i), all[i]);
  }
  for (int round = 0; round < 8; ++round)
    for (int i = 0; i < 12; ++i) {
      form = static_cast<Form>((i + round) % 4);
      elementwise(add_name, count, 0.5F, all[i], all[(i + 5) % 12], all[(i + 7) % 12]);
    }
  for (int i = 0; i < 12; ++i)
    std::printf("%d %016llx\n", i, static_cast<unsigned long long>(hash_of(all[i])));
}

}  // namespace

int main(int words, char** arguments) {
  if (words == 2 && std::string_view(arguments[1]) == "train") return train(), 0;
  if (words == 2 && std::string_view(arguments[1]) == "hidden") return hidden(Made::copied), 0;
  if (words == 2 && std::string_view(arguments[1]) == "written") return hidden(Made::written), 0;
  if (words == 2 && std::string_view(arguments[1]) == "written-inside") return hidden(Made::inside), 0;
  if (words == 2 && std::string_view(arguments[1]) == "forms") return forms(), 0;
  if (words != 3) return 2;
  const std::string_view what = arguments[1];
  const int rounds = std::atoi(arguments[2]);
  if (what == "masked") return std::fputs(masked(rounds, touch_both).c_str(), stdout), 0;
  if (what == "captured") return std::fputs(captured(rounds).c_str(), stdout), 0;
  if (what == "apart") return std::fputs(apart(rounds).c_str(), stdout), 0;
  if (what == "replaced") return std::fputs(replaced(rounds).c_str(), stdout), 0;
  return 2;
}
