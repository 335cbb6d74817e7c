// The incremental side of the simulator: where two choices first differ, and the clock from there on.
#include <algorithm>
#include <utility>

#include "policy/timeline.h"

namespace pooch::policy {
namespace {

bool same(const Step& a, const Step& b) {
  return a.segment == b.segment && a.replay == b.replay && a.map == b.map && a.us == b.us;
}

bool same(const Fetch& a, const Fetch& b) {
  return a.map == b.map && a.bytes == b.bytes && a.trigger == b.trigger && a.deadline == b.deadline &&
         a.squeezed == b.squeezed;
}

}  // namespace

void Simulator::rebase(const Choice& choice) {
  base_.valid = true;
  base_.choice = choice;
  std::swap(base_.schedule, schedule_);
  std::swap(base_.evictions, evictions_);
  std::swap(base_.arrivals, arrivals_);
  std::swap(base_.checkpoints, checkpoints_);
}

// The first step whose clock may be another than the base's: at each one it reads the step, its memory, the
// fetches that start there, and the evictions behind it. nowhere: the iteration begins otherwise.
std::int32_t Simulator::first_difference(const Choice& choice) const {
  const Schedule &was = base_.schedule, &is = schedule_;
  const std::size_t steps = std::min(was.steps.size(), is.steps.size());
  std::size_t first = 0;
  while (first < steps && same(was.steps[first], is.steps[first]) && was.live[first] == is.live[first])
    ++first;
  const std::size_t fetches = std::min(was.fetches.size(), is.fetches.size());
  std::size_t fetch = 0;
  while (fetch < fetches && same(was.fetches[fetch], is.fetches[fetch])) ++fetch;
  for (const Schedule* each : {&was, &is})
    if (fetch < each->fetches.size())
      first = std::min(first, static_cast<std::size_t>(each->fetches[fetch].trigger));
  for (std::size_t m = 0; m < problem_.maps.size(); ++m) {
    if (choice.of[m] != base_.choice.of[m] ||
        choice.swapped(problem_, m) != base_.choice.swapped(problem_, m)) {
      if (problem_.maps[m].arrives) return nowhere;
      first = std::min(first, static_cast<std::size_t>(is.step_of[problem_.maps[m].leaves]));
    }
  }
  return static_cast<std::int32_t>(first);
}

Simulator::Checkpoint Simulator::begin(const Choice& choice, Trace* trace) {
  Checkpoint first;
  first.clock.trace = trace;
  evict_what_begins_away(first.clock, choice);
  return first;
}

// Leaves in evictions_, arrivals_ and checkpoints_ what was before it. A trace wants everything.
Simulator::Checkpoint Simulator::resume(const Choice& choice, Trace* trace) {
  evictions_.clear();
  arrivals_.clear();
  checkpoints_.clear();
  left_at_.assign(problem_.maps.size(), 0);
  if (!base_.valid || trace != nullptr) return begin(choice, trace);
  const auto behind =
      std::upper_bound(base_.checkpoints.begin(), base_.checkpoints.end(), first_difference(choice),
                       [](std::int32_t step, const Checkpoint& c) { return step < c.step; });
  if (behind == base_.checkpoints.begin()) return begin(choice, trace);
  const Checkpoint& from = *std::prev(behind);
  checkpoints_.assign(base_.checkpoints.begin(), behind);
  const auto head = [](const std::vector<Flight>& all, std::size_t count) {
    return std::pair(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count));
  };
  const auto [gone, gone_end] = head(base_.evictions, from.evictions);
  evictions_.assign(gone, gone_end);
  const auto [come, come_end] = head(base_.arrivals, from.arrivals);
  arrivals_.assign(come, come_end);
  for (const Flight& flight : evictions_) left_at_[flight.map] = flight.end;
  return from;
}

}  // namespace pooch::policy
