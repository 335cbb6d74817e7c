// What the program's calls mean: which regions an op touches, and what content lives where.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/call.h"
#include "core/ids.h"
#include "tracker/allocations.h"
#include "tracker/iterations.h"
#include "tracker/op_log.h"
#include "tracker/recent_owners.h"

namespace pooch::tracker {

// One call with its operands resolved to live allocations.
struct Op {
  Description description;
  std::uint64_t local_key = 0;  // equal for calls that differ only in addresses and producers
  std::uint64_t form_key = 0;   // ... or in sizes; 0 where nobody asks for it
  std::uint32_t stream = 0;     // ordinal of the stream by first use
  bool step = false;            // counts as the program's own work
  bool managed = false;         // some operand is
  std::vector<Operand> operands;
  std::vector<Source> sources;  // of the operands whose old content matters
};

class Tracker {
 public:
  const Allocations& allocations() const { return allocations_; }
  // `by_program`: see Allocation.
  const Allocation& allocated(Address base, std::uint64_t bytes, bool managed, bool by_program,
                              void* origin = nullptr, bool counts = true);
  void set_backing(Address base, void* backing) { allocations_.set_backing(base, backing); }
  // Ends the allocation that starts at `base`; its content is dead. Empty if there is none.
  std::optional<Allocation> freed(Address base);

  // From now on until watch(), ops are not reported here. Allocations are, but are not logged.
  void look_away() { watching_ = false; }
  // Ops are reported again. Live allocations may hold content of unknown origin.
  void watch();

  // Resolves the call into `op` (its storage is reused). An access that runs past its allocation is cut at
  // the end; one outside of every allocation is left out.
  void resolve(const Call& call, Op& op);
  // The op was launched: its effects hold from now on. Logged where a log is kept.
  void launched(const Op& op);

  // Whether any byte of this region of the operand's allocation has a meaning.
  static bool live(const Operand& operand, std::uint64_t offset, std::uint64_t bytes);

  std::uint64_t ops() const { return ops_; }  // launched with operands, steps or not
  StepIndex steps() const { return steps_; }
  // Allocations since the latest step.
  std::uint32_t allocated_since() const { return allocated_since_; }
  std::uint64_t host_copies() const { return host_copies_; }

  // Where the op will be in the program's iterations once it is launched; see Iterations::expect.
  std::optional<Iterations::Where> expect(const Op& op) const {
    return iterations_.expect({op.local_key, op.form_key}, op.sources);
  }

  const OpLog& log() const { return log_; }
  const Iterations& iterations() const { return iterations_; }
  // Those that have become known to be complete since the last call, in order; see Iterations::push.
  std::span<const Iteration> take_completed();

 private:
  std::uint32_t ordinal(StreamHandle stream);
  static void find_sources(Op& op);
  static std::uint64_t form_of(const Op& op);

  Allocations allocations_;
  RecentOwners owners_;  // of operands
  bool watching_ = true;
  std::vector<StreamHandle> streams_;
  std::uint64_t ops_ = 0, host_copies_ = 0;
  StepIndex steps_ = 0;
  std::uint32_t allocated_since_ = 0;
  OpLog log_;
  Iterations iterations_{log_};
  std::vector<Iteration> completed_, taken_;
};

}  // namespace pooch::tracker
