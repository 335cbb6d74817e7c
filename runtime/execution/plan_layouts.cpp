#include "runtime/execution/plan_layouts.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "core/bytes.h"
#include "core/log.h"
#include "runtime/execution/known_places.h"
#include "runtime/memory/host_wait.h"

namespace pooch::runtime {
namespace {

// A program that keeps doing what the layout does not foresee is better served without one. Once in so many
// iterations (a checkpoint is saved, a validation comes) is not too often.
constexpr std::uint64_t most_attempts = 8;
constexpr int worth_it = 8;

}  // namespace

// The host waits for the device. Error: it could wait for the program itself.
Status PlanLayouts::idle(Held& held) {
  const auto idle = await_idle(parts_.device, parts_.order, held);
  if (!idle) return idle.error();
  if (!*idle)
    return Error{ErrorCode::internal, "the program holds up a stream while memory has to be rearranged"};
  return Done{};
}

Status PlanLayouts::dismantle(Held& held) {
  while (alias_.built()) {
    const std::uint64_t placements = parts_.placement.clock();
    if (const auto waited = idle(held); !waited) return waited;
    if (!alias_.built() || parts_.placement.clock() != placements) continue;  // another thread was here
    if (served_ < worth_it) ++in_vain_;
    own_.withdraw();
    if (const auto apart = alias_.dismantle(); !apart) return apart;
    if (const auto closed = close_slots(); !closed) return closed;
  }
  return Done{};
}

// Before an iteration: the mappings that its plan wants.
Status PlanLayouts::settle(const Script* wanted, Held& held) {
  if (wanted != nullptr && alias_.serves(*wanted)) return Done{};
  if (const auto apart = dismantle(held); !apart) return apart;
  if (wanted == nullptr) return Done{};
  if (unlaid_ || awaits_places()) return Done{};
  for (const auto& [phase, plan] : book_.all())
    if (plan.script.get() == wanted && plan.placed && plan.known.settled) return build(held);
  return Done{};
}

bool PlanLayouts::may_place() const {
  return alias_.built() || (in_vain_ < most_attempts && parts_.residency.landing() == nullptr);
}

Status PlanLayouts::build(Held& held) {
  if (!may_place()) return Done{};
  const tracker::StepIndex steps = parts_.tracker.steps();
  if (!idle(held)) return Done{};
  if (parts_.tracker.steps() != steps) return Done{};
  const std::vector<AdoptedPlan*> plans = to_lay_out();
  AliasMode::Residents residents = residents_of(plans);
  const auto [layout, room] = layout_for(residents, plans);
  if (layout == nullptr) return Done{};
  Status built = open_slots(residents, plans);
  if (built) built = alias_.build(*layout, std::move(residents), held);
  if (built) {
    if (made_.count++ == 0) made_.first_after = parts_.tracker.iterations().count();
    served_ = 0;
    std::vector<const KnownPhase*> phases;
    for (const AdoptedPlan* plan : plans) phases.push_back(&plan->known);
    own_.offer(phases);
    for (const auto& [phase, plan] : book_.all()) clock_.forget(phase);
    log::info(
        "alias mode: layout: {} ({} at once) of {}, {} chunks in {} frames, expected waits {:.1f} ms, {} "
        "mapped in an iteration",
        format_bytes(layout->layout.bytes()), format_bytes(layout->at_once), format_bytes(room),
        alias_.chunks(), alias_.frames(), layout->layout.wait_us / 1e3, layout->layout.moves);
    return Done{};
  }
  // Somebody has taken some of its memory meanwhile, or the host has none.
  const bool short_of_it = built.error().code == ErrorCode::out_of_memory && alias_.wanted_frame() > 0;
  do_without(built.error().message, short_of_it ? std::optional(alias_.wanted_frame()) : std::nullopt);
  if (const auto closed = close_slots(); !closed) return closed;
  return parts_.residency.doubt() ? built : Status(Done{});
}

void PlanLayouts::do_without(const std::string& why, std::optional<std::uint64_t> lack) {
  log::info("no alias mode: {}", why);
  unlaid_ = true;
  lack_.bytes = lack;
  lack_.since = iterations_;
}

// A phase that is to have no layout has no use for another plan: it is others that miss one. Phases take
// turns: one plan alone may be what leaves no room, and the planner changes the plan of the phase that asks.
std::optional<std::uint64_t> PlanLayouts::take_lack(tracker::PhaseIndex phase) {
  constexpr std::uint64_t most_awaited = 8;  // iterations, for a phase whose turn it is
  const AdoptedPlan* const plan = book_.find(phase);
  if (!lack_.bytes || plan == nullptr || !plan->placed) return std::nullopt;
  for (const auto& [other, others] : book_.all())
    if (takes_part(other, others) && lack_.taken[other] < lack_.taken[phase] &&
        iterations_ < lack_.since + most_awaited)
      return std::nullopt;
  ++lack_.taken[phase];
  return std::exchange(lack_.bytes, std::nullopt);
}

bool PlanLayouts::takes_part(tracker::PhaseIndex phase, const AdoptedPlan& plan) const {
  return plan.placed && plan.known.settled && !parts_.tracker.iterations().phase(phase).given_up;
}

bool PlanLayouts::awaits_places() const {
  constexpr std::uint64_t most_awaited = 160;  // iterations
  if (iterations_ > most_awaited || std::max(placed_in_a_row_.now, placed_in_a_row_.before) >= worth_it)
    return false;
  return std::any_of(book_.all().begin(), book_.all().end(), [&](const auto& each) {
    const AdoptedPlan& plan = each.second;
    return plan.placed && !plan.known.settled && plan.began;
  });
}

// By id.
std::vector<AdoptedPlan*> PlanLayouts::to_lay_out() {
  std::vector<AdoptedPlan*> all;
  for (auto& [phase, plan] : book_.all())
    if (takes_part(phase, plan)) all.push_back(&plan);
  std::sort(all.begin(), all.end(), [](const AdoptedPlan* a, const AdoptedPlan* b) {
    return a->known.profile.id < b->known.profile.id;
  });
  return all;
}

// Without the ranges of slots, which need not be there yet.
AliasMode::Residents PlanLayouts::residents_of(const std::vector<AdoptedPlan*>& plans) {
  KnownPlaces places(parts_.residency, parts_.temporaries, own_);
  AliasMode::Residents all;
  for (const AdoptedPlan* plan : plans)
    all.phases.push_back({plan->script.get(), &plan->known.profile, places.of(plan->known)});
  all.ranges = places.ranges();
  all.described = places.described();
  add_slots(all.phases, all.described);
  return all;
}

void PlanLayouts::add_places(Profile& profile, std::vector<const KnownPhase*> known) {
  if (known.empty()) return;
  // As layouts have them.
  std::sort(known.begin(), known.end(),
            [](const KnownPhase* a, const KnownPhase* b) { return a->profile.id < b->profile.id; });
  KnownPlaces places(parts_.residency, parts_.temporaries, own_);
  for (const KnownPhase* one : known) {
    const auto phase = std::find_if(profile.phases.begin(), profile.phases.end(),
                                    [&](const PhaseProfile& each) { return each.id == one->profile.id; });
    if (phase == profile.phases.end() || !one->settled) continue;
    auto ranges = places.of(*one);
    for (std::size_t b = 0; b < phase->buffers.size(); ++b) phase->buffers[b].ranges = std::move(ranges[b]);
  }
  profile.ranges = places.described();
}

// The one that fits, and the bytes that it may have. If there is none, take_lack() says so.
std::pair<const PlanLayout*, std::uint64_t> PlanLayouts::layout_for(const AliasMode::Residents& residents,
                                                                    const std::vector<AdoptedPlan*>& plans) {
  std::string why = "no plan has a layout";
  for (const AdoptedPlan* plan : plans) {
    const auto& layout = plan->script->plan().layout;
    if (!layout) continue;
    const auto fits = alias_.fits(*layout, residents);
    if (fits) return {&*layout, *fits};
    why = fits.error().message;
  }
  do_without(why, 0);
  return {nullptr, 0};
}

void PlanLayouts::try_layout() {
  if (!may_place() || alias_.built() || unlaid_ || awaits_places()) return;
  const std::vector<AdoptedPlan*> plans = to_lay_out();
  if (!plans.empty()) (void)layout_for(residents_of(plans), plans);
}

std::vector<const Plan*> PlanLayouts::plans_beside(tracker::PhaseIndex phase) const {
  std::vector<const Plan*> all;
  for (const auto& [other, plan] : book_.all())
    if (other != phase && takes_part(other, plan)) all.push_back(&plan.script->plan());
  return all;
}

void PlanLayouts::begin_iteration(const Script& script) {
  // Handles of one size can back any chunk, so none is created. While a layout may still come they stay
  // large: an H200 takes 1 ms to map each beside copies out. A layout may fail to come for good without being
  // refused.
  constexpr int most_unlaid = 24;  // iterations
  AdoptedPlan& plan = *book_.of(script);
  plan.began = true;
  ++iterations_;
  if (plan.known.settled)
    ++placed_in_a_row_.now;
  else if (placed_in_a_row_.now > 0)
    placed_in_a_row_.before = std::exchange(placed_in_a_row_.now, 0);
  served_ += alias_.built();
  iterations_without_ = alias_.built() ? 0 : iterations_without_ + 1;
  if (!plan.placed || !may_place() || iterations_without_ > most_unlaid) parts_.pool.use_units();
}

void PlanLayouts::reconsider() {
  unlaid_ = false;
  lack_.bytes.reset();
}

// Replays' temporary memory lies in the layout too, at addresses of its own as long as that stands.
Status PlanLayouts::open_slots(AliasMode::Residents& residents, const std::vector<AdoptedPlan*>& plans) {
  residents.described.resize(residents.ranges.size());
  for (AdoptedPlan* plan : plans) {
    for (const ReplaySlot& slot : plan->script->slots()) {
      plan->slots.push_back(nullptr);
      if (slot.small) continue;
      const auto range = memory_.open(slot.bytes);
      if (!range) return range.error();
      plan->slots.back() = *range;
      residents.ranges.push_back(*range);
      residents.described.push_back({(*range)->bytes});
    }
  }
  return Done{};
}

// One that a replay is at work with goes when that ends.
Status PlanLayouts::close_slots() {
  for (auto& [phase, plan] : book_.all()) {
    for (std::size_t s = 0; s < plan.slots.size(); ++s) {
      Range* const range = plan.slots[s];
      const bool at_work =
          current_ != nullptr && &current_->script == plan.script.get() && current_->slots[s] == range;
      if (range == nullptr || at_work) continue;
      if (const auto closed = memory_.close(*range); !closed) return closed;
    }
    plan.slots.clear();
  }
  return Done{};
}

Status PlanLayouts::admit(std::int32_t step, std::span<const tracker::Operand> operands, Held& held) {
  return until_admitted(held, "step", step,
                        [&](const Script* script) { return alias_.admit(script, step, operands); });
}

Status PlanLayouts::fetch(const PendingFetch& next, Held& held) {
  const std::shared_ptr<Iteration> mine = current_;
  const std::int32_t step = mine->script.next_step(mine->position, mine->next_replay);
  const BoundMap& bound = mine->maps[next.map];
  if (!alias_.built() || bound.range == nullptr) return Done{};
  for (Chunk& chunk : bound.range->chunks) {
    if (chunk.offset + chunk.occupied > next.up_to) break;
    if (chunk.frames.empty() || (!chunk.stale && !chunk.wanders)) continue;
    const auto fetched = until_admitted(held, "the fetch ahead of step", step, [&](const Script* script) {
      return alias_.fetch(script, step, chunk);
    });
    if (!fetched || current_ != mine || bound.range == nullptr) return fetched;
  }
  return Done{};
}

// Waits for the device where a chunk has to be mapped anew and is in use still. What was asked for is not
// done where another thread's op has ended the iteration meanwhile.
template <class Ask>
Status PlanLayouts::until_admitted(Held& held, std::string_view what, std::int32_t step, Ask&& ask) {
  const std::shared_ptr<Iteration> mine = current_;
  std::optional<std::chrono::steady_clock::time_point> gives_up;
  while (alias_.built() && current_ == mine) {
    const auto asked = ask(mine == nullptr ? nullptr : &mine->script);
    if (!asked) return asked.error();
    if (*asked == AliasMode::Admission::done) return Done{};
    const auto now = std::chrono::steady_clock::now();
    if (*asked == AliasMode::Admission::unforeseen || (gives_up && now > *gives_up)) {
      log::info("alias mode ends at {} {}: {}", what, step,
                *asked == AliasMode::Admission::unforeseen ? alias_.why() : "a host function holds it up");
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
