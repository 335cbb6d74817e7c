#include "runtime/profiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/log.h"
#include "tracker/layers.h"
#include "tracker/phase_profile.h"

namespace pooch::runtime {
namespace {

double median(std::vector<double>& values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

void Profiler::begin(StreamHandle stream) {
  if (timer_ && !timer_->begin(next_op_, stream)) failed_ = true;
}

void Profiler::end(StreamHandle stream, const tracker::Op& op, bool disturbed) {
  if (!timer_) return;
  if (!timer_->end(next_op_, stream)) failed_ = true;
  Target target{false, 0, disturbed, true};
  if (op.step)
    target = {true, tracker_.steps(), disturbed, true};
  else if (is_host_copy(op.description.kind))
    target.index = tracker_.host_copies();
  else
    target.pending = false;  // a trial
  pending_ += target.pending;
  targets_.push_back(target);
  ++next_op_;
}

void Profiler::launched() {
  for (const tracker::Iteration& iteration : tracker_.take_completed()) {
    keep(iteration);
    if (timer_) collect();
  }
  const auto where = tracker_.iterations().where();
  if (running_ && (!where || (where->start != running_->start && where->start != tracker_.steps())))
    running_.reset();  // lost its way: not an iteration of a phase that is known
  if (!where)
    timing_ = false;
  else if (where->start == tracker_.steps())
    decide(where->start);
  if (timer_ && !timing_ && drained()) {
    (void)timer_->stop(times_);
    timer_.reset();
  }
}

// The next step begins an iteration: is it to be timed?
void Profiler::decide(tracker::StepIndex next) {
  timing_ = false;
  running_.reset();
  if (failed_ || !choice_) return;
  if (known_[tracker_.iterations().where()->phase].timed.size() >= wanted) return;
  if (!timer_) {
    auto opened = cupti::open_op_timer(device_, *choice_);
    if (!opened) {
      log::warn("ops cannot be timed: {}", opened.error().message);
      failed_ = true;
      return;
    }
    timer_ = std::move(*opened);
    source_ = timer_->source();
  }
  timing_ = true;
  running_ = Timed{};
  running_->start = next;
}

void Profiler::keep(const tracker::Iteration& iteration) {
  Known& known = known_[iteration.phase];
  // What was held to be complete went on.
  for (auto& [phase, other] : known_)
    if (phase != iteration.phase)
      std::erase_if(other.timed, [&](const Timed& t) { return t.start == iteration.start; });
  const bool is_timed = running_ && running_->start == iteration.start;
  // The first iteration of a run cannot tell weights, just copied in, from a batch.
  constexpr std::uint32_t telling = 4;
  const bool tells = known.described < telling;
  if (tells) {
    ++known.described;
    known.structure = tracker::describe_iteration(tracker_.log(), iteration.start, iteration.end);
  }
  if (!tells && !is_timed) return;
  std::vector<std::uint64_t> copies;
  for (const tracker::LoggedCopy& copy : tracker_.log().copies())
    if (copy.before >= iteration.start && copy.before < iteration.end) copies.push_back(copy.number);
  if (tells) known.copies = copies;
  if (!is_timed) return;
  Timed timed = std::move(*running_);
  running_.reset();
  timed.phase = iteration.phase;
  timed.end = iteration.end;
  timed.steps.resize(iteration.end - iteration.start);
  for (const std::uint64_t copy : copies) timed.copies.push_back({copy, {}});
  known.timed.push_back(std::move(timed));
}

Profiler::Sample* Profiler::find(const Target& target) {
  for (auto& [phase, known] : known_) {
    for (Timed& timed : known.timed) {
      if (target.step && target.index >= timed.start && target.index < timed.end)
        return &timed.steps[target.index - timed.start];
      if (target.step) continue;
      for (auto& [number, sample] : timed.copies)
        if (number == target.index) return &sample;
    }
  }
  return nullptr;
}

void Profiler::collect() {
  times_.clear();
  if (!timer_->collect(times_)) failed_ = true;
  assign(times_);
}

void Profiler::assign(const std::vector<cupti::OpTime>& times) {
  for (const cupti::OpTime& time : times) {
    if (time.op < next_op_ - targets_.size()) continue;
    Target& target = targets_[time.op - (next_op_ - targets_.size())];
    if (!target.pending) continue;
    if (Sample* const sample = find(target)) *sample = {time.start_us, time.end_us, target.disturbed};
    target.pending = false;
    --pending_;
  }
  while (!targets_.empty() && !targets_.front().pending) targets_.pop_front();
}

void Profiler::finish() {
  for (const tracker::Iteration& iteration : tracker_.take_completed()) keep(iteration);
  timing_ = false;
  failed_ = true;  // nothing is begun any more
  if (!timer_) return;
  collect();
  times_.clear();
  (void)timer_->stop(times_);
  assign(times_);
  timer_.reset();
}

namespace {

// Of one position in several iterations.
struct Values {
  std::vector<double> us, gaps;
};

}  // namespace

PhaseProfile Profiler::profile_of(const Known& known, const tracker::Phase& phase) const {
  PhaseProfile made = *known.structure;
  made.id = fmt::format("{:016x}", phase.id);
  made.seen = phase.seen;
  std::vector<Values> values(made.ops.size());
  std::vector<double> wholes;
  for (const Timed& timed : known.timed) {
    if (timed.steps.size() != made.ops.size()) continue;
    if (!std::all_of(timed.steps.begin(), timed.steps.end(), measured)) continue;
    ++made.measured;
    double first = timed.steps.front().start_us, latest = first;
    for (std::size_t i = 0; i < timed.steps.size(); ++i) {
      const Sample& s = timed.steps[i];
      values[i].us.push_back(s.end_us - s.start_us);
      if (!s.disturbed && i > 0) values[i].gaps.push_back(std::max(0.0, s.start_us - latest));
      first = std::min(first, s.start_us);
      latest = std::max(latest, s.end_us);
    }
    wholes.push_back(latest - first);
  }
  made.iteration_us = median(wholes);
  for (std::size_t i = 0; i < values.size(); ++i) {
    ProfileOp& op = made.ops[i];
    op.us = median(values[i].us);
    op.gap_us = median(values[i].gaps);
    op.outlier = std::any_of(values[i].us.begin(), values[i].us.end(),
                             [&](double us) { return std::abs(us - op.us) > op.us / 2; });
  }
  // Copies are counted in their order; an iteration with other ones says nothing about them.
  for (std::size_t i = 0; i < made.copies.size(); ++i) {
    std::vector<double> us;
    for (const Timed& timed : known.timed)
      if (timed.copies.size() == made.copies.size() && measured(timed.copies[i].second))
        us.push_back(timed.copies[i].second.end_us - timed.copies[i].second.start_us);
    made.copies[i].us = median(us);
  }
  made.graph = tracker::build_layers(made);
  return made;
}

void Profiler::fill(Profile& profile) const {
  profile.timer = source_;
  profile.iterations = tracker_.iterations().count();
  profile.ops = tracker_.ops();
  for (const auto& [index, known] : known_) {
    const tracker::Phase& phase = tracker_.iterations().phase(index);
    if (!known.structure || phase.seen == 0) continue;
    profile.phases.push_back(profile_of(known, phase));
  }
  const auto weight = [](const PhaseProfile& p) { return p.iteration_us * static_cast<double>(p.seen); };
  std::stable_sort(profile.phases.begin(), profile.phases.end(),
                   [&](const PhaseProfile& a, const PhaseProfile& b) { return weight(a) > weight(b); });
}

}  // namespace pooch::runtime
