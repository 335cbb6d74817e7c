// When plans are carried out in alias mode, and when not.
#include <set>
#include <utility>

#include "core/log.h"
#include "runtime/execution/executor.h"
#include "runtime/memory/host_wait.h"

namespace pooch::runtime {
namespace {

// Room beside what a layout is known to lack: another plan loses a little elsewhere.
constexpr std::uint64_t slack = 16 * MiB;
// A program that keeps doing what the layout does not foresee is better served without one.
constexpr std::uint64_t most_attempts = 8;

}  // namespace

// The host waits for the device. Error: it could wait for the program itself.
Status Executor::idle(Held& held) {
  const auto idle = await_idle(parts_.device, parts_.order, held);
  if (!idle) return idle.error();
  if (!*idle)
    return Error{ErrorCode::internal, "the program holds up a stream while memory has to be rearranged"};
  return Done{};
}

Status Executor::dismantle(Held& held) {
  while (alias_.built()) {
    const std::uint64_t placements = parts_.placement.clock();
    if (const auto waited = idle(held); !waited) return waited;
    if (!alias_.built() || parts_.placement.clock() != placements) continue;  // another thread was here
    if (const auto apart = alias_.dismantle(); !apart) return apart;
    if (const auto closed = close_slots(); !closed) return closed;
  }
  return Done{};
}

// Before an iteration: the mappings that its plan wants.
Status Executor::settle_mappings(const Script* wanted, Held& held) {
  if (wanted != nullptr && alias_.serves(*wanted)) return Done{};
  if (const auto apart = dismantle(held); !apart) return apart;
  if (wanted == nullptr) return Done{};
  for (const auto& [phase, adopted] : book_.scripts)
    if (adopted.script.get() == wanted && adopted.alias && adopted.known.settled) return build_alias(held);
  return Done{};
}

bool Executor::may_alias() const {
  return alias_.built() || (tally_.counts.aliased < most_attempts && parts_.residency.landing() == nullptr);
}

Status Executor::build_alias(Held& held) {
  if (!may_alias()) return Done{};
  const tracker::StepIndex steps = parts_.tracker.steps();
  if (!idle(held)) return Done{};
  if (parts_.tracker.steps() != steps) return Done{};
  std::vector<AliasPhase> phases;
  Status opened = Done{};
  for (auto& [phase, adopted] : book_.scripts) {
    if (!adopted.alias || !opened) continue;
    opened = open_slots(adopted);
    phases.push_back(alias_phase(adopted));
  }
  ++tally_.counts.aliased;
  const auto built = opened ? alias_.build(std::move(phases), held) : opened;
  if (!built)
    if (const auto closed = close_slots(); !closed) return closed;
  if (built) {
    ++changes_;
    for (const auto& [phase, adopted] : book_.scripts) clock_.forget(phase);
    log::info("alias mode: {} chunks in {} pieces of memory", alias_.chunks(), alias_.frames());
    return Done{};
  }
  log::info("no alias mode: {}", built.error().message);
  const std::uint64_t shortfall = opened ? alias_.shortfall() : 0;
  for (auto& [phase, adopted] : book_.scripts) adopted.alias = false, adopted.shortfall = shortfall;
  return parts_.residency.doubt() ? built : Status(Done{});
}

std::uint64_t Executor::take_shortfall(tracker::PhaseIndex phase) {
  const auto found = book_.scripts.find(phase);
  if (found == book_.scripts.end() || found->second.shortfall == 0) return 0;
  return std::exchange(found->second.shortfall, 0) + slack;
}

// Replays' temporary memory lies in the layout too, at addresses of its own as long as that stands.
Status Executor::open_slots(Adopted& adopted) {
  for (const ReplaySlot& slot : adopted.script->slots()) {
    adopted.slots.push_back(nullptr);
    if (slot.small) continue;
    const auto range = open_slot(slot.bytes);
    if (!range) return range.error();
    adopted.slots.back() = *range;
  }
  return Done{};
}

// One that a replay is at work with goes when that ends.
Status Executor::close_slots() {
  for (auto& [phase, adopted] : book_.scripts) {
    for (std::size_t s = 0; s < adopted.slots.size(); ++s) {
      Range* const range = adopted.slots[s];
      const bool at_work = iteration_ != nullptr && &iteration_->script == adopted.script.get() &&
                           iteration_->slots[s] == range;
      if (range == nullptr || at_work) continue;
      if (const auto closed = close_slot(*range); !closed) return closed;
    }
    adopted.slots.clear();
  }
  return Done{};
}

AliasPhase Executor::alias_phase(const Adopted& adopted) {
  const KnownPhase& known = adopted.known;
  AliasPhase made{adopted.script.get(), &known, {}, adopted.slots};
  const auto range_of = [&](std::size_t b) -> Range* {
    Range* const range = parts_.residency.find(known.bases[b]);
    return range != nullptr && range->bytes >= known.profile.buffers[b].bytes ? range : nullptr;
  };
  std::set<const Range*> shared;
  for (std::size_t b = 0; b < known.bases.size(); ++b)
    if (known.fixed[b]) shared.insert(range_of(b));
  for (std::size_t b = 0; b < known.bases.size(); ++b) {
    Range* const range = range_of(b);
    // One that was elsewhere in an early iteration may lie where others do: it needs its time there as well.
    const bool fits = range != nullptr && shared.contains(range);
    made.ranges.push_back(fits ? range : nullptr);
  }
  return made;
}

// The layout has a place for each of the operands now, or there is no layout any more.
Status Executor::admit(std::int32_t position, std::span<const tracker::Operand> operands, Held& held) {
  if (!alias_.built() ||
      alias_.admit(iteration_ == nullptr ? nullptr : &iteration_->script, position, operands))
    return Done{};
  log::info("alias mode ends at op {}", position);
  return dismantle(held);
}

Status Executor::fetch_aliased(std::uint32_t map, std::int32_t position, Held& held) {
  const std::shared_ptr<Iteration> mine = iteration_;
  if (!alias_.built() || mine->maps[map].range == nullptr) return Done{};
  for (Chunk& chunk : mine->maps[map].range->chunks) {
    if (chunk.frames.empty() || !chunk.stale) continue;
    const auto fetched = alias_.fetch(&mine->script, position, chunk);
    if (!fetched) return fetched.error();
    if (!*fetched) {
      log::info("alias mode ends at the fetch ahead of op {}", position);
      return dismantle(held);
    }
  }
  return Done{};
}

}  // namespace pooch::runtime
