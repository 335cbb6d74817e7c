#include "runtime/stream_order.h"

#include <algorithm>
#include <atomic>

namespace pooch::runtime {
namespace {

// Numbers threads, because the per-thread stream's handle is the same value in all of them.
std::uint64_t thread_number() {
  static std::atomic<std::uint64_t> next{1};
  thread_local const std::uint64_t mine = next++;
  return mine;
}

}  // namespace

void Marks::add(Mark mark) {
  if (mark.ticket == 0) return;
  for (Mark& m : marks_) {
    if (m.stream != mark.stream) continue;
    m.ticket = std::max(m.ticket, mark.ticket);
    return;
  }
  marks_.push_back(mark);
}

StreamOrder::~StreamOrder() {
  for (Stream& stream : streams_)
    for (const Recorded& recorded : stream.events) (void)device_.destroy_event(recorded.event);
  for (const EventHandle event : spare_events_) (void)device_.destroy_event(event);
}

std::pair<StreamHandle, std::uint64_t> StreamOrder::key(StreamHandle stream) const {
  return {stream, stream == StreamHandle::per_thread ? thread_number() : 0};
}

StreamIndex StreamOrder::index(StreamHandle stream) {
  const auto [found, fresh] =
      index_.try_emplace(key(stream), StreamIndex{static_cast<std::uint32_t>(streams_.size())});
  if (fresh) streams_.push_back(Stream{stream, 0, 0, {}, {}, false});
  return found->second;
}

Result<EventHandle> StreamOrder::record(Stream& stream) {
  EventHandle event;
  if (spare_events_.empty()) {
    const auto made = device_.create_event();
    if (!made) return made.error();
    event = *made;
  } else {
    event = spare_events_.back();
    spare_events_.pop_back();
  }
  if (const auto recorded = device_.record(event, stream.handle); !recorded) {
    spare_events_.push_back(event);
    return recorded.error();
  }
  stream.events.push_back({stream.last, event});
  return event;
}

Result<Mark> StreamOrder::launched(StreamIndex stream, bool exact) {
  Stream& s = at(stream);
  ++s.last;
  // Another thread, to which the same handle is another stream, could not record one later.
  if (exact || s.handle == StreamHandle::per_thread) {
    // Keep the list short: the host may never ask about most of these points.
    if (s.events.size() >= 64)
      if (const auto front = finished(Mark{stream, s.events.front().ticket}); !front) return front.error();
    if (const auto event = record(s); !event) return event.error();
  }
  return Mark{stream, s.last};
}

Status StreamOrder::settle() {
  for (Stream& stream : streams_) {
    const std::uint64_t known = stream.events.empty() ? stream.done : stream.events.back().ticket;
    // A per-thread stream can be named by its own thread alone, a destroyed one by nobody.
    const auto named = index_.find(key(stream.handle));
    const bool ours = named != index_.end() && &at(named->second) == &stream;
    if (stream.last == known || !ours) continue;
    if (const auto event = record(stream); !event) return event.error();
  }
  return Done{};
}

void StreamOrder::advance(Stream& stream, std::uint64_t ticket) {
  stream.done = std::max(stream.done, ticket);
  while (!stream.events.empty() && stream.events.front().ticket <= stream.done) {
    spare_events_.push_back(stream.events.front().event);
    stream.events.pop_front();
  }
}

Result<EventHandle> StreamOrder::event_for(Mark mark) {
  Stream& s = at(mark.stream);
  if (mark.ticket <= s.done) return EventHandle::none;
  const auto covering = std::partition_point(s.events.begin(), s.events.end(),
                                             [&](const Recorded& r) { return r.ticket < mark.ticket; });
  if (covering != s.events.end()) return covering->event;
  return record(s);
}

Status StreamOrder::follow(StreamIndex waiter, Mark mark) {
  if (waiter == mark.stream || mark.ticket <= at(mark.stream).done) return Done{};
  auto& following = at(waiter).following;
  const auto other = static_cast<std::size_t>(mark.stream);
  if (following.size() <= other) following.resize(other + 1);
  if (following[other] >= mark.ticket) return Done{};
  const auto event = event_for(mark);
  if (!event) return event.error();
  if (const auto waited = device_.wait(at(waiter).handle, *event); !waited) return waited.error();
  following[other] = mark.ticket;
  return Done{};
}

Status StreamOrder::follow(StreamIndex waiter, const Marks& marks) {
  for (const Mark& m : marks)
    if (const auto status = follow(waiter, m); !status) return status.error();
  return Done{};
}

Result<bool> StreamOrder::finished(Mark mark) {
  Stream& s = at(mark.stream);
  if (mark.ticket <= s.done) return true;
  const auto event = event_for(mark);
  if (!event) return event.error();
  const auto answer = device_.finished(*event);
  if (!answer) return answer.error();
  if (*answer) advance(s, mark.ticket);
  return *answer;
}

Result<bool> StreamOrder::finished(const Marks& marks) {
  for (const Mark& m : marks) {
    auto answer = finished(m);
    if (!answer || !*answer) return answer;
  }
  return true;
}

void StreamOrder::note_finished(Mark mark) {
  advance(at(mark.stream), mark.ticket);
}

Status StreamOrder::note_host_blocking(StreamIndex stream) {
  const auto mark = launched(stream);
  if (!mark) return mark.error();
  host_blocking_.push_back(*mark);
  // A program that does this every iteration must not make the list grow.
  if (host_blocking_.size() >= 64)
    if (const auto blocked = host_blocked(); !blocked) return blocked.error();
  return Done{};
}

Result<bool> StreamOrder::host_blocked() {
  for (std::size_t i = 0; i < host_blocking_.size();) {
    const auto answer = finished(host_blocking_[i]);
    if (!answer) return answer.error();
    if (*answer) {
      host_blocking_[i] = host_blocking_.back();
      host_blocking_.pop_back();
    } else {
      ++i;
    }
  }
  return !host_blocking_.empty();
}

Status StreamOrder::note_host_wait() {
  for (std::uint32_t i = 0; i < streams_.size(); ++i) {
    const Stream& s = streams_[i];
    if (s.own || s.last == s.done) continue;
    // Nothing is put into the program's stream for this.
    if (s.events.empty() || s.events.back().ticket < s.last) return Done{};
    const auto idle = finished({StreamIndex{i}, s.last});
    if (!idle) return idle.error();
    if (!*idle) return Done{};
  }
  ++idle_waits_;
  return Done{};
}

Status StreamOrder::retire(StreamHandle stream) {
  const auto found = index_.find(key(stream));
  if (found == index_.end()) return Done{};
  Stream& s = at(found->second);
  index_.erase(found);
  s.following = {};  // it waits no more
  if (s.last == s.done || (!s.events.empty() && s.events.back().ticket == s.last)) return Done{};
  if (const auto event = record(s); !event) return event.error();
  return Done{};
}

}  // namespace pooch::runtime
