// What a call pays for pooch when everything is resident: Session::submit around a launch that does nothing.
#include <benchmark/benchmark.h>

#include <vector>

#include "runtime/session.h"
#include "tests/support/lazy_device.h"

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
  for (auto _ : state) {
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
  for (auto _ : state) {
    const int status = session->submit(
        call, [] { return 0; }, 2);
    benchmark::DoNotOptimize(status);
  }
}
BENCHMARK(submit_foreign);

}  // namespace

BENCHMARK_MAIN();
