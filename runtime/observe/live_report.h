// Keeps the page that `pooch top` reads: core/live.h.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "core/config.h"
#include "core/live.h"

namespace pooch::runtime {

// The session's mutex guards it.
class LiveReport {
 public:
  // False: nobody is to look, or can, since the folder cannot be had; nobody is told.
  bool open(const Config& config, std::int32_t device);
  void close() { page_.reset(); }

  // An op was launched: whether the page is to be written now, five times a second at most. Looks at the
  // clock for every eighth op.
  bool due();
  // `live`: all but what is measured between two writes, which is added here.
  void write(Live live);

 private:
  using Clock = std::chrono::steady_clock;
  static double seconds(Clock::time_point at) {
    return std::chrono::duration<double>(at.time_since_epoch()).count();
  }

  std::optional<LivePage> page_;
  std::int32_t process_ = 0, device_ = 0;
  std::uint32_t calls_ = 0;
  Clock::time_point began_{}, now_{}, written_{};
  // When an iteration was last seen to end, and how many had ended by then.
  Clock::time_point iteration_at_{};
  std::uint64_t iterations_ = 0;
  double iteration_ms_ = 0;
  Live last_{};  // as of the end of an iteration
  double out_per_iteration_ = 0, in_per_iteration_ = 0;
};

}  // namespace pooch::runtime
