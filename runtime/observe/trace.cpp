#include "runtime/observe/trace.h"

#include <algorithm>

#include "core/log.h"
#include "runtime/observe/trace_file.h"

namespace pooch::runtime {
namespace {

constexpr std::uint32_t collect_after = 256;  // slices: keeps the number of live events small

}  // namespace

bool Trace::room() {
  if (stopped_) return false;
  if (events_.size() < limit_) return true;
  log::warn("POOCH_TRACE: the first {} events are kept, and no more", limit_);
  stopped_ = true;
  return false;
}

void Trace::failed(const Error& why) {
  if (!std::exchange(stopped_, true)) log::warn("POOCH_TRACE: the timeline ends early: {}", why.message);
}

std::uint32_t Trace::name_of(std::string_view text) {
  const auto [at, is_new] = name_index_.try_emplace(std::string(text), names_.size());
  if (is_new) names_.emplace_back(text);
  return at->second;
}

std::uint16_t Trace::stream_of(StreamHandle stream) {
  const auto at = std::find(streams_.begin(), streams_.end(), stream);
  const auto index = static_cast<std::uint16_t>(at - streams_.begin());
  if (at == streams_.end()) streams_.push_back(stream);
  return index;
}

Trace::Number Trace::begin(const TraceSlice& slice) {
  if (!room()) return none;
  const Number number = events_.size();
  if (const Status begun = timer_->begin(number, slice.stream); !begun) {
    failed(begun.error());
    return none;
  }
  Event event{Event::Kind::slice};
  event.track = slice.track;
  event.stream = stream_of(slice.stream);
  event.name = name_of(slice.name);
  event.cause = name_of(slice.cause);
  event.position = slice.position;
  event.bytes = slice.bytes;
  event.flow = slice.flow;
  events_.push_back(event);
  return number;
}

void Trace::end(Number number) {
  if (number == none || number >= events_.size()) return;
  if (const Status ended = timer_->end(number, streams_[events_[number].stream]); !ended)
    return failed(ended.error());
  if (++since_collected_ >= collect_after) collect(/*last=*/false);
}

void Trace::iteration(std::string_view phase) {
  if (!room()) return;
  Event event{Event::Kind::iteration};
  event.name = name_of(phase);
  event.cause = name_of("demand");
  iteration_ = events_.size();
  events_.push_back(event);
}

void Trace::iteration_planned() {
  if (iteration_ != none) events_[iteration_].cause = name_of("plan");
}

void Trace::instant(std::string_view name) {
  if (!room()) return;
  Event event{Event::Kind::instant};
  event.name = name_of(name);
  events_.push_back(event);
}

void Trace::memory(std::uint64_t bytes) {
  if (!room()) return;
  Event event{Event::Kind::memory};
  event.bytes = bytes;
  events_.push_back(event);
}

void Trace::collect(bool last) {
  since_collected_ = 0;
  times_.clear();
  const Status collected = last ? timer_->stop(times_) : timer_->collect(times_);
  if (!collected) failed(collected.error());
  for (const cupti::OpTime& time : times_) {
    if (time.op >= events_.size()) continue;
    events_[time.op].start_us = time.start_us;
    events_[time.op].end_us = time.end_us;
  }
}

Status Trace::write(const std::string& path) {
  collect(/*last=*/true);
  stopped_ = true;
  return TraceFile(*this).write(path);
}

}  // namespace pooch::runtime
