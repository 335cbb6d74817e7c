// What is dropped is proven: when the executor asks Verification what, and what follows from its answers.
#include <algorithm>

#include "core/effect.h"
#include "runtime/execution/executor.h"

namespace pooch::runtime {
namespace {

// Written by the replay and read by a later one.
bool makes_what_others_read(const ScriptReplay& step, const std::vector<tracker::Operand>& operands) {
  for (std::size_t o = 0; o < operands.size(); ++o) {
    const ReplayPlace& place = step.operands[o];
    if (place.kind != ReplayPlace::Kind::temporary || operands[o].effect == Effect::scratch ||
        !changes_content(operands[o].effect))
      continue;
    if (std::find(step.ends.begin(), step.ends.end(), place.slot) == step.ends.end()) return true;
  }
  return false;
}

}  // namespace

Status Executor::prepare_verification(const Script& script, Held& held) {
  if (script.replays().empty()) return Done{};
  return parts_.verification.prepare(held);
}

Status Executor::settle_comparisons(Verification::Late late, Held& held) {
  const Status settled = parts_.verification.settle(late, held);
  const auto refused = parts_.verification.take_refused();
  if (iteration_ == nullptr) return settled;
  for (const std::uint32_t map : refused) refuse(map);
  if (parts_.verification.failure()) give_up();
  return settled;
}

// No op will run any more, so nothing has to come back; the program may be freeing what replays would read.
void Executor::give_up() {
  ++tally_.counts.left;
  stop_following();
}

// The map is not dropped any more, so what makes it again must not run any more: it would write the wrong
// content over the right one. What else comes from the same calls alone goes the same way.
void Executor::refuse(std::uint32_t map) {
  AdoptedPlan* const adopted = followed();
  if (adopted == nullptr) return;
  if (adopted->trust.refused[map]) return;
  adopted->trust.refused[map] = true;
  book_.blame(*adopted, map);
  for (const std::uint32_t index : iteration_->script.maps()[map].chain) {
    const ScriptReplay& step = iteration_->script.replays()[index];
    if (std::find(step.restores.begin(), step.restores.end(), map) == step.restores.end()) continue;
    for (const std::uint32_t beside : step.restores) refuse(beside);
    const KeptCall* const kept = iteration_->kept_for(step);
    if (kept != nullptr && makes_what_others_read(step, kept->operands))
      for (const std::uint32_t served : step.serves) refuse(served);
  }
}

bool Executor::refused(std::uint32_t map) {
  const AdoptedPlan* const adopted = followed();
  return adopted != nullptr && adopted->trust.refused[map];
}

// Everything that the replay would make is there, and better.
bool Executor::leaves_alone(const ScriptReplay& step) {
  return !step.restores.empty() &&
         std::all_of(step.restores.begin(), step.restores.end(),
                     [&](std::uint32_t map) { return !iteration_->maps[map].dropped && refused(map); });
}

// The map is there in its last version alone: what is made from an earlier one cannot be had without the
// replay that is left out.
bool Executor::makes_early_of_refused(std::uint32_t index) {
  const auto& restores = iteration_->script.replays()[index].restores;
  return std::any_of(restores.begin(), restores.end(), [&](std::uint32_t map) {
    return refused(map) && iteration_->restored_again_later(index, map);
  });
}

// Where the plan makes maps again, those that are swapped instead come back.
void Executor::fetch_refused(const ScriptReplay& step) {
  for (const std::uint32_t map : step.restores)
    if (!iteration_->maps[map].dropped && refused(map)) iteration_->pending.push_back({map});
}

}  // namespace pooch::runtime
