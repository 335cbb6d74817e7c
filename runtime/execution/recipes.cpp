#include "runtime/execution/recipes.h"

#include <algorithm>
#include <utility>

#include "core/effect.h"
#include "core/pages.h"

namespace pooch::runtime {
namespace {

// A buffer that more calls change is copied.
constexpr std::size_t most_calls = 8;

// Batch norm moves its running statistics along, but its result does not depend on them; a replay leaves them
// alone.
bool leaves_alone(const tracker::Op& op, const tracker::Operand& operand) {
  return op.description.kind == OpKind::batch_norm_forward && operand.effect == Effect::read_write;
}

bool is_pinned(const tracker::Operand& operand) {
  return operand.backing != nullptr && static_cast<const Range*>(operand.backing)->pinned;
}

std::size_t times_named(const tracker::Op& op, AllocationId allocation) {
  return static_cast<std::size_t>(
      std::count_if(op.operands.begin(), op.operands.end(),
                    [allocation](const tracker::Operand& o) { return o.allocation == allocation; }));
}

}  // namespace

bool Recipe::reads(AllocationId allocation) const {
  return std::any_of(inputs.begin(), inputs.end(), [allocation](const Input& input) {
    return input.allocation == allocation && input.read;
  });
}

// All that is live of the buffer, which begins with it.
bool Recipes::makes(const tracker::Op& op, std::size_t operand) {
  const tracker::Operand& o = op.operands[operand];
  if (!o.managed || o.effect != Effect::overwrite || o.offset != 0 || o.bytes < smallest_managed)
    return false;
  if (o.owner == nullptr || o.owner->id != o.allocation || times_named(op, o.allocation) != 1) return false;
  const std::uint64_t beyond = o.owner->bytes - std::min(o.owner->bytes, o.bytes);
  return beyond == 0 || !tracker::Tracker::live(o, o.bytes, beyond);
}

// The recipe of the only buffer that the op changes. Its part of the op is within what was made.
const Recipe* Recipes::changed_in_place(const tracker::Op& op) const {
  const Recipe* found = nullptr;
  for (const tracker::Operand& o : op.operands) {
    if (o.effect == Effect::read || o.effect == Effect::scratch) continue;
    const Recipe* const mine = of(o.allocation);
    if (mine == nullptr || (found != nullptr && found != mine) || o.offset + o.bytes > mine->bytes)
      return nullptr;
    found = mine;
  }
  return found != nullptr && found->calls.size() < most_calls ? found : nullptr;
}

bool Recipes::wants(const Call& call, const tracker::Op& op) const {
  if (call.keep == nullptr || call.blocks || call.own || call.unforeseen || !op.step) return false;
  if (std::any_of(op.operands.begin(), op.operands.end(), is_pinned)) return false;
  if (changed_in_place(op) != nullptr) return true;
  bool makes_some = false;
  for (std::size_t o = 0; o < op.operands.size(); ++o) {
    const Effect effect = op.operands[o].effect;
    // A replay would find what the op itself has changed.
    if ((effect == Effect::write || effect == Effect::read_write) && !leaves_alone(op, op.operands[o]))
      return false;
    makes_some |= makes(op, o);
  }
  return makes_some;
}

void Recipes::launched(const tracker::Op& op, const std::shared_ptr<const KeptCall>& kept) {
  const Recipe* const in_place = kept != nullptr ? changed_in_place(op) : nullptr;
  const bool extends = in_place != nullptr && !in_place->dropped &&
                       std::none_of(op.operands.begin(), op.operands.end(), [&](const tracker::Operand& o) {
                         return o.allocation == in_place->buffer && o.effect == Effect::overwrite;
                       });
  for (const tracker::Operand& o : op.operands)
    if (changes_content(o.effect)) changed(o.allocation, extends ? in_place : nullptr);
  if (extends) {
    take_number(*in_place);
    Recipe& mine = *of(in_place->buffer);
    add_call(mine, op, kept);
    give_number(mine);
    return;
  }
  if (kept == nullptr) return;
  for (std::size_t o = 0; o < op.operands.size(); ++o) {
    if (!makes(op, o)) continue;
    const tracker::Operand& operand = op.operands[o];
    Recipe& made = by_buffer_[operand.allocation];
    made.buffer = operand.allocation;
    made.range = static_cast<Range*>(operand.backing);
    made.bytes = operand.bytes;
    add_call(made, op, kept);
    give_number(made);
  }
}

void Recipes::add_call(Recipe& recipe, const tracker::Op& op, const std::shared_ptr<const KeptCall>& kept) {
  recipe.calls.push_back(kept);
  recipe.keys.push_back(op.local_key);
  for (const tracker::Operand& o : op.operands) {
    if (o.allocation == recipe.buffer || o.effect == Effect::overwrite || o.effect == Effect::scratch)
      continue;
    recipe.inputs.push_back({o.allocation, o.effect == Effect::read});
    fed_by_[o.allocation].insert(recipe.buffer);
  }
}

// Its content is another one now: what reads it cannot be made again, nor can it itself by what it had.
void Recipes::changed(AllocationId allocation, const Recipe* but) {
  if (const Recipe* const mine = of(allocation); mine != nullptr && mine != but) forget(allocation);
  for (const AllocationId buffer : fed_by(allocation))
    if (of(buffer)->reads(allocation)) forget(buffer);
}

void Recipes::freed(AllocationId allocation) {
  forget(allocation);
  for (const AllocationId buffer : fed_by(allocation)) forget(buffer);
}

void Recipes::forget(AllocationId buffer) {
  const auto found = by_buffer_.find(buffer);
  if (found == by_buffer_.end()) return;
  if (found->second.dropped) {
    lost_.push_back(found->second.number);
    set_dropped(found->second, false);
  }
  take_number(found->second);
  for (const Recipe::Input& input : found->second.inputs) {
    const auto feeds = fed_by_.find(input.allocation);
    if (feeds == fed_by_.end()) continue;
    feeds->second.erase(buffer);
    if (feeds->second.empty()) fed_by_.erase(feeds);
  }
  by_buffer_.erase(found);
}

void Recipes::forget_what_is_there() {
  std::vector<AllocationId> there;
  for (const auto& [buffer, recipe] : by_buffer_)
    if (!recipe.dropped) there.push_back(buffer);
  for (const AllocationId buffer : there) forget(buffer);
}

void Recipes::forget_all() {
  while (!by_buffer_.empty()) forget(by_buffer_.begin()->first);
}

Recipe* Recipes::of(AllocationId buffer) {
  const auto found = by_buffer_.find(buffer);
  return found == by_buffer_.end() ? nullptr : &found->second;
}

const Recipe* Recipes::of(AllocationId buffer) const {
  const auto found = by_buffer_.find(buffer);
  return found == by_buffer_.end() ? nullptr : &found->second;
}

std::vector<AllocationId> Recipes::fed_by(AllocationId allocation) const {
  const auto found = fed_by_.find(allocation);
  if (found == fed_by_.end()) return {};
  return {found->second.begin(), found->second.end()};
}

void Recipes::set_dropped(Recipe& recipe, bool dropped) {
  dropped_ -= recipe.dropped;
  dropped_ += dropped;
  recipe.dropped = dropped;
}

std::optional<AllocationId> Recipes::any_dropped() const {
  std::optional<AllocationId> first;
  if (dropped_ == 0) return first;
  for (const auto& [buffer, recipe] : by_buffer_)
    if (recipe.dropped && (!first || buffer < *first)) first = buffer;
  return first;
}

// The lowest that no live buffer made by the same calls has.
void Recipes::give_number(Recipe& recipe) {
  std::set<std::uint32_t>& free = free_numbers_[recipe.keys];
  if (free.empty()) free.insert(numbers_++);
  recipe.number = free.extract(free.begin()).value();
}

void Recipes::take_number(const Recipe& recipe) {
  free_numbers_[recipe.keys].insert(recipe.number);
}

}  // namespace pooch::runtime
