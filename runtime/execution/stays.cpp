#include "runtime/execution/stays.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "core/bytes.h"
#include "runtime/memory/memory_limits.h"

namespace pooch::runtime {
namespace {

class Collector {
 public:
  explicit Collector(const std::vector<PlacedPhase>& phases) : phases_(phases) {}

  std::vector<Place> run(std::uint64_t most_bytes) {
    std::set<Range*> lasting;
    for (std::size_t p = 0; p < phases_.size(); ++p) {
      const PlacedPhase& phase = phases_[p];
      for (std::uint32_t b = 0; b < phase.ranges.size(); ++b) {
        for (Range* range : phase.ranges[b]) {
          hold_buffer(p, b, *range);
          if (phase.script->life(b).lasts) lasting.insert(range);
        }
      }
      for (std::uint32_t s = 0; s < phase.slots.size(); ++s) {
        if (phase.slots[s] == nullptr) continue;
        const auto [from, to] = phase.script->slots()[s].steps;
        Range& range = *phase.slots[s];
        for (std::size_t c = 0; c < range.chunks.size(); ++c) hold(range, c, p, span_of(p, from, to, false));
      }
    }
    // What outlives one phase's iterations lives through the others' too.
    for (Range* range : lasting)
      for (std::size_t c = 0; c < range->chunks.size(); ++c)
        for (std::size_t p = 0; p < phases_.size(); ++p)
          if (places_[index_.at(&range->chunks[c])].in[p].empty())
            hold(*range, c, p, span_of(p, 0, phases_[p].script->steps() - 1, true));
    for (Place& place : places_) join_stays(place);
    return join_neighbours(most_bytes);
  }

 private:
  void hold(Range& range, std::size_t chunk, std::size_t phase, LayoutSpan span) {
    Chunk& held = range.chunks[chunk];
    const auto [place, fresh] = index_.try_emplace(&held, places_.size());
    if (fresh) {
      places_.push_back({.range = &range, .first = chunk, .bytes = held.bytes, .chunk = &held});
      places_.back().in.resize(phases_.size());
    }
    places_[place->second].in[phase].push_back({span});
  }
  LayoutSpan span_of(std::size_t phase, std::int32_t from, std::int32_t to, bool crosses) const {
    const Script& script = *phases_[phase].script;
    return {from, to, script.step_start_us(from), script.step_end_us(to), crosses};
  }
  void hold_buffer(std::size_t phase, std::uint32_t buffer, Range& range) {
    const PlacedPhase& mine = phases_[phase];
    const Script& script = *mine.script;
    const ScriptLife& life = script.life(buffer);
    if (life.from > life.to) return;
    const std::int32_t last = script.steps() - 1;
    const bool in_turn = mine.ranges[buffer].size() > 1 && life.from == 0;
    const auto stay = [&](std::int32_t from, std::int32_t to) {
      return span_of(phase, from, to, (life.lasts || in_turn) && (from == 0 || to == last));
    };
    const std::int32_t from = life.from == 0 ? 0 : script.step_of_op(life.from),
                       to = script.step_of_op(life.to);
    for (std::size_t c = 0; c < range.chunks.size(); ++c) {
      const Chunk& chunk = range.chunks[c];
      const bool leaves = life.away > 0 && chunk.offset + chunk.bytes <= round_up(life.moved, page);
      if (leaves) {
        const std::uint64_t end = chunk.offset + chunk.bytes;  // nothing may be there yet
        LayoutSpan before = stay(from, script.step_of_op(life.away - 1)),
                   after = stay(life.step_back(end), to);
        before.free_us = std::max(before.free_us, script.away_us(buffer, end));
        after.start_us = life.back_us(chunk.offset, end);
        hold(range, c, phase, before);
        hold(range, c, phase, after);
      } else {
        hold(range, c, phase, stay(from, to));
      }
      // The next iteration's content arrives while this one still computes.
      if (in_turn) hold(range, c, phase, stay(script.step_before_end(buffer), last));
    }
  }

  // Several buffers may have had the chunk's addresses.
  static void join_stays(Place& place) {
    for (std::vector<Stay>& in : place.in) {
      std::sort(in.begin(), in.end(), [](const Stay& a, const Stay& b) { return a.span.from < b.span.from; });
      std::vector<Stay> joined;
      for (const Stay& stay : in) {
        if (joined.empty() || joined.back().span.to < stay.span.from) {
          joined.push_back(stay);
          continue;
        }
        LayoutSpan& span = joined.back().span;
        span.to = std::max(span.to, stay.span.to);
        span.start_us = std::min(span.start_us, stay.span.start_us);
        span.free_us = std::max(span.free_us, stay.span.free_us);
        span.crosses |= stay.span.crosses;
      }
      in = std::move(joined);
    }
  }

