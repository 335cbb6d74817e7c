#include "runtime/observe/iteration_clock.h"

#include <algorithm>
#include <utility>

namespace pooch::runtime {
namespace {

constexpr std::size_t most_samples = 64;  // of a phase
constexpr std::size_t most_pending = 16;  // a program that never lets the device catch up has no times

}  // namespace

IterationClock::~IterationClock() {
  for (const Begin& begin : begins_) (void)device_.destroy_event(begin.event);
  for (const EventHandle event : free_) (void)device_.destroy_event(event);
}

void IterationClock::begin(tracker::PhaseIndex phase, StreamHandle stream) {
  collect();
  const bool chained = std::exchange(chained_, false);
  open_ = false;
  const auto capturing = device_.capturing(stream);
  if (!capturing || *capturing || begins_.size() >= most_pending) return;
  const auto event = new_event();
  if (!event) return;
  if (!device_.record(*event, stream)) {
    free_.push_back(*event);
    return;
  }
  begins_.push_back({*event, phase, chained});
  open_ = true;
}

void IterationClock::complete() {
  if (std::exchange(open_, false)) begins_.back().complete = chained_ = true;
}

std::optional<EventHandle> IterationClock::new_event() {
  if (!free_.empty()) {
    const EventHandle event = free_.back();
    free_.pop_back();
    return event;
  }
  const auto made = device_.create_timing_event();
  return made ? std::optional(*made) : std::nullopt;
}

void IterationClock::collect() {
  while (begins_.size() >= 2) {
    const Begin &from = begins_[0], &to = begins_[1];
    const auto finished = device_.finished(to.event);
    if (!finished || !*finished) return;
    if (from.complete && to.chained) {
      if (const auto us = device_.elapsed_us(from.event, to.event); us && *us > 0) {
        auto& samples = ms_[from.phase];
        samples.push_back(*us / 1e3);
        if (samples.size() > most_samples) samples.pop_front();
      }
    }
    free_.push_back(from.event);
    begins_.pop_front();
  }
}

void IterationClock::forget(tracker::PhaseIndex phase) {
  for (Begin& begin : begins_)
    if (begin.phase == phase) begin.complete = false;
  ms_.erase(phase);
}

std::optional<double> IterationClock::median_ms(tracker::PhaseIndex phase, std::size_t least) {
  collect();
  const auto found = ms_.find(phase);
  if (found == ms_.end() || found->second.size() < std::max<std::size_t>(least, 1)) return std::nullopt;
  std::vector<double> sorted(found->second.begin(), found->second.end());
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

}  // namespace pooch::runtime
