// Functions that no code is there for.
#include <algorithm>

#include "tools/effects/machine.h"

namespace pooch::effects {
namespace {

// By the ABI, 64 bits each; results take the place of the first arguments.
constexpr std::size_t first_argument = 4;
constexpr std::int64_t half_bytes = 4, word_bytes = 8;

}  // namespace

// By its name, or by an address in bank 4 that names one. Functions of the kernel's own code are followed
// (flow.cpp).
void Machine::step_call(State& state, std::size_t at) {
  const Instruction& one = code_.instructions[at];
  if (block_of(one) && std::none_of(one.operands.begin(), one.operands.end(),
                                    [](const Operand& o) { return o.kind == OperandKind::reg; }))
    return;
  for (const Operand& operand : one.operands) {
    if (operand.kind == OperandKind::reg && operand.reg) {
      const Value& target = values_[state.get(State::index(*operand.reg), guard_).value];
      if (target.alternatives.size() != 1 || target.alternatives[0].terms.size() != 1) break;
      const Term& term = values_.term(target.alternatives[0].terms[0]);
      if (term.origin != Origin::module || kernel_.module_names == nullptr) break;
      const auto name = kernel_.module_names->find(static_cast<std::uint32_t>(term.offset));
      if (name == kernel_.module_names->end()) break;
      return call_outside(state, at, name->second);
    }
    if (operand.kind == OperandKind::label) return call_outside(state, at, operand.text);
  }
  call_outside(state, at, "");
}

void Machine::call_outside(State& state, std::size_t at, std::string_view name) {
  Cell result{values_.unknown(), 0};
  if (name == "__assertfail") {
    // Its arguments are texts and numbers of the code; it does not return.
  } else if (name == "vprintf") {
    print(state, at);
    result = {values_.integer(), 0};
  } else if (name == "malloc") {
    result = {values_.of({Origin::heap}), 0};
  } else if (name == "free") {
    result = {values_.integer(), 0};
  } else if (name.starts_with("__cuda_syscall_cp_async_bulk") && name.ends_with("_unicast")) {
    copy_outside(state, at, name.find("tensor") != std::string_view::npos);
  } else if (name.empty()) {
    accesses_.lose(at, "a call of nobody knows what");
  } else {
    accesses_.lose(at, "a call of " + std::string(name));
  }
  // What else the callee uses holds nothing that the caller would read.
  for (std::size_t reg = first_argument; reg < first_argument + 2; ++reg)
    state.set(values_, reg, result, code_.instructions[at].guard);
}

// What is printed as text is read where it lies. Arguments lie on the stack, so any whole word there may be
// the address of a text.
void Machine::print(State& state, std::size_t at) {
  accesses_.print();
  for (const auto& [offset, cell] : state.slots()) {
    const auto upper = state.slots().find(offset + half_bytes);
    if (offset % word_bytes != 0 || upper == state.slots().end()) continue;
    const ValueId high = upper->second.value;
    const bool address = values_.has(high, Origin::word) || values_.has(high, Origin::table) ||
                         values_.has(high, Origin::loaded);
    if (address) accesses_.touch(values_, at, loads, cell.value, high);
  }
}

// What newer architectures call to copy into the shared memory of another block of the cluster: the arguments
// are where to, where from, and more that is no address.
void Machine::copy_outside(State& state, std::size_t at, bool tensor) {
  constexpr std::size_t source_argument = first_argument + 2;
  const Cell low = state.get(source_argument, guard_), high = state.get(source_argument + 1, guard_);
  if (tensor)
    read_tensor_map(at, loads, {low.value, high.value, low.symbol});
  else
    accesses_.touch(values_, at, loads, low.value, high.value);
  if (phases_) accesses_.lose(at, "a copy to another block");
  const Cell loaded{values_.of({Origin::loaded}), 0};
  store_shared(state, 2, {loaded, loaded});
}

}  // namespace pooch::effects
