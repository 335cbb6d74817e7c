// What the program's calls mean: which regions an op touches, and what content lives where.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/call.h"
#include "core/ids.h"
#include "tracker/allocations.h"
#include "tracker/versions.h"

namespace pooch::tracker {

// A region of a managed allocation and what the op does to it.
struct Operand {
  AllocationId allocation;
  Address base;  // the allocation's
  std::uint64_t offset, bytes;
  Effect effect;
};

// One call with its operands resolved; only those in managed allocations.
struct Op {
  std::string_view function;
  OpKind kind;
  std::vector<Operand> operands;
};

class Tracker {
 public:
  Allocations& allocations() { return allocations_; }
  const Allocations& allocations() const { return allocations_; }

  // Resolves the call's addresses into `op` (its storage is reused). An access that runs past its allocation
  // is cut at the end; one outside managed memory is left out.
  void resolve(const Call& call, Op& op);
  // The op was launched: its effects hold from now on, under the next op number.
  void launched(const Op& op);
  // The allocation's content is dead.
  void freed(AllocationId id) { versions_.erase(id); }

  // Does any byte of the region have a meaning?
  bool live(AllocationId id, std::uint64_t offset, std::uint64_t bytes) const;

  std::uint64_t ops() const { return ops_; }

 private:
  Allocations allocations_;
  std::unordered_map<AllocationId, Versions> versions_;
  std::uint64_t ops_ = 0;
};

}  // namespace pooch::tracker
