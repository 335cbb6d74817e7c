// How long iterations that follow plans take on the device, from the start of one to the start of the next.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "core/device.h"
#include "tracker/iterations.h"

namespace pooch::runtime {

// One timing event per iteration, read once the device is beyond the next; nothing waits. The session's mutex
// guards it.
class IterationClock {
 public:
  explicit IterationClock(Device& device) : device_(device) {}
  ~IterationClock();
  IterationClock(const IterationClock&) = delete;
  IterationClock& operator=(const IterationClock&) = delete;

  // An iteration of the phase begins with the next work in this stream.
  void begin(tracker::PhaseIndex phase, StreamHandle stream);
  // It was followed to its end. Without this its time does not count.
  void complete();
  // The current work is no iteration that counts.
  void interrupt() { open_ = chained_ = false; }

  // The median of the latest ones, in ms; empty: fewer than `least` were measured.
  std::optional<double> median_ms(tracker::PhaseIndex phase, std::size_t least = 1);
  // The phase's iterations change from now on; earlier ones do not count.
  void forget(tracker::PhaseIndex phase);

 private:
  struct Begin {
    EventHandle event;
    tracker::PhaseIndex phase;
    bool chained;  // the iteration before it was measured as well, and ended here
    bool complete = false;
  };
  void collect();
  std::optional<EventHandle> new_event();

  Device& device_;
  std::deque<Begin> begins_;
  bool open_ = false;     // the latest of them began the iteration at hand
  bool chained_ = false;  // ... or it has ended just now
  std::vector<EventHandle> free_;
  std::map<tracker::PhaseIndex, std::deque<double>> ms_;
};

}  // namespace pooch::runtime