  // The same stays, but for their times.
  static bool go_together(const Place& one, const Place& other) {
    const auto same = [](const Stay& a, const Stay& b) {
      return a.span.from == b.span.from && a.span.to == b.span.to && a.span.crosses == b.span.crosses;
    };
    return std::equal(one.in.begin(), one.in.end(), other.in.begin(), other.in.end(),
                      [&](const auto& mine, const auto& others) {
                        return std::equal(mine.begin(), mine.end(), others.begin(), others.end(), same);
                      });
  }
  static void join(Place& place, const Place& next) {
    place.bytes += next.bytes;
    ++place.count;
    for (std::size_t phase = 0; phase < place.in.size(); ++phase)
      for (std::size_t s = 0; s < place.in[phase].size(); ++s) {
        LayoutSpan& mine = place.in[phase][s].span;
        const LayoutSpan& its = next.in[phase][s].span;
        mine.start_us = std::min(mine.start_us, its.start_us);
        mine.free_us = std::max(mine.free_us, its.free_us);
      }
  }
  std::vector<Place> join_neighbours(std::uint64_t most_bytes) {
    std::sort(places_.begin(), places_.end(),
              [](const Place& a, const Place& b) { return a.chunk->address < b.chunk->address; });
    std::vector<Place> joined;
    for (auto first = places_.begin(); first != places_.end();) {
      std::uint64_t all = 0;
      auto end = first;
      for (; end != places_.end() && end->range == first->range &&
             end->first == first->first + static_cast<std::size_t>(end - first) && go_together(*first, *end);
           ++end)
        all += end->bytes;
      const std::uint64_t parts = (all + most_bytes - 1) / most_bytes;
      std::uint64_t before = 0;
      for (std::uint64_t part = 1; part <= parts; ++part) {
        Place& place = joined.emplace_back(std::move(*first));
        for (++first; first != end && (before + place.bytes) * parts < all * part; ++first)
          join(place, *first);
        before += place.bytes;
        if (first == end) break;
      }
    }
    return joined;
  }

  const std::vector<PlacedPhase>& phases_;
  std::vector<Place> places_;
  std::map<const Chunk*, std::size_t> index_;  // into places_
};

}  // namespace

const Stay* Place::at(std::size_t phase, std::int32_t step) const {
  if (phase >= in.size()) return nullptr;
  const auto stay = std::partition_point(in[phase].begin(), in[phase].end(),
                                         [&](const Stay& s) { return s.span.to < step; });
  return stay != in[phase].end() && stay->span.from <= step ? &*stay : nullptr;
}

std::vector<Place> places_of(const std::vector<PlacedPhase>& phases, std::uint64_t most_bytes) {
  return Collector(phases).run(most_bytes);
}

std::vector<LayoutItem> items_of(const std::vector<Place>& places, const std::vector<PlacedPhase>& phases) {
  std::vector<LayoutItem> all;
  for (const Place& place : places) {
    LayoutItem& item = all.emplace_back();
    item.bytes = place.bytes;
    std::int32_t base = 0;
    double base_us = 0;
    for (std::size_t p = 0; p < phases.size(); ++p) {
      for (const Stay& stay : place.in[p]) {
        LayoutSpan& span = item.held.emplace_back(stay.span);
        span.from += base, span.to += base;
        span.start_us += base_us, span.free_us += base_us;
      }
      const std::int32_t steps = phases[p].script->steps();
      base += steps;
      base_us += phases[p].script->step_start_us(steps);
    }
  }
  return all;
}

double duration_us(const std::vector<PlacedPhase>& phases) {
  double us = 0;
  for (const PlacedPhase& phase : phases) us += phase.script->step_start_us(phase.script->steps());
  return us;
}

std::uint64_t most_beside(const PlacedPhase& phase, std::vector<std::uint64_t> alive) {
  const std::vector<ProfileBuffer>& buffers = phase.known->profile.buffers;
  const std::uint64_t all = std::accumulate(alive.begin(), alive.end(), std::uint64_t{0});
  std::vector<std::int64_t> change(static_cast<std::size_t>(phase.script->positions()) + 1);
  for (std::uint32_t b = 0; b < buffers.size(); ++b) {
    const ProfileBuffer& buffer = buffers[b];
    if (!phase.ranges[b].empty() || !buffer.managed) continue;
    const std::uint64_t bytes = round_up(buffer.bytes, page);
    if (buffer.from <= 0) {  // there before the first op
      // One that an iteration finds and never touches was seen at no address: what is there of its size is
      // taken for it, else it lies where another one has its place.
      const ScriptLife& life = phase.script->life(b);
      const auto found = std::find(alive.begin(), alive.end(), bytes);
      if (found == alive.end() && life.from > life.to) continue;
      if (found != alive.end()) alive.erase(found);
    }
    change[buffer.from == outside ? 0 : static_cast<std::size_t>(buffer.from)] +=
        static_cast<std::int64_t>(bytes);
    if (buffer.until != outside)
      change[static_cast<std::size_t>(buffer.until)] -= static_cast<std::int64_t>(bytes);
  }
  std::int64_t now = 0, most = 0;
  for (const std::int64_t by : change) most = std::max(most, now += by);
  // What the iteration frees first of all is there while the layout's memory is taken.
  return std::max(all, std::accumulate(alive.begin(), alive.end(), static_cast<std::uint64_t>(most)));
}

}  // namespace pooch::runtime
