// One kernel, run on values that stand for all that registers may hold. Internal to the analysis: analysis.h
// is what others use.
//
// A block is run once for each chain of calls that leads to it, so that a function's parameters are those of
// the call. States are joined where control joins, until nothing changes.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/effects/accesses.h"
#include "tools/effects/kernel.h"
#include "tools/effects/opcodes.h"
#include "tools/effects/phases.h"
#include "tools/effects/sass.h"
#include "tools/effects/state.h"

namespace pooch::effects {

struct Address {
  ValueId low = Values::bottom, high = Values::bottom;
  SymbolId symbol = 0;  // of the lower half
};

class Machine {
 public:
  // `phases`: of a run before, which found them; then shared memory is followed from barrier to barrier.
  Machine(const Kernel& kernel, const Code& code, std::optional<Phases> phases = std::nullopt);

  // To the end, or until it is lost.
  KernelEffects run();
  std::optional<Phases> find_phases() const;

 private:
  // A block, under the calls that lead to it.
  struct Node {
    std::size_t context, block;
    auto operator<=>(const Node&) const = default;
  };
  struct Context {
    std::size_t caller = 0, return_block = 0, depth = 0;
    auto operator<=>(const Context&) const = default;
  };

  // flow.cpp
  void run_rounds();
  void find_blocks();
  bool run_round();
  void run_block(const Node& node);
  void leave(const Node& node, const State& state);
  void flow_to(const Node& node, const State& state);
  void leave_branch(const Node& node, const Instruction& one, const State& state);
  void leave_indirect(const Node& node, const Instruction& one, const State& state);
  void leave_call(const Node& node, const Instruction& one, const State& state);
  void leave_function(const Node& node, const Instruction& one, const State& state);
  void leave_barrier(const Node& node, const Instruction& one, const State& state);
  std::optional<std::size_t> block_of(const Instruction& one) const;
  void find_unreached();

  // step.cpp
  void step(State& state, std::size_t at);
  void read_constants(const State& state, const Instruction& one, Action action);
  void compute(State& state, const Instruction& one, Action action);
  void write(State& state, const Instruction& one, const std::vector<Cell>& results);
  Cell defined(Cell cell, std::size_t reg) const;
  void forget_predicates(State& state, const Instruction& one);
  std::vector<Cell> result(State& state, const Instruction& one, Action action, unsigned count);

  // operands.cpp
  Cell source(const State& state, const Instruction& one, const Operand& operand, unsigned half);
  Cell constant(const State& state, const Instruction& one, const Operand& operand, unsigned extra,
                std::uint8_t width, bool is_signed);
  Cell parameter(std::int64_t offset, SymbolId index, std::uint8_t width, bool is_signed);
  bool counts_down_from_cluster(SymbolId index) const;
  Cell driver_constant(std::int64_t offset);
  Address address(const State& state, const Instruction& one, const Operand& memory, bool global);
  Cell known(std::uint64_t number);

  // arithmetic.cpp
  Cell add(const State& state, const Instruction& one, const std::vector<const Operand*>& from,
           unsigned half);
  std::vector<Cell> multiply_add(const State& state, const Instruction& one,
                                 const std::vector<const Operand*>& from);
  Cell product(const Cell& a, const Cell& b);
  Cell shift_add(const State& state, const Instruction& one, const std::vector<const Operand*>& from);
  Cell shift(const State& state, const Instruction& one, const std::vector<const Operand*>& from);
  Cell logic(const State& state, const Instruction& one, const std::vector<const Operand*>& from);
  Cell permute(const State& state, const Instruction& one, const std::vector<const Operand*>& from);
  Cell select(const State& state, const Instruction& one, const std::vector<const Operand*>& from,
              unsigned half);
  Cell derived(const State& state, const Instruction& one, const std::vector<const Operand*>& from);

  // step_memory.cpp
  void step_memory(State& state, std::size_t at, Action action);
  void access(const Address& at, std::size_t instruction, Effect effect);
  void step_load(State& state, std::size_t at, const Operand& memory, unsigned count);
  void step_store(State& state, std::size_t at, const Operand& memory, unsigned count);
  void step_local(State& state, std::size_t at, Action action, unsigned count);
  void step_tensor(State& state, std::size_t at, Action action);
  void read_tensor_map(std::size_t at, Effect effect, const Address& where);
  void step_bulk(State& state, std::size_t at);
  std::vector<Cell> window_load(const Address& at, const Instruction& one, unsigned count);
  void store_local(State& state, const Instruction& one, SymbolId symbol, std::int64_t offset,
                   const std::vector<Cell>& data);
  std::vector<Cell> load_local(const State& state, const Instruction& one, SymbolId symbol,
                               std::int64_t offset, unsigned count);
  std::vector<Cell> data_of(const State& state, const Instruction& one, unsigned count);

  // shared.cpp
  void step_shared(State& state, const Instruction& one, Action action, unsigned count);
  SharedPlace shared_place(const State& state, const Instruction& one, unsigned count) const;
  void store_shared(State& state, unsigned count, const std::vector<Cell>& data,
                    const SharedPlace& place = {});
  ValueId load_shared(const State& state, unsigned half, unsigned count);
  void leave_shared(const State& state);
  bool settle_shared();

  // step_calls.cpp
  void step_call(State& state, std::size_t at);
  void call_outside(State& state, std::size_t at, std::string_view name);
  void print(State& state, std::size_t at);
  void copy_outside(State& state, std::size_t at, bool tensor);

  const Kernel& kernel_;
  const Code& code_;
  Values values_;
  Symbols symbols_;
  Accesses accesses_;

  std::vector<std::size_t> begins_, ends_;  // of blocks
  std::vector<std::size_t> block_at_;       // by instruction
  std::map<std::string, std::set<std::size_t>> barrier_targets_;
  std::vector<Context> contexts_;
  std::map<Context, std::size_t> context_ids_;
  std::map<Node, State> states_;
  std::set<std::pair<std::size_t, std::size_t>> waiting_;  // block, context
  std::set<std::size_t> reached_;                          // blocks
  std::size_t steps_ = 0;
  std::optional<Predicate> guard_;  // under which operands are read

  std::size_t block_ = 0, at_ = 0;  // which is run, and its instruction
  Phases::Graph successors_;        // found so far

  std::optional<Phases> phases_;
  std::size_t region_ = 0;
  // By region, one where no phases are known: all that is stored there, and what threads leave that end
  // there.
  std::vector<SharedHalves> shared_, left_;
  std::vector<bool> unset_;  // something was loaded there that nobody had stored
  bool shared_changed_ = false;
  bool settles_ = true;  // else what is stored there from now on may be anything
};

// The registers and constants among the operands that are no results, predicates aside.
std::vector<const Operand*> sources(const Instruction& one);
// A store's data, and what a reduction takes.
const Operand* last_register(const Instruction& one);
const Operand* memory_operand(const Instruction& one, std::size_t which = 0);

}  // namespace pooch::effects
