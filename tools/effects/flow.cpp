// Where control goes, and how often a block is run.
#include <algorithm>

#include "tools/effects/machine.h"

namespace pooch::effects {
namespace {

constexpr std::size_t deepest_call = 12, most_nodes = 60000, most_rounds = 6;
constexpr std::uint64_t instruction_bytes = 16;
constexpr std::size_t steps_for_each = 300, steps_for_all = 2'000'000;

const Operand* label_of(const Instruction& one) {
  for (const Operand& operand : one.operands)
    if (operand.kind == OperandKind::label) return &operand;
  return nullptr;
}

// Whether control also goes on behind a branch or a return.
bool is_conditional(const Instruction& one) {
  if (one.guard || one.has("DIV") || one.has("CONV") || one.has("ANY")) return true;
  return std::any_of(one.operands.begin(), one.operands.end(), [](const Operand& o) {
    return o.kind == OperandKind::predicate && (o.predicate || o.negated);
  });
}

bool has_register(const Instruction& one) {
  return std::any_of(one.operands.begin(), one.operands.end(), [](const Operand& o) {
    return o.kind == OperandKind::reg || o.kind == OperandKind::constant;
  });
}

}  // namespace

Machine::Machine(const Kernel& kernel, const Code& code, std::optional<Phases> phases)
    : kernel_(kernel), code_(code), phases_(std::move(phases)) {
  contexts_.emplace_back();
  find_blocks();
  successors_.resize(begins_.size());
  const std::size_t regions = phases_ ? phases_->regions() : 1;
  shared_.resize(regions);
  left_.resize(regions);
}

std::optional<Phases> Machine::find_phases() const {
  std::vector<std::size_t> lasts;
  for (const std::size_t end : ends_) lasts.push_back(end - 1);
  return Phases::find(code_, lasts, successors_);
}

void Machine::find_blocks() {
  std::set<std::size_t> begins{0};
  for (const auto& [name, at] : code_.labels) begins.insert(at);
  const std::size_t count = code_.instructions.size();
  for (std::size_t i = 0; i < count; ++i) {
    const auto action = action_of(code_.instructions[i]);
    if ((action && ends_block(*action)) || is_full_barrier(code_.instructions[i])) begins.insert(i + 1);
  }
  begins_.assign(begins.begin(), begins.lower_bound(count));
  block_at_.resize(count);
  for (std::size_t block = 0; block < begins_.size(); ++block) {
    ends_.push_back(block + 1 < begins_.size() ? begins_[block + 1] : count);
    std::fill(block_at_.begin() + static_cast<std::ptrdiff_t>(begins_[block]),
              block_at_.begin() + static_cast<std::ptrdiff_t>(ends_[block]), block);
  }
  for (const Instruction& one : code_.instructions) {
    if (action_of(one) != Action::diverge) continue;
    const auto target = block_of(one);
    for (const Operand& operand : one.operands)
      if (operand.kind == OperandKind::barrier && target) barrier_targets_[operand.text].insert(*target);
  }
}

std::optional<std::size_t> Machine::block_of(const Instruction& one) const {
  const Operand* const label = label_of(one);
  if (label == nullptr) return std::nullopt;
  const auto found = code_.labels.find(label->text);
  if (found == code_.labels.end() || found->second >= block_at_.size()) return std::nullopt;
  return block_at_[found->second];
}

KernelEffects Machine::run() {
  run_rounds();
  return accesses_.summary(kernel_, code_, values_, symbols_);
}

void Machine::run_rounds() {
  if (code_.instructions.empty()) {
    accesses_.lose(0, "no code");
    return;
  }
  if (kernel_.code_bytes != 0 && kernel_.code_bytes != code_.instructions.size() * instruction_bytes)
    accesses_.lose(0, "code that nvdisasm does not print");
  for (std::size_t round = 0; run_round(); ++round) settles_ = round < most_rounds;
  find_unreached();
}

// True: another one is needed, since shared memory holds more than it did when this one began.
bool Machine::run_round() {
  states_.clear();
  reached_.clear();
  shared_changed_ = false;
  unset_.assign(shared_.size(), false);
  states_.emplace(Node{0, 0}, State{});
  waiting_.insert({0, 0});
  const std::size_t most_steps = steps_for_all + steps_for_each * code_.instructions.size();
  while (!waiting_.empty()) {
    const auto [block, context] = *waiting_.begin();
    waiting_.erase(waiting_.begin());
    run_block({context, block});
    if (steps_ <= most_steps && states_.size() <= most_nodes) continue;
    accesses_.lose(begins_[block], "too much to follow");
    waiting_.clear();
    return false;
  }
  return settle_shared();
}

void Machine::run_block(const Node& node) {
  reached_.insert(node.block);
  State state = states_.at(node);
  block_ = node.block;
  if (phases_) region_ = phases_->region(block_);
  for (std::size_t at = begins_[node.block]; at < ends_[node.block]; ++at, ++steps_) step(state, at);
  leave(node, state);
}

void Machine::flow_to(const Node& node, const State& state) {
  successors_[block_].insert(node.block);
  if (phases_ && !phases_->leads(block_, node.block))
    accesses_.lose(begins_[node.block], "a way that was not there before");
  const auto [found, is_new] = states_.try_emplace(node, state);
  if (is_new || found->second.join(values_, state)) waiting_.insert({node.block, node.context});
}

void Machine::leave(const Node& node, const State& state) {
  const Instruction& one = code_.instructions[ends_[node.block] - 1];
  const auto action = one.never ? std::optional(Action::none) : action_of(one);
  const bool last = node.block + 1 == begins_.size();
  const Node next{node.context, node.block + 1};
  switch (action.value_or(Action::none)) {
    case Action::branch:
    case Action::collective:
      return leave_branch(node, one, state);
    case Action::indirect_branch:
      return leave_indirect(node, one, state);
    case Action::call:
      return leave_call(node, one, state);
    case Action::ret:
      return leave_function(node, one, state);
    case Action::converge:
      return leave_barrier(node, one, state);
    case Action::exit:
      leave_shared(state);
      if (is_conditional(one) && !last) {
        State stays = state;
        if (one.guard) stays.assume(one.guard->opposite());
        flow_to(next, stays);
      }
      return;
    default:
      if (last) return;
      if (!phases_ || !is_full_barrier(one)) return flow_to(next, state);
      State passed = state;
      passed.shared_before = passed.shared;
      flow_to(next, passed);
  }
}

void Machine::leave_branch(const Node& node, const Instruction& one, const State& state) {
  const bool branch = action_of(one) == Action::branch;
  const auto target = block_of(one);
  if (branch && !target) accesses_.lose(ends_[node.block] - 1, "a branch to nobody knows where");
  if (target) {
    State taken = state;
    if (branch && one.guard) taken.assume(*one.guard);
    flow_to({node.context, *target}, taken);
  }
  if ((branch && !is_conditional(one)) || node.block + 1 == begins_.size()) return;
  State stays = state;
  const bool alone = std::none_of(one.operands.begin(), one.operands.end(),
                                  [](const Operand& o) { return o.kind == OperandKind::predicate; });
  if (branch && one.guard && alone && !one.has("DIV") && !one.has("CONV") && !one.has("ANY"))
    stays.assume(one.guard->opposite());
  flow_to({node.context, node.block + 1}, stays);
}

void Machine::leave_indirect(const Node& node, const Instruction& one, const State& state) {
  if (one.targets.empty()) accesses_.lose(ends_[node.block] - 1, "a branch to nobody knows where");
  for (const std::string& name : one.targets) {
    const auto found = code_.labels.find(name);
    if (found == code_.labels.end() || found->second >= block_at_.size())
      accesses_.lose(ends_[node.block] - 1, "a branch to nobody knows where");
    else
      flow_to({node.context, block_at_[found->second]}, state);
  }
  if (is_conditional(one) && node.block + 1 < begins_.size()) flow_to({node.context, node.block + 1}, state);
}

void Machine::leave_call(const Node& node, const Instruction& one, const State& state) {
  const auto target = block_of(one);
  const bool followed = target && !has_register(one);
  if ((!followed || is_conditional(one)) && node.block + 1 < begins_.size())
    flow_to({node.context, node.block + 1}, state);
  if (!followed) return;
  const Context callee{node.context, node.block + 1, contexts_[node.context].depth + 1};
  if (callee.depth > deepest_call) {
    accesses_.lose(ends_[node.block] - 1, "calls that nest too deep");
    return;
  }
  const auto [found, is_new] = context_ids_.emplace(callee, contexts_.size());
  if (is_new) contexts_.push_back(callee);
  flow_to({found->second, *target}, state);
}

// To where the register says, or else behind the call.
void Machine::leave_function(const Node& node, const Instruction& one, const State& state) {
  if (is_conditional(one) && node.block + 1 < begins_.size()) flow_to({node.context, node.block + 1}, state);
  if (node.context == 0) return;
  const Context& from = contexts_[node.context];
  std::size_t to = from.return_block;
  for (const Operand& operand : one.operands) {
    if (operand.kind != OperandKind::reg || !operand.reg) continue;
    const Symbol& address = symbols_[state.get(State::index(*operand.reg), one.guard).symbol];
    if (address.kind != SymbolKind::constant) continue;
    const auto at = code_.at(static_cast<std::uint64_t>(address.number));
    if (at && begins_[block_at_[*at]] == *at)
      to = block_at_[*at];
    else
      accesses_.lose(ends_[node.block] - 1, "a return to nobody knows where");
  }
  if (to < begins_.size()) flow_to({from.caller, to}, state);
}

// To where the barrier was set up for; and on, in case that is not all.
void Machine::leave_barrier(const Node& node, const Instruction& one, const State& state) {
  if (node.block + 1 < begins_.size()) flow_to({node.context, node.block + 1}, state);
  for (const Operand& operand : one.operands) {
    if (operand.kind != OperandKind::barrier) continue;
    const auto known = state.barriers.find(operand.text);
    const auto& targets = known != state.barriers.end() ? known->second : barrier_targets_[operand.text];
    for (const std::size_t target : targets) flow_to({node.context, target}, state);
  }
}

// Code that nothing leads to is no kernel's own; where it touches memory, something was missed.
void Machine::find_unreached() {
  for (std::size_t block = 0; block < begins_.size(); ++block) {
    if (reached_.contains(block)) continue;
    for (std::size_t at = begins_[block]; at < ends_[block]; ++at) {
      const auto action = action_of(code_.instructions[at]);
      if (!action || (*action >= Action::load && *action <= Action::tensor_reduction))
        accesses_.lose(at, "code that nothing leads to");
    }
  }
}

}  // namespace pooch::effects
