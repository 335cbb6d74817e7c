#include "runtime/memory/stream_order.h"

#include <algorithm>
#include <atomic>

#include "core/log.h"

namespace pooch::runtime {
namespace {

constexpr std::size_t most_events = 64;  // of a stream, as long as the device keeps up

// Numbers threads, because the per-thread stream's handle is the same value in all of them.
std::uint64_t thread_number() {
  static std::atomic<std::uint64_t> next{1};
  thread_local const std::uint64_t mine = next++;
  return mine;
}

}  // namespace

void Marks::add_beside(Mark mark) {
  if (mark.ticket == 0) return;
  for (Mark& m : many_.empty() ? std::span(few_.data(), count_) : std::span(many_)) {
    if (m.stream != mark.stream) continue;
    m.ticket = std::max(m.ticket, mark.ticket);
    return;
  }
  if (many_.empty() && count_ < few_.size()) {
    few_[count_++] = mark;
    return;
  }
  if (many_.empty()) many_.assign(few_.begin(), few_.end()), count_ = 0;
  many_.push_back(mark);
}

StreamOrder::~StreamOrder() {
  for (Stream& stream : streams_)
    for (const Stream::Recorded& recorded : stream.events) (void)device_.destroy_event(recorded.event);
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

// A per-thread stream can be named by its own thread alone, a destroyed one by nobody.
bool StreamOrder::can_record(const Stream& stream) const {
  const auto named = index_.find(key(stream.handle));
  return named != index_.end() && &at(named->second) == &stream;
}

Result<EventHandle> StreamOrder::record(Stream& stream) {
  // Keep the list short: the host may never ask about most of these points.
  if (stream.events.size() >= most_events) {
    const OrderedStream::Recorded first = stream.events.front();
    const auto passed = device_.finished(first.event);
    if (passed && *passed) advance(stream, first.ticket);
  }
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

// Nothing is lost where it fails: whoever asks for the point later gets a later event.
void StreamOrder::try_to_record(Stream& stream) {
  const auto event = record(stream);
  if (event || std::exchange(refusal_reported_, true)) return;
  log::warn("recording an event: {}; what follows may wait longer than it must", event.error().message);
}

Mark StreamOrder::launched(StreamIndex stream, bool exact) {
  Stream& s = at(stream);
  ++s.last;
  // Another thread, to which the same handle is another stream, could not record one later.
  if (exact || s.handle == StreamHandle::per_thread) {
    try_to_record(s);
  }
  return Mark{stream, s.last};
}

void StreamOrder::settle() {
  for (Stream& stream : streams_) {
    const std::uint64_t known = stream.events.empty() ? stream.done : stream.events.back().ticket;
    if (stream.last != known && can_record(stream)) try_to_record(stream);
  }
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
  const auto covering = s.covering(mark.ticket);
  if (covering != s.events.end()) return covering->event;
  if (can_record(s)) return record(s);
  if (const auto drained = drain(s); !drained) return drained.error();
  return EventHandle::none;
}

// The host waits until the device has finished everything.
Status StreamOrder::drain(Stream& stream) {
  for (const Mark& mark : host_blocking_) {
    const Stream& blocking = at(mark.stream);
    if (mark.ticket <= blocking.done) continue;
    // Asked without recording anything, which might lead here again.
    const auto passed = blocking.covers(mark.ticket) ? finished(mark) : Result<bool>(false);
    if (!passed) return passed.error();
    if (!*passed)
      return Error{ErrorCode::internal,
                   "a stream without an event is waited for while the program blocks it"};
  }
  if (const auto idle = device_.synchronize_all(); !idle) return idle;
  advance(stream, stream.last);
  return Done{};
}

Status StreamOrder::follow_unfinished(StreamIndex waiter, Mark mark) {
  auto& following = at(waiter).following;
  const auto other = static_cast<std::size_t>(mark.stream);
  if (following.size() <= other) following.resize(other + 1);
  if (following[other] >= mark.ticket) return Done{};
  const auto event = event_for(mark);
  if (!event) return event.error();
  if (*event == EventHandle::none) return Done{};
  if (const auto waited = device_.wait(at(waiter).handle, *event); !waited) return waited.error();
  following[other] = mark.ticket;
  waits_for_own_ += at(mark.stream).own && !at(waiter).own;
  return Done{};
}

Status StreamOrder::follow_all(StreamIndex waiter) {
  for (std::uint32_t i = 0; i < streams_.size(); ++i)
    if (const auto status = follow(waiter, latest(StreamIndex{i})); !status) return status.error();
  return Done{};
}

Result<bool> StreamOrder::finished(Mark mark) {
  Stream& s = at(mark.stream);
  if (mark.ticket <= s.done) return true;
  const auto event = event_for(mark);
  if (!event) return event.error();
  if (*event == EventHandle::none) return true;
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

// Whoever waited for more than the exact point might wait for the program's own thread.
void StreamOrder::note_host_blocking(StreamIndex stream) {
  insist();
  host_blocking_.push_back(launched(stream));
  // A program that does this every iteration must not make the list grow.
  if (host_blocking_.size() >= 64) (void)host_blocked();
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

Status StreamOrder::note_host_wait(const Marks& until) {
  own_waits_ += std::any_of(until.begin(), until.end(), [this](const Mark& mark) {
    return at(mark.stream).own && mark.ticket > at(mark.stream).done;
  });
  for (std::uint32_t i = 0; i < streams_.size(); ++i) {
    const Stream& s = streams_[i];
    if (s.own || s.last == s.done) continue;
    // Nothing is put into the program's stream for this.
    if (!s.covers(s.last)) return Done{};
    const auto idle = finished({StreamIndex{i}, s.last});
    if (!idle) return idle.error();
    if (!*idle) return Done{};
  }
  ++idle_waits_;
  return Done{};
}

void StreamOrder::retire(StreamHandle stream) {
  const auto found = index_.find(key(stream));
  if (found == index_.end()) return;
  Stream& s = at(found->second);
  s.following = {};  // it waits no more
  if (s.last != s.done && !s.covers(s.last)) try_to_record(s);
  index_.erase(found);
}

}  // namespace pooch::runtime
