// Reading and writing the profile of 100,000 ops. Goal: read in less than 0.5 s. ./dev bench
#include <benchmark/benchmark.h>

#include "core/profile.h"
#include "tests/support/random_profile.h"

namespace {

using namespace pooch;

constexpr std::size_t ops = 100000;

void profile_read(benchmark::State& state) {
  const std::string text = to_json(test::random_profile(ops, 1));
  for ([[maybe_unused]] auto _ : state) {
    const auto profile = profile_from_json(text);
    if (!profile) state.SkipWithError(profile.error().message.c_str());
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * text.size()));
}
BENCHMARK(profile_read)->Unit(benchmark::kMillisecond);

void profile_write(benchmark::State& state) {
  const Profile profile = test::random_profile(ops, 1);
  for ([[maybe_unused]] auto _ : state) benchmark::DoNotOptimize(to_json(profile));
}
BENCHMARK(profile_write)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
