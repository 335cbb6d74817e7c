#include "runtime/execution/alias.h"

#include <algorithm>
#include <utility>

#include "core/log.h"
#include "runtime/memory/host_wait.h"
#include "runtime/memory/memory_limits.h"

namespace pooch::runtime {

bool AliasMode::serves(const Script& script) const {
  return built() && index_of(&script) < phases_.size();
}

std::size_t AliasMode::index_of(const Script* script) const {
  const auto same = [&](const PlacedPhase& phase) { return phase.script == script; };
  return static_cast<std::size_t>(std::find_if(phases_.begin(), phases_.end(), same) - phases_.begin());
}

void AliasMode::collect() {
  places_ = places_of(phases_, std::max(pool_.largest_class(), pool_.cap() / 32 / page * page));
  index_places();
}

void AliasMode::index_places() {
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
  for (Place& place : places_) place.chunk = &place.range->chunks[place.first];
  index_places();
  return Done{};
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
  for (const PlacedPhase& phase : phases_) most = std::max(most, most_beside(phase, alive));
  return most;
}

Result<const Layout*> AliasMode::find(std::vector<PlacedPhase> phases) {
  phases_ = std::move(phases);
  collect();
  const std::uint64_t others = page + beside();
  const std::uint64_t room = pool_.least_limit() > others ? pool_.least_limit() - others : 0;
  return finder_.find(items_of(places_, phases_), room, duration_us(phases_));
}

Status AliasMode::try_out(std::vector<PlacedPhase> phases) {
  const auto found = find(std::move(phases));
  (void)dismantle();
  return found ? Status(Done{}) : found.error();
}

// --- in and out

Status AliasMode::build(std::vector<PlacedPhase> phases, Held& held) {
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
    if (!piece) {
      finder_.note_lack(bytes);
      return piece.error();
    }
    frames_.push_back({{*piece}, nullptr});
  }
  return Done{};
}

Status AliasMode::map_all(const Layout& layout) {
  std::vector<Chunk*> sorted;
  mappings_.resize(places_.size());
  for (std::size_t i = 0; i < places_.size(); ++i) {
    Place& place = places_[i];
    Mapping& mapping = mappings_[i];
    std::map<std::vector<std::uint32_t>, std::uint32_t> spot_of;
    std::size_t span = 0;
    for (std::vector<Stay>& in : place.in)
      for (Stay& stay : in) {
        const std::vector<std::uint32_t>& numbers = layout.frames_of[i][span++];
        const auto [spot, fresh] =
            spot_of.try_emplace(numbers, static_cast<std::uint32_t>(mapping.spots.size()));
        stay.spot = spot->second;
        if (!fresh) continue;
        std::vector<Frame*>& frames = mapping.spots.emplace_back();
        for (const std::uint32_t number : numbers) frames.push_back(&frames_[number]);
      }
    const auto& first = mapping.spots.front();
    mapping.common = first.size();
    for (const auto& frames : mapping.spots) {
      const auto end = std::mismatch(first.begin(), first.end(), frames.begin(), frames.end()).first;
      mapping.common = std::min(mapping.common, static_cast<std::size_t>(end - first.begin()));
    }
    if (const auto mapped = residency_.map_to(*place.chunk, first); !mapped) return mapped;
    place.chunk->wanders = mapping.spots.size() > 1;
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
  mappings_.clear();
  index_.clear();
  frames_.clear();
  phases_.clear();
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

// Maps the chunk, which nobody uses any more, to other frames.
Result<AliasMode::Admission> AliasMode::move(std::size_t place, std::uint32_t spot) {
  Chunk& chunk = *places_[place].chunk;
  Mapping& mapping = mappings_[place];
  if (chunk.pins > 0) return Admission::unforeseen;
  if (chunk.tenant && chunk.live && !chunk.host_valid && !chunk.expendable) return Admission::unforeseen;
  const auto finished = order_.finished(chunk.uses);
  if (!finished) return finished.error();
  if (!*finished) {
    busy_.add(chunk.uses);
    return Admission::busy;
  }
  if (const auto moved = residency_.move_to(chunk, mapping.spots[spot], mapping.common); !moved) {
    if (residency_.doubt()) return moved.error();
    log::info("a chunk cannot be mapped anew: {}", moved.error().message);
    return Admission::unforeseen;
  }
  moves_ += mapping.spots[spot].size() - mapping.common;
  mapping.spot = spot;
  return Admission::done;
}

Result<AliasMode::Admission> AliasMode::give_frames(Chunk& chunk, std::size_t phase, std::int32_t step) {
  if (chunk.tenant && !chunk.wanders) return Admission::done;
  const auto found = index_.find(&chunk);
  if (found == index_.end()) return Admission::unforeseen;
  const Stay* const stay = places_[found->second].at(phase, step);
  const std::uint32_t spot = mappings_[found->second].spot;
  if (chunk.tenant && (stay == nullptr || stay->spot == spot)) return Admission::done;
  if (stay == nullptr) return Admission::unforeseen;
  if (stay->spot != spot)
    if (const auto moved = move(found->second, stay->spot); !moved || *moved != Admission::done) return moved;
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
