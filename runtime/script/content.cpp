#include "runtime/script/content.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>

namespace pooch::runtime {
namespace {
constexpr std::int32_t forever = std::numeric_limits<std::int32_t>::max();
}  // namespace

Content::Content(const PhaseProfile& phase) : phase_(phase), by_buffer_(phase.buffers.size()) {
  for (std::uint32_t v = 0; v < phase.versions.size(); ++v) by_buffer_[phase.versions[v].buffer].push_back(v);
  find_validity();
}

bool Content::overlap(std::uint32_t a, std::uint32_t b) const {
  const ProfileVersion &one = phase_.versions[a], &other = phase_.versions[b];
  return one.offset < other.offset + other.bytes && other.offset < one.offset + one.bytes;
}

// By version: the first position at whose op it is overwritten, or before which its buffer is freed.
void Content::find_validity() {
  const auto& versions = phase_.versions;
  for (std::uint32_t v = 0; v < versions.size(); ++v) {
    const ProfileVersion& mine = versions[v];
    const std::int32_t freed = phase_.buffers[mine.buffer].until;
    std::int32_t until = freed == outside || freed <= mine.producer ? forever : freed;
    for (const std::uint32_t other : by_buffer_[mine.buffer])
      if (versions[other].producer > mine.producer && overlap(v, other))
        until = std::min(until, versions[other].producer + 1);
    // Strided slices overlap without overwriting each other: what an op still reads is there until then.
    if (!mine.readers.empty()) until = std::max(until, mine.readers.back() + 1);
    valid_before_.push_back(until);
  }
  // A copy into memory whose content was read before brings the content of the next iteration.
  for (const ProfileCopy& copy : phase_.copies) {
    if (!copy.to_device || !copy.version) continue;
    const auto& readers = versions[*copy.version].readers;
    if (!readers.empty() && readers.front() < copy.before)
      valid_before_[*copy.version] = std::min(valid_before_[*copy.version], copy.before);
  }
}

void Content::add(const PlanMap& map, std::int32_t returns) {
  maps_[map.buffer] = {map.map, map.by, returns, false, false, {}, {}};
}

// --- what the plan does

void Content::begin_chain(std::int32_t p, const std::vector<PlanAction>& actions) {
  std::set<std::int32_t> ops;
  for (const PlanAction& action : actions)
    if (action.kind == PlanAction::Kind::replay) ops.insert(static_cast<std::int32_t>(action.subject));
  for (auto& [buffer, map] : maps_) {
    map.missing.clear();
    if (map.away && (map.returns == outside || map.returns == p) &&
        std::all_of(map.by.begin(), map.by.end(), [&](std::int32_t op) { return ops.contains(op); }))
      map.missing.insert(map.by.begin(), map.by.end());
  }
}

bool Content::returns(std::uint32_t buffer) const {
  const auto map = maps_.find(buffer);
  return map != maps_.end() && map->second.away && !map->second.missing.empty();
}

void Content::replayed(std::uint32_t buffer, std::int32_t op) {
  Map& map = maps_.at(buffer);
  map.missing.erase(op);
  map.away = !map.missing.empty();
}

void Content::drop(std::uint32_t buffer) {
  Map& map = maps_.at(buffer);
  map.left = map.away = true;
}

// --- what is found

bool Content::intact(const Writes& writes, std::uint32_t version, std::int32_t reader) const {
  const auto made = std::find(writes.rbegin(), writes.rend(), version);
  const std::int32_t since = phase_.versions[version].producer;
  return made != writes.rend() && std::all_of(writes.rbegin(), made, [&](std::uint32_t later) {
           const std::int32_t producer = phase_.versions[later].producer;
           return !overlap(version, later) || (producer > since && producer < reader);
         });
}

bool Content::in_place(std::uint32_t version, std::int32_t reader, std::int32_t p) const {
  if (valid_before_[version] <= p) return false;
  const auto map = maps_.find(phase_.versions[version].buffer);
  if (map == maps_.end() || !map->second.left) return true;
  return !map->second.away && intact(map->second.writes, version, reader);
}

Error Content::spoilt(std::int32_t p, const Map& map) {
  return {ErrorCode::invalid_argument,
          fmt::format("plan: op {} needs map {}, which is not whole by then", p, map.number)};
}

Status Content::copy(std::int32_t p) {
  const auto& copies = phase_.copies;
  for (; next_copy_ < copies.size() && copies[next_copy_].before <= p; ++next_copy_) {
    const ProfileCopy& copy = copies[next_copy_];
    if (!copy.version) continue;
    const auto found = maps_.find(phase_.versions[*copy.version].buffer);
    if (found == maps_.end() || !found->second.left) continue;
    Map& map = found->second;
    if (map.away) return spoilt(p, map);
    if (copy.to_device) {
      map.writes.push_back(*copy.version);
    } else if (!intact(map.writes, *copy.version, p)) {
      return spoilt(p, map);
    }
  }
  return Done{};
}

Status Content::run(std::int32_t p) {
  const ProfileOp& op = phase_.ops[p];
  for (const std::uint32_t buffer : phase_.ops[p].operands)
    if (const auto map = maps_.find(buffer); map != maps_.end() && map->second.away)
      return spoilt(p, map->second);
  for (const std::uint32_t v : op.reads) {
    const auto map = maps_.find(phase_.versions[v].buffer);
    if (map != maps_.end() && map->second.left && !intact(map->second.writes, v, p))
      return spoilt(p, map->second);
  }
  for (const std::uint32_t v : op.writes)
    if (const auto map = maps_.find(phase_.versions[v].buffer); map != maps_.end())
      map->second.writes.push_back(v);
  return Done{};
}

bool Content::carries_over(std::uint32_t buffer) const {
  const auto& versions = by_buffer_[buffer];
  return std::any_of(versions.begin(), versions.end(),
                     [&](std::uint32_t v) { return phase_.versions[v].producer == outside; });
}

bool Content::overwritten(std::uint32_t version) const {
  const ProfileVersion& mine = phase_.versions[version];
  const auto& versions = by_buffer_[mine.buffer];
  return std::any_of(versions.begin(), versions.end(), [&](std::uint32_t other) {
    return phase_.versions[other].producer > mine.producer && overlap(version, other);
  });
}

Status Content::end() const {
  const auto last = static_cast<std::int32_t>(phase_.ops.size());
  for (const auto& [buffer, map] : maps_) {
    if (!map.left || phase_.buffers[buffer].until != outside || !carries_over(buffer)) continue;
    for (const std::uint32_t v : by_buffer_[buffer])
      if (!overwritten(v) && (map.away || !intact(map.writes, v, last))) return spoilt(last, map);
  }
  return Done{};
}

}  // namespace pooch::runtime
