// How long ops take that may be made again, and what a byte on the link is worth in such time.
//
// No rate of the link is asked for. Where the device runs dry again and again while something is moved,
// bytes become dearer; as long as it does not, they become cheaper. So as much is made again as the link
// cannot carry, and what takes least time per byte comes first.
//
// The session's mutex guards it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "core/device.h"
#include "cupti/op_timer.h"

namespace pooch::runtime {

class OpCosts {
 public:
  explicit OpCosts(Device& device) : device_(device) {}

  // Around the launch of an op with this key. `begin` returns its number; nothing: it is known well enough,
  // or cannot be timed.
  std::optional<std::uint64_t> begin(std::uint64_t key, StreamHandle stream);
  void end(std::uint64_t number, StreamHandle stream);
  // Takes the times that have come.
  void collect();
  // Of an op with this key; nothing: not known yet.
  std::optional<double> us(std::uint64_t key) const;

  // An op has been launched; `ran_dry`: the device had nothing to do meanwhile, because memory was moved.
  void passed(bool ran_dry);
  // Microseconds that a byte on the link is worth.
  double us_per_byte() const { return us_per_byte_; }

 private:
  struct Known {
    double us = 0;
    std::uint32_t times = 0;
  };

  Device& device_;
  std::unique_ptr<cupti::OpTimer> timer_;
  bool failed_ = false;
  std::uint64_t next_ = 0;
  std::map<std::uint64_t, std::uint64_t> pending_;  // keys by number
  std::map<std::uint64_t, Known> known_;            // by key
  static constexpr double least = 1e-6;             // of us_per_byte_: on a link of 1 TB/s
  double us_per_byte_ = least;
  std::uint64_t since_dry_ = ~std::uint64_t{0} / 2;  // ops since the device last ran dry
  std::vector<cupti::OpTime> times_;                 // reused storage
};

}  // namespace pooch::runtime
