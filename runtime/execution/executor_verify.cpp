// What is dropped is proven: when the executor asks Verification what, and what follows from its answers.
#include <algorithm>
#include <set>
#include <utility>

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

// What either makes of the same inputs is the same: the same calls, reading the same copies of their
// operands.
bool same_replays(const Script& a, const ScriptMap& of_a, const Script& b, const ScriptMap& of_b) {
  return std::equal(of_a.chain.begin(), of_a.chain.end(), of_b.chain.begin(), of_b.chain.end(),
                    [&](std::uint32_t x, std::uint32_t y) {
                      const ScriptReplay &p = a.replays()[x], &q = b.replays()[y];
                      return p.position == q.position && p.formula == q.formula &&
                             std::equal(
                                 p.operands.begin(), p.operands.end(), q.operands.begin(), q.operands.end(),
                                 [](const ReplayPlace& m, const ReplayPlace& n) { return m.kind == n.kind; });
                    });
}

}  // namespace

// What an earlier plan of the phase could not make again, this one does not drop either; what the one before
// it was seen to make again in the same way needs no other proof.
void Executor::begin_trust(tracker::PhaseIndex phase, Adopted& adopted) {
  const Script& script = *adopted.script;
  MapTrust& trust = adopted.trust;
  trust.compared.assign(script.maps().size(), 0);
  for (const ScriptMap& map : script.maps()) {
    trust.dropped.push_back(!map.chain.empty());
    trust.refused.push_back(book_.refused[phase].contains(map.buffer));
  }
  const auto before = book_.scripts.find(phase);
  if (before == book_.scripts.end()) return;
  const Script& earlier = *before->second.script;
  for (std::size_t old = 0; old < earlier.maps().size(); ++old) {
    const auto same = std::find_if(script.maps().begin(), script.maps().end(), [&](const ScriptMap& map) {
      return map.buffer == earlier.maps()[old].buffer && !map.chain.empty() &&
             same_replays(script, map, earlier, earlier.maps()[old]);
    });
    if (same != script.maps().end())
      trust.compared[static_cast<std::size_t>(same - script.maps().begin())] =
          before->second.trust.compared[old];
  }
}

Executor::Adopted* Executor::followed() {
  for (auto& [phase, adopted] : book_.scripts)
    if (iteration_ != nullptr && adopted.script.get() == &iteration_->script) return &adopted;
  return nullptr;
}

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

// Those that the map was made again by, if any; then the calls themselves may still make it. False: there
// were some.
bool Executor::blame_substitutes(const Adopted& adopted, std::uint32_t map) {
  std::set<std::int32_t> used;
  for (const std::uint32_t index : adopted.script->maps()[map].chain)
    if (const ScriptReplay& step = adopted.script->replays()[index]; step.formula) used.insert(step.position);
  for (const auto& [phase, other] : book_.scripts)
    if (&other == &adopted) book_.disproved[phase].insert(used.begin(), used.end());
  return used.empty();
}

std::set<std::int32_t> Executor::take_disproved(tracker::PhaseIndex phase) {
  return std::exchange(book_.disproved[phase], {});
}

// The map is not dropped any more, so what makes it again must not run any more: it would write the wrong
// content over the right one. What else comes from the same calls alone goes the same way.
void Executor::refuse(std::uint32_t map) {
  Adopted* const adopted = followed();
  if (adopted == nullptr) return;
  if (adopted->trust.refused[map]) return;
  adopted->trust.refused[map] = true;
  const bool by_the_calls = blame_substitutes(*adopted, map);
  for (const auto& [phase, other] : book_.scripts)
    if (&other == adopted && by_the_calls) book_.refused[phase].insert(iteration_->script.maps()[map].buffer);
  for (const std::uint32_t index : iteration_->script.maps()[map].chain) {
    const ScriptReplay& step = iteration_->script.replays()[index];
    if (std::find(step.restores.begin(), step.restores.end(), map) == step.restores.end()) continue;
    for (const std::uint32_t beside : step.restores) refuse(beside);
    const Iteration::Kept* const kept = iteration_->kept_for(step);
    if (kept != nullptr && makes_what_others_read(step, kept->operands))
      for (const std::uint32_t served : step.serves) refuse(served);
  }
}

bool Executor::refused(std::uint32_t map) {
  const Adopted* const adopted = followed();
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
