#include "runtime/script/places.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "core/pages.h"

namespace pooch::runtime {
namespace {

std::size_t large_slots(const Script& script) {
  return static_cast<std::size_t>(std::count_if(script.slots().begin(), script.slots().end(),
                                                [](const ReplaySlot& slot) { return !slot.small; }));
}

class Collector {
 public:
  Collector(const std::vector<PlacedPhase>& phases, const std::vector<ProfileRange>& ranges,
            std::uint64_t most)
      : phases_(phases) {
    for (const ProfileRange& range : ranges) pieces_.push_back(pieces_of(range.bytes, most));
  }

  std::vector<Place> run() {
    std::set<std::uint32_t> lasting;
    std::vector<Lingering> lingering;
    std::uint32_t slot_range = slots_begin();
    find_twins();
    for (std::size_t p = 0; p < phases_.size(); ++p) {
      const PlacedPhase& phase = phases_[p];
      for (std::uint32_t b = 0; b < phase.ranges.size(); ++b) {
        for (const std::uint32_t range : phase.ranges[b]) {
          if (twin_of_.contains(range) && range > twin_of_.at(range))
            continue;  // the other one has the place
          hold_buffer(p, b, range);
          if (const std::int32_t until = phase.script->life(b).others_linger; until > 0)
            lingering.push_back({range, p, until});
          if (phase.script->life(b).lasts && !is_away_between(p, b)) lasting.insert(range);
        }
      }
      for (const ReplaySlot& slot : phase.script->slots()) {
        if (slot.small) continue;
        const auto [from, to] = slot.steps;
        for (std::size_t c = 0; c < pieces_[slot_range].size(); ++c)
          hold({slot_range, c}, p, span_of(p, from, to, false));
        ++slot_range;
      }
    }
    // What outlives one phase's iterations lives through the others' too.
    for (const std::uint32_t range : lasting)
      for (std::size_t c = 0; c < pieces_[range].size(); ++c)
        for (std::size_t p = 0; p < phases_.size(); ++p)
          if (const auto place = places_.find({range, c});
              place == places_.end() || place->second.in[p].empty())
            hold({range, c}, p, span_of(p, 0, phases_[p].script->steps() - 1, true));
    for (const auto& [range, p, until] : lingering)
      for (std::size_t c = 0; c < pieces_[range].size() && lasting.contains(range); ++c)
        hold({range, c}, p, span_of(p, 0, phases_[p].script->step_of_op(until - 1), true));
    std::vector<Place> all;
    for (auto& [key, place] : places_) {
      join_stays(place);
      all.push_back(std::move(place));
    }
    return all;
  }

 private:
  using Key = std::pair<std::uint32_t, std::size_t>;  // range, piece
  using Ranges = std::vector<std::uint32_t>;
  struct Lingering {
    std::uint32_t range;
    std::size_t phase;
    std::int32_t until;
  };

  // Two ranges with one buffer each phase, which lies in both in turn and has no content at the borders of an
  // iteration.
  void find_twins() {
    std::set<Ranges> pairs;
    std::set<std::uint32_t> others;
    for (const PlacedPhase& phase : phases_) {
      std::set<std::uint32_t> taken;
      for (std::uint32_t b = 0; b < phase.ranges.size(); ++b) {
        Ranges ranges = phase.ranges[b];
        std::sort(ranges.begin(), ranges.end());
        // What comes ahead of the first op arrives while the iteration before still computes.
        const bool anew = phase.profile->buffers[b].from > 0 && !phase.script->life(b).lasts;
        const bool alone = std::none_of(ranges.begin(), ranges.end(),
                                        [&](std::uint32_t range) { return taken.contains(range); });
        if (ranges.size() == 2 && anew && alone && pieces_[ranges[0]] == pieces_[ranges[1]])
          pairs.insert(ranges);
        else
          others.insert(ranges.begin(), ranges.end());
        taken.insert(ranges.begin(), ranges.end());
      }
    }
    std::map<std::uint32_t, int> pairs_of;
    for (const Ranges& pair : pairs)
      for (const std::uint32_t range : pair) ++pairs_of[range];
    for (const Ranges& pair : pairs)
      if (std::none_of(pair.begin(), pair.end(),
                       [&](std::uint32_t range) { return others.contains(range) || pairs_of[range] > 1; }))
        twin_of_[pair[0]] = pair[1], twin_of_[pair[1]] = pair[0];
  }

