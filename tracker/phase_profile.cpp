#include "tracker/phase_profile.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>

#include "tracker/roles.h"

namespace pooch::tracker {
namespace {

class Describer {
 public:
  Describer(const OpLog& log, StepIndex start, StepIndex end, Likeness likeness)
      : log_(log), start_(start), end_(end), likeness_(likeness) {}

  PhaseProfile describe() {
    // Allocations first: they come before the ops at the same position.
    for (const LoggedAllocation& event : log_.allocations())
      if (event.before >= start_ && event.before < end_) add_event(event);
    for (StepIndex step = start_; step < end_; ++step) add_step(step);
    for (const LoggedCopy& copy : log_.copies())
      if (copy.before >= start_ && copy.before < end_) add_copy(copy);
    for (StepIndex step = start_; step < end_; ++step) add_substitute(step);
    assign_roles(phase_, inputs_);
    add_operands();
    return std::move(phase_);
  }

 private:
  std::int32_t position(StepIndex step) const { return static_cast<std::int32_t>(step - start_); }

  std::uint32_t buffer(AllocationId allocation, bool managed) {
    const auto [place, fresh] = buffers_.try_emplace(allocation, phase_.buffers.size());
    if (fresh) phase_.buffers.push_back({0, managed, outside, outside});
    return static_cast<std::uint32_t>(place->second);
  }

  void add_event(const LoggedAllocation& event) {
    const std::uint32_t index = buffer(event.allocation, event.managed);
    ProfileBuffer& b = phase_.buffers[index];
    b.bytes = event.bytes;
    (event.allocated ? b.from : b.until) = position(event.before);
    phase_.memory.push_back({position(event.before), index, event.allocated});
  }

  std::uint32_t function(std::string_view name) {
    const auto [place, fresh] = functions_.try_emplace(name, phase_.functions.size());
    if (fresh) phase_.functions.emplace_back(name);
    return static_cast<std::uint32_t>(place->second);
  }

  std::uint32_t add_version(const Operand& operand, std::uint64_t offset, std::uint64_t bytes,
                            std::int32_t producer) {
    ProfileVersion version;
    version.buffer = buffer(operand.allocation, operand.managed);
    version.offset = offset;
    version.bytes = bytes;
    version.producer = producer;
    // What is only touched has no event that tells its size.
    std::uint64_t& whole = phase_.buffers[version.buffer].bytes;
    whole = std::max(whole, offset + bytes);
    phase_.versions.push_back(std::move(version));
    return static_cast<std::uint32_t>(phase_.versions.size() - 1);
  }

  // The version that the source is a part of.
  std::uint32_t version_of(const Operand& operand, const Source& source) {
    const Producer producer = source.producer;
    if (producer.is_step() && producer.index() >= start_) {
      for (const std::uint32_t written : phase_.ops[producer.index() - start_].writes) {
        const ProfileVersion& v = phase_.versions[written];
        if (v.buffer == buffer(operand.allocation, operand.managed) && v.offset <= source.offset &&
            source.offset < v.offset + v.bytes)
          return written;
      }
    }
    const auto region = std::tuple(operand.allocation, source.offset, source.bytes);
    if (const auto known = earlier_.find(region); known != earlier_.end()) return known->second;
    const std::uint32_t made = add_version(operand, source.offset, source.bytes, outside);
    earlier_.emplace(region, made);
    // Copied in since the iteration before began: a batch. Before that: a constant.
    if (!producer.is_step() && producer.index() + (end_ - start_) >= start_) inputs_.push_back(made);
    return made;
  }

  void add_step(StepIndex step) {
    const LoggedOp& logged = log_.at(step);
    const auto operands = log_.operands(step);
    ProfileOp op;
    op.key = key_within(log_, step, start_, likeness_);
    op.function = function(logged.description.function);
    op.kind = logged.description.kind;
    op.stream = logged.stream;
    op.shape = logged.description.shape;
    op.filter = logged.description.filter;
    op.window = logged.description.window;
    if (op.window.rank > 0 && op.filter.rank >= op.window.rank + 2)
      std::copy_n(op.filter.sizes.begin() + 2, op.window.rank, op.window.size.begin());
    op.mode = logged.description.mode;
    op.site = logged.description.site;
    op.trials = logged.description.tried.trials;
    op.algorithm = logged.description.tried.algorithm;
    for (const Source& source : log_.sources(step)) {
      const std::uint32_t version = version_of(operands[source.operand], source);
      if (std::find(op.reads.begin(), op.reads.end(), version) != op.reads.end()) continue;
      op.reads.push_back(version);
      phase_.versions[version].readers.push_back(position(step));
    }
    for (const Operand& operand : operands) {
      if (!changes_content(operand.effect)) continue;
      if (leaves_content(operand.effect))
        op.writes.push_back(add_version(operand, operand.offset, operand.bytes, position(step)));
      else
        add_scratch(op, operand);
    }
    phase_.ops.push_back(std::move(op));
  }

