#include "runtime/execution/feedback.h"

#include <algorithm>
#include <utility>

namespace pooch::runtime {
namespace {

constexpr double least_us = 20;       // waits below that are left alone
constexpr double margin = 1.25;       // of the wait: copies are not equally fast in every iteration
constexpr double worse_than = 1.002;  // an iteration, so that a move is taken back

// Bytes of managed memory that are held before each op, from the plan's positions.
std::vector<std::int64_t> held(const Script& script) {
  std::vector<std::int64_t> bytes(static_cast<std::size_t>(script.positions()) + 1, 0);
  const auto hold = [&](std::int32_t from, std::int32_t to, std::uint64_t size) {  // inclusive
    if (to < from) return;
    bytes[from] += static_cast<std::int64_t>(size);
    bytes[to + 1] -= static_cast<std::int64_t>(size);
  };
  for (std::uint32_t buffer = 0; buffer < script.buffers(); ++buffer) {
    const ScriptLife& life = script.life(buffer);
    hold(life.from, life.to, life.bytes);
    if (life.away >= life.back) continue;
    const std::uint64_t moved = std::min(life.moved, life.bytes);
    bytes[life.away] -= static_cast<std::int64_t>(moved);
    std::uint64_t there = 0;
    for (const ScriptReturn& back : life.returns) {
      bytes[back.position] += static_cast<std::int64_t>(std::min(back.up_to, moved) - there);
      there = std::min(back.up_to, moved);
    }
  }
  for (const ReplaySlot& slot : script.slots())
    if (!slot.small) hold(slot.held.first, slot.held.second, slot.bytes);
  for (std::size_t p = 1; p < bytes.size(); ++p) bytes[p] += bytes[p - 1];
  bytes.pop_back();
  return bytes;
}

}  // namespace

std::optional<EarlierPrefetches> start_earlier(const Script& script, std::span<const double> waits_us) {
  EarlierPrefetches result{script.plan(), 0, 0};
  std::vector<std::int64_t> bytes = held(script);
  if (bytes.empty()) return std::nullopt;
  const std::int64_t most = *std::max_element(bytes.begin(), bytes.end());
  Plan::Actions& before = result.plan.before;
  std::int32_t latest = 0;                                    // where the prefetch before this one is
  std::vector<std::uint64_t> there(script.maps().size(), 0);  // bytes of each that are on their way
  for (std::int32_t p = 0; p < script.positions(); ++p) {
    for (const ScriptAction& action : script.before(p)) {
      if (action.kind != PlanAction::Kind::prefetch) continue;
      const std::uint32_t map = action.subject;
      const ScriptLife& life = script.life(script.maps()[map].buffer);
      const std::uint64_t up_to = std::min(action.up_to, life.moved);
      const auto size = static_cast<std::int64_t>(up_to - std::exchange(there[map], up_to));
      std::int32_t to = p;
      if (waits_us[map] > least_us) {
        const double start = script.start_us(p) - margin * waits_us[map];
        while (to > std::max(latest, life.away) && script.start_us(to) > start &&
               bytes[to - 1] + size <= most)
          bytes[--to] += size;
      }
      latest = to;
      if (to == p) continue;
      auto& from = before[p];
      const auto action_of = std::find_if(from.begin(), from.end(), [&](const PlanAction& other) {
        return other.kind == PlanAction::Kind::prefetch && other.subject == script.maps()[map].number &&
               other.up_to == (up_to == life.moved ? 0 : up_to);
      });
      PlanAction moved = *action_of;
      if (moved.time)
        moved.time->at_us = std::max(0.0, moved.time->at_us - (script.start_us(p) - script.start_us(to)));
      from.erase(action_of);
      if (from.empty()) before.erase(p);
      before[to].push_back(moved);
      ++result.moved;
      result.longest_us = std::max(result.longest_us, waits_us[map]);
    }
  }
  if (result.moved == 0) return std::nullopt;
  return result;
}

bool Feedback::note(std::vector<double> waits_us) {
  waits_.push_back(std::move(waits_us));
  return waits_.size() == iterations;
}

std::optional<EarlierPrefetches> Feedback::next(const Script& script, std::optional<double> iteration_ms) {
  const auto rounds = std::exchange(waits_, {});
  if (before_ && iteration_ms && before_ms_ && *iteration_ms > *before_ms_ * worse_than) {
    ended_ = true;
    return EarlierPrefetches{*std::exchange(before_, std::nullopt), 0, 0};
  }
  std::vector<double> median(script.maps().size(), 0);
  for (std::size_t map = 0; map < median.size(); ++map) {
    std::vector<double> of;
    for (const auto& round : rounds) of.push_back(round[map]);
    std::nth_element(of.begin(), of.begin() + of.size() / 2, of.end());
    median[map] = of[of.size() / 2];
  }
  auto moved = rounds_ < most_rounds ? start_earlier(script, median) : std::nullopt;
  if (!moved) {
    ended_ = true;
    return std::nullopt;
  }
  ++rounds_;
  before_ = script.plan();
  before_ms_ = iteration_ms;
  return moved;
}

}  // namespace pooch::runtime
