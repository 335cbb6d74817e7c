// When plans are carried out in alias mode, and when not.
#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "core/bytes.h"
#include "core/log.h"
#include "runtime/execution/executor.h"
#include "runtime/execution/known_places.h"
#include "runtime/memory/host_wait.h"

namespace pooch::runtime {
namespace {

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
  if (book_.unlaid) return Done{};
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
  const std::vector<Adopted*> phases = to_lay_out();
  AliasMode::Residents residents = residents_of(phases);
  const auto [layout, room] = layout_for(residents, phases);
  if (layout == nullptr) return Done{};
  Status built = open_slots(residents, phases);
  if (built) built = alias_.build(*layout, std::move(residents), held);
  if (built) {
    ++changes_;
    ++tally_.counts.aliased;
    for (const auto& [phase, adopted] : book_.scripts) clock_.forget(phase);
    log::info(
        "alias mode: layout: {} ({} at once) of {}, {} chunks in {} frames, expected waits {:.1f} ms, {} "
        "mapped in an iteration",
        format_bytes(layout->layout.bytes()), format_bytes(layout->at_once), format_bytes(room),
        alias_.chunks(), alias_.frames(), layout->layout.wait_us / 1e3, layout->layout.moves);
    return Done{};
  }
  // Somebody has taken some of its memory meanwhile, or the host has none.
  const bool short_of_it = built.error().code == ErrorCode::out_of_memory && alias_.wanted_frame() > 0;
  do_without_layout(built.error().message, short_of_it ? std::optional(alias_.wanted_frame()) : std::nullopt);
  if (const auto closed = close_slots(); !closed) return closed;
  return parts_.residency.doubt() ? built : Status(Done{});
}

void Executor::do_without_layout(const std::string& why, std::optional<std::uint64_t> lack) {
  log::info("no alias mode: {}", why);
  book_.unlaid = true;
  book_.lack = lack;
}

// A phase that remaps has no use for another plan: the layout is missing to others.
std::optional<std::uint64_t> Executor::take_lack(tracker::PhaseIndex phase) {
  const auto found = book_.scripts.find(phase);
  if (found == book_.scripts.end() || !found->second.alias) return std::nullopt;
  return std::exchange(book_.lack, std::nullopt);
}

// By id.
std::vector<Executor::Adopted*> Executor::to_lay_out() {
  std::vector<Adopted*> all;
  for (auto& [phase, adopted] : book_.scripts)
    if (adopted.alias && !parts_.tracker.iterations().phase(phase).given_up) all.push_back(&adopted);
  std::sort(all.begin(), all.end(),
            [](const Adopted* a, const Adopted* b) { return a->known.profile.id < b->known.profile.id; });
  return all;
}

// Without the ranges of slots, which need not be there yet.
AliasMode::Residents Executor::residents_of(const std::vector<Adopted*>& phases) const {
  const KnownPlaces places(parts_.residency, parts_.temporaries);
  AliasMode::Residents all{{}, places.ranges(), places.described()};
  for (const Adopted* adopted : phases)
    all.phases.push_back({adopted->script.get(), &adopted->known.profile, places.of(adopted->known)});
  add_slots(all.phases, parts_.pool.cap(), all.described);
  return all;
}

// The one that fits, and the bytes that it may have. If there is none, take_lack() says so.
std::pair<const PlanLayout*, std::uint64_t> Executor::layout_for(const AliasMode::Residents& residents,
                                                                 const std::vector<Adopted*>& phases) {
  std::string why = "no plan has a layout";
  for (const Adopted* adopted : phases) {
    const auto& layout = adopted->script->plan().layout;
    if (!layout) continue;
    const auto fits = alias_.fits(*layout, residents);
    if (fits) return {&*layout, *fits};
    why = fits.error().message;
  }
  do_without_layout(why, 0);
  return {nullptr, 0};
}

void Executor::try_layout() {
  if (!may_alias() || alias_.built() || book_.unlaid) return;
  const std::vector<Adopted*> phases = to_lay_out();
  if (!phases.empty()) (void)layout_for(residents_of(phases), phases);
}

std::vector<const Plan*> Executor::plans_beside(tracker::PhaseIndex phase) const {
  std::vector<const Plan*> all;
  for (const auto& [other, adopted] : book_.scripts)
    if (other != phase && adopted.alias && !parts_.tracker.iterations().phase(other).given_up)
      all.push_back(&adopted.script->plan());
  return all;
}

void Executor::add_places(Profile& profile, const std::vector<const KnownPhase*>& known) const {
  if (known.empty()) return;
  const KnownPlaces places(parts_.residency, parts_.temporaries);
  profile.ranges = places.described();
  for (PhaseProfile& phase : profile.phases) {
    const auto found = std::find_if(known.begin(), known.end(),
                                    [&](const KnownPhase* k) { return k->profile.id == phase.id; });
    if (found == known.end() || !(*found)->settled) continue;
    auto ranges = places.of(**found);
    for (std::size_t b = 0; b < phase.buffers.size(); ++b) phase.buffers[b].ranges = std::move(ranges[b]);
  }
}

// Replays' temporary memory lies in the layout too, at addresses of its own as long as that stands.
Status Executor::open_slots(AliasMode::Residents& residents, const std::vector<Adopted*>& phases) {
  residents.described.resize(residents.ranges.size());
  for (Adopted* adopted : phases) {
    for (const ReplaySlot& slot : adopted->script->slots()) {
      adopted->slots.push_back(nullptr);
      if (slot.small) continue;
      const auto range = open_slot(slot.bytes);
      if (!range) return range.error();
      adopted->slots.back() = *range;
      residents.ranges.push_back(*range);
      // Its chunks are larger where an earlier layout had merged them.
      ProfileRange& described = residents.described.emplace_back();
      for (const Chunk& chunk : (*range)->chunks) described.chunks.push_back(chunk.bytes);
    }
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
