// Digests of what lies on the device, and their comparison on the host.
//
// They are computed in one stream of pooch's own and copied to the host in another: these copies queue behind
// evictions, and only the host waits for them. The session's mutex guards it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/device.h"
#include "core/digest.h"
#include "runtime/memory/address_space.h"
#include "runtime/memory/held.h"
#include "runtime/memory/residency.h"
#include "runtime/memory/stream_order.h"
#include "runtime/placement/placement.h"

namespace pooch::runtime {

// Content without a hole that is digested twice.
struct DigestPiece {
  Address at;
  std::uint64_t bytes;
  std::uint32_t before, after;  // places of the two digests on the host
};

class Digests {
 public:
  Digests(Device& device, StreamOrder& order, Residency& residency, Placement& placement,
          AddressSpace& temporaries)
      : device_(device),
        order_(order),
        residency_(residency),
        placement_(placement),
        temporaries_(temporaries) {}
  ~Digests();
  Digests(const Digests&) = delete;
  Digests& operator=(const Digests&) = delete;

  // Gets memory for digests. May release `held`. If there is none, nothing is digested until the next call.
  Status prepare(Held& held);
  // Others may use that memory until the next prepare(). False: they already may.
  bool give_up_memory();
  bool has_memory() const { return ready_; }
  bool ready() const { return working_ && ready_; }
  // Nothing is digested any more.
  void disable(const Error& why);

  // Gives both digests of each piece their places. False: there are not enough.
  bool take_places(std::vector<DigestPiece>& pieces);
  // `done`: of the latest compute().
  void release_places(const std::vector<DigestPiece>& pieces, Mark done);
  // Digests the pieces, which lie in these chunks, into `place`: when the host has them. Error not_supported:
  // the device has no digests.
  Result<Mark> compute(const std::vector<DigestPiece>& pieces, const std::vector<Chunk*>& chunks,
                       std::uint32_t DigestPiece::*place);
  // Whether the two digests of each piece, which the host has, are equal.
  bool equal(const std::vector<DigestPiece>& pieces) const;

 private:
  std::uint32_t take_place();
  Address on_device(std::uint32_t place) const;
  Digest result(std::uint32_t place) const;

  Device& device_;
  StreamOrder& order_;
  Residency& residency_;
  Placement& placement_;
  AddressSpace& temporaries_;
  bool working_ = true;                       // digests can be computed
  StreamHandle stream_{}, results_stream_{};  // from the first prepare() on
  std::byte* results_ = nullptr;              // on the host, page-locked: digests by place
  Marks abandoned_;  // copies of digests no longer needed: their places on the device are reused
  std::vector<std::uint32_t> free_places_;
  Range* memory_ = nullptr;  // on the device: digests by place; its chunk is pinned while `ready_`
  bool ready_ = false;
};

}  // namespace pooch::runtime
