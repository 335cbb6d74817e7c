#include "runtime/observe/profiler.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "core/log.h"
#include "runtime/observe/any_size.h"
#include "runtime/observe/like_ops.h"
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

bool Profiler::describing() const {
  const auto where = tracker_.iterations().where();
  if (timing_ || !where) return true;
  const auto known = known_.find(where->phase);
  return known == known_.end() || known->second.describes();
}

void Profiler::end(std::uint64_t number, StreamHandle stream, const tracker::Op& op, bool disturbed) {
  if (!measuring()) return;       // all measuring has ended
  std::optional<TimedCall> call;  // none: a trial
  if (op.step)
    call = {true, tracker_.steps(), disturbed};
  else if (is_host_copy(op.description.kind))
    call = {false, tracker_.host_copies(), disturbed};
  times_.end(number, stream, call);
  if (early_ && op.step && !running_) early_->steps.resize(call->index - early_->start + 1);
}

void Profiler::launched() {
  for (const tracker::Iteration& iteration : tracker_.take_completed()) {
    keep(iteration);
    if (measuring()) collect();
  }
  const auto where = tracker_.iterations().where();
  if (running_ && (!where || (where->start != running_->start && where->start != tracker_.steps())))
    running_.reset();  // lost its way: not an iteration of a phase that is known
  if (!where)
    decide_early();
  else if (where->start == tracker_.steps())
    decide(where->start);
  if (measuring() && !timing_ && times_.through()) {
    end_timer();
    fill_in();
  }
}

void Profiler::collect() {
  times_.collect([this](const TimedCall& call) { return find(call); });
}

void Profiler::end_timer() {
  times_.stop([this](const TimedCall& call) { return find(call); });
  early_.reset();
}

void Profiler::fill_in() {
  if (times_.lacks_many()) {
    times_.turn_to_events();
    for (auto& [phase, known] : known_)
      std::erase_if(known.timed, [](const TimedIteration& t) { return !t.complete(); });
    running_.reset();
    timing_ = false;
  }
  times_.fill_in([this](const TimedCall& call) { return find(call); });
}

// The next step begins an iteration. Decides whether that is timed.
void Profiler::decide(tracker::StepIndex next) {
  timing_ = false;
  running_.reset();
  if (!times_.possible()) return;
  const Known& known = known_[tracker_.iterations().where()->phase];
  if (known.timed.size() >= wanted) return;
  if (!times_.open()) return;
  timing_ = true;
  running_ = TimedIteration{};
  running_->start = next;
}

// No phase is known where the program is. Decides whether the next step is timed.
void Profiler::decide_early() {
  constexpr tracker::StepIndex now_and_then = 512;
  timing_ = false;
  if (!times_.possible() || tracker_.iterations().phases() > 0 || tracker_.steps() >= most_early) return;
  if (!times_.open()) return;
  timing_ = true;
  if (!early_) early_ = EarlyTimes{tracker_.steps(), {}, {}};
  if (tracker_.steps() % now_and_then == 0) collect();
}

// Where the buffers are, and whether they are always there.
void Profiler::find_bases(KnownPhase& phase, tracker::StepIndex start,
                          const std::optional<KnownPhase>& before) const {
  const std::size_t count = phase.profile.buffers.size();
  phase.bases.assign(count, Address{});
  phase.quiet.assign(count, true);
  phase.alternates.assign(count, false);
  for (std::size_t p = 0; p < phase.profile.ops.size(); ++p) {
    const std::vector<std::uint32_t>& buffers = phase.profile.ops[p].operands;
    const auto operands = tracker_.log().operands(start + p);
    for (std::size_t i = 0; i < operands.size(); ++i)
      if (buffers[i] != no_buffer) phase.bases[buffers[i]] = operands[i].base;
  }
  // Ahead of the first op is as good as an op; other copies come when they come.
  for (const ProfileCopy& copy : phase.profile.copies)
    if (copy.version && (copy.before > 0 || copy.lead_us > 0))
      phase.quiet[phase.profile.versions[*copy.version].buffer] = false;
  phase.fixed = phase.quiet;
  if (!before || before->bases.size() != count) return;
  phase.earlier = before->bases;
  for (std::size_t b = 0; b < count; ++b) {
    phase.quiet[b] = phase.quiet[b] && before->quiet[b];
    phase.fixed[b] = phase.quiet[b] && phase.bases[b] == before->bases[b];
    phase.alternates[b] = phase.quiet[b] && !phase.fixed[b] && before->earlier.size() == count &&
                          phase.bases[b] == before->earlier[b];
  }
}

