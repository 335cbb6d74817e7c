#include "runtime/execution/prefetch_waits.h"

#include <algorithm>

namespace pooch::runtime {

PrefetchWaits::~PrefetchWaits() {
  give_up();
  for (const EventHandle event : spare_) (void)device_.destroy_event(event);
}

void PrefetchWaits::give_up() {
  watching_ = false;
  const auto drop = [&](std::optional<EventHandle>& event) {
    if (event) spare_.push_back(*event);
    event.reset();
  };
  drop(begin_);
  for (Watched& watched : of_) drop(watched.fetched), drop(watched.needed);
}

// False: the device refuses; this iteration is not watched any more.
bool PrefetchWaits::mark(std::optional<EventHandle>& event, StreamHandle stream) {
  if (!event && !spare_.empty()) {
    event = spare_.back();
    spare_.pop_back();
  } else if (!event) {
    const auto made = device_.create_timing_event();
    if (made) event = *made;
  }
  if (event && device_.record(*event, stream)) return true;
  give_up();
  return false;
}

void PrefetchWaits::watch(std::size_t maps, StreamHandle stream) {
  give_up();
  const auto capturing = device_.capturing(stream);
  if (!capturing || *capturing) return;
  of_.resize(maps);
  watching_ = mark(begin_, stream);
}

void PrefetchWaits::fetched(std::uint32_t map, StreamHandle stream) {
  if (watching_ && !of_[map].needed) mark(of_[map].fetched, stream);
}

void PrefetchWaits::needed(std::uint32_t map, StreamHandle stream) {
  if (awaited(map)) mark(of_[map].needed, stream);
}

double PrefetchWaits::wait_us(const Watched& watched) {
  if (!watched.fetched || !watched.needed) return 0;
  const auto came = device_.elapsed_us(*begin_, *watched.fetched);
  const auto wanted = device_.elapsed_us(*begin_, *watched.needed);
  return came && wanted ? std::max(0.0, *came - *wanted) : 0;
}

std::optional<std::vector<double>> PrefetchWaits::collect() {
  if (watching_ || !begin_) return std::nullopt;
  const auto under_way = [&](const std::optional<EventHandle>& event) {
    if (!event) return false;
    const auto done = device_.finished(*event);
    return !done || !*done;
  };
  for (const Watched& watched : of_)
    if (under_way(watched.fetched) || under_way(watched.needed)) return std::nullopt;
  std::vector<double> waits;
  for (const Watched& watched : of_) waits.push_back(wait_us(watched));
  give_up();
  return waits;
}

}  // namespace pooch::runtime
