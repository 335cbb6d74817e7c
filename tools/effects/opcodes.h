// What each instruction does to registers and memory, as far as addresses go. What is not in the table is
// unknown, and with it the kernel.
#pragma once

#include <cstdint>
#include <optional>

#include "tools/effects/sass.h"

namespace pooch::effects {

enum class Action : std::uint8_t {
  none,       // no result, and no memory but shared memory's barriers
  predicate,  // results are predicates
  data,       // a number that is made of the operands
  // Results that may be addresses.
  move,
  select,  // one of the first two operands, or three
  add,
  multiply_add,
  shift_add,  // LEA
  shift,
  logic,
  permute,
  shuffle,
  constant_load,
  special,
  half,  // HFMA2, by which constants are set
  // Memory.
  load,
  store,
  atomic,
  reduction,
  copy_in,    // global to shared, by threads
  bulk_copy,  // by the copy engine
  bulk_reduction,
  tensor_load,  // by a tensor map
  tensor_store,
  tensor_reduction,
  shared_load,
  shared_store,
  shared_atomic,
  local_load,
  local_store,
  cache_control,
  texture,  // through a handle
  // Control.
  branch,
  indirect_branch,
  diverge,   // BSSY
  converge,  // BSYNC
  barrier_move,
  collective,  // WARPSYNC
  call,
  ret,
  exit,
};

// Nothing: not in the table.
std::optional<Action> action_of(const Instruction& one);
bool ends_block(Action action);

// Of the destination; of a store its data.
unsigned register_count(const Instruction& one, Action action);
// Bytes of one element in memory: 1, 2, or 4 for all that is larger.
unsigned element_bytes(const Instruction& one);

}  // namespace pooch::effects