// A buffer is at an address that is not known to be its own: it was elsewhere in the two iterations before,
// or another was there, both in turn.
bool Profiler::places_change(const KnownPhase& phase) {
  std::set<Address> left;
  for (std::size_t b = 0; b < phase.bases.size(); ++b)
    if (phase.alternates[b]) left.insert(phase.earlier[b]);
  for (std::size_t b = 0; b < phase.bases.size(); ++b) {
    const bool moved = phase.quiet[b] && !phase.fixed[b] && !phase.alternates[b];
    if (moved || (phase.alternates[b] && left.contains(phase.bases[b]))) return true;
  }
  return false;
}

void Profiler::keep(const tracker::Iteration& iteration) {
  Known& known = known_[iteration.phase];
  // What was held to be complete went on.
  for (auto& [phase, other] : known_)
    if (phase != iteration.phase)
      std::erase_if(other.timed, [&](const TimedIteration& t) { return t.start == iteration.start; });
  std::optional<TimedIteration> timed = timed_part(iteration);
  const bool describes = known.describes() || outgrows(known, iteration);
  ++completed_;
  if (describes) describe(known, iteration);
  if (!describes && !timed) return;
  std::vector<std::uint64_t> copies;
  for (const tracker::LoggedCopy& copy : tracker_.log().copies())
    if (copy.before >= iteration.start && copy.before < iteration.end) copies.push_back(copy.number);
  if (describes) known.copies = copies;
  // Where another phase had been expected, this one may have been timed often enough.
  if (!timed || known.timed.size() >= wanted) return;
  for (const std::uint64_t copy : copies)
    timed->copies.push_back({copy, early_ ? early_->copies[copy] : TimedOp{}});
  known.timed.push_back(std::move(*timed));
}

bool Profiler::outgrows(const Known& known, const tracker::Iteration& iteration) const {
  return known.structure->any_size && !has_room(known.structure->profile, tracker_.log(), iteration.start);
}

void Profiler::describe(Known& known, const tracker::Iteration& iteration) {
  const tracker::OpLog& log = tracker_.log();
  const tracker::Likeness likeness = tracker_.iterations().likeness();
  KnownPhase described;
  described.index = iteration.phase;
  described.profile = tracker::describe_iteration(log, iteration.start, iteration.end, likeness);
  described.profile.id = phase_id(tracker_.iterations().phase(iteration.phase));
  for (tracker::StepIndex step = iteration.start; step < iteration.end; ++step)
    described.local_keys.push_back(log.at(step).keys.exact);
  ++known.described;
  find_bases(described, iteration.start, known.structure);
  if (likeness == tracker::Likeness::form) {
    described.any_size = true;
    described.volumes = volumes_of(log, iteration.start, iteration.end);
    for (const ProfileBuffer& buffer : described.profile.buffers)
      described.seen_bytes.push_back({buffer.bytes, buffer.bytes});
    if (known.structure)
      cover(described, *known.structure, tracker_.iterations().phase(iteration.phase).seen);
  }
  described.revision = ++revisions_;
  // Where the buffers of a phase of any size come and go tells nothing.
  const std::uint32_t enough =
      !described.any_size && places_change(described) ? most_changing : most_described;
  described.settled = known.described >= enough;
  known.structure = std::move(described);
  known.times_of.reset();
  known.tells = completed_ > untold;
}

