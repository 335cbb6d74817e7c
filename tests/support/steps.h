// A program's steps for a tracker: ops over tensors of one size.
#pragma once

#include <cstdint>
#include <vector>

#include "tracker/tracker.h"

namespace pooch::test {

class Steps {
 public:
  static constexpr std::uint64_t bytes = 4 * MiB;
  struct Use {
    Address tensor;
    Effect effect;
  };

  Address make() {
    next_ = next_ + 2 * bytes;
    tracker.allocated(next_, bytes, true, true);
    return next_;
  }
  void drop(Address tensor) { tracker.freed(tensor); }
  void run(OpKind kind, const std::vector<Use>& uses, std::uint64_t traits = 0) {
    std::vector<Access> accesses;
    for (const Use& use : uses) accesses.push_back({use.tensor, bytes, use.effect});
    Call call{"op", kind, StreamHandle::legacy, accesses};
    call.traits = traits;
    tracker::Op op;
    tracker.resolve(call, op);
    tracker.launched(op);
  }

  tracker::Tracker tracker;

 private:
  Address next_{1 << 30};
};

}  // namespace pooch::test
