#include "tracker/iterations.h"

#include <algorithm>
#include <utility>

#include "core/hash.h"
#include "tracker/segments.h"

namespace pooch::tracker {
namespace {

// The first steps of a phase that must be seen before a stretch that fits nothing is held to end there.
constexpr std::uint64_t enough_to_begin = 8;
// A stream that has not repeated itself in so many steps is looked at afresh.
constexpr std::uint64_t longest_unknown = std::uint64_t{1} << 18;
// So many steps after a surprise nothing longer is looked for; nor after so many times that none was there.
constexpr std::uint64_t longest_doubt = 1u << 16;
constexpr int most_doubts = 8;
constexpr std::size_t longest_history = 256, longest_context = 16;
// Iterations in a row that have the same form, but are not equal: then they are compared by it. Short loops
// of the same form are everywhere.
constexpr std::uint64_t least_alike = 4, most_alike = 16, least_steps_alike = 2048;
constexpr int most_novel = 16;

}  // namespace

std::optional<Iterations::Where> Iterations::where() const {
  return current_;
}

void Iterations::push(std::vector<Iteration>& completed) {
  const StepIndex step = log_.end() - 1;
  const bool regrouped = doubt_ && regroup(completed);
  if (!regrouped && (!current_ || !follow(step, completed))) search(step, completed);
  if (novel_ >= 2 * most_novel && likeness_ == Likeness::exact) {
    compare_by_form();
    lose(log_.end());
  }
  trim(completed);
}

// --- within a phase

std::optional<Iterations::Where> Iterations::expect(const StepKeys& keys,
                                                    std::span<const Source> sources) const {
  if (!current_) return std::nullopt;
  const std::uint64_t own = keys.by(likeness_);
  const std::uint64_t position = log_.end() - current_->start;
  const std::uint64_t key = key_of(own, sources, current_->start);
  if (at(current_->phase).keys[position] == key) return current_;
  if (position == 0 && last_ && last_->end == log_.end() && log_.has(last_->start)) {
    const auto longer = longer_than_last(key_of(own, sources, last_->start));
    if (longer) return Where{*longer, last_->start};
  }
  if (const auto other = other_phase(key, position)) return Where{*other, current_->start};
  return std::nullopt;
}

bool Iterations::follow(StepIndex step, std::vector<Iteration>& completed) {
  const Phase& phase = at(current_->phase);
  const std::uint64_t position = step - current_->start;
  if (const std::uint64_t key = this->key(step, current_->start); phase.keys[position] != key) {
    const bool may_resume = position == 0 && last_ && last_->end == step && log_.has(last_->start);
    const auto longer = may_resume ? longer_than_last(this->key(step, last_->start)) : std::nullopt;
    if (longer) {
      doubt(last_->start);
      --at(last_->phase).seen;
      --count_;
      history_.pop_back();
      current_ = Where{*longer, last_->start};
      last_.reset();
      return true;
    }
    const auto other = other_phase(key, position);
    if (!other) {
      lose(current_->start);
      return false;
    }
    doubt(current_->start);
    current_->phase = *other;
  }
  if (step - current_->start + 1 == at(current_->phase).keys.size()) complete(step + 1, completed);
  return true;
}

// Another phase than the current one whose steps were the same so far, and whose next one has the key.
std::optional<PhaseIndex> Iterations::other_phase(std::uint64_t key, std::uint64_t position) const {
  std::optional<PhaseIndex> best;
  const Phase& now = at(current_->phase);
  for (std::uint32_t i = 0; i < phases_.size(); ++i) {
    const Phase& candidate = phases_[i];
    if (candidate.given_up || candidate.keys.size() <= position || candidate.keys[position] != key) continue;
    if (!std::equal(now.keys.begin(), now.keys.begin() + static_cast<std::ptrdiff_t>(position),
                    candidate.keys.begin()))
      continue;
    if (!best || candidate.seen > at(*best).seen) best = PhaseIndex{i};
  }
  return best;
}

// The iteration that was held to be complete goes on: a longer phase begins with all its steps.
std::optional<PhaseIndex> Iterations::longer_than_last(std::uint64_t key) const {
  const std::uint64_t position = last_->end - last_->start;
  const Phase& last = at(last_->phase);
  for (std::uint32_t i = 0; i < phases_.size(); ++i) {
    const Phase& longer = phases_[i];
    if (longer.given_up || longer.keys.size() <= position || longer.keys[position] != key) continue;
    if (std::equal(last.keys.begin(), last.keys.end(), longer.keys.begin())) return PhaseIndex{i};
  }
  return std::nullopt;
}

void Iterations::complete(StepIndex end, std::vector<Iteration>& completed) {
  last_ = Iteration{current_->phase, current_->start, end};
  completed.push_back(*last_);
  novel_ = at(last_->phase).seen++ == 0 ? novel_ + 2 : std::max(0, novel_ - 1);
  ++count_;
  if (history_.size() == longest_history)
    history_.erase(history_.begin(), history_.begin() + longest_history / 2);
  history_.push_back(last_->phase);
  if (doubt_) {
    auto& since = doubt_->iterations;
    while (!since.empty() && since.back().start >= last_->start) since.pop_back();
    since.push_back(*last_);
  }
  begin(predict(), end);
}

void Iterations::begin(PhaseIndex phase, StepIndex start) {
  current_ = Where{phase, start};
  tentative_.reset();
}

// What followed the longest part of the history that equals its end: most often, where it is there several
// times, and of those the latest. What comes once in a while is then expected only where it came before.
PhaseIndex Iterations::predict() const {
  std::vector<PhaseIndex> followed{history_.back()};
  std::size_t best_length = 0;
  for (std::size_t next = history_.size() - 1; next > 0 && best_length < longest_context; --next) {
    std::size_t length = 0;
    while (length < next && length < longest_context &&
           history_[next - 1 - length] == history_[history_.size() - 1 - length])
      ++length;
    if (length < best_length || length == 0) continue;
    if (length > best_length) best_length = length, followed.clear();
    followed.push_back(history_[next]);
  }
  const auto times = [&](PhaseIndex phase) { return std::count(followed.begin(), followed.end(), phase); };
  return *std::max_element(followed.begin(), followed.end(),
                           [&](PhaseIndex a, PhaseIndex b) { return times(a) < times(b); });
}

// --- in the unknown

void Iterations::lose(StepIndex unknown_from) {
  current_.reset();
  tentative_.reset();
  unknown_from_ = unknown_from;
  finder_.restart(unknown_from);
  form_finder_.restart(log_.end());  // no step before has a form
  doubt(unknown_from);
}

void Iterations::search(StepIndex step, std::vector<Iteration>& completed) {
  if (confirm_start(step, completed)) return;
  if (likeness_ == Likeness::exact) {
    if (const auto period = finder_.push()) return adopt_period(*period, completed);
  }
  const auto period = form_finder_.push();
  if (!period) return;
  if (likeness_ == Likeness::exact) {
    const std::uint64_t enough = std::clamp(longest_unknown / 2 / period->length, least_alike, most_alike);
    if (log_.end() - period->from < std::max(enough * period->length, least_steps_alike)) return;
    compare_by_form();
    unknown_from_ = period->from;
  }
  adopt_period(*period, completed);
}

// All phases so far were of steps with their sizes.
void Iterations::compare_by_form() {
  likeness_ = Likeness::form;
  for (Phase& phase : phases_) {
    count_ -= std::exchange(phase.seen, 0);
    phase.given_up = true;
  }
  history_.clear();
  current_.reset();
  last_.reset();
  tentative_.reset();
  doubt_.reset();
  vain_doubts_ = 0;
}

// Whether a known phase begins here.
bool Iterations::confirm_start(StepIndex step, std::vector<Iteration>& completed) {
  if (tentative_) {
    const std::uint64_t position = step - tentative_->start;
    const Phase& phase = at(tentative_->phase);
    if (phase.keys[position] != key(step, tentative_->start)) {
      const StepIndex start = tentative_->start;
      tentative_.reset();
      for (std::uint32_t i = 0; i < phases_.size() && !tentative_; ++i)
        if (!phases_[i].given_up && phases_[i].keys.size() > position &&
            matches(PhaseIndex{i}, start, step + 1))
          tentative_ = Tentative{PhaseIndex{i}, start};
    }
  }
  if (!tentative_) {
    // Not at the very step at which the stretch began: there it did not fit.
    if (step == unknown_from_ && last_ && last_->end == step) return false;
    for (std::uint32_t i = 0; i < phases_.size() && !tentative_; ++i)
      if (!phases_[i].given_up && phases_[i].keys[0] == key(step, step))
        tentative_ = Tentative{PhaseIndex{i}, step};
    if (!tentative_) return false;
  }
  const Phase& phase = at(tentative_->phase);
  if (step - tentative_->start + 1 < std::min<std::uint64_t>(phase.keys.size(), enough_to_begin))
    return false;
  const Tentative found = *tentative_;
  close_unknown(found.start, completed);
  begin(found.phase, found.start);
  if (step + 1 - found.start == phase.keys.size()) complete(step + 1, completed);
  return true;
}

// The stretch since `unknown_from_` ends: cuts it into iterations.
void Iterations::close_unknown(StepIndex end, std::vector<Iteration>& completed) {
  if (unknown_from_ >= end || phases_.empty()) return;
  const std::vector<StepIndex> starts = starts_in_stretch(log_, unknown_from_, end);
  if (starts.empty()) {
    if (!last_ || last_->end != unknown_from_ || !log_.has(last_->start)) return;
    // The end of the iteration before.
    const StepIndex start = last_->start;
    --at(last_->phase).seen;
    --count_;
    history_.pop_back();
    add(start, end, completed);
    return;
  }
  for (std::size_t i = 0; i < starts.size(); ++i)
    add(starts[i], i + 1 < starts.size() ? starts[i + 1] : end, completed);
}

// An iteration that is complete and may be of a new phase.
void Iterations::add(StepIndex start, StepIndex end, std::vector<Iteration>& completed) {
  current_ = Where{intern(start, end), start};
  if (doubt_) doubt_->examined = 0;
  complete(end, completed);
}

PhaseIndex Iterations::intern(StepIndex start, StepIndex end) {
  Phase made{{}, 0};
  made.keys.reserve(end - start);
  for (StepIndex step = start; step < end; ++step) made.keys.push_back(key(step, start));
  for (const std::uint64_t key : made.keys) made.id = mix(made.id, key);
  for (std::uint32_t i = 0; i < phases_.size(); ++i) {
    if (phases_[i].keys != made.keys) continue;
    phases_[i].given_up = false;
    return PhaseIndex{i};
  }
  phases_.push_back(std::move(made));
  return PhaseIndex{static_cast<std::uint32_t>(phases_.size() - 1)};
}

bool Iterations::matches(PhaseIndex index, StepIndex start, StepIndex end) const {
  const Phase& candidate = phase(index);
  for (StepIndex step = start; step < end; ++step)
    if (candidate.keys[step - start] != key(step, start)) return false;
  return true;
}

// The last two periods are equal: iterations are found from the first one on that belongs to the repetition.
void Iterations::adopt_period(const Period& period, std::vector<Iteration>& completed) {
  const StepIndex end = log_.end();
  const StepIndex first = end - 2 * period.length;
  std::vector<StepIndex> starts = starts_in_period(log_, first, period.length);
  // All starts of the repetition, from its first step on.
  std::vector<StepIndex> all;
  for (const StepIndex start : starts) {
    StepIndex s = start;
    while (s >= period.from + period.length) s -= period.length;
    for (; s < end; s += period.length) all.push_back(s);
  }
  std::sort(all.begin(), all.end());
  close_unknown(all.front(), completed);
  for (std::size_t i = 0; i + 1 < all.size(); ++i) add(all[i], all[i + 1], completed);
  // The last one is under way, or has just ended.
  const StepIndex start = all.back();
  const std::uint64_t done = end - start;
  current_.reset();
  for (std::uint32_t i = 0; i < phases_.size(); ++i) {
    if (phases_[i].given_up || phases_[i].keys.size() < done || !matches(PhaseIndex{i}, start, end)) continue;
    if (current_ && at(current_->phase).seen >= phases_[i].seen) continue;
    current_ = Where{PhaseIndex{i}, start};
  }
  if (!current_) return lose(start);
  tentative_.reset();
  if (done == at(current_->phase).keys.size()) complete(end, completed);
}

// --- parts of iterations that were taken for iterations

void Iterations::doubt(StepIndex from) {
  if (!doubt_) {
    if (vain_doubts_ == most_doubts) return;
    doubt_.emplace(Doubt{from, PeriodFinder(log_, likeness_), 0, {}});
    doubt_->finder.restart(from);
  }
  doubt_->examined = 0;
}

// The last two of a period are equal in which iterations began where none may: then they are parts of longer
// ones, which are found in it.
bool Iterations::regroup(std::vector<Iteration>& completed) {
  const auto period = doubt_->finder.push(doubt_->examined);
  if (!period) return false;
  const StepIndex end = log_.end(), latest = end - period->length;
  const auto& since = doubt_->iterations;
  const auto before = [](const Iteration& iteration, StepIndex step) { return iteration.start < step; };
  std::vector<StepIndex> starts;
  for (auto i = std::lower_bound(since.begin(), since.end(), latest, before); i != since.end(); ++i)
    starts.push_back(i->start);
  if (current_ && current_->start >= latest && (starts.empty() || starts.back() < current_->start))
    starts.push_back(current_->start);
  if (starts.size() < 2) return false;
  doubt_->examined = period->length;
  if (may_begin_at(starts, log_, latest - period->length, period->length)) return false;
  give_up(period->from, completed);
  adopt_period(*period, completed);
  return true;
}

// All phases of which an iteration began behind `from`.
void Iterations::give_up(StepIndex from, std::vector<Iteration>& completed) {
  for (const Iteration& one : doubt_->iterations) {
    if (one.start < from) continue;
    count_ -= std::exchange(at(one.phase).seen, 0);
    at(one.phase).given_up = true;
  }
  std::erase_if(completed, [&](const Iteration& one) { return one.start >= from; });
  history_.clear();
  current_.reset();
  last_.reset();
  tentative_.reset();
  doubt_.reset();
  vain_doubts_ = 0;
  unknown_from_ = log_.end();
}

// --- memory

void Iterations::trim(const std::vector<Iteration>& completed) {
  if (doubt_ && log_.end() - doubt_->from > longest_doubt) doubt_.reset(), ++vain_doubts_;
  if (current_) {
    StepIndex needed = last_ ? last_->start : current_->start;
    // Nobody has looked at these yet: several become known at once where a period is short.
    if (!completed.empty()) needed = std::min(needed, completed.front().start);
    if (doubt_) needed = std::min(needed, doubt_->from);
    log_.forget_before(needed);
    return;
  }
  if (log_.end() - unknown_from_ <= longest_unknown) return;
  last_.reset();
  lose(log_.end());
  log_.restart(log_.end());
}

}  // namespace pooch::tracker
