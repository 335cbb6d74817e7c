#include "tracker/op_log.h"

#include <algorithm>
#include <cstddef>

#include "core/hash.h"

namespace pooch::tracker {

std::span<const Operand> OpLog::operands(StepIndex step) const {
  const LoggedOp& op = at(step);
  return std::span(operands_).subspan(op.first_operand, op.operands);
}

std::span<const Source> OpLog::sources(StepIndex step) const {
  const LoggedOp& op = at(step);
  return std::span(sources_).subspan(op.first_source, op.sources);
}

void OpLog::add_step(const StepKeys& keys, std::uint32_t stream, const Description& description,
                     std::span<const Operand> operands, std::span<const Source> sources) {
  const auto number = [](std::size_t size) { return static_cast<std::uint32_t>(size); };
  ops_.push_back({keys, stream, number(operands_.size()), number(operands.size()), number(sources_.size()),
                  number(sources.size()), description});
  operands_.insert(operands_.end(), operands.begin(), operands.end());
  sources_.insert(sources_.end(), sources.begin(), sources.end());
}

void OpLog::forget_before(StepIndex step) {
  while (!copies_.empty() && copies_.front().before < step) copies_.pop_front();
  while (!allocations_.empty() && allocations_.front().before < step) allocations_.pop_front();
  const std::size_t going = std::min(step, end()) - std::min(step, begin_);
  begin_ += going, dead_ += going;
  if (dead_ < ops_.size() / 2) return;
  const bool all = dead_ == ops_.size();
  const auto dead_operands = all ? static_cast<std::uint32_t>(operands_.size()) : ops_[dead_].first_operand;
  const auto dead_sources = all ? static_cast<std::uint32_t>(sources_.size()) : ops_[dead_].first_source;
  ops_.erase(ops_.begin(), ops_.begin() + static_cast<std::ptrdiff_t>(dead_));
  operands_.erase(operands_.begin(), operands_.begin() + dead_operands);
  sources_.erase(sources_.begin(), sources_.begin() + dead_sources);
  for (LoggedOp& op : ops_) op.first_operand -= dead_operands, op.first_source -= dead_sources;
  dead_ = 0;
}

void OpLog::restart(StepIndex next) {
  ops_.clear();
  dead_ = 0;
  operands_.clear();
  sources_.clear();
  copies_.clear();
  allocations_.clear();
  begin_ = next;
}

std::uint64_t key_within(const OpLog& log, StepIndex step, StepIndex start, Likeness likeness) {
  return key_of(log.at(step).keys.by(likeness), log.sources(step), start);
}

std::uint64_t key_of(std::uint64_t key, std::span<const Source> sources, StepIndex start) {
  for (const Source& source : sources) {
    const bool inside = source.producer.is_step() && source.producer.index() >= start;
    key = mix(key, inside ? source.producer.index() - start + 1 : 0);
  }
  return key;
}

}  // namespace pooch::tracker
