#include "tracker/period.h"

#include <algorithm>

#include "core/hash.h"

namespace pooch::tracker {
namespace {

// So many steps in a row are no accident.
constexpr std::uint64_t shortest_evidence = 16;
constexpr std::size_t most_candidates = 16;

}  // namespace

void PeriodFinder::restart(StepIndex from) {
  from_ = from;
  last_seen_.clear();
  candidates_.clear();
}

std::optional<Period> PeriodFinder::push(std::uint64_t longer_than) {
  const StepIndex step = log_.end() - 1;
  std::erase_if(candidates_, [&](Candidate& candidate) { return !extend(candidate, step); });
  propose(step);
  const Candidate* found = nullptr;
  for (const Candidate& candidate : candidates_) {
    if (candidate.length <= longer_than) continue;
    if (candidate.run < std::max(candidate.length, shortest_evidence)) continue;
    if (candidate.kept <= 2 * candidate.changed) continue;
    if (found == nullptr || candidate.length < found->length) found = &candidate;
  }
  if (found == nullptr) return std::nullopt;
  return Period{found->length, step + 1 - found->run - found->length};
}

// A step that touches the same memory as an equal one before may begin a repetition.
void PeriodFinder::propose(StepIndex step) {
  std::uint64_t place = 0;
  for (const Operand& operand : log_.operands(step)) {
    ++place;
    if (!leaves_content(operand.effect)) continue;
    const std::uint64_t identity =
        mix(mix(mix(key(step), place), static_cast<std::uint64_t>(operand.allocation)), operand.offset);
    const auto [seen, fresh] = last_seen_.try_emplace(identity, step);
    const std::uint64_t length = step - seen->second;
    seen->second = step;
    if (fresh || length == 0 || candidates_.size() >= most_candidates) continue;
    const auto known = [&](const Candidate& c) { return c.length == length; };
    if (std::any_of(candidates_.begin(), candidates_.end(), known)) continue;
    // What repeated before this step belongs to it: its operands were new each time.
    Candidate candidate{length, 0};
    StepIndex first = step;
    while (first > from_ + length && step - first < length && key(first - 1) == key(first - 1 - length))
      --first;
    for (StepIndex s = first; s <= step; ++s) (void)extend(candidate, s);
    candidates_.push_back(candidate);
  }
}

bool PeriodFinder::extend(Candidate& candidate, StepIndex step) const {
  if (step < from_ + candidate.length) return false;
  if (key(step) != key(step - candidate.length)) return false;
  ++candidate.run;
  judge(candidate, step);
  return true;
}

void PeriodFinder::judge(Candidate& candidate, StepIndex step) const {
  const auto now = log_.operands(step), before = log_.operands(step - candidate.length);
  for (std::size_t i = 0; i < now.size(); ++i) {
    if (!leaves_content(now[i].effect)) continue;
    if (now[i].allocation == before[i].allocation && now[i].offset == before[i].offset) {
      candidate.kept += now[i].born + shortest_evidence <= step ? 1 : 0;  // else the repetition made it
    } else if (now[i].born + candidate.length <= step) {
      ++candidate.changed;  // it was there a period ago already, and was not what the step wanted then
    }
  }
}

}  // namespace pooch::tracker
