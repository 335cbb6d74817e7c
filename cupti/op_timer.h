// How long ops take on the device: one interface, by CUPTI's activity records or by pairs of events.
//
//   begin(op) ── the call's launches ── end(op) ── … ── collect() ── … ── stop()
//
// An op's time begins where its own first work begins (events: where all that it waits for is done) and ends
// with its last work. Timers leave the order of work as it is and never wait for the device. Streams under
// capture are not timed.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "core/device.h"

namespace pooch::cupti {

// Device times on one clock of this timer, with an arbitrary zero. `op` is the caller's number.
struct OpTime {
  std::uint64_t op;
  double start_us, end_us;
};

class OpTimer {
 public:
  virtual ~OpTimer() = default;
  virtual std::string_view source() const = 0;  // "cupti" or "events"

  // Brackets the submission of one op in `stream`: begin() after everything the op waits for was put into the
  // stream, end() right after its last launch. One op at a time per thread, numbers never used twice. An op
  // without work on the device may get no time, or one of length 0.
  virtual Status begin(std::uint64_t op, StreamHandle stream) = 0;
  virtual Status end(std::uint64_t op, StreamHandle stream) = 0;

  // Appends what is known to be finished, in no particular order; never waits for the device.
  virtual Status collect(std::vector<OpTime>& into) = 0;
  // Appends what has finished since; the times of ops that still run are lost, so wait for those first to
  // have them all. Nothing runs afterwards: activity off, subscription gone, events destroyed. Further calls
  // do nothing. Destruction stops too.
  virtual Status stop(std::vector<OpTime>& last) = 0;
};

enum class TimerChoice : std::uint8_t { automatic, cupti, events };

// A timer for the device whose context is current. `automatic`: CUPTI if available, else events; logs which
// and why at info. `cupti`: an error if CUPTI is not available (not_supported). `device` must outlive the
// timer.
Result<std::unique_ptr<OpTimer>> open_op_timer(Device& device, TimerChoice choice);

}  // namespace pooch::cupti
