// Device memory outside of the pool: allocations that pass through to the driver, and whatever else takes
// some. It counts against the cap.
//
// The session's mutex guards it, except the charges.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "core/device.h"
#include "core/result.h"
#include "runtime/memory/handle_pool.h"
#include "runtime/memory/memory_limits.h"

namespace pooch::runtime {

class OutsideAccount {
 public:
  OutsideAccount(Device& device, HandlePool& pool, std::uint64_t cap)
      : device_(device), pool_(pool), cap_(cap) {}
  // What the device has free now is what the program and pooch share.
  Status open();

  // The charges of allocations that pass through (pass_through_charge). Any thread.
  void charge(std::uint64_t bytes) { charged_ += bytes; }
  void discharge(std::uint64_t bytes) { charged_ -= bytes; }
  std::uint64_t charged() const { return charged_.load(); }

  // Bytes outside of the pool if `more` were charged too: by the charges or by the device's account,
  // whichever is more, and a page for the next small allocation, which may find the driver's pages full.
  std::uint64_t with(std::uint64_t more) const {
    const std::uint64_t taken = std::max(charged(), measured_) + more;
    return taken == 0 ? 0 : round_up(taken, page) + page;
  }
  // With `bytes` outside of the pool, so much of the cap is unused that the device need not be asked at once.
  bool roomy(std::uint64_t bytes) const { return bytes + pool_.created() <= cap_ - cap_ / 8; }

  // `bytes` were charged and the driver has served them: asks the device where that is due.
  void note_served(std::uint64_t bytes);
  // Asks the device what it has free.
  void ask();
  // The account was thought steady, and is not: the device is asked often again.
  void unsettle() { served_since_growth_ = 0; }
  // Tells the pool. Error: the device's, when free handles had to make way.
  Status publish() { return pool_.set_outside(with(0)); }
  // Memory that others free is noticed late, so call this before refusing anything for lack of it: asks the
  // device. True: less is taken than the pool was told, and the pool is told.
  bool shrinks();

 private:
  Device& device_;
  HandlePool& pool_;
  const std::uint64_t cap_;
  std::atomic<std::uint64_t> charged_{0};
  std::uint64_t measured_ = 0;       // bytes, when the device was last asked, and what was served since
  std::uint64_t free_at_start_ = 0;  // bytes
  std::uint64_t measured_peak_ = 0;
  std::uint64_t served_since_growth_ = 0;  // allocations since the peak last grew
  std::uint64_t added_since_asked_ = 0;    // bytes
};

}  // namespace pooch::runtime
