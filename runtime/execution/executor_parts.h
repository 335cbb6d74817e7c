// What the executor and its parts work with, and what they count.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/device.h"
#include "runtime/execution/verification.h"
#include "runtime/memory/address_space.h"
#include "runtime/memory/handle_pool.h"
#include "runtime/memory/residency.h"
#include "runtime/memory/stream_order.h"
#include "runtime/placement/departures.h"
#include "runtime/placement/placement.h"
#include "tracker/tracker.h"

namespace pooch::runtime {

struct ExecutorParts {
  StreamOrder& order;
  HandlePool& pool;
  Residency& residency;
  Departures& departures;
  Placement& placement;
  AddressSpace& space;        // addresses of the program's memory
  AddressSpace& temporaries;  // ... and for the temporary memory of replays
  const tracker::Tracker& tracker;
  Device& device;
  Verification& verification;
};

struct ExecutorCounts {
  std::uint64_t planned_iterations = 0;   // followed from their first op to their last
  std::uint64_t aliased_iterations = 0;   // of those, in alias mode
  std::uint64_t any_size_iterations = 0;  // of those, by plans for the largest of their form
  std::uint64_t moves = 0;    // frames that were mapped for chunks which have others at other times
  std::uint64_t left = 0;     // plans left at an op that they did not expect
  std::uint64_t left_at = 0;  // that op's position, of the latest
  std::uint64_t replays = 0;
  std::uint64_t substitutes = 0;    // of those, by substitutes
  std::uint64_t aliased = 0;        // times that alias mode was begun
  std::uint64_t unplanned = 0;      // times that Demand was asked for memory while a plan was followed
  std::uint64_t settled_after = 0;  // iterations before the latest plan came, or the first layout
};

// Tells what iterations that follow plans ask of Demand from what others do.
class PlanTally {
 public:
  PlanTally(const Placement& placement, const HandlePool& pool) : placement_(placement), pool_(pool) {}

  void begin_iteration() {
    fallbacks_before_ = placement_.fallbacks() - counts.unplanned;
    asked_before_ = placement_.asked_bytes();
  }
  void end_iteration() { counts.unplanned = unplanned(); }
  void note_peak() { peak_ = std::max(peak_, pool_.in_use()); }
  // Times that Demand was asked, those of the iteration at hand included.
  std::uint64_t unplanned() const { return placement_.fallbacks() - fallbacks_before_; }
  // Bytes that it was asked for in the iteration at hand.
  std::uint64_t asked_bytes() const { return placement_.asked_bytes() - asked_before_; }
  std::uint64_t peak() const { return peak_; }  // bytes, in iterations that followed a plan

  ExecutorCounts counts;

 private:
  const Placement& placement_;
  const HandlePool& pool_;
  std::uint64_t peak_ = 0;
  std::uint64_t fallbacks_before_ = 0;  // without those of iterations that followed plans
  std::uint64_t asked_before_ = 0;      // bytes, when the iteration began
};

}  // namespace pooch::runtime
