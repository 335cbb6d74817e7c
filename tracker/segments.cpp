#include "tracker/segments.h"

#include <algorithm>
#include <cstddef>
#include <unordered_map>
#include <unordered_set>

#include "core/hash.h"

namespace pooch::tracker {
namespace {

// One version made by a step of the stretch, up to its last reader there.
struct Life {
  StepIndex producer, last_reader;
  std::uint64_t bytes;
};

std::uint64_t region_of(const Operand& operand, const Source& source) {
  return mix(static_cast<std::uint64_t>(operand.allocation), source.offset);
}

// Where something lay before the stretch that the stretch reads: weights, statistics, optimiser state.
std::unordered_set<std::uint64_t> old_regions(const OpLog& log, StepIndex first, StepIndex end) {
  std::unordered_set<std::uint64_t> regions;
  for (StepIndex step = first; step < end; ++step)
    for (const Source& source : log.sources(step))
      if (!source.producer.is_step() || source.producer.index() < first)
        regions.insert(region_of(log.operands(step)[source.operand], source));
  return regions;
}

// Which steps belong to a forward pass: an op whose kind does not tell goes with the last one before it that
// did. Where no kind tells, all.
std::vector<bool> forward_steps(const OpLog& log, StepIndex first, StepIndex end) {
  std::vector<bool> forward(end - first, true);
  const auto kind = [&](StepIndex step) { return direction(log.at(step).description.kind); };
  bool now = true;
  for (StepIndex step = end; step-- > first;)  // what a stretch that repeats begins with goes with its end
    if (kind(step) != Direction::either) {
      now = kind(step) == Direction::forward;
      break;
    }
  for (StepIndex step = first; step < end; ++step) {
    if (kind(step) != Direction::either) now = kind(step) == Direction::forward;
    forward[step - first] = now;
  }
  return forward;
}

// Of what forward passes make.
std::vector<Life> lives(const OpLog& log, StepIndex first, StepIndex end) {
  std::vector<Life> all;
  std::unordered_map<std::uint64_t, std::size_t> known;  // by producer and region
  const auto old = old_regions(log, first, end);
  const auto forward = forward_steps(log, first, end);
  for (StepIndex step = first; step < end; ++step) {
    const auto operands = log.operands(step);
    for (const Source& source : log.sources(step)) {
      if (!source.producer.is_step() || source.producer.index() < first) continue;
      const StepIndex producer = source.producer.index();
      const std::uint64_t region = region_of(operands[source.operand], source);
      if (!forward[producer - first] || old.contains(region)) continue;
      const auto [place, fresh] = known.try_emplace(mix(producer, region), all.size());
      if (fresh) all.push_back({producer, step, source.bytes});
      all[place->second].last_reader = step;
    }
  }
  return all;
}

// Ends of the runs of least level: positions right before something begins to live. Levels of a stretch that
// repeats are a ring.
std::vector<std::size_t> beginnings(const std::vector<std::uint64_t>& levels, bool ring) {
  std::vector<std::size_t> all;
  const std::uint64_t least = *std::min_element(levels.begin(), levels.end());
  for (std::size_t i = 0; i < levels.size(); ++i) {
    const bool last = i + 1 == levels.size();
    if (last && !ring) break;
    if (levels[i] == least && levels[last ? 0 : i + 1] != least) all.push_back(i);
  }
  return all;
}

// Whether the work of [from, to) begins a pass through the network; else it only ends one.
struct Content {
  bool forward = false;  // some op of a kind that only forward passes have
  bool judged = false;   // some op of a kind that has a direction
};

Content content(const OpLog& log, StepIndex from, StepIndex to) {
  Content found;
  for (StepIndex step = from; step < to; ++step) {
    const Direction d = direction(log.at(step).description.kind);
    found.forward |= d == Direction::forward;
    found.judged |= d != Direction::either;
  }
  return found;
}

// `level[i]`: bytes alive right before step first + i, made within.
std::vector<std::uint64_t> levels_of(const std::vector<Life>& all, StepIndex first, std::uint64_t length,
                                     bool ring) {
  std::vector<std::int64_t> change(2 * length + 1, 0);
  for (const Life& life : all) {
    const std::uint64_t born = life.producer - first, dead = life.last_reader - first;
    // What lives for a whole period is always there: weights, optimiser state.
    if (ring && (born >= length || dead - born >= length)) continue;
    change[born + 1] += static_cast<std::int64_t>(life.bytes);
    change[std::min(dead + 1, 2 * length)] -= static_cast<std::int64_t>(life.bytes);
  }
  std::vector<std::uint64_t> levels(length, 0);
  std::int64_t level = 0;
  for (std::uint64_t i = 0; i < 2 * length; ++i) {
    level += change[i];
    if (ring || i < length) levels[i % length] += static_cast<std::uint64_t>(level);
  }
  return levels;
}

}  // namespace

std::vector<StepIndex> starts_in_period(const OpLog& log, StepIndex first, std::uint64_t length) {
  const bool judged = content(log, first, first + length).judged;
  const auto all = lives(log, first, first + 2 * length);
  const auto candidates = beginnings(levels_of(all, first, length, true), true);
  if (candidates.empty()) return {first};
  std::vector<StepIndex> starts;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const bool last = i + 1 == candidates.size();
    const StepIndex from = first + candidates[i];
    const StepIndex to = last ? first + length + candidates[0] : first + candidates[i + 1];
    if (!judged || content(log, from, to).forward) starts.push_back(from);
  }
  if (starts.empty() || !judged) return {first + candidates[0]};
  return starts;
}

bool may_begin_at(std::span<const StepIndex> starts, const OpLog& log, StepIndex first,
                  std::uint64_t length) {
  constexpr std::uint64_t little = 8;  // times what is carried over is still no more than the most
  const auto levels = levels_of(lives(log, first, first + 2 * length), first, length, true);
  const std::uint64_t least = *std::min_element(levels.begin(), levels.end());
  const bool judged = content(log, first, first + length).judged;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const StepIndex from = starts[i] - length;  // the same a period ago
    const StepIndex to = i + 1 < starts.size() ? starts[i + 1] - length : starts[0];
    if (judged && !content(log, from, to).forward) return false;
    std::uint64_t most = 0;
    for (StepIndex step = from; step < to; ++step) most = std::max(most, levels[(step - first) % length]);
    if (little * (levels[from - first] - least) > most - least) return false;
  }
  return true;
}

std::vector<StepIndex> starts_in_stretch(const OpLog& log, StepIndex first, StepIndex end) {
  if (first == end) return {};
  const auto all = lives(log, first, end);
  auto candidates = beginnings(levels_of(all, first, end - first, false), false);
  if (candidates.empty() || candidates[0] != 0) candidates.insert(candidates.begin(), 0);
  std::vector<StepIndex> starts;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const StepIndex from = first + candidates[i];
    const StepIndex to = i + 1 == candidates.size() ? end : first + candidates[i + 1];
    if (content(log, from, to).forward) starts.push_back(from);
  }
  if (!starts.empty()) starts[0] = first;
  return starts;
}

}  // namespace pooch::tracker
