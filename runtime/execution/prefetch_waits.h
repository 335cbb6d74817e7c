// How long ops of one iteration wait on the device for maps that were prefetched.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/device.h"

namespace pooch::runtime {

// Two timing events per prefetch, read when the device is beyond all of them; nothing waits. The session's
// mutex guards it.
class PrefetchWaits {
 public:
  explicit PrefetchWaits(Device& device) : device_(device) {}
  ~PrefetchWaits();
  PrefetchWaits(const PrefetchWaits&) = delete;
  PrefetchWaits& operator=(const PrefetchWaits&) = delete;

  // Begins to measure: an iteration with so many maps starts with the next work in `stream`. An unfinished
  // measurement is given up.
  void watch(std::size_t maps, StreamHandle stream);
  // A copy of a piece of the map was queued; the last one counts.
  void fetched(std::uint32_t map, StreamHandle stream);
  // Work that is queued next in `stream` is the first that needs the map.
  void needed(std::uint32_t map, StreamHandle stream);
  // Whether the map has been fetched, and not been needed yet.
  bool awaited(std::uint32_t map) const { return watching_ && of_[map].fetched && !of_[map].needed; }
  bool watching() const { return watching_; }
  // The iteration is over, or is not to count.
  void end() { watching_ = false; }
  void give_up();

  // Microseconds by map; once, as soon as the device is through with the iteration.
  std::optional<std::vector<double>> collect();

 private:
  struct Watched {
    std::optional<EventHandle> fetched, needed;
  };
  bool mark(std::optional<EventHandle>& event, StreamHandle stream);
  double wait_us(const Watched& watched);

  Device& device_;
  bool watching_ = false;
  std::optional<EventHandle> begin_;
  std::vector<Watched> of_;  // by map
  std::vector<EventHandle> spare_;
};

}  // namespace pooch::runtime
