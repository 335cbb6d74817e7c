#include "runtime/profiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/log.h"
#include "tracker/layers.h"
#include "tracker/phase_profile.h"

namespace pooch::runtime {

std::string phase_id(const tracker::Phase& phase) {
  return fmt::format("{:016x}", phase.id);
}

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
  if (std::find(streams_.begin(), streams_.end(), stream) == streams_.end()) streams_.push_back(stream);
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
  if (timer_ && !timing_ && (drained() || passed())) {
    end_timer();
    fill_in();
  }
}

// Has the device done all that was timed? Asked now and then: a timer costs as long as it lives.
bool Profiler::passed() {
  constexpr unsigned now_and_then = 16;
  if (!marked_) mark();
  if (++since_asked_ < now_and_then || marks_.empty()) return false;
  since_asked_ = 0;
  while (!marks_.empty()) {
    const auto finished = device_.finished(marks_.back());
    if (!finished || !*finished) return false;
    (void)device_.destroy_event(marks_.back());
    marks_.pop_back();
  }
  return true;
}

// Puts an event behind the timed work of every stream; none at all where one cannot have its own.
void Profiler::mark() {
  marked_ = true;
  for (const StreamHandle stream : streams_)
    if (!mark(stream)) return drop_marks();
}

bool Profiler::mark(StreamHandle stream) {
  const auto capturing = device_.capturing(stream);
  if (stream == StreamHandle::per_thread || !capturing || *capturing) return false;
  const auto event = device_.create_event();
  if (!event) return false;
  marks_.push_back(*event);
  return bool(device_.record(*event, stream));
}

void Profiler::drop_marks() {
  for (const EventHandle event : marks_) (void)device_.destroy_event(event);
  marks_.clear();
}

void Profiler::stream_destroyed(StreamHandle stream) {
  if (std::erase(streams_, stream) > 0 && timer_) (void)mark(stream);
}

void Profiler::end_timer() {
  times_.clear();
  (void)timer_->stop(times_);
  timer_.reset();
  assign(times_);
  streams_.clear();
  drop_marks();
}

// Everything that was timed has finished, so an op without a time had nothing to do.
void Profiler::fill_in() {
  for (const Target& target : targets_) {
    if (!target.pending || !target.step || target.index == 0) continue;
    const Sample* const before = find({true, target.index - 1, false, false});
    Sample* const sample = find(target);
    if (sample != nullptr && before != nullptr && measured(*before))
      *sample = {before->end_us, before->end_us, target.disturbed};
  }
  targets_.clear();
  pending_ = 0;
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
  marked_ = false;
  running_ = Timed{};
  running_->start = next;
}

// Where the buffers are, and whether they are always there.
void Profiler::find_bases(KnownPhase& phase, tracker::StepIndex start,
                          const std::optional<KnownPhase>& before) const {
  const std::size_t count = phase.profile.buffers.size();
  phase.bases.assign(count, Address{});
  phase.fixed.assign(count, true);
  for (std::size_t p = 0; p < phase.operands.size(); ++p) {
    const auto operands = tracker_.log().operands(start + p);
    for (std::size_t i = 0; i < operands.size(); ++i)
      if (phase.operands[p][i] != tracker::no_buffer) phase.bases[phase.operands[p][i]] = operands[i].base;
  }
  for (const ProfileCopy& copy : phase.profile.copies)
    if (copy.version) phase.fixed[phase.profile.versions[*copy.version].buffer] = false;
  if (!before || before->bases.size() != count) return;
  for (std::size_t b = 0; b < count; ++b)
    if (before->bases[b] != phase.bases[b]) phase.fixed[b] = false;
}

void Profiler::keep(const tracker::Iteration& iteration) {
  Known& known = known_[iteration.phase];
  // What was held to be complete went on.
  for (auto& [phase, other] : known_)
    if (phase != iteration.phase)
      std::erase_if(other.timed, [&](const Timed& t) { return t.start == iteration.start; });
  const bool is_timed = running_ && running_->start == iteration.start;
  const bool tells = known.described < telling;
  if (tells) {
    ++known.described;
    KnownPhase described;
    described.profile =
        tracker::describe_iteration(tracker_.log(), iteration.start, iteration.end, described.operands);
    described.profile.id = phase_id(tracker_.iterations().phase(iteration.phase));
    find_bases(described, iteration.start, known.structure);
    known.structure = std::move(described);
  }
  if (!tells && !is_timed) return;
  std::vector<std::uint64_t> copies;
  for (const tracker::LoggedCopy& copy : tracker_.log().copies())
    if (copy.before >= iteration.start && copy.before < iteration.end) copies.push_back(copy.number);
  if (tells) known.copies = copies;
  if (!is_timed) return;
  Timed timed = std::move(*running_);
  running_.reset();
  // Another phase had been expected, or this one would not have been timed.
  if (known.timed.size() >= wanted) return;
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

const KnownPhase* Profiler::settled(tracker::PhaseIndex phase) {
  const auto found = known_.find(phase);
  if (found == known_.end() || found->second.described < telling) return nullptr;
  if (found->second.has_times) return &*found->second.structure;
  const auto& timed = found->second.timed;
  const auto complete = [&](const Timed& t) { return std::all_of(t.steps.begin(), t.steps.end(), measured); };
  if (timed.size() < wanted || !std::all_of(timed.begin(), timed.end(), complete)) return nullptr;
  found->second.structure->profile = profile_of(found->second, tracker_.iterations().phase(phase));
  found->second.has_times = true;
  return &*found->second.structure;
}

void Profiler::finish() {
  for (const tracker::Iteration& iteration : tracker_.take_completed()) keep(iteration);
  timing_ = false;
  failed_ = true;  // nothing is begun any more
  if (!timer_) return;
  collect();
  end_timer();
}

namespace {

// Of one position in several iterations.
struct Values {
  std::vector<double> us, gaps;
};

}  // namespace

PhaseProfile Profiler::profile_of(const Known& known, const tracker::Phase& phase) const {
  PhaseProfile made = known.structure->profile;
  made.seen = phase.seen;
  std::vector<Values> values(made.ops.size());
  std::vector<double> wholes;
  for (const Timed& timed : known.timed) {
    if (timed.steps.size() != made.ops.size()) continue;
    if (!std::all_of(timed.steps.begin(), timed.steps.end(), measured)) continue;
    // An iteration that was seen may since have become the begin of a longer one.
    made.measured += made.measured < made.seen;
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
