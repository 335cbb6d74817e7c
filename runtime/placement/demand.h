// Demand mode: makes room for ops that have no plan. Safe for any program.
//
// Victims are taken by least cost / (bytes x staleness), as DTR does (Kirisame et al., 2021): dead content
// costs nothing, a clean chunk its way back, a dirty one both ways. Where its next use is foreseen, that
// takes the place of staleness.
#pragma once

#include <cstdint>
#include <vector>

#include "core/config.h"
#include "runtime/memory/held.h"
#include "runtime/memory/residency.h"
#include "runtime/memory/stream_order.h"
#include "runtime/placement/foresight.h"
#include "runtime/placement/remaker.h"

namespace pooch::runtime {

class Demand {
 public:
  Demand(Device& device, StreamOrder& order, HandlePool& pool, HostArena& arena, Residency& residency,
         const Foresight& foresight, Policy policy)
      : device_(device),
        order_(order),
        pool_(pool),
        arena_(arena),
        residency_(residency),
        foresight_(foresight),
        policy_(policy) {}

  // From now on asks whether content is dropped in place of copied.
  void ask(Remaker* remaker) { remaker_ = remaker; }

  // Evicts until the pool has `bytes` available, sparing what op `op` has gathered. Called with `held` held;
  // releases it while the host waits, so everything may have changed when it returns. Errors: out_of_memory
  // (no victims, no host memory), device.
  Status make_room(std::uint64_t bytes, std::uint64_t op, Held& held);

  // Residency::forget_unused, after a host wait for what still uses those ranges.
  Result<std::vector<Residency::Span>> forget_unused(FunctionRef<void(const Range&)> going, Held& held);

 private:
  // One round: evicts what it can towards `bytes`. False: nothing can go at the moment.
  Result<bool> round(std::uint64_t bytes, std::uint64_t op, Held& held);
  Status choose(std::uint64_t bytes, std::uint64_t op);
  // Waits until the victims may be unmapped, and unmaps them.
  Status finish(Held& held);
  Result<bool> begin(Chunk& chunk, std::uint64_t op, Held& held);
  bool free_host_memory(std::uint64_t bytes);
  double score(const Chunk& chunk, std::uint64_t clock) const;

  Device& device_;
  StreamOrder& order_;
  HandlePool& pool_;
  HostArena& arena_;
  Residency& residency_;
  const Foresight& foresight_;
  Policy policy_;
  Remaker* remaker_ = nullptr;
  Turn moving_;  // between begin_eviction and finish_eviction
  std::vector<Chunk*> victims_;
};

}  // namespace pooch::runtime
