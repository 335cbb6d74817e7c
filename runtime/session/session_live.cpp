// What the session is doing, for `pooch top`.
#include <algorithm>

#include "core/log.h"
#include "runtime/session/session_impl.h"

namespace pooch::runtime {
namespace {

// A plan's first iterations move what the one before left elsewhere.
constexpr std::uint64_t settles_within = 4;

void name_dearest(const Plan& plan, Live& live) {
  std::vector<const PlanMap*> maps;
  for (const PlanMap& map : plan.maps)
    if (map.cost_ms > 0) maps.push_back(&map);
  const std::size_t most = std::min(maps.size(), live.dearest.size());
  std::partial_sort(maps.begin(), maps.begin() + static_cast<std::ptrdiff_t>(most), maps.end(),
                    [](const PlanMap* a, const PlanMap* b) { return a->cost_ms > b->cost_ms; });
  for (std::size_t i = 0; i < most; ++i) {
    live.dearest[i].name = maps[i]->name;
    live.dearest[i].of = maps[i]->of;
    live.dearest[i].cost_ms = maps[i]->cost_ms;
  }
}

}  // namespace

LiveState Session::Impl::live_state() const {
  if (!executor->follows()) return memory.placement->fallbacks() > 0 ? LiveState::streaming : LiveState::fits;
  const bool settled = executor->counts().planned_iterations >= settles_within;
  return settled || executor->aliased() ? LiveState::planned : LiveState::settling;
}

Live Session::Impl::live() {
  Live live;
  if (const auto& local = setting.config.local_rank; local && local->count > 1)
    live.rank = static_cast<std::int32_t>(local->world_rank),
    live.ranks = static_cast<std::int32_t>(local->count);
  live.state = live_state();
  live.iterations = tracker.iterations().count();
  live.ops = tracker.ops();
  live.measured_phases = observers.profiler.measured_phases();
  live.measured_training = observers.profiler.measured_phases(/*training=*/true);
  const ExecutorCounts counts = executor->counts();
  live.planned_iterations = counts.planned_iterations;
  live.replays = counts.replays + remaking->replays();
  live.verified = verification->counts().verified + remaking->proofs().verified;
  live.mismatches = verification->counts().mismatches + remaking->proofs().mismatches;
  if (const auto pace = executor->pace()) {
    live.planned_ms = pace->actual_ms.value_or(0);
    live.predicted_ms = pace->predicted_ms;
    live.in_core_ms = pace->plan->in_core_ms;
    live.phase = pace->plan->phase;
    name_dearest(*pace->plan, live);
  }
  live.cap = setting.limits.cap;
  live.used = memory.pool.in_use();
  live.peak = memory.pool.peak();
  live.need = tracker.allocations().need_bytes();
  live.host_budget = setting.limits.host_budget;
  live.host_used = memory.host.locked_bytes();
  live.bytes_out = device.counters().bytes_out;
  live.bytes_in = device.counters().bytes_in;
  live.evictions = memory.residency->evictions();
  live.host_waits = device.counters().host_waits;
  live.unforeseen_ops = hidden.unforeseen.ops();
  live.gpu = setting.info.name;
  live.policy = name(setting.config.policy);
  live.warning = log::last_warning();
  return live;
}

void Session::Impl::show_live() {
  if (observers.live.due()) observers.live.write(live());
}

void Session::begin_live(std::int32_t device) {
  const Held held(impl_->mutex);
  if (impl_->observers.live.open(impl_->setting.config, device)) impl_->observers.live.write(impl_->live());
}

void Session::end_live() {
  const Held held(impl_->mutex);
  impl_->observers.live.close();
}

}  // namespace pooch::runtime
