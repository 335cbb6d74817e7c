#include "runtime/execution/alias.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "core/bytes.h"
#include "core/log.h"
#include "runtime/memory/host_wait.h"
#include "runtime/memory/memory_limits.h"

namespace pooch::runtime {
namespace {

// What the host needs to map a frame anew: an H200 takes 50 us for unmap, map and access on an idle device,
// and 1 ms beside copies to the host (docs/decisions/0079), which are under way most of the time.
constexpr double move_us = 1000;
// Of an iteration. A plan for a little less memory costs less than the device waiting longer, or the host
// mapping longer. The first layouts must do with less than those after them; what comes then is taken as it
// is.
struct Patience {
  double waits, mapping;
};
constexpr Patience at_first{0.003, 0.25}, later{0.05, 0.5};
constexpr int first_layouts = 3;  // of those that are given up for that

// Of the phase's buffers that have no place in the layout, and of what is alive now: the most bytes at once.
// `alive`: bytes of what is there and has no place. A buffer that an iteration finds and never touches was
// seen at no address: what is there of its size is taken for it, else it lies where the layout has another
// one.
std::uint64_t most_beside(const AliasPhase& phase, std::vector<std::uint64_t> alive) {
  const std::vector<ProfileBuffer>& buffers = phase.known->profile.buffers;
  std::vector<std::int64_t> change(static_cast<std::size_t>(phase.script->positions()) + 1);
  for (std::uint32_t b = 0; b < buffers.size(); ++b) {
    const ProfileBuffer& buffer = buffers[b];
    if (!phase.ranges[b].empty() || !buffer.managed) continue;
    const std::uint64_t bytes = round_up(buffer.bytes, page);
    if (buffer.from <= 0) {  // there before the first op
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
  return std::accumulate(alive.begin(), alive.end(), static_cast<std::uint64_t>(most));
}

}  // namespace

bool AliasMode::serves(const Script& script) const {
  return built() && index_of(&script) < phases_.size();
}

std::size_t AliasMode::index_of(const Script* script) const {
  const auto same = [&](const AliasPhase& phase) { return phase.script == script; };
  return static_cast<std::size_t>(std::find_if(phases_.begin(), phases_.end(), same) - phases_.begin());
}

// --- who is on the device when

void AliasMode::hold(Range& range, std::size_t chunk, std::size_t phase, LayoutSpan span) {
  Chunk& held = range.chunks[chunk];
  const auto [place, fresh] = index_.try_emplace(&held, places_.size());
  if (fresh) {
    places_.push_back({.range = &range, .first = chunk, .bytes = held.bytes, .chunk = &held});
    places_.back().in.resize(phases_.size());
  }
  places_[place->second].in[phase].push_back({span});
}

LayoutSpan AliasMode::span_of(std::size_t phase, std::int32_t from, std::int32_t to, bool crosses) const {
  const Script& script = *phases_[phase].script;
  return {from, to, script.step_start_us(from), script.step_end_us(to), crosses};
}

void AliasMode::hold_buffer(std::size_t phase, std::uint32_t buffer, Range& range) {
  const AliasPhase& mine = phases_[phase];
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
      LayoutSpan before = stay(from, script.step_of_op(life.away - 1)), after = stay(life.step_back(end), to);
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
void AliasMode::join_stays(Place& place) {
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

void AliasMode::collect() {
  places_.clear();
  index_.clear();
  std::set<Range*> lasting;
  for (std::size_t p = 0; p < phases_.size(); ++p) {
    const AliasPhase& phase = phases_[p];
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
  join_neighbours();
}

bool AliasMode::Place::goes_with(const Place& other) const {
  const auto same = [](const Stay& a, const Stay& b) {
    return a.span.from == b.span.from && a.span.to == b.span.to && a.span.crosses == b.span.crosses;
  };
  return std::equal(in.begin(), in.end(), other.in.begin(), other.in.end(),
                    [&](const auto& mine, const auto& others) {
                      return std::equal(mine.begin(), mine.end(), others.begin(), others.end(), same);
                    });
}

void AliasMode::Place::join(const Place& next) {
  bytes += next.bytes;
  ++count;
  for (std::size_t phase = 0; phase < in.size(); ++phase)
    for (std::size_t s = 0; s < in[phase].size(); ++s) {
      LayoutSpan& mine = in[phase][s].span;
      const LayoutSpan& its = next.in[phase][s].span;
      mine.start_us = std::min(mine.start_us, its.start_us);
      mine.free_us = std::max(mine.free_us, its.free_us);
    }
}

// Neighbours that come and go together are one place, but not too large: content comes and goes with a chunk.
void AliasMode::join_neighbours() {
  const std::uint64_t most = std::max(pool_.largest_class(), pool_.cap() / 32 / page * page);
  std::sort(places_.begin(), places_.end(),
            [](const Place& a, const Place& b) { return a.chunk->address < b.chunk->address; });
  std::vector<Place> joined;
  for (auto first = places_.begin(); first != places_.end();) {
    std::uint64_t all = 0;
    auto end = first;
    for (; end != places_.end() && end->range == first->range &&
           end->first == first->first + static_cast<std::size_t>(end - first) && first->goes_with(*end);
         ++end)
      all += end->bytes;
    const std::uint64_t parts = (all + most - 1) / most;
    std::uint64_t before = 0;
    for (std::uint64_t part = 1; part <= parts; ++part) {
      Place& place = joined.emplace_back(std::move(*first));
      for (++first; first != end && (before + place.bytes) * parts < all * part; ++first) place.join(*first);
      before += place.bytes;
      if (first == end) break;
    }
  }
  places_ = std::move(joined);
  index_.clear();
  for (std::size_t i = 0; i < places_.size(); ++i)
    for (std::size_t c = 0; c < places_[i].count; ++c) index_[places_[i].chunk + c] = i;
}

// Once nothing has memory.
Status AliasMode::merge_chunks() {
  std::size_t gone = 0;  // chunks of the range at hand
  for (std::size_t i = 0; i < places_.size(); ++i) {
    Place& place = places_[i];
    if (i == 0 || place.range != places_[i - 1].range) gone = 0;
    place.first -= gone;
    if (place.count > 1)
      if (const auto merged = residency_.merge(*place.range, place.first, place.count); !merged)
        return merged;
    gone += place.count - 1;
    place.count = 1;
  }
  index_.clear();
  for (std::size_t i = 0; i < places_.size(); ++i) {
    places_[i].chunk = &places_[i].range->chunks[places_[i].first];
    index_[places_[i].chunk] = i;
  }
  return Done{};
}

std::vector<LayoutItem> AliasMode::items() const {
  std::vector<LayoutItem> all;
  for (const Place& place : places_) {
    LayoutItem& item = all.emplace_back();
    item.bytes = place.bytes;
    // The phases one after the other.
    std::int32_t base = 0;
    double base_us = 0;
    for (std::size_t p = 0; p < phases_.size(); ++p) {
      for (const Stay& stay : place.in[p]) {
        LayoutSpan& span = item.held.emplace_back(stay.span);
        span.from += base, span.to += base;
        span.start_us += base_us, span.free_us += base_us;
      }
      const std::int32_t steps = phases_[p].script->steps();
      base += steps;
      base_us += phases_[p].script->step_start_us(steps);
    }
  }
  return all;
}

// Of one iteration of each phase.
double AliasMode::duration_us() const {
  double us = 0;
  for (const AliasPhase& phase : phases_) us += phase.script->step_start_us(phase.script->steps());
  return us;
}

bool AliasMode::takes_too_long(const Layout& layout) const {
  if (wasteful_ == all_layouts) return false;
  const Patience most = wasteful_ < first_layouts ? at_first : later;
  return layout.wait_us > most.waits * duration_us() ||
         static_cast<double>(layout.moves) * move_us > most.mapping * duration_us();
}

// Bytes that are mapped privately, at most at once.
std::uint64_t AliasMode::beside() const {
  std::vector<std::uint64_t> alive;
  residency_.each_range([&](const Range& range) {
    std::uint64_t bytes = 0;
    for (const Chunk& chunk : range.chunks)
      if (range.in_use && !index_.contains(&chunk)) bytes += chunk.bytes;
    if (bytes > 0) alive.push_back(bytes);
  });
  std::uint64_t most = 0;
  for (const AliasPhase& phase : phases_) most = std::max(most, most_beside(phase, alive));
  return most;
}

// The program waits for this, so the same is not looked for twice.
const Layout& AliasMode::search(std::vector<LayoutItem> all, std::uint64_t room) {
  Search& latest = latest_search_;
  if (latest.items == all && latest.room == room) return latest.found;
  latest = {std::move(all), room, {}};
  const std::uint64_t at_once = most_at_once(latest.items);
  // Nor what no layout can do with.
  if (at_once > room) {
    latest.found.frames = {at_once};
    return latest.found;
  }
  latest.found = lay_out(latest.items, room, move_us);
  log::info("layout: {} ({} at once) of {} in {} frames, expected waits {:.1f} ms, {} mapped in an iteration",
            format_bytes(latest.found.bytes()), format_bytes(at_once), format_bytes(room),
            latest.found.frames.size(), latest.found.wait_us / 1e3, latest.found.moves);
  return latest.found;
}

Result<const Layout*> AliasMode::find(std::vector<AliasPhase> phases) {
  phases_ = std::move(phases);
  collect();
  const std::uint64_t others = page + beside();
  const std::uint64_t room = pool_.least_limit() > others ? pool_.least_limit() - others : 0;
  const Layout& layout = search(items(), room);
  shortfall_ = layout.bytes() > room ? layout.bytes() - room : 0;
  took_too_long_ = shortfall_ == 0 && takes_too_long(layout);
  if (shortfall_ > 0)
    return Error{ErrorCode::out_of_memory,
                 fmt::format("the layout needs {} more memory", format_bytes(shortfall_))};
  if (!took_too_long_) return &layout;
  ++wasteful_;
  shortfall_ = room / 64;
  return Error{ErrorCode::out_of_memory, "the layout takes too long"};
}

Status AliasMode::try_out(std::vector<AliasPhase> phases) {
  const auto found = find(std::move(phases));
  (void)dismantle();
  return found ? Status(Done{}) : found.error();
}

// --- in and out

Status AliasMode::build(std::vector<AliasPhase> phases, Held& held) {
  const auto found = find(std::move(phases));
  Status done = found ? Status(Done{}) : found.error();
  const Layout layout = found ? **found : Layout{};  // another thread may look for one meanwhile
  if (done) pool_.use_units();
  if (done) done = save_and_unmap(held);
  if (done) done = merge_chunks();
  if (done) done = take_frames(layout);
  if (done) done = map_all(layout);
  if (done) return done;
  (void)dismantle();
  return done;
}

// Everything that lives goes to the host; the handles go back to the pool, with those of memory that nobody
// uses.
Status AliasMode::save_and_unmap(Held& held) {
  std::vector<Chunk*> leaving;
  for (const Place& place : places_)
    for (std::size_t c = 0; c < place.count; ++c) leaving.push_back(place.chunk + c);
  for (Chunk* chunk : residency_.mapped())
    if (!chunk->live && chunk->pins == 0 && !index_.contains(chunk)) leaving.push_back(chunk);
  Marks marks;
  for (Chunk* chunk : leaving) {
    if (chunk->pins > 0) return Error{ErrorCode::out_of_memory, "a chunk is in use"};
    if (chunk->state == ChunkState::evicting) chunk->state = ChunkState::resident;
    if (chunk->state != ChunkState::resident) continue;
    if (const auto saved = residency_.save(*chunk); !saved) return saved;
    marks.add(chunk->uses);
  }
  if (const auto waited = await(device_, order_, marks, held); !waited) return waited;
  std::vector<Chunk*> gone;
  for (Chunk* chunk : leaving) {
    if (chunk->pins > 0 || (chunk->live && !chunk->host_valid && chunk->state == ChunkState::resident))
      return Error{ErrorCode::out_of_memory, "another thread has used a chunk meanwhile"};
    if (chunk->state != ChunkState::resident) continue;
    const auto finished = order_.finished(chunk->uses);
    if (!finished) return finished.error();
    if (!*finished) return Error{ErrorCode::out_of_memory, "another thread has used a chunk meanwhile"};
    gone.push_back(chunk);
  }
  if (const auto done = residency_.finish_evictions(std::move(gone)); !done) return done;
  departures_.forget_all();
  return Done{};
}

Status AliasMode::take_frames(const Layout& layout) {
  frames_.reserve(layout.frames.size());
  for (const std::uint64_t bytes : layout.frames) {
    const auto piece = pool_.acquire_whole(bytes);
    if (!piece) return piece.error();
    frames_.push_back({{*piece}, nullptr});
  }
  return Done{};
}

Status AliasMode::map_all(const Layout& layout) {
  std::vector<Chunk*> sorted;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    Place& place = places_[i];
    std::map<std::vector<std::uint32_t>, std::uint32_t> spot_of;
    std::size_t span = 0;
    for (std::vector<Stay>& in : place.in)
      for (Stay& stay : in) {
        const std::vector<std::uint32_t>& numbers = layout.frames_of[i][span++];
        const auto [spot, fresh] =
            spot_of.try_emplace(numbers, static_cast<std::uint32_t>(place.spots.size()));
        stay.spot = spot->second;
        if (!fresh) continue;
        std::vector<Frame*>& frames = place.spots.emplace_back();
        for (const std::uint32_t number : numbers) frames.push_back(&frames_[number]);
      }
    const auto& first = place.spots.front();
    place.common = first.size();
    for (const auto& frames : place.spots) {
      const auto end = std::mismatch(first.begin(), first.end(), frames.begin(), frames.end()).first;
      place.common = std::min(place.common, static_cast<std::size_t>(end - first.begin()));
    }
    if (const auto mapped = residency_.map_to(*place.chunk, first); !mapped) return mapped;
    place.chunk->wanders = place.spots.size() > 1;
    sorted.push_back(place.chunk);
  }
  std::sort(sorted.begin(), sorted.end(),
            [](const Chunk* a, const Chunk* b) { return a->address < b->address; });
  for (std::size_t i = 0; i < sorted.size();) {
    const Address start = sorted[i]->address;
    Address end = start;
    for (; i < sorted.size() && sorted[i]->address == end; ++i) end = end + sorted[i]->bytes;
    if (const auto granted = device_.set_access(start, end - start); !granted) return granted;
  }
  return Done{};
}

Status AliasMode::dismantle() {
  Status outcome = Done{};
  for (const Place& place : places_)
    if (!place.chunk->frames.empty())
      if (const auto gone = residency_.unmap_from_frames(*place.chunk); !gone && outcome) outcome = gone;
  for (const Frame& frame : frames_)
    if (!frame.given_away) pool_.give_back(frame.pieces);
  places_.clear();
  index_.clear();
  frames_.clear();
  phases_.clear();
  return outcome;
}

// --- in an iteration

const AliasMode::Stay* AliasMode::Place::at(std::size_t phase, std::int32_t step) const {
  if (phase >= in.size()) return nullptr;
  const auto stay = std::partition_point(in[phase].begin(), in[phase].end(),
                                         [&](const Stay& s) { return s.span.to < step; });
  return stay != in[phase].end() && stay->span.from <= step ? &*stay : nullptr;
}

// False: what is there would be lost.
bool AliasMode::begin_tenancy(Chunk& chunk) {
  for (Frame* frame : chunk.frames) {
    Chunk* const before = std::exchange(frame->tenant, &chunk);
    if (before == nullptr || before == &chunk) continue;
    if (before->pins > 0 || (before->live && !before->host_valid && !before->expendable)) {
      frame->tenant = before;
      return false;
    }
    before->tenant = false;
    before->stale = before->live && before->host_valid;
    chunk.before.add(before->uses);
    chunk.uses.add(before->uses);
  }
  chunk.tenant = true;
  return true;
}

// Maps the chunk, which nobody uses any more, to other frames.
Result<AliasMode::Admission> AliasMode::move(Place& place, std::uint32_t spot) {
  Chunk& chunk = *place.chunk;
  if (chunk.pins > 0) return Admission::unforeseen;
  if (chunk.tenant && chunk.live && !chunk.host_valid && !chunk.expendable) return Admission::unforeseen;
  const auto finished = order_.finished(chunk.uses);
  if (!finished) return finished.error();
  if (!*finished) {
    busy_.add(chunk.uses);
    return Admission::busy;
  }
  if (const auto moved = residency_.move_to(chunk, place.spots[spot], place.common); !moved) {
    if (residency_.doubt()) return moved.error();
    log::info("a chunk cannot be mapped anew: {}", moved.error().message);
    return Admission::unforeseen;
  }
  moves_ += place.spots[spot].size() - place.common;
  place.spot = spot;
  return Admission::done;
}

Result<AliasMode::Admission> AliasMode::give_frames(Chunk& chunk, std::size_t phase, std::int32_t step) {
  if (chunk.tenant && !chunk.wanders) return Admission::done;
  const auto found = index_.find(&chunk);
  if (found == index_.end()) return Admission::unforeseen;
  Place& place = places_[found->second];
  const Stay* const stay = place.at(phase, step);
  if (chunk.tenant && (stay == nullptr || stay->spot == place.spot)) return Admission::done;
  if (stay == nullptr) return Admission::unforeseen;
  if (stay->spot != place.spot)
    if (const auto moved = move(place, stay->spot); !moved || *moved != Admission::done) return moved;
  return begin_tenancy(chunk) ? Admission::done : Admission::unforeseen;
}

Result<AliasMode::Admission> AliasMode::admit(const Script* script, std::int32_t step,
                                              std::span<const tracker::Operand> operands) {
  // What comes between two iterations comes ahead of the next one's first op.
  if (script != nullptr) latest_ = index_of(script);
  const std::size_t phase = latest_;
  if (script == nullptr) step = 0;
  busy_.clear();
  for (const tracker::Operand& operand : operands) {
    if (!operand.managed) continue;
    Range& range = *static_cast<Range*>(operand.backing);
    const std::uint64_t end = operand.offset + operand.bytes;
    auto chunk = std::partition_point(range.chunks.begin(), range.chunks.end(),
                                      [&](const Chunk& c) { return c.offset + c.bytes <= operand.offset; });
    for (; chunk != range.chunks.end() && chunk->offset < end; ++chunk) {
      if (chunk->frames.empty()) continue;
      const auto given = give_frames(*chunk, phase, step);
      if (!given || *given == Admission::unforeseen) return given;
    }
  }
  return busy_.empty() ? Admission::done : Admission::busy;
}

Result<AliasMode::Admission> AliasMode::fetch(const Script* script, std::int32_t step, Chunk& chunk) {
  busy_.clear();
  const auto given = give_frames(chunk, index_of(script), step);
  if (!given || *given != Admission::done) return given;
  if (!chunk.stale) return Admission::done;
  if (const auto fetched = residency_.fetch(chunk); !fetched) return fetched.error();
  return Admission::done;
}

}  // namespace pooch::runtime
