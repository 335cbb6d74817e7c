// Brings the operands of an op onto the device, whatever it takes.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/memory/handle_pool.h"
#include "runtime/memory/held.h"
#include "runtime/memory/memory_limits.h"
#include "runtime/memory/residency.h"
#include "runtime/placement/demand.h"
#include "runtime/placement/departures.h"
#include "tracker/op_log.h"

namespace pooch::runtime {

class Placement {
 public:
  Placement(const Limits& limits, HandlePool& pool, Residency& residency, Departures& departures,
            Demand& demand)
      : limits_(limits), pool_(pool), residency_(residency), departures_(departures), demand_(demand) {}

  // What becomes of operands that do not fit together.
  enum class TooLarge : std::uint8_t {
    fails,
    lands,  // some are used over the link, where they have landed: the op is launched as an unforeseen one
  };
  // Lists in `uses` the chunks of the managed operands and makes them resident: with free memory, else with
  // what is on its way out, else with what Demand picks. `held` is released while the host waits. Error
  // out_of_memory, to be shown: they do not fit together; its message calls the op `what`.
  Status place(std::string_view what, std::span<const tracker::Operand> operands, std::vector<ChunkUse>& uses,
               Held& held, TooLarge too_large = TooLarge::fails);
  // Whether the latest place() left some where they have landed. They are not among its `uses`.
  bool over_link() const { return over_link_; }

  // Frees memory until the pool has `bytes` available: likewise. Errors: out_of_memory, device.
  Status make_room(std::uint64_t bytes, Held& held);

  // Placements so far: the clock of staleness.
  std::uint64_t clock() const { return clock_; }
  // Called where nothing else helps; true: try again.
  void set_last_resort(std::function<Result<bool>(Held&)> resort) { last_resort_ = std::move(resort); }
  // `recount` asks what is taken outside of the pool; true: less than was thought.
  void set_recount(std::function<bool()> recount) { recount_ = std::move(recount); }
  // `begin` makes evicted memory land from now on; false: it cannot.
  void set_landing(std::function<Result<bool>(Held&)> begin) { begin_landing_ = std::move(begin); }
  // Called before live content may leave the device.
  void set_before_leaving(std::function<void()> prepare) { before_leaving_ = std::move(prepare); }
  std::uint64_t tick() { return ++clock_; }
  std::uint64_t fallbacks() const { return fallbacks_; }      // times that Demand was asked
  std::uint64_t asked_bytes() const { return asked_bytes_; }  // that it was asked for, in all

 private:
  Error refusal(std::string_view what, const std::string& why) const;
  Error too_large(std::string_view what, std::uint64_t together) const;
  void gather(std::span<const tracker::Operand> operands, std::vector<ChunkUse>& uses, bool over_link);
  Result<bool> await_landed(std::string_view what, const std::vector<ChunkUse>& uses, Held& held);
  Status land_some(std::string_view what, std::uint64_t together, const std::vector<ChunkUse>* uses,
                   Held& held);
  void leave_landed(std::vector<ChunkUse>& uses) const;
  Result<bool> land_one(const std::vector<ChunkUse>& uses, Held& held);
  Result<bool> place_ahead(const std::vector<ChunkUse>& uses, Held& held);
  Status free_memory(std::uint64_t bytes, std::uint64_t gathering, Held& held);

  const Limits& limits_;
  HandlePool& pool_;
  Residency& residency_;
  Departures& departures_;
  Demand& demand_;
  std::function<Result<bool>(Held&)> last_resort_;
  std::function<bool()> recount_;
  std::function<Result<bool>(Held&)> begin_landing_;
  std::function<void()> before_leaving_;
  std::uint64_t clock_ = 0, fallbacks_ = 0, asked_bytes_ = 0;
  bool over_link_ = false, told_ = false;  // the latter: that an op is too large
};

}  // namespace pooch::runtime
