// A plan by hybrid for a phase of 100,000 ops, in two fifths of the memory that it needs. Goal: 20 s on 2
// cores. ./dev bench
#include <benchmark/benchmark.h>

#include "policy/planner.h"
#include "tests/support/network_profile.h"

namespace {

using namespace pooch;

void plan_large_phase(benchmark::State& state) {
  const Profile profile = test::chain_profile(test::v100_pcie3(), 8, 14'286);
  const PhaseProfile& phase = profile.phases.front();
  std::uint64_t maps = 0;
  for (const Map& map : phase.graph.maps)
    if (map.kept) maps += map.bytes;
  policy::PlanRequest request;
  request.memory = maps / 5 * 2;
  for ([[maybe_unused]] auto _ : state) {
    const auto plan = policy::make_plan(profile, phase.id, "hybrid", request);
    if (!plan) return state.SkipWithError(plan.error().message.c_str());
    state.counters["overhead"] = plan->predicted_ms / plan->in_core_ms - 1;
    state.counters["over_bound"] = plan->predicted_ms / *plan->bound_ms - 1;
  }
  state.counters["ops"] = static_cast<double>(phase.ops.size());
}
BENCHMARK(plan_large_phase)->Iterations(1)->Unit(benchmark::kSecond)->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
