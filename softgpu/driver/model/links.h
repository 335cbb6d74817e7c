// What crosses the links between host and devices, and when. A copy has a link to itself only where nobody
// else is on the way: the two directions of a link disturb each other, devices behind one switch share its
// uplink, and all devices of a node share the host's memory.
//
// The end of a work is told to the program when the work is booked, so nothing that comes later can put it
// off: who comes later bears what both lose. In every moment
//
//   the shares of their rates at which the two directions of a link run add up to 2 * both_ways at most,
//   what goes one way through an uplink is its rate at most, and what crosses all links the memory's at most.
//
// Where both_ways is below a half, two copies at once are slower than one after the other. The earlier one
// keeps its rate there as well; the later one falls back meanwhile, so that both take as long as two that
// share.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "softgpu/driver/model/model.h"
#include "softgpu/driver/terms/stream.h"

namespace softgpu {

class Links {
 public:
  explicit Links(const Model& model);

  // Books `bytes` from `start` on, which alone take `alone`; returns when they have crossed. `by` is the
  // engine that moves them, and starts nothing before what it moved last; `way` is one of the two for copies.
  Nanoseconds carry(int device, Engine by, Engine way, Nanoseconds start, Nanoseconds alone,
                    std::uint64_t bytes);
  // Whether a copy engine of the device has a copy that way under way at that time, held up or not.
  bool copies(int device, Engine way, Nanoseconds time) const;
  // Nothing will start before `time` any more.
  void forget_before(Nanoseconds time);

  // A stretch of a crossing, at one rate.
  struct Crossing {
    Nanoseconds begin, end;
    int device;
    Engine way;
    double rate;  // bytes/s
  };
  std::vector<Crossing> booked() const;

 private:
  using Lane = std::deque<Crossing>;  // what one engine moves one way: one after the other
  // Bytes/s.
  struct Load {
    double same = 0, opposite = 0;
  };
  // What is left for one more crossing, and until when.
  struct Left {
    double rate;
    Nanoseconds until;
  };
  double rate(Engine way) const { return way == Engine::to_device ? model_.to_device : model_.to_host; }
  static std::size_t lane_of(int device, Engine by, Engine way);
  int switch_of(int device) const { return device / model_.devices_per_switch; }
  double left_of(double same_rate, double opposite_rate, const Load& load) const;
  Left left_at(Nanoseconds time, int device, Engine way) const;

  const Model& model_;
  const double
      left_beside_;  // the share of its rate that a direction keeps beside the other one at full rate
  std::array<Lane, 4 * most_devices> lanes_;
};

}  // namespace softgpu
