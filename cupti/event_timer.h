// Op times by pairs of events around each op: works everywhere, also where CUPTI is taken or absent. If a
// stream was idle, the host's time to launch the op is part of its time.
#pragma once

#include <deque>
#include <map>
#include <vector>

#include "cupti/op_timer.h"

namespace pooch::cupti {

class EventTimer final : public OpTimer {
 public:
  explicit EventTimer(Device& device) : device_(device) {}
  ~EventTimer() override;
  EventTimer(const EventTimer&) = delete;
  EventTimer& operator=(const EventTimer&) = delete;

  std::string_view source() const override { return "events"; }
  Status begin(std::uint64_t op, StreamHandle stream) override;
  Status end(std::uint64_t op, StreamHandle stream) override;
  Status collect(std::vector<OpTime>& into) override;
  Status stop(std::vector<OpTime>& last) override;

 private:
  struct Pair {
    std::uint64_t op;
    EventHandle begin, end;
  };
  Result<EventHandle> take_event();
  Status measure(const Pair& pair, std::vector<OpTime>& into);
  Status release();

  Device& device_;
  std::vector<EventHandle> spare_;
  std::vector<Pair> begun_;                             // without an end yet: one per thread
  std::map<StreamHandle, std::deque<Pair>> submitted_;  // in each stream's order
  // Times are relative to a finished event, which moves along: the driver's answers are floats, and
  // differences between neighbours must stay exact.
  EventHandle anchor_ = EventHandle::none;
  double anchor_us_ = 0;
  bool stopped_ = false;
};

}  // namespace pooch::cupti
