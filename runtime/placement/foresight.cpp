#include "runtime/placement/foresight.h"

#include <algorithm>
#include <functional>

namespace pooch::runtime {
namespace {

constexpr std::size_t most_ops = std::size_t{1} << 17;
constexpr std::uint64_t factor = 0x9e3779b97f4a7c15;  // odd

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * factor;
  return hash ^ (hash >> 29);
}

}  // namespace

past::Windows::Windows(std::size_t length) : length_(length) {
  for (std::size_t i = 0; i < length; ++i) oldest_factor_ *= factor;
}

// A polynomial of the keys: the oldest one can be taken off again.
OpNumber past::Windows::push(std::uint64_t key, OpNumber op) {
  keys_.push_back(mix(factor, key));
  hash_ = hash_ * factor + keys_.back();
  if (keys_.size() > length_) {
    hash_ -= keys_.front() * oldest_factor_;
    keys_.pop_front();
  }
  if (keys_.size() < length_) return unknown_op;
  return std::exchange(ends_[hash_], op);
}

void past::Windows::forget_before(OpNumber op) {
  std::erase_if(ends_, [op](const auto& end) { return end.second < op; });
}

std::uint64_t Foresight::shape_of(const tracker::Op& op) {
  std::uint64_t hash = mix(factor, std::hash<std::string_view>{}(op.description.function));
  hash = mix(hash, static_cast<std::uint64_t>(op.description.kind));
  hash = mix(hash, op.stream);
  for (const tracker::Operand& operand : op.operands)
    hash = mix(hash, static_cast<std::uint64_t>(operand.effect) * 2 + operand.managed);
  return hash;
}

void Foresight::passed(const tracker::Op& op) {
  if (past_.size() >= most_ops) forget_some();
  past::Op& mine = past_.emplace_back();
  mine.shape = shape_of(op);
  link(op, mine);
  follow(op.local_key);
  expect();
}

void Foresight::expect() {
  next_.assign(touched_.size(), {});
  if (like_ == unknown_op) return;
  const std::vector<past::Use>& then = at(like_).uses;
  for (std::size_t i = 0; i < next_.size() && i < then.size(); ++i) {
    NextTouch next = then[then[i].first].next;
    if (next.op == unknown_op) continue;
    next.op += now() - like_;
    if (!next.ends) touched_[i]->expected = next.op;
    if (foresees()) next_[i] = next;
  }
}

// Right is what comes about when it was expected; an op more or less on the way does not matter.
void Foresight::judge(const past::LastUse& last) {
  constexpr double weight = 1.0 / 64;
  if (last.expected == unknown_op) return;
  const OpNumber apart = last.expected > now() ? last.expected - now() : now() - last.expected;
  const bool is_right = apart <= (last.expected - last.op) / 8 + 1;
  right_ += weight * ((is_right ? 1 : 0) - right_);
}

// From what was touched by an earlier op, and again by this one.
void Foresight::link(const tracker::Op& op, past::Op& mine) {
  mine.uses.resize(op.operands.size());
  touched_.clear();
  for (std::uint32_t i = 0; i < op.operands.size(); ++i) {
    const tracker::Operand& operand = op.operands[i];
    const std::uint64_t bytes = operand.managed ? operand.bytes : 0;
    mine.uses[i].first = i;
    const auto [last, fresh] =
        last_.try_emplace({operand.allocation, operand.offset}, past::LastUse{now(), i, bytes});
    touched_.push_back(&last->second);
    if (fresh) {
      mine.change.written_anew += bytes;
      continue;
    }
    if (last->second.op == now()) {
      mine.uses[i].first = last->second.operand;
      continue;
    }
    judge(last->second);
    if (last->second.op >= begin_) at(last->second.op).uses[last->second.operand].next = {now(), false};
    last->second = {now(), i, std::max(bytes, last->second.bytes)};
  }
}

void Foresight::freed(AllocationId allocation) {
  if (past_.empty()) return;
  for (auto last = last_.lower_bound({allocation, 0}); last != last_.end() && last->first.first == allocation;
       last = last_.erase(last)) {
    past_.back().change.freed += last->second.bytes;
    if (last->second.op >= begin_) at(last->second.op).uses[last->second.operand].next = {now() + 1, true};
  }
}

// Behind the end of what is remembered it is expected to go on as since `like_`.
MemoryChange Foresight::change(std::uint64_t ahead) const {
  const std::uint64_t period = now() - like_;
  return at(like_ + 1 + (ahead - 1) % period).change;
}

// As long as ops come as they did then, that is where the program is, whatever else looks the same.
void Foresight::follow(std::uint64_t exact) {
  const OpNumber same = exact_.push(exact, now()), alike = alike_.push(past_.back().shape, now());
  const bool goes_on = like_ != unknown_op && like_ + 1 < now() && at(like_ + 1).shape == past_.back().shape;
  if (goes_on) {
    ++like_;
    return;
  }
  like_ = same != unknown_op ? same : alike;
  if (like_ != unknown_op && (like_ < begin_ || at(like_).shape != past_.back().shape)) like_ = unknown_op;
}

void Foresight::forget_some() {
  past_.erase(past_.begin(), past_.begin() + most_ops / 2);
  begin_ += most_ops / 2;
  if (like_ < begin_) like_ = unknown_op;
  std::erase_if(last_, [this](const auto& last) { return last.second.op < begin_; });
  exact_.forget_before(begin_);
  alike_.forget_before(begin_);
}

}  // namespace pooch::runtime
