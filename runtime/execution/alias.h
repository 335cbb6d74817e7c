// Alias mode: every chunk of the planned phases stays mapped for good to the piece of memory that the layout
// gave it, and shares it with chunks whose times do not meet. In steady state no handle is created or mapped
// and the host never waits: who comes next follows, on the device, what the one before did last.
//
//   private mappings --- build ---> frames --- dismantle ---> private mappings (remap, demand mode)
//
// Not in it, and mapped privately: what host copies touch (they come when they come), and buffers whose
// address differs from iteration to iteration. Not thread-safe: the session's mutex guards it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/execution/layout.h"
#include "runtime/execution/script.h"
#include "runtime/memory/handle_pool.h"
#include "runtime/memory/held.h"
#include "runtime/memory/residency.h"
#include "runtime/memory/stream_order.h"
#include "runtime/placement/departures.h"

namespace pooch::runtime {

// A planned phase and where its buffers lie.
struct AliasPhase {
  const Script* script = nullptr;
  const KnownPhase* known = nullptr;
  std::vector<Range*> ranges;  // by buffer; nullptr: not to be aliased
  std::vector<Range*> slots;   // by slot of the script; nullptr: a small one
};

class AliasMode {
 public:
  AliasMode(Device& device, StreamOrder& order, HandlePool& pool, Residency& residency,
            Departures& departures)
      : device_(device), order_(order), pool_(pool), residency_(residency), departures_(departures) {}

  bool built() const { return !frames_.empty(); }
  std::uint64_t shortfall() const { return shortfall_; }  // bytes that the last build lacked
  std::size_t chunks() const { return chunks_.size(); }
  std::size_t frames() const { return frames_.size(); }
  bool serves(const Script& script) const;
  // The device must be idle. May release `held`, for copies to end. Error: out_of_memory, the layout does not
  // fit or there is no room on the host to save what lives; device. Mappings are private as before then.
  Status build(std::vector<AliasPhase> phases, Held& held);
  // Private mappings again. The device must be idle.
  Status dismantle();

  // The operands are about to be used at this position of the script's phase (nullptr: between
  // iterations): gives their chunks the frames. False: the layout does not foresee that. Positions between
  // two ops are those of the later one.
  bool admit(const Script* script, std::int32_t position, std::span<const tracker::Operand> operands);
  // The chunk's prefetch: as `admit`, and its content comes back.
  Result<bool> fetch(const Script* script, std::int32_t position, Chunk& chunk);

 private:
  struct Occupancy {
    std::vector<std::vector<LayoutSpan>> in;  // by phase
  };
  void collect();
  void hold(Chunk& chunk, std::size_t phase, std::int32_t from, std::int32_t to, double free_us = 0);
  void hold_buffer(std::size_t phase, std::uint32_t buffer);
  double duration_us() const;
  std::uint64_t beside() const;
  std::vector<LayoutItem> items() const;
  Status save_and_unmap(Held& held);
  Status take_frames(const Layout& layout);
  Status map_all(const Layout& layout);
  bool begin_tenancy(Chunk& chunk);
  bool held(const Chunk& chunk, std::size_t phase, std::int32_t position) const;
  std::size_t index_of(const Script* script) const;

  Device& device_;
  StreamOrder& order_;
  HandlePool& pool_;
  Residency& residency_;
  Departures& departures_;
  std::vector<AliasPhase> phases_;
  std::vector<Chunk*> chunks_;                 // all of them, ascending addresses after collect()
  std::map<const Chunk*, std::size_t> index_;  // into chunks_ and held_
  std::vector<Occupancy> held_;
  std::vector<Frame> frames_;
  std::uint64_t shortfall_ = 0;
  int wasteful_ = 0;  // layouts that were refused for their waits
};

}  // namespace pooch::runtime
