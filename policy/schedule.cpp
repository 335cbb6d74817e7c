// What a choice means, in order: replays laid out before their consumers, memory by steps, fetches as early
// as memory allows.
#include <algorithm>

#include "policy/timeline.h"

namespace pooch::policy {
namespace {

// A map that takes more ops than this to make again is not worth it, and the search for them is recursive.
constexpr std::size_t longest_chain = 250;

}  // namespace

// The operand must be there when a replay before `position` reads it.
bool Simulator::need_version(const Choice& choice, const Source& source, std::int32_t position) {
  const std::int32_t producer = problem_.producer_of[source.version];
  if (has_left(choice, source, position)) return producer >= 0 && need_op(choice, producer, position);
  if (source.valid_until >= position && stays_there(choice, source, position)) return true;
  if (source.map != nowhere && source.valid_until >= position &&
      !choice.is_brief(source.map)) {  // it comes back with its map
    map_seen_[source.map] = chain_;
    chain_maps_.push_back(source.map);
    for (const std::int32_t op : problem_.maps[source.map].producers) {
      if (!need_op(choice, op, position)) return false;
    }
    return true;
  }
  return producer >= 0 && need_op(choice, producer, position);
}

// Away until the iteration's end.
bool Simulator::has_left(const Choice& choice, const Source& source, std::int32_t position) const {
  if (source.home == nowhere || choice.of[source.home] == Class::keep) return false;
  const MovableMap& home = problem_.maps[source.home];
  return home.ends_away() && position > problem_.segments[home.leaves].last;
}

// Whether the plan leaves it alone, in memory that nothing else was written to. A map that is made again has
// its content back and nothing else.
bool Simulator::stays_there(const Choice& choice, const Source& source, std::int32_t position) const {
  const std::int32_t home = source.home;
  if (home == nowhere || choice.of[home] != Class::recompute) return true;
  if (position <= problem_.segments[problem_.maps[home].leaves].last) return true;
  return source.map != nowhere && (returned_at_[home] != nowhere || map_seen_[home] == chain_);
}

bool Simulator::need_op(const Choice& choice, std::int32_t op, std::int32_t position) {
  if (op_seen_[op] == chain_) return true;
  op_seen_[op] = chain_;
  if (chain_ops_.size() + depth_ > longest_chain) return false;
  ++depth_;
  for (const Source& source : problem_.sources[op]) {
    if (!need_version(choice, source, position)) return false;
  }
  --depth_;
  chain_ops_.push_back(op);
  return true;
}

// Replays that bring `map` back, as steps before its first reader. Ops run in program order, which keeps
// every hazard between versions of one buffer.
bool Simulator::add_chain(const Choice& choice, std::uint32_t map) {
  const std::int32_t segment = replayed_before(map);
  ++chain_;
  depth_ = 0;
  chain_ops_.clear();
  map_seen_[map] = chain_;
  chain_maps_.assign(1, static_cast<std::int32_t>(map));
  for (const std::int32_t op : problem_.maps[map].producers) {
    if (!need_op(choice, op, problem_.segments[segment].last)) return false;
  }
  std::sort(chain_ops_.begin(), chain_ops_.end());
  place_chain(choice, segment, map);
  return true;
}

void Simulator::place_chain(const Choice& choice, std::int32_t segment, std::uint32_t map) {
  const auto first = static_cast<std::int32_t>(schedule_.steps.size());
  const auto step_of_op = [&](std::int32_t op) {
    return first + static_cast<std::int32_t>(std::lower_bound(chain_ops_.begin(), chain_ops_.end(), op) -
                                             chain_ops_.begin());
  };
  for (const std::int32_t op : chain_ops_) {
    schedule_.steps.push_back({segment, op, static_cast<std::int32_t>(map), problem_.op_us[op]});
    schedule_.replay_us += problem_.op_us[op];
  }
  // Maps come back with the first op that writes to their memory.
  for (const std::int32_t back : chain_maps_)
    returned_at_[back] = step_of_op(problem_.maps[back].producers.front());
  for (std::size_t i = 0; i < chain_ops_.size(); ++i) {
    const std::int32_t step = first + static_cast<std::int32_t>(i);
    for (const Source& source : problem_.sources[chain_ops_[i]]) {
      if (source.map != nowhere && choice.of[source.map] == Class::swap &&
          !problem_.maps[source.map].ends_away() && segment > problem_.maps[source.map].leaves) {
        std::int32_t& needed = needed_at_[source.map];
        if (needed == nowhere || needed > step) needed = step;
      }
      // Made in this chain for this chain: in place of a map that comes back, or in memory of its own.
      const std::int32_t producer = problem_.producer_of[source.version];
      // What it saved itself lies where it was.
      if (producer < 0 || op_seen_[producer] != chain_ || producer == chain_ops_[i]) continue;
      const std::int32_t home = problem_.map_of_buffer[problem_.buffer_of[source.version]];
      if (home != nowhere && map_seen_[home] == chain_) {
        returned_at_[home] = std::min(returned_at_[home], step_of_op(producer));
      } else if (source.map == nowhere || choice.of[source.map] != Class::keep ||
                 source.valid_until < problem_.segments[segment].last) {
        keep_temporary(
            {step_of_op(producer), step, static_cast<std::int64_t>(source.bytes), source.version, chain_});
      }
    }
  }
}

void Simulator::keep_temporary(const Extent& extent) {
  for (auto t = temporaries_.rbegin(); t != temporaries_.rend() && t->chain == extent.chain; ++t) {
    if (t->version != extent.version) continue;
    t->to = std::max(t->to, extent.to);
    return;
  }
  temporaries_.push_back(extent);
}

double Simulator::lay_out(const Choice& choice) {
  schedule_.steps.clear();
  schedule_.fetches.clear();
  schedule_.replay_us = 0;
  schedule_.possible = true;
  schedule_.step_of.resize(problem_.segments.size());
  returned_at_.assign(problem_.maps.size(), nowhere);
  needed_at_.assign(problem_.maps.size(), nowhere);
  op_seen_.resize(problem_.op_us.size(), 0);
  map_seen_.resize(problem_.maps.size(), 0);
  temporaries_.clear();
  const auto& by_replay = rules_.replays_ahead ? problem_.by_remake : problem_.by_return;
  std::size_t replayed = 0, returned = 0;
  for (std::int32_t s = 0; s <= problem_.last_segment(); ++s) {
    for (; replayed < by_replay.size(); ++replayed) {
      const std::uint32_t map = by_replay[replayed];
      if (replayed_before(map) != s) break;
      if (choice.of[map] != Class::recompute || returned_at_[map] != nowhere) continue;
      if (!add_chain(choice, map)) schedule_.possible = false;
    }
    const auto step = static_cast<std::int32_t>(schedule_.steps.size());
    schedule_.step_of[s] = step;
    schedule_.steps.push_back({s, nowhere, nowhere, problem_.segments[s].us});
    for (; returned < problem_.by_return.size(); ++returned) {
      const std::uint32_t map = problem_.by_return[returned];
      if (problem_.maps[map].returns != s) break;
      if (needed_at_[map] == nowhere) needed_at_[map] = step;
    }
  }
  starts_.clear();
  double end = 0;
  for (const Step& step : schedule_.steps) {
    starts_.push_back(end);
    end += step.us;
  }
  return end;
}

// Bytes by step, with every fetch as late as possible.
void Simulator::account(const Choice& choice) {
  const std::size_t count = schedule_.steps.size();
  change_.assign(count + 1, 0);
  const auto hold = [&](std::int32_t from, std::int32_t to, std::int64_t bytes) {
    if (to < from) return;
    change_[from] += bytes;
    change_[to + 1] -= bytes;
  };
  for (std::uint32_t m = 0; m < problem_.maps.size(); ++m) {
    const MovableMap& map = problem_.maps[m];
    const std::int32_t made = schedule_.step_of[map.made], ends = schedule_.step_of[map.ends];
    auto away = static_cast<std::int64_t>(map.bytes);
    if (choice.of[m] == Class::keep) away = 0;
    if (choice.of[m] == Class::swap) away = static_cast<std::int64_t>(choice.swapped(problem_, m));
    if (map.has_to && away == 0) {  // there is no room for that
      hold(0, static_cast<std::int32_t>(count) - 1, static_cast<std::int64_t>(rules_.cap + granularity));
      continue;
    }
    if (map.in_turn && away == 0) {
      hold(0, static_cast<std::int32_t>(count) - 1, 2 * static_cast<std::int64_t>(map.bytes));
      continue;
    }
    hold(made, ends, static_cast<std::int64_t>(map.bytes) - away);
    if (map.lingers != nowhere)
      hold(0, schedule_.step_of[map.lingers], static_cast<std::int64_t>(map.bytes) - away);
    if (away == 0) continue;
    const std::int32_t leaves = schedule_.step_of[map.leaves];
    if (!map.across) hold(made, leaves, away);
    if (map.for_good) continue;
    if (choice.of[m] == Class::recompute) {
      hold(returned_at_[m] == nowhere ? schedule_.step_of[map.returns] : returned_at_[m], ends, away);
    } else {
      hold(needed_at_[m], map.across ? leaves : schedule_.step_of[map.released], away);
      for (auto left = static_cast<std::uint64_t>(away); left > 0; left -= piece(m, left))
        schedule_.fetches.push_back({m, piece(m, left), needed_at_[m], needed_at_[m]});
    }
  }
  for (const Extent& t : temporaries_) hold(t.from, t.to, t.bytes);
  schedule_.live.resize(count);
  std::int64_t live = 0;
  for (std::size_t i = 0; i < count; ++i) {
    live += change_[i];
    const Segment& segment = problem_.segments[schedule_.steps[i].segment];
    schedule_.live[i] = static_cast<std::uint64_t>(live) +
                        (schedule_.steps[i].replay == nowhere ? segment.base : segment.base_before);
  }
}

// Per fetch, when the link must turn to it so that it and all later ones are in time, were there no stalls.
// Memory is not taken much earlier than that.
void Simulator::find_latest_starts() {
  const auto& fetches = schedule_.fetches;
  latest_starts_.resize(fetches.size());
  double next = problem_.compute_us * 1e3;
  for (std::size_t i = fetches.size(); i-- > 0;) {
    const double us = problem_.in.us(fetches[i].bytes), deadline = starts_[fetches[i].deadline];
    next = std::min(next, deadline) - us;
    // Time to spare, as much as the whole map takes: a link may be slower than it was.
    latest_starts_[i] = next - problem_.in.us(problem_.maps[fetches[i].map].bytes) - 0.25 * (deadline - next);
  }
}

// First step of the layer, or of the convolution, whose backward comes before the reader's.
std::int32_t Simulator::layer_trigger(const Fetch& fetch) const {
  const std::int32_t leaves = away_from(fetch.map);
  const auto layer = [&](std::int32_t step) {
    return problem_.segments[schedule_.steps[step].segment].layer;
  };
  const bool convolution = rules_.prefetch == Prefetch::previous_convolution;
  std::int32_t step = fetch.deadline;
  const std::int32_t mine = layer(step);
  while (step > leaves && layer(step - 1) == mine) --step;
  if (convolution) {
    while (step > leaves && !problem_.segments[schedule_.steps[step - 1].segment].convolution) --step;
  }
  if (step > leaves) --step;
  const std::int32_t before = layer(step);
  while (step > leaves && layer(step - 1) == before) --step;
  return std::max(step, leaves);
}

// Every fetch takes its memory as early as all steps from then on until its deadline have room, the earlier
// fetches being there already; but never before an earlier one. At a step s that all earlier fetches have
// reached, those with a deadline after s are held beside live[s]. So fetch k fits at s where
//   live[s] - (bytes with deadlines up to s)  <=  cap - (bytes of fetches 0 to k),
// and its trigger comes after the last s before its deadline where the left side is more. A stack of the
// steps that no later one tops answers that for all fetches in one pass: what is held only grows, so those of
// its steps that are too full are ever more of the first ones.
void Simulator::place_early() {
  auto& fetches = schedule_.fetches;
  tops_.clear();
  std::int32_t step = 0, previous = 0;
  std::int64_t held = 0, due = 0;
  std::size_t next_due = 0, crowded = 0;
  for (std::size_t k = 0; k < fetches.size(); ++k) {
    Fetch& fetch = fetches[k];
    held += static_cast<std::int64_t>(fetch.bytes);
    for (; step < fetch.deadline; ++step) {
      for (; next_due < fetches.size() && fetches[next_due].deadline <= step; ++next_due) {
        due += static_cast<std::int64_t>(fetches[next_due].bytes);
      }
      const std::int64_t left = static_cast<std::int64_t>(schedule_.live[step]) - due;
      while (!tops_.empty() && tops_.back().left <= left) tops_.pop_back();
      crowded = std::min(crowded, tops_.size());
      tops_.push_back({step, left});
    }
    while (crowded < tops_.size() && tops_[crowded].left > static_cast<std::int64_t>(rules_.cap) - held)
      ++crowded;
    const std::int32_t fits = crowded == 0 ? 0 : tops_[crowded - 1].step + 1;
    // The last step that starts in time, if that is later than where the fetch before this one is.
    std::int32_t enough = previous;
    while (enough + 1 < fetch.deadline && starts_[static_cast<std::size_t>(enough) + 1] <= latest_starts_[k])
      ++enough;
    fetch.trigger = std::min(fetch.deadline, std::max({fits, enough, away_from(fetch.map), previous}));
    fetch.squeezed = fetch.trigger == fits;
    previous = fetch.trigger;
  }
}

void Simulator::place_fetches() {
  auto& fetches = schedule_.fetches;
  std::sort(fetches.begin(), fetches.end(), [](const Fetch& a, const Fetch& b) {
    if (a.deadline != b.deadline) return a.deadline < b.deadline;
    return a.map != b.map ? a.map < b.map : a.bytes > b.bytes;  // the last piece may be smaller
  });
  if (rules_.prefetch == Prefetch::early) {
    find_latest_starts();
    place_early();
  } else if (rules_.prefetch != Prefetch::at_need) {
    std::int32_t previous = 0;
    for (Fetch& fetch : fetches) {
      fetch.trigger = std::min(fetch.deadline, std::max(layer_trigger(fetch), previous));
      previous = fetch.trigger;
    }
  }
  change_.assign(schedule_.steps.size() + 1, 0);
  for (const Fetch& fetch : fetches) {
    change_[fetch.trigger] += static_cast<std::int64_t>(fetch.bytes);
    change_[fetch.deadline] -= static_cast<std::int64_t>(fetch.bytes);
  }
  std::int64_t more = 0;
  schedule_.peak = 0;
  for (std::size_t s = 0; s < schedule_.steps.size(); ++s) {
    more += change_[s];
    schedule_.live[s] += static_cast<std::uint64_t>(more);
    schedule_.peak = std::max(schedule_.peak, schedule_.live[s]);
  }
}

}  // namespace pooch::policy
