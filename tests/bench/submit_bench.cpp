// What a call pays for pooch when everything is resident: Session::submit around a launch that does nothing,
// in time and in heap memory. ./dev bench
#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>
#include <vector>

#include "runtime/session/session.h"
#include "tests/support/lazy_device.h"

namespace {
std::atomic<std::int64_t> heap_live{0}, heap_allocated{0};
constexpr std::size_t header = alignof(std::max_align_t);
}  // namespace

// Every allocation of this program is counted, by its size in front of it.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  void* const memory = std::malloc(bytes + header);
  if (memory == nullptr) throw std::bad_alloc();
  *static_cast<std::size_t*>(memory) = bytes;
  heap_live += static_cast<std::int64_t>(bytes);
  heap_allocated += static_cast<std::int64_t>(bytes);
  return static_cast<char*>(memory) + header;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  if (memory == nullptr) return;
  char* const start = static_cast<char*>(memory) - header;
  heap_live -= static_cast<std::int64_t>(*reinterpret_cast<std::size_t*>(start));
  std::free(start);
}
void operator delete(void* memory, std::size_t) noexcept {
  operator delete(memory);
}

namespace {

using namespace pooch;

// `operands` operands of 16 MiB in as many allocations, one written, nothing to evict; argument 1 more
// allocations are alive besides, as in a deep network.
void submit_resident(benchmark::State& state) {
  test::LazyDevice device(8 * GiB);
  Config config;
  config.memory_cap = SizeSetting{"8GiB"};
  config.host_memory = SizeSetting{"1GiB"};
  const auto session = std::move(*runtime::Session::open(config, device));
  const auto operands = static_cast<std::size_t>(state.range(0));
  for (int i = 0; i < state.range(1); ++i) (void)session->allocate(2 * MiB, std::nullopt);
  std::vector<Access> accesses;
  for (std::size_t i = 0; i < operands; ++i)
    accesses.push_back(
        {*session->allocate(16 * MiB, std::nullopt), 16 * MiB, i == 0 ? Effect::overwrite : Effect::read});
  const Call call{"op", OpKind::elementwise, StreamHandle::legacy, accesses};
  for ([[maybe_unused]] auto _ : state) {
    const int status = session->submit(
        call, [] { return 0; }, 2);
    benchmark::DoNotOptimize(status);
  }
}
BENCHMARK(submit_resident)->ArgNames({"operands", "others"})->Args({8, 0})->Args({8, 2000})->Args({2, 0});

// A call whose operands are not pooch's.
void submit_foreign(benchmark::State& state) {
  test::LazyDevice device(512 * MiB);
  Config config;
  config.memory_cap = SizeSetting{"512MiB"};
  config.host_memory = SizeSetting{"1GiB"};
  const auto session = std::move(*runtime::Session::open(config, device));
  std::vector<Access> accesses(8, Access{Address{0x1000}, 16 * MiB, Effect::read});
  const Call call{"op", OpKind::elementwise, StreamHandle::legacy, accesses};
  for ([[maybe_unused]] auto _ : state) {
    const int status = session->submit(
        call, [] { return 0; }, 2);
    benchmark::DoNotOptimize(status);
  }
}
BENCHMARK(submit_foreign);

// An iteration as a framework makes it: tensors come, are written, read and go, and layers have weights. Heap
// per op in the steady state, and by how much the most that was alive after an iteration is more in the
// second half of the iterations than in the first.
void iterate(benchmark::State& state) {
  test::LazyDevice device(8 * GiB);
  Config config;
  config.memory_cap = SizeSetting{"8GiB"};
  config.host_memory = SizeSetting{"1GiB"};
  const auto session = std::move(*runtime::Session::open(config, device));
  constexpr int layers = 100;
  std::vector<Address> maps(layers), weights(layers);
  for (Address& weight : weights) weight = *session->allocate(2 * MiB, std::nullopt);
  const auto op = [&](std::initializer_list<Access> accesses) {
    benchmark::DoNotOptimize(session->submit(
        {"op", OpKind::elementwise, StreamHandle::legacy, {accesses.begin(), accesses.size()}},
        [] { return 0; }, 2));
  };
  const auto iteration = [&] {
    for (int i = 0; i < layers; ++i) {
      maps[i] = *session->allocate(16 * MiB, StreamHandle::legacy);
      op({{maps[i], 16 * MiB, Effect::overwrite},
          {maps[i > 0 ? i - 1 : 0], 16 * MiB, Effect::read},
          {weights[i], 2 * MiB, Effect::read}});
    }
    for (int i = layers - 1; i >= 0; --i) {
      op({{maps[i], 16 * MiB, Effect::read_write}, {weights[i], 2 * MiB, Effect::read_write}});
      (void)session->free(maps[i], StreamHandle::legacy);
    }
    device.drain();
  };
  for (int i = 0; i < 10; ++i) iteration();
  const std::int64_t allocated = heap_allocated;
  std::int64_t most[2] = {}, done = 0;
  for ([[maybe_unused]] auto _ : state) {
    iteration();
    std::int64_t& half = most[2 * done++ >= static_cast<std::int64_t>(state.max_iterations) ? 1 : 0];
    half = std::max<std::int64_t>(half, heap_live);
  }
  if (session->summary().iterations < state.iterations())
    state.SkipWithError("the iterations were not found");
  const double ops = 2.0 * layers * static_cast<double>(state.iterations());
  state.counters["grown_bytes"] = static_cast<double>(most[1] - most[0]);
  state.counters["heap_bytes_per_op"] = static_cast<double>(heap_allocated - allocated) / ops;
  state.SetItemsProcessed(static_cast<std::int64_t>(ops));
}
BENCHMARK(iterate);

}  // namespace

BENCHMARK_MAIN();
