// What a session knows and says: the link, plans for known phases, the profile, the summary.
#include <algorithm>

#include "core/log.h"
#include "cupti/link_probe.h"
#include "cupti/mapping_probe.h"
#include "runtime/memory/host_wait.h"
#include "runtime/observe/trace_file.h"
#include "runtime/session/session_impl.h"

namespace pooch::runtime {

bool Session::Impl::idle_for_probe(Held& held) {
  const auto idle = await_idle(device, order, held);
  return idle && *idle;
}

// Between two iterations: plans for phases that are known by now, for which the link has to be measured once.
// Unless somebody chose a policy, memory has to have been short: what fits needs no plan.
void Session::Impl::plan(Held& held) {
  if (!planning) return;
  if (order.eager()) planning->note_order();
  if (!planning->wants_to_act()) return;
  if (!config.policy_chosen && config.plan_file.empty() && !order.eager()) return;  // all fits
  const bool unknown = link.empty() && planning->wants_profile() && idle_for_probe(held);
  if (unknown && link.empty()) probe_link(held);
  double out_us_per_byte = 0;
  for (const LinkSample& sample : link)
    if (!sample.to_device && !sample.both_ways && sample.bytes >= 16 * MiB)
      out_us_per_byte = sample.us / static_cast<double>(sample.bytes);
  planning->act([this] { return make_profile(/*estimates=*/true); }, out_us_per_byte, held);
}

// Measures the link over memory of its own, up to an eighth of what there is; else it stays unknown. The link
// is idle.
void Session::Impl::probe_link(Held& held) {
  const std::uint64_t bytes = std::clamp(pool.limit() / 8 / page * page, page, 128 * MiB);
  const auto address = temporaries.allocate(bytes);
  if (!address) return;
  Range& range = residency->open(*address, bytes, AllocationId::none, bytes);
  const tracker::Operand whole{AllocationId::none, *address, 0, bytes, Effect::scratch, true, 0, &range};
  std::vector<ChunkUse> uses;
  Status done = placement->place("the link probe", {&whole, 1}, uses, held);
  if (done) done = probe_link_over(*address, bytes);
  const bool idle = bool(done);
  if (!idle) log::info("the link was not measured: {}", done.error().message);
  Marks copies;  // one may still be under way where another failed
  for (const StreamIndex own : {residency->out_stream(), residency->in_stream()})
    copies.add(order.launched(own));
  residency->close(range, copies);
  // Its handles become free: where memory is short there may be no others.
  for (Chunk& chunk : range.chunks)
    if (idle && done && chunk.state != ChunkState::unbacked) done = residency->finish_eviction(chunk);
  if (idle && !done) log::info("the link probe keeps its memory: {}", done.error().message);
  temporaries.free(*address, bytes);
  probe_mapping();
}

// What moving costs the host, on handles that are free, of the size that they have under a plan.
void Session::Impl::probe_mapping() {
  constexpr std::size_t most = 8;
  const std::uint64_t bytes = HandlePool::unit(limits.cap);
  std::vector<PhysicalHandle> handles;
  Pieces pieces;
  while (pieces.size() < most && pool.available() >= bytes) {
    const auto taken = pool.acquire(bytes);
    if (!taken) break;
    pieces.insert(pieces.end(), taken->begin(), taken->end());
    if (taken->size() == 1) handles.push_back(taken->front().handle);
  }
  bool still_mapped = false;
  const auto prices = cupti::probe_mapping(device, in_stream, handles, bytes, still_mapped);
  still_mapped ? pool.abandon(pieces) : pool.give_back(pieces);
  if (!prices) return log::info("the price of mapping was not measured: {}", prices.error().message);
  launch_us = prices->launch_us;
  for (const cupti::MoveSample& s : prices->moves) moves.push_back({s.handles, bytes, s.microseconds});
}

Status Session::Impl::probe_link_over(Address address, std::uint64_t bytes) {
  const auto host_memory = device.host_allocate(bytes);
  if (!host_memory) return host_memory.error();
  const auto samples = cupti::probe_link(device, out_stream, in_stream, {address, *host_memory, bytes});
  if (!samples) return samples.error();  // a copy may still be under way
  (void)device.host_free(*host_memory);
  for (const cupti::LinkSample& s : *samples)
    link.push_back({s.direction == cupti::LinkSample::Direction::in, s.bytes, s.microseconds, s.both});
  return Done{};
}

void Session::finish_profile() {
  Impl& s = *impl_;
  Held held(s.mutex);
  if (s.planning) s.planning->abandon();  // whatever else fails, no planner is left
  const bool wants_link =
      s.link.empty() && !s.config.report_folder.empty() && s.tracker.iterations().count() > 0;
  const bool idle = (s.profiler.measuring() || wants_link || s.trace) && s.idle_for_probe(held);
  s.profiler.finish();
  if (idle && wants_link) s.probe_link(held);
  s.recorder.finish();
  if (s.trace)
    if (const auto written = s.trace->write(s.config.trace_file); !written && !s.trace_failed.exchange(true))
      log::error("POOCH_TRACE: {}", written.error().message);
}

Profile Session::Impl::make_profile(bool estimates) {
  Profile profile;
  profile.device = info.name;
  profile.device_bytes = info.total_bytes;
  profile.cap_bytes = limits.cap;
  profile.host_budget_bytes = limits.host_budget;
  profile.need_bytes = tracker.allocations().need_bytes();
  profile.policy = name(config.policy);
  profile.link = link;
  profile.moves = moves;
  profile.launch_us = launch_us;
  profiler.fill(profile, estimates);
  if (!estimates) return profile;
  // Ids that only a report explains; a plan that is carried out keeps the program's algorithms anyway.
  for (PhaseProfile& phase : profile.phases)
    for (ProfileOp& op : phase.ops) op.site = op.trials = op.algorithm = 0;
  return profile;
}

void Session::write_trace_so_far(FunctionRef<bool()> wanted) const {
  const Impl& s = *impl_;
  if (!s.trace) return;
  TraceFile so_far = [&] {
    const Held held(s.mutex);
    return TraceFile(*s.trace);
  }();
  const Status written = so_far.write(s.config.trace_file, {.again = true}, wanted);
  if (!written && written.error().code != ErrorCode::not_supported && !s.trace_failed.exchange(true))
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
  summary.device = s.info.name;
  summary.policy = name(s.config.policy);
  summary.cap_bytes = s.limits.cap;
  summary.host_budget_bytes = s.limits.host_budget;
  summary.peak_device_bytes = s.pool.peak();
  summary.peak_host_bytes = s.host.locked_bytes();
  summary.need_bytes = s.tracker.allocations().need_bytes();
  summary.need_managed_bytes = s.tracker.allocations().need_managed_bytes();
  summary.ops = s.tracker.ops();
  if (s.tracker.iterations().count() > 0) summary.iterations = s.tracker.iterations().count();
  summary.planned_iterations = s.executor->counts().planned_iterations;
  summary.plans_left = s.executor->counts().left;
  summary.replays = s.executor->counts().replays;
  summary.aliased_iterations = s.executor->counts().aliased_iterations;
  if (s.planning) {
    summary.replans = s.planning->replans();
    summary.alias_trials = s.planning->alias_trials();
  }
  summary.moved_prefetches = s.executor->counts().moved_prefetches;
  summary.undone_moves = s.executor->counts().undone_moves;
  summary.verified = s.verification->counts().verified;
  summary.mismatches = s.verification->counts().mismatches;
  summary.unplanned_evictions = s.executor->counts().unplanned;
  if (const auto pace = impl_->executor->pace()) {
    summary.predicted_ms = pace->predicted_ms;
    summary.actual_ms = pace->actual_ms;
    summary.predicted_peak_bytes = pace->predicted_peak;
    summary.planned_peak_bytes = pace->peak;
  }
  summary.pinned_allocations = s.pinned_allocations;
  summary.pinned_bytes = s.pinned_bytes;
  summary.unforeseen_ops = s.unforeseen_ops;
  summary.landings = s.landing->landings();
  summary.evictions = s.residency->evictions();
  summary.bytes_out = s.device.counters().bytes_out;
  summary.bytes_in = s.device.counters().bytes_in;
  summary.vmm_calls = s.device.counters().vmm_calls;
  summary.handles_created = s.device.counters().handles_created;
  summary.host_allocations = s.device.counters().host_allocations;
  summary.host_waits = s.device.counters().host_waits;
  summary.idle_waits = s.order.idle_waits();
  return summary;
}

}  // namespace pooch::runtime
