#include "cupti/event_timer.h"

#include <algorithm>
#include <utility>

namespace pooch::cupti {
namespace {

// A float of milliseconds tells tenths of a microsecond apart up to here.
constexpr double anchor_reach_us = 1e6;

}  // namespace

EventTimer::~EventTimer() {
  std::vector<OpTime> unwanted;
  (void)stop(unwanted);
}

Result<EventHandle> EventTimer::take_event() {
  if (spare_.empty()) return device_.create_timing_event();
  const EventHandle event = spare_.back();
  spare_.pop_back();
  return event;
}

Status EventTimer::begin(std::uint64_t op, StreamHandle stream) {
  if (stopped_) return Error{ErrorCode::internal, "an op was begun in a timer that has stopped"};
  const auto event = take_event();
  if (!event) return event.error();
  if (Status s = device_.record(*event, stream); !s) {
    spare_.push_back(*event);
    return s;
  }
  begun_.push_back({op, *event, EventHandle::none});
  return Done{};
}

Status EventTimer::end(std::uint64_t op, StreamHandle stream) {
  const auto found = std::find_if(begun_.begin(), begun_.end(), [op](const Pair& p) { return p.op == op; });
  if (found == begun_.end()) return Error{ErrorCode::internal, "an op ended that was never begun"};
  Pair pair = *found;
  begun_.erase(found);
  const auto event = take_event();
  Status recorded = event ? device_.record(*event, stream) : Status(event.error());
  if (!recorded) {
    spare_.push_back(pair.begin);
    if (event) spare_.push_back(*event);
    return recorded;
  }
  pair.end = *event;
  submitted_[stream].push_back(pair);
  return Done{};
}

Status EventTimer::measure(const Pair& pair, std::vector<OpTime>& into) {
  if (anchor_ == EventHandle::none) anchor_ = pair.begin;
  const auto start = device_.elapsed_us(anchor_, pair.begin);
  const auto length = device_.elapsed_us(pair.begin, pair.end);
  if (!start) return start.error();
  if (!length) return length.error();
  const double start_us = anchor_us_ + *start;
  into.push_back({pair.op, start_us, start_us + *length});
  if (*start > anchor_reach_us) {
    spare_.push_back(std::exchange(anchor_, pair.begin));
    anchor_us_ = start_us;
  }
  if (pair.begin != anchor_) spare_.push_back(pair.begin);
  spare_.push_back(pair.end);
  return Done{};
}

Status EventTimer::collect(std::vector<OpTime>& into) {
  for (auto& [stream, queue] : submitted_) {
    // A stream works in order: everything before what is finished is.
    Status asked = Done{};
    const auto finished = [&](const Pair& pair) {
      const auto answer = device_.finished(pair.end);
      if (!answer) asked = answer.error();
      return answer && *answer;
    };
    const auto running = !queue.empty() && finished(queue.back())
                             ? queue.end()
                             : std::partition_point(queue.begin(), queue.end(), finished);
    if (!asked) return asked;
    for (auto count = running - queue.begin(); count > 0; --count) {
      if (Status s = measure(queue.front(), into); !s) return s;
      queue.pop_front();
    }
  }
  return Done{};
}

Status EventTimer::release() {
  Status all = Done{};
  const auto drop = [&](EventHandle event) {
    if (event == EventHandle::none) return;
    if (Status s = device_.destroy_event(event); !s) all = s;
  };
  for (const EventHandle event : spare_) drop(event);
  for (const Pair& pair : begun_) drop(pair.begin);
  for (const auto& [stream, queue] : submitted_) {
    for (const Pair& pair : queue) {
      if (pair.begin != anchor_) drop(pair.begin);
      drop(pair.end);
    }
  }
  drop(std::exchange(anchor_, EventHandle::none));
  spare_.clear();
  begun_.clear();
  submitted_.clear();
  return all;
}

Status EventTimer::stop(std::vector<OpTime>& last) {
  if (std::exchange(stopped_, true)) return Done{};
  const Status collected = collect(last);
  const Status released = release();
  return collected ? released : collected;
}

}  // namespace pooch::cupti