  // Those of the versions that have a part of the operand.
  void add_parts(const std::vector<std::uint32_t>& versions, const Operand& operand,
                 std::vector<std::uint32_t>& parts) {
    const std::uint32_t home = buffer(operand.allocation, operand.managed);
    for (const std::uint32_t v : versions) {
      const ProfileVersion& one = phase_.versions[v];
      if (one.buffer == home && one.offset < operand.offset + operand.bytes &&
          operand.offset < one.offset + one.bytes)
        parts.push_back(v);
    }
  }

  void add_substitute(StepIndex step) {
    const SubstituteOperands& of = log_.at(step).description.substitute;
    if (!of.known) return;
    const auto operands = log_.operands(step);
    ProfileOp& op = phase_.ops[step - start_];
    ProfileSubstitute made;
    for (const std::uint8_t o : {of.at.x, of.at.scale, of.at.bias})
      add_parts(op.reads, operands[o], made.reads);
    for (const std::uint8_t o : {of.at.mean, of.at.inverse}) add_parts(op.writes, operands[o], made.reads);
    add_parts(op.writes, operands[of.at.y], made.makes);
    constexpr std::size_t least = 5;  // each of them
    if (made.makes.size() != 1 || made.reads.size() < least) return;
    go_through(made);
    op.substitute = std::move(made);
  }

  // Where the result is clipped in its place before anybody else reads it, that is what is made.
  void go_through(ProfileSubstitute& made) const {
    const ProfileVersion& result = phase_.versions[made.makes.front()];
    if (result.readers.size() != 1) return;
    const std::int32_t reader = result.readers.front();
    const Clip clip = log_.at(start_ + static_cast<StepIndex>(reader)).description.clip;
    const ProfileOp& next = phase_.ops[reader];
    if (clip == Clip::none || next.reads.size() != 1 || next.writes.size() != 1) return;
    const ProfileVersion& clipped = phase_.versions[next.writes.front()];
    if (clipped.buffer != result.buffer || clipped.offset != result.offset || clipped.bytes != result.bytes)
      return;
    made.makes = next.writes;
    made.through = reader;
    made.clip = clip;
  }

  // Once all buffers are known.
  void add_operands() {
    for (StepIndex step = start_; step < end_; ++step)
      for (const Operand& operand : log_.operands(step)) {
        const auto known = buffers_.find(operand.allocation);
        phase_.ops[step - start_].operands.push_back(
            known == buffers_.end() ? no_buffer : static_cast<std::uint32_t>(known->second));
      }
  }

  void add_scratch(ProfileOp& op, const Operand& operand) {
    const std::uint32_t index = buffer(operand.allocation, operand.managed);
    std::uint64_t& whole = phase_.buffers[index].bytes;
    whole = std::max(whole, operand.offset + operand.bytes);
    op.scratch.push_back(index);
  }

  void add_copy(const LoggedCopy& copy) {
    ProfileCopy made;
    made.before = position(copy.before);
    made.to_device = copy.to_device;
    made.bytes = copy.operand.bytes;
    made.stream = copy.stream;
    const auto known = buffers_.find(copy.operand.allocation);
    if (known != buffers_.end()) made.version = touched(known->second, copy.operand, made);
    phase_.copies.push_back(made);
  }

  // The version that a copy writes, or reads: the last one before it.
  std::optional<std::uint32_t> touched(std::size_t buffer, const Operand& operand, const ProfileCopy& copy) {
    std::optional<std::uint32_t> found;
    for (std::uint32_t i = 0; i < phase_.versions.size(); ++i) {
      const ProfileVersion& v = phase_.versions[i];
      if (v.buffer != buffer || v.offset >= operand.offset + operand.bytes ||
          operand.offset >= v.offset + v.bytes)
        continue;
      if (copy.to_device ? v.producer == outside : v.producer < copy.before) found = i;
    }
    return found;
  }

  const OpLog& log_;
  const StepIndex start_, end_;
  const Likeness likeness_;
  PhaseProfile phase_;
  std::unordered_map<AllocationId, std::size_t> buffers_;
  std::unordered_map<std::string_view, std::size_t> functions_;
  std::map<std::tuple<AllocationId, std::uint64_t, std::uint64_t>, std::uint32_t> earlier_;
  std::vector<std::uint32_t> inputs_;  // versions
};

}  // namespace

PhaseProfile describe_iteration(const OpLog& log, StepIndex start, StepIndex end, Likeness likeness) {
  return Describer(log, start, end, likeness).describe();
}

}  // namespace pooch::tracker
