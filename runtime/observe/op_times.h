// The timer of ops while some are to be timed: which call each of its numbers stands for, which times have
// not come yet, and when nothing more can come.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/device.h"
#include "core/function_ref.h"
#include "cupti/op_timer.h"
#include "runtime/observe/host_gaps.h"

namespace pooch::runtime {

// A call that is timed.
struct TimedCall {
  bool step;
  std::uint64_t index;  // of the step, or of the host copy
  bool disturbed;
  bool pending = true;    // its time has not come yet
  bool launched = false;  // until then nothing but `pending` is known
};

// Events behind the timed work of every stream: whether the device has done all that was timed.
class TimingMarks {
 public:
  explicit TimingMarks(Device& device) : device_(device) {}

  // Timed work was put into the stream.
  void note(StreamHandle stream);
  // More is going to be timed.
  void go_on() { marked_ = false; }
  // Asked now and then: a timer costs as long as it lives.
  bool passed();
  // Before the program destroys it.
  void stream_destroyed(StreamHandle stream);
  void end();

 private:
  void mark();
  bool mark(StreamHandle stream);
  void drop();

  Device& device_;
  std::vector<StreamHandle> streams_;
  std::vector<EventHandle> marks_;  // not yet seen to be finished
  bool marked_ = false;
  unsigned since_asked_ = 0;
};

class OpTimes {
 public:
  // Where the call's time is kept; nullptr: nowhere.
  using Samples = FunctionRef<TimedOp*(const TimedCall&)>;

  // No `choice`: nothing is timed.
  OpTimes(Device& device, std::optional<cupti::TimerChoice> choice)
      : device_(device), choice_(choice), marks_(device) {}

  // Whether calls can be timed, as far as is known.
  bool possible() const { return choice_ && !failed_; }
  // A timer exists, and does until nothing more can come.
  bool measuring() const { return timer_ != nullptr; }
  // Calls are going to be timed. False: they cannot be.
  bool open();
  // Nothing is begun any more.
  void close() { failed_ = true; }

  // Around the launch of a call. Returns its number.
  std::uint64_t begin(StreamHandle stream);
  // No `call`: its time is of no interest.
  void end(std::uint64_t number, StreamHandle stream, const std::optional<TimedCall>& call);
  void stream_destroyed(StreamHandle stream);

  // Takes the times that have come.
  void collect(Samples samples);
  // Whether no more times can come.
  bool through() { return under_way_ == 0 && (pending_ == 0 || marks_.passed()); }
  // Ends the timer, with its last times.
  void stop(Samples samples);
  // After that. CUPTI's records come by ways that a driver may change: where they lack many ops, events tell.
  bool lacks_many() const;
  void turn_to_events();
  // Everything that was timed has finished, so an op without a time had nothing to do.
  void fill_in(Samples samples);

  const std::string& source() const { return source_; }

 private:
  void fail(const Error& why);
  void assign(Samples samples);

  Device& device_;
  std::optional<cupti::TimerChoice> choice_;
  std::unique_ptr<cupti::OpTimer> timer_;
  std::string source_;
  bool failed_ = false;
  std::uint64_t next_ = 0;
  std::deque<TimedCall> calls_;  // of the timer's latest numbers, up to next_
  std::size_t pending_ = 0;      // of those
  std::size_t timed_steps_ = 0;  // by this timer
  std::size_t under_way_ = 0;    // of those: begun, not ended
  TimingMarks marks_;
  std::vector<cupti::OpTime> times_;  // reused storage
};

// Whether it has its time.
inline bool measured(const TimedOp& op) {
  return op.end_us >= op.start_us;
}

}  // namespace pooch::runtime
