#include "runtime/execution/iteration.h"

#include <algorithm>
#include <utility>

#include "core/effect.h"

namespace pooch::runtime {

Iteration::Iteration(const Script& script_, tracker::StepIndex start_, tracker::InsertedOps inserted_,
                     tracker::StepIndex now)
    : script(script_),
      start(start_),
      inserted(inserted_),
      from_the_start(now == start_),
      position(passed(now)),
      maps(script.maps().size()),
      slots(script.slots().size(), nullptr) {}

bool Iteration::turns_out(tracker::InsertedOps other, tracker::StepIndex now) {
  if (other == inserted) return true;
  const auto came = static_cast<std::int32_t>(now - start);
  for (const tracker::InsertedOps& each : {inserted, other})
    if (each.count > 0 && came > each.at) return false;
  inserted = other;
  return true;
}

bool Iteration::spoils_replays(std::span<const tracker::Operand> operands) const {
  return std::any_of(operands.begin(), operands.end(), [&](const tracker::Operand& operand) {
    return changes_content(operand.effect) && std::any_of(kept.begin(), kept.end(), [&](const auto& each) {
             const std::vector<tracker::Operand>& of = each.second.operands;
             return std::any_of(of.begin(), of.end(), [&](const tracker::Operand& o) {
               return o.allocation == operand.allocation;
             });
           });
  });
}

void Iteration::bind(std::int32_t at, std::span<const tracker::Operand> operands,
                     const tracker::Allocations& live) {
  for (const ScriptTouch& touch : script.first_touch(at)) {
    const tracker::Operand& operand = operands[touch.operand];
    // Of an op in the past: its allocation may be gone.
    const tracker::Allocation* const allocation = live.starting_at(operand.base);
    if (!operand.managed || allocation == nullptr || allocation->id != operand.allocation) continue;
    maps[touch.map] = {static_cast<Range*>(operand.backing), operand.allocation};
    for (Chunk& chunk : maps[touch.map].range->chunks) chunk.name = script.names()[touch.map];
  }
}

void Iteration::bind_what_is_away(std::span<const Address> bases, const tracker::Allocations& live) {
  for (std::size_t map = 0; map < maps.size(); ++map) {
    const ScriptMap& planned = script.maps()[map];
    if (!planned.across || planned.buffer >= bases.size()) continue;
    const tracker::Allocation* const there = live.starting_at(bases[planned.buffer]);
    if (there != nullptr && there->managed && there->bytes == script.life(planned.buffer).bytes)
      maps[map] = {static_cast<Range*>(there->backing), there->id};
  }
}

void Iteration::keep(std::int32_t at, const Call& call, const tracker::Op& op,
                     std::unique_ptr<Replay> replay) {
  kept.insert_or_assign(at, KeptCall(call, op, std::move(replay)));
}

void Iteration::went_through(std::int32_t at, Clip clip) {
  const ScriptThrough wanted = script.through(at);
  if (wanted.of != outside && wanted.clip != clip) kept.erase(wanted.of);
}

const KeptCall* Iteration::kept_for(const ScriptReplay& replay) const {
  const auto found = kept.find(replay.position);
  if (found == kept.end() || (replay.formula && !found->second.substitute)) return nullptr;
  return &found->second;
}

bool Iteration::touches_dropped(std::span<const tracker::Operand> operands) const {
  return std::any_of(operands.begin(), operands.end(), [&](const tracker::Operand& operand) {
    return std::any_of(maps.begin(), maps.end(), [&](const BoundMap& bound) {
      return bound.dropped && bound.allocation == operand.allocation;
    });
  });
}

bool Iteration::feeds_dropped(AllocationId allocation) const {
  for (std::uint32_t i = next_replay; i < script.replays().size(); ++i) {
    const ScriptReplay& step = script.replays()[i];
    const KeptCall* const call = kept_for(step);
    if (call == nullptr || !serves_dropped(step)) continue;
    for (std::size_t o = 0; o < call->operands.size(); ++o)
      if (step.operands[o].kind == ReplayPlace::Kind::original && call->operands[o].allocation == allocation)
        return true;
  }
  return false;
}

bool Iteration::serves_dropped(const ScriptReplay& replay) const {
  return std::any_of(replay.serves.begin(), replay.serves.end(),
                     [&](std::uint32_t map) { return maps[map].dropped; });
}

bool Iteration::restored_again_later(std::uint32_t replay, std::uint32_t map) const {
  const auto& chain = script.maps()[map].chain;
  return std::any_of(chain.begin(), chain.end(), [&](std::uint32_t later) {
    const auto& restores = script.replays()[later].restores;
    return later > replay && std::find(restores.begin(), restores.end(), map) != restores.end();
  });
}

bool Iteration::awaits_fetch(std::span<const tracker::Operand> operands) const {
  return std::any_of(pending.begin(), pending.end(), [&](const PendingFetch& next) {
    return std::any_of(operands.begin(), operands.end(), [&](const tracker::Operand& operand) {
      return operand.allocation == maps[next.map].allocation;
    });
  });
}

Verification::Extents Iteration::extents_made(std::uint32_t map) const {
  Verification::Extents all, joined;
  for (const std::uint32_t index : script.maps()[map].chain) {
    const ScriptReplay& step = script.replays()[index];
    const KeptCall* const call = kept_for(step);
    if (call == nullptr) continue;
    for (std::size_t o = 0; o < call->operands.size(); ++o) {
      const tracker::Operand& operand = call->operands[o];
      if (step.operands[o].kind == ReplayPlace::Kind::original &&
          operand.allocation == maps[map].allocation && changes_content(operand.effect))
        all.emplace_back(operand.offset, operand.bytes);
    }
  }
  std::sort(all.begin(), all.end());
  for (const auto& [offset, bytes] : all) {
    if (!joined.empty() && offset <= joined.back().first + joined.back().second) {
      auto& [from, length] = joined.back();
      length = std::max(length, offset + bytes - from);
    } else {
      joined.emplace_back(offset, bytes);
    }
  }
  return joined;
}

}  // namespace pooch::runtime
