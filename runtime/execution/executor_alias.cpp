// When plans are carried out in alias mode, and when not.
#include <chrono>
#include <optional>
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
  auto phases = open_phases();
  const auto opened = static_cast<bool>(phases);
  const auto built = opened ? alias_.build(std::move(*phases), held) : Status(phases.error());
  if (!built)
    if (const auto closed = close_slots(); !closed) return closed;
  if (built) {
    ++changes_;
    ++tally_.counts.aliased;
    for (const auto& [phase, adopted] : book_.scripts) clock_.forget(phase);
    log::info("alias mode: {} chunks in {} pieces of memory", alias_.chunks(), alias_.frames());
    return Done{};
  }
  do_without_layout(built.error(),
                    {opened ? alias_.finder().shortfall() : 0, alias_.finder().took_too_long()});
  return parts_.residency.doubt() ? built : Status(Done{});
}

void Executor::do_without_layout(const Error& why, Shortfall shortfall) {
  log::info("no alias mode: {}", why.message);
  for (auto& [phase, adopted] : book_.scripts) adopted.alias = false, adopted.shortfall = shortfall;
}

// Phases that a layout is wanted for, with their slots open.
Result<std::vector<PlacedPhase>> Executor::open_phases() {
  std::vector<PlacedPhase> phases;
  for (auto& [phase, adopted] : book_.scripts) {
    if (!adopted.alias || parts_.tracker.iterations().phase(phase).given_up) continue;
    if (const auto opened = open_slots(adopted); !opened) return opened.error();
    phases.push_back(placed_phase(adopted));
  }
  return phases;
}

Status Executor::try_layout() {
  if (!may_alias() || alias_.built()) return Done{};
  auto phases = open_phases();
  if (!phases || phases->empty()) return close_slots();
  const auto found = alias_.try_out(std::move(*phases));
  if (!found)
    do_without_layout(found.error(), {alias_.finder().shortfall(), alias_.finder().took_too_long()});
  return close_slots();
}

Executor::Shortfall Executor::take_shortfall(tracker::PhaseIndex phase) {
  const auto found = book_.scripts.find(phase);
  if (found == book_.scripts.end() || found->second.shortfall.bytes == 0) return {};
  Shortfall taken = std::exchange(found->second.shortfall, {});
  taken.bytes += slack;
  return taken;
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

PlacedPhase Executor::placed_phase(const Adopted& adopted) {
  const KnownPhase& known = adopted.known;
  PlacedPhase made{adopted.script.get(), &known, {}, adopted.slots};
  const auto range_at = [&](Address base, std::size_t b) -> Range* {
    Range* const range = parts_.residency.find(base);
    return range != nullptr && range->bytes >= known.profile.buffers[b].bytes ? range : nullptr;
  };
  std::set<const Range*> shared{nullptr};
  for (std::size_t b = 0; b < known.bases.size(); ++b)
    if (known.fixed[b]) shared.insert(range_at(known.bases[b], b));
  for (std::size_t b = 0; b < known.bases.size(); ++b) {
    auto& ranges = made.ranges.emplace_back();
    Range* const range = range_at(known.bases[b], b);
    Range* const other = known.alternates[b] ? range_at(known.earlier[b], b) : nullptr;
    if (range != nullptr && other != nullptr) {
      ranges = {range, other};
    } else if (range != nullptr && shared.contains(range)) {
      // One that was elsewhere in an early iteration may lie where others do: it needs its time there as
      // well.
      ranges = {range};
    }
  }
  return made;
}

// Each of the operands has the frames that the layout gives it now, or there is no layout any more. May
// release `held`.
Status Executor::admit(std::int32_t step, std::span<const tracker::Operand> operands, Held& held) {
  return until_admitted(held, "step", step,
                        [&](const Script* script) { return alias_.admit(script, step, operands); });
}

Status Executor::fetch_aliased(const Iteration::Pending& next, Held& held) {
  const std::shared_ptr<Iteration> mine = iteration_;
  const std::int32_t step = mine->script.next_step(mine->position, mine->next_replay);
  const Iteration::Bound& bound = mine->maps[next.map];
  if (!alias_.built() || bound.range == nullptr) return Done{};
  for (Chunk& chunk : bound.range->chunks) {
    if (chunk.offset + chunk.occupied > next.up_to) break;
    if (chunk.frames.empty() || (!chunk.stale && !chunk.wanders)) continue;
    const auto fetched = until_admitted(held, "the fetch ahead of step", step, [&](const Script* script) {
      return alias_.fetch(script, step, chunk);
    });
    if (!fetched || iteration_ != mine || bound.range == nullptr) return fetched;
  }
  return Done{};
}

// Waits for the device where a chunk has to be mapped anew and is in use still. What was asked for is not
// done where another thread's op has ended the iteration meanwhile.
template <class Ask>
Status Executor::until_admitted(Held& held, std::string_view what, std::int32_t step, Ask&& ask) {
  const std::shared_ptr<Iteration> mine = iteration_;
  std::optional<std::chrono::steady_clock::time_point> gives_up;
  while (alias_.built() && iteration_ == mine) {
    const auto asked = ask(mine == nullptr ? nullptr : &mine->script);
    if (!asked) return asked.error();
    if (*asked == AliasMode::Admission::done) return Done{};
    const auto now = std::chrono::steady_clock::now();
    if (*asked == AliasMode::Admission::unforeseen || (gives_up && now > *gives_up)) {
      log::info("alias mode ends at {} {}", what, step);
      return dismantle(held);
    }
    const auto blocked = parts_.order.host_blocked();
    if (!blocked) return blocked.error();
    if (*blocked) {  // by a host function, which may wait for this very thread
      if (!gives_up) gives_up = now + patience_with_the_program;
      held.pause(std::chrono::milliseconds(1));
      continue;
    }
    const Marks busy = alias_.busy();
    if (const auto waited = await(parts_.device, parts_.order, busy, held); !waited) return waited;
  }
  return Done{};
}

}  // namespace pooch::runtime
