#include "runtime/execution/alias.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "core/bytes.h"
#include "core/log.h"
#include "runtime/memory/host_wait.h"

namespace pooch::runtime {

bool AliasMode::serves(const Script& script) const {
  return built() && index_of(&script) < residents_.phases.size();
}

std::size_t AliasMode::index_of(const Script* script) const {
  const auto& phases = residents_.phases;
  const auto same = [&](const PlacedPhase& phase) { return phase.script == script; };
  return static_cast<std::size_t>(std::find_if(phases.begin(), phases.end(), same) - phases.begin());
}

void AliasMode::index_places() {
  index_.clear();
  chunks_.clear();
  for (std::size_t i = 0; i < places_.size(); ++i)
    for (Chunk* const chunk : {&chunk_of(places_[i]), &twin_of(places_[i])})
      if (index_.try_emplace(chunk, PlacedChunk{i}).second) chunks_.push_back(chunk);
}

// Those that have places.
std::vector<Range*> AliasMode::ranges() const {
  std::set<std::uint32_t> numbers;
  for (const Place& place : places_) numbers.insert({place.range, place.twin});
  std::vector<Range*> all;
  for (const std::uint32_t range : numbers) all.push_back(residents_.ranges[range]);
  return all;
}

// Into the pieces of the layout, once nothing has memory.
Status AliasMode::cut_chunks() {
  std::map<std::uint32_t, std::map<std::size_t, std::uint64_t>> sizes_of;  // by range and piece
  for (const Place& place : places_)
    for (const std::uint32_t range : {place.range, place.twin}) sizes_of[range][place.piece] = place.bytes;
  for (const auto& [range, by_piece] : sizes_of) {
    std::vector<std::uint64_t> sizes;
    for (const auto& [piece, bytes] : by_piece) sizes.push_back(bytes);
    if (const auto cut = residency_.cut(*residents_.ranges[range], sizes); !cut) return cut;
  }
  index_places();
  return Done{};
}

// --- in and out

Result<std::uint64_t> AliasMode::fits(const PlanLayout& layout, const Residents& residents) const {
  const auto refused = [](std::string why) { return Error{ErrorCode::out_of_memory, std::move(why)}; };
  const auto& phases = residents.phases;
  const auto is_for = [](const PlacedPhase& phase, const std::string& id) { return phase.profile->id == id; };
  if (!std::equal(phases.begin(), phases.end(), layout.phases.begin(), layout.phases.end(), is_for))
    return refused("the layout is for other phases");
  const std::vector<Place> places = places_of(phases, residents.described, pool_.cap());
  if (!same_stays(items_of(places, phases), layout.items)) return refused("the layout is for other places");
  const std::uint64_t others = bytes_beside(places, phases, residents.described);
  const std::uint64_t room = pool_.least_limit() - std::min(pool_.least_limit(), others);
  if (layout.layout.bytes() > room)
    return refused(
        fmt::format("the layout needs {} more memory", format_bytes(layout.layout.bytes() - room)));
  return room;
}

Status AliasMode::build(const PlanLayout& layout, Residents residents, Held& held) {
  if (const auto fit = fits(layout, residents); !fit) return fit.error();
  residents_ = std::move(residents);
  places_ = places_of(residents_.phases, residents_.described, pool_.cap());
  pool_.use_units();
  wanted_frame_ = 0;
  Status done = save_and_unmap(held);
  if (done) done = cut_chunks();
  if (done) done = take_frames(layout.layout);
  if (done) done = map_all(layout);
  if (done) return done;
  (void)dismantle();
  return done;
}

// Everything that lives goes to the host; the handles go back to the pool, with those of memory that nobody
// uses.
Status AliasMode::save_and_unmap(Held& held) {
  std::vector<Chunk*> leaving;
  for (Range* range : ranges())
    for (Chunk& chunk : range->chunks) leaving.push_back(&chunk);
  for (Chunk* chunk : residency_.mapped())
    if (!chunk->live && chunk->pins == 0) leaving.push_back(chunk);
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
    wanted_frame_ = bytes;
    const auto piece = pool_.acquire_whole(bytes);
    if (!piece) return piece.error();
    frames_.push_back({{*piece}, nullptr});
  }
  wanted_frame_ = 0;
  return Done{};
}