std::optional<TimedIteration> Profiler::timed_part(const tracker::Iteration& iteration) {
  TimedIteration timed;
  if (running_ && running_->start == iteration.start) {
    running_.reset();
    timed.steps.resize(iteration.end - iteration.start);
  } else if (early_ && iteration.start >= early_->start &&
             iteration.end <= early_->start + early_->steps.size()) {
    const auto first = early_->steps.begin() + static_cast<std::ptrdiff_t>(iteration.start - early_->start);
    timed.steps.assign(first, first + static_cast<std::ptrdiff_t>(iteration.end - iteration.start));
  } else {
    return std::nullopt;
  }
  timed.phase = iteration.phase;
  timed.start = iteration.start;
  timed.end = iteration.end;
  if (tracker_.iterations().likeness() == tracker::Likeness::form)
    timed.volumes = volumes_of(tracker_.log(), iteration.start, iteration.end);
  return timed;
}

const TimedOp* Profiler::find_step(tracker::StepIndex step) const {
  for (const auto& [phase, known] : known_)
    for (const TimedIteration& timed : known.timed)
      if (step >= timed.start && step < timed.end) return &timed.steps[step - timed.start];
  const bool within = early_ && step >= early_->start && step < early_->start + early_->steps.size();
  return within ? &early_->steps[step - early_->start] : nullptr;
}

TimedOp* Profiler::find(const TimedCall& call) {
  if (call.step) return const_cast<TimedOp*>(find_step(call.index));
  for (auto& [phase, known] : known_)
    for (TimedIteration& timed : known.timed)
      for (auto& [number, sample] : timed.copies)
        if (number == call.index) return &sample;
  return early_ ? &early_->copies[call.index] : nullptr;
}

const KnownPhase* Profiler::plannable(tracker::PhaseIndex phase) {
  const auto found = known_.find(phase);
  if (found == known_.end() || !found->second.tells || tracker_.iterations().phase(phase).given_up)
    return nullptr;
  Known& known = found->second;
  // What its sizes are is found out first.
  if (known.structure->any_size && !known.structure->settled) return nullptr;
  if (known.times_of == wanted) return &*known.structure;
  const auto complete = std::count_if(known.timed.begin(), known.timed.end(),
                                      [](const TimedIteration& t) { return t.complete(); });
  if (known.times_of == complete) return &*known.structure;
  PhaseProfile timed = profile_of(known, tracker_.iterations().phase(phase));
  if (timed.measured == 0 && !estimate(timed)) return nullptr;
  known.structure->profile = std::move(timed);
  known.structure->revision = ++revisions_;
  known.times_of = static_cast<std::uint32_t>(complete);
  return &*known.structure;
}

std::uint64_t Profiler::measured_phases(bool training) const {
  return static_cast<std::uint64_t>(std::count_if(known_.begin(), known_.end(), [&](const auto& each) {
    const Known& known = each.second;
    return known.timed.size() >= wanted && !known.describes() &&
           (!training || known.structure->profile.turn != outside);
  }));
}

std::vector<const KnownPhase*> Profiler::settled() const {
  std::vector<const KnownPhase*> all;
  for (const auto& [phase, known] : known_)
    if (known.structure && known.structure->settled) all.push_back(&*known.structure);
  return all;
}

bool Profiler::estimate(PhaseProfile& phase) const {
  std::vector<const PhaseProfile*> others;
  for (const auto& [index, known] : known_)
    if (known.times_of) others.push_back(&known.structure->profile);
  if (!estimate_times(phase, others)) return false;
  phase.graph = tracker::build_layers(phase);
  return true;
}

void Profiler::finish() {
  for (const tracker::Iteration& iteration : tracker_.take_completed()) keep(iteration);
  timing_ = false;
  times_.close();
  if (!measuring()) return;
  collect();
  end_timer();
}

namespace {

// Of one position in several iterations.
struct Values {
  std::vector<double> us, gaps;
};

}  // namespace

void Profiler::add_findings(const KnownPhase& structure, PhaseProfile& phase) const {
  // Of other sizes they may not give the same bits.
  if (structure.any_size) return;
  for (std::size_t p = 0; p < phase.ops.size(); ++p) {
    auto& substitute = phase.ops[p].substitute;
    const auto finding = substitute ? trials_.finding(structure.local_keys[p]) : std::nullopt;
    if (!finding) continue;
    substitute->formula = finding->formula;
    substitute->us = finding->us;
  }
}

