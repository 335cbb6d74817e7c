#include "runtime/script/script_lives.h"

#include <algorithm>

namespace pooch::runtime {
namespace {

double per_byte(const PlanTime& time, std::uint64_t bytes) {
  return bytes == 0 ? 0 : time.takes_us / static_cast<double>(bytes);
}

bool restores(const ScriptReplay& replay, std::uint32_t map) {
  return std::find(replay.restores.begin(), replay.restores.end(), map) != replay.restores.end();
}

}  // namespace

void ScriptLives::find_starts(const SlotUses& uses_of_slot) {
  ScriptTimes& times = script_.times_;
  times.of_replay.resize(script_.replays_.size());
  double now_us = 0;
  const auto add_step = [&](double us, std::optional<double> at_us) {
    if (at_us) now_us = std::max(now_us, *at_us);
    times.starts.push_back(now_us);
    times.ends.push_back(now_us += us);
    return static_cast<std::int32_t>(times.starts.size()) - 1;
  };
  for (std::int32_t p = 0; p < ops(); ++p) {
    for (const ScriptAction& action : script_.before(p)) {
      if (action.kind != PlanAction::Kind::replay) continue;
      const auto at_us = action.time ? std::optional(action.time->at_us) : std::nullopt;
      times.of_replay[action.subject] = add_step(us_of(script_.replays_[action.subject]), at_us);
    }
    const auto waits = script_.plan_.starts_us.find(p);
    times.of_op.push_back(
        add_step(phase_.ops[p].us + phase_.ops[p].gap_us,
                 waits != script_.plan_.starts_us.end() ? std::optional(waits->second) : std::nullopt));
  }
  times.starts.push_back(std::max(now_us, script_.plan_.predicted_ms * 1e3));
  for (const auto& [slot, uses] : uses_of_slot)
    script_.slots_[slot].steps = {times.of_replay[uses.first], times.of_replay[uses.second]};
}

double ScriptLives::us_of(const ScriptReplay& replay) const {
  const ProfileOp& op = phase_.ops[replay.position];
  return replay.formula && op.substitute->us > 0 ? op.substitute->us : op.us;
}

// One copy after the other. What no iteration writes is on the host already.
void ScriptLives::find_copies() {
  std::vector<bool> written(phase_.buffers.size(), false);
  for (const ProfileVersion& version : phase_.versions)
    if (version.producer != outside) written[version.buffer] = true;
  double link_us = 0;
  for (std::int32_t p = 0; p < ops(); ++p) {
    for (const ScriptAction& action : script_.after(p)) {
      ScriptLife& life = script_.lives_[script_.maps_[action.subject].buffer];
      life.away_us = script_.step_end_us(script_.step_of_op(p));
      const ScriptMap& map = script_.maps_[action.subject];
      if (action.kind != PlanAction::Kind::evict || (map.across && !written[map.buffer])) continue;
      life.copied = std::min(life.moved, life.bytes);
      life.away_us_per_byte = action.time ? per_byte(*action.time, life.copied) : out_us_per_byte_;
      link_us = action.time
                    ? action.time->end_us()
                    : std::max(link_us, life.away_us) + static_cast<double>(life.copied) * out_us_per_byte_;
      life.away_us = link_us;
    }
  }
}

void ScriptLives::find_lives() {
  script_.lives_.assign(phase_.buffers.size(), {});
  find_last_of_size();
  find_uses();
  for (std::uint32_t b = 0; b < script_.lives_.size(); ++b) {
    const ProfileBuffer& buffer = phase_.buffers[b];
    ScriptLife& life = script_.lives_[b];
    if (!buffer.managed || life.to < 0) {
      life = {};
      continue;
    }
    const std::int32_t last_use = life.to;
    life.bytes = buffer.bytes;
    life.lasts = buffer.from == outside || buffer.until == outside;
    if (buffer.from == outside) life.from = 0;
    life.to = buffer.until == outside ? ops() - 1 : std::max(life.to, buffer.until - 1);
    const bool left_over = buffer.from != outside && buffer.until == outside;
    if (map_of_buffer_[b] != no_map) {
      find_absence(map_of_buffer_[b], life);
      if (left_over && script_.maps_[map_of_buffer_[b]].leaves_again) {
        leaving_again_.emplace(last_use, map_of_buffer_[b]);
        life.others_linger = freed_before(buffer, life);
        life.to = last_use;
        life.lasts = false;
      } else if (left_over && !life.across) {
        // What the step wrote after it came back is on the device alone.
        life.lingers = freed_before(buffer, life);
      }
    } else if (left_over) {
      find_predecessor(buffer, life);
    }
  }
}

// After their last use. What was not written since it came back leaves without a copy.
void ScriptLives::leave_again() {
  ScriptActions all;
  for (std::int32_t p = 0; p < ops(); ++p) {
    all.starts.push_back(static_cast<std::uint32_t>(all.list.size()));
    const auto planned = script_.after_.at(p);
    all.list.insert(all.list.end(), planned.begin(), planned.end());
    const auto [first, last] = leaving_again_.equal_range(p);
    for (auto map = first; map != last; ++map) all.list.push_back({PlanAction::Kind::evict, map->second});
  }
  all.starts.push_back(static_cast<std::uint32_t>(all.list.size()));
  script_.after_ = std::move(all);
}

// Before which op the last buffer of this size that an earlier iteration left is freed; at the latest the
// buffer's own first use.
std::int32_t ScriptLives::freed_before(const ProfileBuffer& buffer, const ScriptLife& life) const {
  const auto gone = last_of_size_.find(buffer.bytes);
  return gone != last_of_size_.end() ? std::min(gone->second, life.from) : life.from;
}

void ScriptLives::use(std::uint32_t buffer, std::int32_t position) {
  ScriptLife& life = script_.lives_[buffer];
  if (life.to < 0) life.from = life.used = position;
  life.to = position;
}

void ScriptLives::find_uses() {
  for (const ProfileCopy& copy : phase_.copies)
    if (copy.version && copy.before == 0) use(phase_.versions[*copy.version].buffer, 0);
  for (std::int32_t p = 0; p < ops(); ++p) {
    for (const std::uint32_t v : phase_.ops[p].reads) use(phase_.versions[v].buffer, p);
    for (const std::uint32_t v : phase_.ops[p].writes) use(phase_.versions[v].buffer, p);
    for (const std::uint32_t b : phase_.ops[p].scratch) use(b, p);
    for (const std::uint32_t b : phase_.ops[p].operands)
      if (b != no_buffer) use(b, p);
  }
}

void ScriptLives::find_last_of_size() {
  for (const ProfileBuffer& buffer : phase_.buffers) {
    if (!buffer.managed || buffer.from != outside || buffer.until == outside || buffer.until <= 0) continue;
    std::int32_t& last = last_of_size_[buffer.bytes];
    last = std::max(last, buffer.until);
  }
}

// It outlives the iteration, so at the beginning of this one another such is still there, most likely at the
// same address: gradients are, until the next ones are about to be computed. Nobody touches it any more. Where
// this iteration frees none, one of another phase has done so: it accumulates them, and that one steps.
void ScriptLives::find_predecessor(const ProfileBuffer& buffer, ScriptLife& life) const {
  if (!last_of_size_.contains(buffer.bytes)) return;
  const std::int32_t gone = freed_before(buffer, life);
  if (gone < life.from) {
    life.away = gone;
    life.back = life.from;
    life.moved = life.bytes;
    const std::int32_t step = script_.step_of_op(life.back);
    life.returns = {{life.bytes, life.back, step, script_.step_start_us(step), 0}};
  }
  life.from = 0;
}

void ScriptLives::find_absence(std::uint32_t map, ScriptLife& life) const {
  find_returns(map, life);
  life.moved = script_.maps_[map].of == MapClass::swap ? script_.maps_[map].moved : ~std::uint64_t{0} / 2;
  life.across = script_.maps_[map].across;
  if (life.across && life.returns.empty()) {
    life.to = life.away - 1;  // the next iteration frees it, wherever it is
    life.away = 0;
    life.lasts = false;
    return;
  }
  // It does not leave again: this iteration frees it.
  if (life.across && life.away == 0) life.away = life.to + 1;
  // It does not come back, since nobody needs it; or a plan that no planner made has it leave before it is
  // there, or come back when it is gone.
  const bool leaves = !life.returns.empty() &&
                      (life.across ? life.returns.back().position < life.away
                                   : life.from < life.away && life.returns.back().position <= life.to);
  if (!leaves) life.returns.clear();
  life.away = leaves ? life.away : 0;
  life.back = leaves ? life.returns.front().position : 0;
}

void ScriptLives::find_returns(std::uint32_t map, ScriptLife& life) const {
  for (std::int32_t p = 0; p < ops(); ++p) {
    for (const ScriptAction& action : script_.after(p))
      if (action.subject == map) life.away = p + 1;
    std::int32_t step = p == 0 ? 0 : script_.step_of_op(p - 1) + 1;
    for (const ScriptAction& action : script_.before(p)) {
      const bool replay = action.kind == PlanAction::Kind::replay;
      const bool back = replay ? restores(script_.replays_[action.subject], map) : action.subject == map;
      if (back && (life.away > 0 || script_.maps_[map].across) && (!replay || life.returns.empty())) {
        const std::uint64_t there = life.returns.empty() ? 0 : life.returns.back().up_to;
        const std::uint64_t up_to = replay ? ~std::uint64_t{0} : action.up_to;
        life.returns.push_back({up_to, p, step, script_.step_start_us(step), 0});
        if (!replay && action.time) {
          life.returns.back().start_us = action.time->at_us;
          const std::uint64_t all = std::min(script_.maps_[map].moved, life.bytes);
          life.returns.back().us_per_byte =
              per_byte(*action.time, std::min(up_to, all) - std::min(there, all));
        }
      }
      step += replay;
    }
  }
}

}  // namespace pooch::runtime