Status AliasMode::map_all(const PlanLayout& layout) {
  frames_of_.resize(places_.size());
  for (std::size_t i = 0; i < places_.size(); ++i) {
    Place& place = places_[i];
    PlaceFrames& mine = frames_of_[i];
    std::map<std::vector<std::uint32_t>, std::uint32_t> spot_of;
    std::size_t span = 0;
    std::int32_t base = 0;  // of the phase's steps
    for (std::size_t p = 0; p < place.in.size(); base += residents_.phases[p++].script->steps())
      for (Stay& stay : place.in[p]) {
        stay.span.from = layout.items[i].held[span].from - base;  // what arrives early may be expected later
        const std::vector<std::uint32_t>& numbers = layout.layout.frames_of[i][span++];
        const auto [spot, fresh] =
            spot_of.try_emplace(numbers, static_cast<std::uint32_t>(mine.spots.size()));
        stay.spot = spot->second;
        if (!fresh) continue;
        std::vector<Frame*>& frames = mine.spots.emplace_back();
        for (const std::uint32_t number : numbers) frames.push_back(&frames_[number]);
      }
    const auto& first = mine.spots.front();
    mine.common = first.size();
    for (const auto& frames : mine.spots) {
      const auto end = std::mismatch(first.begin(), first.end(), frames.begin(), frames.end()).first;
      mine.common = std::min(mine.common, static_cast<std::size_t>(end - first.begin()));
    }
  }
  for (Chunk* const chunk : chunks_) {
    const PlacedChunk& placed = index_[chunk];
    const auto& spots = frames_of_[placed.place].spots;
    if (const auto mapped = residency_.map_to(*chunk, spots.front()); !mapped) return mapped;
    chunk->wanders = spots.size() > 1;
  }
  std::vector<Chunk*> sorted = chunks_;
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
  for (Chunk* const chunk : chunks_)
    if (!chunk->frames.empty())
      if (const auto gone = residency_.unmap_from_frames(*chunk); !gone && outcome) outcome = gone;
  for (const Frame& frame : frames_)
    if (!frame.given_away) pool_.give_back(frame.pieces);
  places_.clear();
  frames_of_.clear();
  index_.clear();
  chunks_.clear();
  frames_.clear();
  residents_ = {};
  return outcome;
}

// --- in an iteration

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

AliasMode::Admission AliasMode::unforeseen(const Chunk& chunk, std::string_view why) {
  answer_.why = fmt::format("{} of {} {}", format_bytes(chunk.occupied),
                            chunk.name.empty() ? "memory" : std::string_view(chunk.name), why);
  return Admission::unforeseen;
}

// Maps the chunk, which nobody uses any more, to other frames.
Result<AliasMode::Admission> AliasMode::move(Chunk& chunk, PlacedChunk& placed, std::uint32_t spot) {
  const PlaceFrames& mine = frames_of_[placed.place];
  if (chunk.pins > 0) return unforeseen(chunk, "is to move while a call that blocks uses it");
  if (chunk.tenant && chunk.live && !chunk.host_valid && !chunk.expendable)
    return unforeseen(chunk, "is to move with its only content");
  const auto finished = order_.finished(chunk.uses);
  if (!finished) return finished.error();
  if (!*finished) {
    answer_.busy.add(chunk.uses);
    return Admission::busy;
  }
  if (const auto moved = residency_.move_to(chunk, mine.spots[spot], mine.common); !moved) {
    if (residency_.doubt()) return moved.error();
    log::info("a chunk cannot be mapped anew: {}", moved.error().message);
    return unforeseen(chunk, "could not be mapped");
  }
  moves_ += mine.spots[spot].size() - mine.common;
  placed.spot = spot;
  return Admission::done;
}

Result<AliasMode::Admission> AliasMode::give_frames(Chunk& chunk, std::size_t phase, std::int32_t step) {
  if (chunk.tenant && !chunk.wanders) return Admission::done;
  const auto found = index_.find(&chunk);
  if (found == index_.end()) return unforeseen(chunk, "has no place");
  PlacedChunk& placed = found->second;
  const Stay* const stay = places_[placed.place].at(phase, step);
  if (chunk.tenant && (stay == nullptr || stay->spot == placed.spot)) return Admission::done;
  if (stay == nullptr) return unforeseen(chunk, "is not to be there");
  if (stay->spot != placed.spot)
    if (const auto moved = move(chunk, placed, stay->spot); !moved || *moved != Admission::done) return moved;
  return begin_tenancy(chunk) ? Admission::done
                              : unforeseen(chunk, "is to be where another's content still is");
}

Result<AliasMode::Admission> AliasMode::admit(const Script* script, std::int32_t step,
                                              std::span<const tracker::Operand> operands) {
  // What comes between two iterations comes ahead of the next one's first op.
  if (script != nullptr) latest_ = index_of(script);
  const std::size_t phase = latest_;
  if (script == nullptr) step = 0;
  answer_.busy.clear();
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
  return answer_.busy.empty() ? Admission::done : Admission::busy;
}

Result<AliasMode::Admission> AliasMode::fetch(const Script* script, std::int32_t step, Chunk& chunk) {
  answer_.busy.clear();
  const auto given = give_frames(chunk, index_of(script), step);
  if (!given || *given != Admission::done) return given;
  if (!chunk.stale) return Admission::done;
  if (const auto fetched = residency_.fetch(chunk); !fetched) return fetched.error();
  return Admission::done;
}

}  // namespace pooch::runtime
