// What a session knows and says: the link, plans for known phases, the profile, the summary.
#include <algorithm>

#include "core/log.h"
#include "runtime/memory/host_wait.h"
#include "runtime/observe/trace_file.h"
#include "runtime/session/session_impl.h"

namespace pooch::runtime {

bool Session::Impl::idle_for_probe(Held& held) {
  const auto idle = await_idle(device, memory.order, held);
  return idle && *idle;
}

// A program may be ended at any time, and nothing can be measured then.
void Session::Impl::measure_link_for_report(Held& held) {
  DeviceProbes& probes = observers.probes;
  const bool wanted = !setting.config.report_folder.empty() && setting.config.policy != Policy::keep;
  if (!wanted || probes.tried() || observers.profiler.measured_phases() == 0) return;
  if (idle_for_probe(held) && !probes.tried()) probes.run(held);
}

// Between two iterations: plans for phases that are known by now, for which the link has to be measured once.
// Unless somebody chose a policy, memory has to have been short: what fits needs no plan.
void Session::Impl::plan(Held& held) {
  measure_link_for_report(held);
  if (!planning) return;
  if (memory.order.eager()) planning->note_order();
  if (!planning->wants_to_act()) return;
  if (!setting.config.policy_chosen && setting.config.plan_file.empty() && memory.placement->fallbacks() == 0)
    return;  // all fits
  DeviceProbes& probes = observers.probes;
  const bool unknown = !probes.done() && planning->wants_profile() && idle_for_probe(held);
  if (unknown && !probes.done()) probes.run(held);
  planning->act([this] { return make_profile(/*estimates=*/true); }, probes.out_us_per_byte(), held);
}

void Session::finish_profile() {
  Impl& s = *impl_;
  Held held(s.mutex);
  if (s.planning) s.planning->abandon();  // whatever else fails, no planner is left
  const bool wants_link = !s.observers.probes.done() && !s.setting.config.report_folder.empty() &&
                          s.tracker.iterations().count() > 0;
  const bool idle =
      (s.observers.profiler.measuring() || wants_link || s.observers.trace) && s.idle_for_probe(held);
  s.observers.profiler.finish();
  if (idle && wants_link) s.observers.probes.run(held);
  s.observers.recorder.finish();
  if (s.observers.trace)
    if (const auto written = s.observers.trace->write(s.setting.config.trace_file);
        !written && s.failures.first(Failures::Kind::trace))
      log::error("POOCH_TRACE: {}", written.error().message);
}

Profile Session::Impl::make_profile(bool estimates) {
  Profile profile;
  profile.device = setting.info.name;
  profile.device_bytes = setting.info.total_bytes;
  profile.cap_bytes = setting.limits.cap;
  profile.host_budget_bytes = setting.limits.host_budget;
  profile.need_bytes = tracker.allocations().need_bytes();
  profile.outside_bytes = memory.pool.most_outside();
  profile.policy = name(setting.config.policy);
  observers.probes.fill(profile);
  observers.profiler.fill(profile, estimates);
  executor->add_places(profile, observers.profiler.settled());
  if (!estimates) {
    // A report is written at any time: what the iteration under way has taken, no plan's first op finds.
    for (ProfileRange& range : profile.ranges) range.in_use = false;
    return profile;
  }
  // Ids that only a report explains; a plan that is carried out keeps the program's algorithms anyway.
  for (PhaseProfile& phase : profile.phases)
    for (ProfileOp& op : phase.ops) op.site = op.trials = op.algorithm = 0;
  return profile;
}

void Session::write_trace_so_far(FunctionRef<bool()> wanted) const {
  Impl& s = *impl_;
  if (!s.observers.trace) return;
  TraceFile so_far = [&] {
    const Held held(s.mutex);
    return TraceFile(*s.observers.trace);
  }();
  const Status written = so_far.write(s.setting.config.trace_file, {.again = true}, wanted);
  if (!written && written.error().code != ErrorCode::not_supported && s.failures.first(Failures::Kind::trace))
    log::error("POOCH_TRACE: {}", written.error().message);
}

Profile Session::profile() const {
  const Held held(impl_->mutex);
  return impl_->make_profile(/*estimates=*/false);
}

Summary Session::summary() const {
  const Impl& s = *impl_;
  const Held held(s.mutex);
  Summary summary;
  summary.device = s.setting.info.name;
  summary.policy = name(s.setting.config.policy);
  summary.cap_bytes = s.setting.limits.cap;
  summary.host_budget_bytes = s.setting.limits.host_budget;
  summary.peak_device_bytes = s.memory.pool.peak();
  summary.peak_host_bytes = s.memory.host.locked_bytes();
  summary.need_bytes = s.tracker.allocations().need_bytes();
  summary.need_managed_bytes = s.tracker.allocations().need_managed_bytes();
  summary.ops = s.tracker.ops();
  if (s.tracker.iterations().count() > 0) summary.iterations = s.tracker.iterations().count();
  summary.planned_iterations = s.executor->counts().planned_iterations;
  summary.plans_left = s.executor->counts().left;
  summary.replays = s.executor->counts().replays + s.remaking->replays();
  summary.substitutes = s.executor->counts().substitutes;
  summary.aliased_iterations = s.executor->counts().aliased_iterations;
  summary.any_size_iterations = s.executor->counts().any_size_iterations;
  summary.moved_frames = s.executor->counts().moves;
  if (s.planning) summary.replans = s.planning->replans();
  summary.verified = s.verification->counts().verified + s.remaking->proofs().verified;
  summary.mismatches = s.verification->counts().mismatches + s.remaking->proofs().mismatches;
  summary.unplanned_evictions = s.executor->counts().unplanned;
  if (const auto pace = impl_->executor->pace()) {
    summary.predicted_ms = pace->predicted_ms;
    summary.actual_ms = pace->actual_ms;
    summary.in_core_ms = pace->plan->in_core_ms;
    summary.settled_after = s.executor->counts().settled_after;
    summary.predicted_peak_bytes = pace->predicted_peak;
    summary.planned_peak_bytes = pace->peak;
  }
  summary.pinned_allocations = s.hidden.stays.allocations();
  summary.pinned_bytes = s.hidden.stays.bytes();
  summary.unforeseen_ops = s.hidden.unforeseen.ops();
  summary.landings = s.memory.landing->landings();
  summary.evictions = s.memory.residency->evictions();
  summary.bytes_out = s.device.counters().bytes_out;
  summary.bytes_in = s.device.counters().bytes_in;
  summary.vmm_calls = s.device.counters().vmm_calls;
  summary.handles_created = s.device.counters().handles_created;
  summary.host_allocations = s.device.counters().host_allocations;
  summary.host_waits = s.device.counters().host_waits;
  summary.idle_waits = s.memory.order.idle_waits();
  return summary;
}

}  // namespace pooch::runtime
