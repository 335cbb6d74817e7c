#include "tracker/op_log.h"

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

void OpLog::add_step(LoggedOp op, std::span<const Operand> operands, std::span<const Source> sources) {
  op.first_operand = static_cast<std::uint32_t>(operands_.size());
  op.operands = static_cast<std::uint32_t>(operands.size());
  op.first_source = static_cast<std::uint32_t>(sources_.size());
  op.sources = static_cast<std::uint32_t>(sources.size());
  operands_.insert(operands_.end(), operands.begin(), operands.end());
  sources_.insert(sources_.end(), sources.begin(), sources.end());
  ops_.push_back(op);
}

void OpLog::forget_before(StepIndex step) {
  while (!copies_.empty() && copies_.front().before < step) copies_.pop_front();
  while (!allocations_.empty() && allocations_.front().before < step) allocations_.pop_front();
  for (; begin_ < step && !ops_.empty(); ++begin_) ops_.pop_front();
  const std::uint32_t dead_operands =
      ops_.empty() ? static_cast<std::uint32_t>(operands_.size()) : ops_.front().first_operand;
  const std::uint32_t dead_sources =
      ops_.empty() ? static_cast<std::uint32_t>(sources_.size()) : ops_.front().first_source;
  if (dead_operands < operands_.size() / 2) return;
  operands_.erase(operands_.begin(), operands_.begin() + dead_operands);
  sources_.erase(sources_.begin(), sources_.begin() + dead_sources);
  for (LoggedOp& op : ops_) op.first_operand -= dead_operands, op.first_source -= dead_sources;
}

void OpLog::restart(StepIndex next) {
  ops_.clear();
  operands_.clear();
  sources_.clear();
  copies_.clear();
  allocations_.clear();
  begin_ = next;
}

std::uint64_t key_within(const OpLog& log, StepIndex step, StepIndex start) {
  return key_of(log.at(step).local_key, log.sources(step), start);
}

std::uint64_t key_of(std::uint64_t key, std::span<const Source> sources, StepIndex start) {
  for (const Source& source : sources) {
    const bool inside = source.producer.is_step() && source.producer.index() >= start;
    key = mix(key, inside ? source.producer.index() - start + 1 : 0);
  }
  return key;
}

}  // namespace pooch::tracker
