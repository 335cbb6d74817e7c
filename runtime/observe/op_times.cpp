#include "runtime/observe/op_times.h"

#include <algorithm>
#include <utility>

#include "core/log.h"

namespace pooch::runtime {

// --- marks

void TimingMarks::note(StreamHandle stream) {
  if (std::find(streams_.begin(), streams_.end(), stream) == streams_.end()) streams_.push_back(stream);
}

bool TimingMarks::passed() {
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

// None at all where one stream cannot have its own.
void TimingMarks::mark() {
  marked_ = true;
  for (const StreamHandle stream : streams_)
    if (!mark(stream)) return drop();
}

bool TimingMarks::mark(StreamHandle stream) {
  const auto capturing = device_.capturing(stream);
  if (stream == StreamHandle::per_thread || !capturing || *capturing) return false;
  const auto event = device_.create_event();
  if (!event) return false;
  marks_.push_back(*event);
  return bool(device_.record(*event, stream));
}

void TimingMarks::drop() {
  for (const EventHandle event : marks_) (void)device_.destroy_event(event);
  marks_.clear();
}

void TimingMarks::stream_destroyed(StreamHandle stream) {
  if (std::erase(streams_, stream) > 0) (void)mark(stream);
}

void TimingMarks::end() {
  streams_.clear();
  drop();
}

// --- times

bool OpTimes::open() {
  if (!timer_) {
    auto opened = cupti::open_op_timer(device_, *choice_);
    if (!opened) {
      fail(opened.error());
      return false;
    }
    timer_ = std::move(*opened);
    timed_steps_ = 0;
    source_ = timer_->source();
  }
  marks_.go_on();
  return true;
}

// No more is measured, so what is not known well enough by now gets no plan.
void OpTimes::fail(const Error& why) {
  if (!std::exchange(failed_, true)) log::warn("ops cannot be timed: {}", why.message);
}

std::uint64_t OpTimes::begin(StreamHandle stream) {
  const std::uint64_t number = next_++;
  if (const auto begun = timer_->begin(number, stream); !begun) fail(begun.error());
  calls_.push_back({false, 0, false});
  ++pending_;
  ++under_way_;
  return number;
}

void OpTimes::end(std::uint64_t number, StreamHandle stream, const std::optional<TimedCall>& call) {
  if (const auto ended = timer_->end(number, stream); !ended) fail(ended.error());
  --under_way_;
  TimedCall& mine = calls_[number - (next_ - calls_.size())];
  if (call) {
    timed_steps_ += call->step;
    mine = *call;
    mine.launched = true;
  } else {
    mine.pending = false;
    --pending_;
  }
  marks_.note(stream);
}

void OpTimes::stream_destroyed(StreamHandle stream) {
  if (timer_) marks_.stream_destroyed(stream);
}

void OpTimes::collect(Samples samples) {
  times_.clear();
  if (const auto collected = timer_->collect(times_); !collected) fail(collected.error());
  assign(samples);
}

void OpTimes::stop(Samples samples) {
  times_.clear();
  (void)timer_->stop(times_);
  timer_.reset();
  assign(samples);
  log::info("{} calls have been timed", next_);
  marks_.end();
}

void OpTimes::assign(Samples samples) {
  for (const cupti::OpTime& time : times_) {
    if (time.op < next_ - calls_.size()) continue;
    TimedCall& call = calls_[time.op - (next_ - calls_.size())];
    if (!call.pending || !call.launched) continue;
    if (TimedOp* const sample = samples(call)) *sample = {time.start_us, time.end_us, call.disturbed};
    call.pending = false;
    --pending_;
  }
  while (!calls_.empty() && !calls_.front().pending) calls_.pop_front();
}

bool OpTimes::lacks_many() const {
  constexpr std::size_t lacking_share = 8;  // an eighth without times counts as many
  const auto lacking =
      std::ranges::count_if(calls_, [](const TimedCall& c) { return c.pending && c.step && c.launched; });
  return source_ == "cupti" && static_cast<std::size_t>(lacking) * lacking_share > timed_steps_;
}

void OpTimes::turn_to_events() {
  log::info("CUPTI tells no times of many ops: they come from events");
  choice_ = cupti::TimerChoice::events;
  calls_.clear();
}

void OpTimes::fill_in(Samples samples) {
  for (const TimedCall& call : calls_) {
    if (!call.pending || !call.step || call.index == 0) continue;
    const TimedOp* const before = samples({true, call.index - 1, false});
    TimedOp* const sample = samples(call);
    if (sample != nullptr && before != nullptr && measured(*before))
      *sample = {before->end_us, before->end_us, call.disturbed};
  }
  calls_.clear();
  pending_ = 0;
}

}  // namespace pooch::runtime
