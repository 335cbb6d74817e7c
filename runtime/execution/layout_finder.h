// Looks for layouts, and gives up those that would cost an iteration too much: a plan for a little less
// memory may have a better one.
#pragma once

#include <cstdint>
#include <vector>

#include "core/result.h"
#include "runtime/execution/layout.h"

namespace pooch::runtime {

class LayoutFinder {
 public:
  // Of items that share `room` bytes. `duration_us`: of one iteration. The same is not looked for twice; the
  // layout lives until the next call. Error: out_of_memory, it does not fit or takes too long.
  Result<const Layout*> find(std::vector<LayoutItem> items, std::uint64_t room, double duration_us);
  // The latest one could not be taken, for want of so many bytes at most.
  void note_lack(std::uint64_t bytes) { shortfall_ = bytes; }
  // Of the latest one: bytes that a plan should use less; whether a layout fitted but took too long.
  std::uint64_t shortfall() const { return shortfall_; }
  bool took_too_long() const { return took_too_long_; }
  // From now on layouts that fit are accepted, whatever they cost.
  void take_any() { wasteful_ = all_layouts; }

 private:
  void search(std::vector<LayoutItem> items, std::uint64_t room);
  bool takes_too_long(double duration_us) const;

  // What was looked for, and found.
  std::vector<LayoutItem> items_;
  std::uint64_t room_ = 0;
  Layout found_;
  std::uint64_t shortfall_ = 0;
  static constexpr int all_layouts = 6;  // given up for their cost, at most
  int wasteful_ = 0;                     // so far
  bool took_too_long_ = false;
};

}  // namespace pooch::runtime