  std::uint32_t slots_begin() const {
    std::size_t slots = 0;
    for (const PlacedPhase& phase : phases_) slots += large_slots(*phase.script);
    return static_cast<std::uint32_t>(pieces_.size() - slots);
  }
  void hold(Key key, std::size_t phase, LayoutSpan span) {
    Place& place = places_[key];
    if (place.in.empty()) {
      place.range = key.first;
      const auto twin = twin_of_.find(key.first);
      place.twin = twin == twin_of_.end() ? key.first : twin->second;
      place.piece = key.second;
      place.bytes = pieces_[key.first][key.second];
      place.in.resize(phases_.size());
    }
    place.in[phase].push_back({span});
  }
  LayoutSpan span_of(std::size_t phase, std::int32_t from, std::int32_t to, bool crosses) const {
    const Script& script = *phases_[phase].script;
    return {from, to, script.step_start_us(from), script.step_end_us(to), crosses};
  }
  void hold_buffer(std::size_t phase, std::uint32_t buffer, std::uint32_t range) {
    const PlacedPhase& mine = phases_[phase];
    const Script& script = *mine.script;
    const ScriptLife& life = script.life(buffer);
    if (life.from > life.to) return;
    const std::int32_t last = script.steps() - 1;
    const bool in_turn = mine.ranges[buffer].size() > 1 && life.from == 0 && !life.across;
    const auto stay = [&](std::int32_t from, std::int32_t to) {
      return span_of(phase, from, to, (life.lasts || in_turn) && (from == 0 || to == last));
    };
    const bool other_before = is_other_before(mine, buffer);
    const std::int32_t begins = other_before ? life.used : life.from;
    const std::int32_t from = begins == 0 ? 0 : script.step_of_op(begins), to = script.step_of_op(life.to);
    const std::uint64_t whole = round_up(mine.profile->buffers[buffer].bytes, page);
    const std::int32_t lingers = other_before ? 0 : life.lingers;
    std::uint64_t end = 0;  // of the piece
    for (std::size_t c = 0; c < pieces_[range].size(); ++c) {
      const std::uint64_t begin = end;
      end = std::min(whole, end + pieces_[range][c]);
      if (lingers > 0) hold({range, c}, phase, stay(0, script.step_of_op(lingers - 1)));
      const bool leaves = life.away > begins && end <= round_up(life.moved, page);
      if (leaves && life.across) {
        LayoutSpan there = span_of(phase, life.step_back(end), script.step_of_op(life.away - 1), false);
        there.free_us = std::max(there.free_us, script.away_us(buffer, end));
        there.start_us = life.back_us(begin, end);
        hold({range, c}, phase, there);
      } else if (life.across && !life.lasts) {  // it leaves for good
        LayoutSpan there = span_of(phase, from, to, false);
        there.free_us = std::max(there.free_us, script.away_us(buffer, end));
        hold({range, c}, phase, there);
      } else if (leaves) {
        // Nothing may be there yet.
        LayoutSpan before = stay(from, script.step_of_op(life.away - 1)),
                   after = stay(life.step_back(end), to);
        before.free_us = std::max(before.free_us, script.away_us(buffer, end));
        after.start_us = life.back_us(begin, end);
        hold({range, c}, phase, before);
        hold({range, c}, phase, after);
      } else {
        hold({range, c}, phase, stay(from, to));
      }
      // The next iteration's content arrives while this one still computes.
      if (in_turn) hold({range, c}, phase, stay(script.step_before_end(buffer), last));
    }
  }

  // At the beginning of the iteration another buffer is known to be there: what the iteration before left.
  // One that no op touches has no stay of its own.
  static bool is_other_before(const PlacedPhase& phase, std::uint32_t buffer) {
    const std::vector<ProfileBuffer>& buffers = phase.profile->buffers;
    if (phase.ranges[buffer].size() != 1 || buffers[buffer].from == outside ||
        buffers[buffer].until != outside)
      return false;
    for (std::size_t other = 0; other < buffers.size(); ++other)
      if (buffers[other].from == outside && buffers[other].until != outside &&
          phase.ranges[other] == phase.ranges[buffer] &&
          phase.script->life(static_cast<std::uint32_t>(other)).to >= 0)
        return true;
    return false;
  }

  // All of it leaves before the phase's iterations end.
  bool is_away_between(std::size_t phase, std::uint32_t buffer) const {
    const ScriptLife& life = phases_[phase].script->life(buffer);
    return life.across && life.away > 0 && life.bytes <= life.moved;
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

  const std::vector<PlacedPhase>& phases_;
  std::vector<std::vector<std::uint64_t>> pieces_;  // by range, bytes of each
  std::map<Key, Place> places_;
  std::map<std::uint32_t, std::uint32_t> twin_of_;  // by range
};

// Bytes of the phase's buffers that have no place, and of what is alive now, at most at once. `alive`: of
// each allocation that is there and has no place.
std::uint64_t most_beside(const PlacedPhase& phase, std::vector<std::uint64_t> alive) {
  const std::vector<ProfileBuffer>& buffers = phase.profile->buffers;
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

}  // namespace

const Stay* Place::at(std::size_t phase, std::int32_t step) const {
  if (phase >= in.size()) return nullptr;
  const auto stay = std::partition_point(in[phase].begin(), in[phase].end(),
                                         [&](const Stay& s) { return s.span.to < step; });
  return stay != in[phase].end() && stay->span.from <= step ? &*stay : nullptr;
}

void add_slots(const std::vector<PlacedPhase>& phases, std::vector<ProfileRange>& ranges) {
  for (const PlacedPhase& phase : phases)
    for (const ReplaySlot& slot : phase.script->slots())
      if (!slot.small) ranges.push_back({round_up(slot.bytes, page)});
}

std::vector<Place> places_of(const std::vector<PlacedPhase>& phases, const std::vector<ProfileRange>& ranges,
                             std::uint64_t cap) {
  return Collector(phases, ranges, largest_piece(cap)).run();
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

std::uint64_t bytes_beside(const std::vector<Place>& places, const std::vector<PlacedPhase>& phases,
                           const std::vector<ProfileRange>& ranges) {
  std::vector<std::uint64_t> placed(ranges.size()), alive;
  std::set<std::pair<std::uint32_t, std::size_t>> seen;  // chunks
  for (const Place& place : places)
    for (const std::uint32_t range : {place.range, place.twin})
      if (seen.emplace(range, place.piece).second) placed[range] += place.bytes;
  for (std::size_t r = 0; r < ranges.size(); ++r) {
    const std::uint64_t bytes = ranges[r].bytes;
    if (ranges[r].in_use && bytes > placed[r]) alive.push_back(bytes - placed[r]);
  }
  std::uint64_t most = 0, small = 0;
  for (const PlacedPhase& phase : phases) {
    most = std::max(most, most_beside(phase, alive));
    small = std::max(small, phase.script->small_bytes());
  }
  return most + round_up(small, page) + page;
}

}  // namespace pooch::runtime