Profiler::Proof Profiler::proves(const KnownPhase& phase,
                                 const std::map<std::uint32_t, Formula>& substitutes) {
  Proof proof = Proof::yes;
  for (const auto& [p, formula] : substitutes) {
    if (p >= phase.local_keys.size() || !phase.profile.ops[p].substitute) return Proof::no;
    const auto finding = trials_.finding(phase.local_keys[p]);
    if (finding ? finding->formula != formula : !trials_.working()) return Proof::no;
    if (!finding) proof = Proof::not_yet;
  }
  return proof;
}

void Profiler::disprove(tracker::PhaseIndex phase, const std::set<std::int32_t>& positions) {
  const auto found = known_.find(phase);
  if (found == known_.end() || !found->second.structure) return;
  KnownPhase& structure = *found->second.structure;
  for (const std::int32_t p : positions) trials_.disprove(structure.local_keys[static_cast<std::size_t>(p)]);
  add_findings(structure, structure.profile);
}

PhaseProfile Profiler::profile_of(const Known& known, const tracker::Phase& phase) const {
  PhaseProfile made = known.structure->profile;
  made.seen = phase.seen;
  add_findings(*known.structure, made);
  std::vector<Values> values(made.ops.size());
  std::vector<double> wholes;
  std::vector<std::span<const TimedOp>> iterations;
  std::vector<std::vector<double>> longer;  // by iteration and op
  for (const TimedIteration& timed : known.timed) {
    if (timed.steps.size() != made.ops.size() || !timed.complete()) continue;
    iterations.push_back(timed.steps);
    longer.push_back(scales(known.structure->volumes, timed.volumes, made.ops.size()));
  }
  const double usual = usual_interval(iterations);
  for (std::size_t it = 0; it < iterations.size(); ++it) {
    const auto steps = iterations[it];
    // An iteration that was seen may since have become the begin of a longer one.
    made.measured += made.measured < made.seen;
    double first = steps.front().start_us, latest = first, more = 0;
    const std::vector<double> gaps = host_gaps(steps, usual);
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const TimedOp& op = steps[i];
      const double us = op.end_us - op.start_us;
      values[i].us.push_back(us * longer[it][i]);
      values[i].gaps.push_back(gaps[i]);
      more += us * (longer[it][i] - 1);
      first = std::min(first, op.start_us);
      latest = std::max(latest, op.end_us);
    }
    wholes.push_back(latest - first + more);
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
    ProfileCopy& copy = made.copies[i];
    std::vector<double> us, leads;
    for (const TimedIteration& timed : known.timed) {
      if (timed.copies.size() != made.copies.size() || !measured(timed.copies[i].second)) continue;
      const TimedOp& sample = timed.copies[i].second;
      us.push_back(sample.end_us - sample.start_us);
      const tracker::StepIndex next = timed.start + static_cast<tracker::StepIndex>(copy.before);
      const TimedOp* const before = next > 0 ? find_step(next - 1) : nullptr;
      if (before != nullptr && measured(*before))
        leads.push_back(std::max(0.0, before->end_us - sample.start_us));
    }
    copy.us = median(us);
    copy.lead_us = median(leads);
  }
  made.graph = tracker::build_layers(made);
  return made;
}

void Profiler::fill(Profile& profile, bool estimates) const {
  profile.timer = times_.source();
  profile.iterations = tracker_.iterations().count();
  profile.ops = tracker_.ops();
  for (const auto& [index, known] : known_) {
    const tracker::Phase& phase = tracker_.iterations().phase(index);
    if (!known.structure || phase.seen == 0) continue;
    profile.phases.push_back(estimates && known.times_of ? known.structure->profile
                                                         : profile_of(known, phase));
  }
  const auto weight = [](const PhaseProfile& p) { return p.iteration_us * static_cast<double>(p.seen); };
  std::stable_sort(profile.phases.begin(), profile.phases.end(),
                   [&](const PhaseProfile& a, const PhaseProfile& b) { return weight(a) > weight(b); });
}

}  // namespace pooch::runtime
