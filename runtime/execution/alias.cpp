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

// A layout whose waits take a larger share of the time is worse than to remap. The first ones must do with
// less: a plan for a little less memory mostly costs less than such waits.
constexpr double most_waits = 0.05, few_waits = 0.01;
constexpr int first_layouts = 3;

// Of the phase's buffers that have no place in the layout, and of what is alive now: the most bytes at once.
// `alive`: bytes of what is there and has no place. A buffer that an iteration finds and never touches was
// seen at no address: what is there of its size is taken for it, else it lies where the layout has another
// one.
std::uint64_t most_beside(const AliasPhase& phase, std::vector<std::uint64_t> alive) {
  const std::vector<ProfileBuffer>& buffers = phase.known->profile.buffers;
  std::vector<std::int64_t> change(static_cast<std::size_t>(phase.script->positions()) + 1);
  for (std::uint32_t b = 0; b < buffers.size(); ++b) {
    const ProfileBuffer& buffer = buffers[b];
    if (phase.ranges[b] != nullptr || !buffer.managed) continue;
    const std::uint64_t bytes = round_up(buffer.bytes, page);
    if (buffer.from == outside) {
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

// `free_us`: where it is later than the end of the last op.
void AliasMode::hold(Chunk& chunk, std::size_t phase, std::int32_t from, std::int32_t to, double free_us) {
  const auto [place, fresh] = index_.try_emplace(&chunk, chunks_.size());
  if (fresh) {
    chunks_.push_back(&chunk);
    held_.emplace_back().in.resize(phases_.size());
  }
  const Script& script = *phases_[phase].script;
  held_[place->second].in[phase].push_back(
      {from, to, script.start_us(from), std::max(free_us, script.start_us(to + 1))});
}

void AliasMode::hold_buffer(std::size_t phase, std::uint32_t buffer) {
  const AliasPhase& mine = phases_[phase];
  const ScriptLife& life = mine.script->life(buffer);
  if (life.from > life.to) return;
  for (Chunk& chunk : mine.ranges[buffer]->chunks) {
    const bool leaves = life.away > 0 && chunk.offset + chunk.bytes <= round_up(life.moved, page);
    if (leaves) {
      hold(chunk, phase, life.from, life.away - 1, life.away_us);
      hold(chunk, phase, life.back, life.to);
    } else {
      hold(chunk, phase, life.from, life.to);
    }
  }
}

void AliasMode::collect() {
  chunks_.clear();
  index_.clear();
  held_.clear();
  std::set<Range*> lasting;
  for (std::size_t p = 0; p < phases_.size(); ++p) {
    const AliasPhase& phase = phases_[p];
    for (std::uint32_t b = 0; b < phase.ranges.size(); ++b) {
      if (phase.ranges[b] == nullptr) continue;
      hold_buffer(p, b);
      if (phase.script->life(b).lasts) lasting.insert(phase.ranges[b]);
    }
    for (std::uint32_t s = 0; s < phase.slots.size(); ++s) {
      if (phase.slots[s] == nullptr) continue;
      const auto [from, to] = phase.script->slots()[s].held;
      for (Chunk& chunk : phase.slots[s]->chunks) hold(chunk, p, from, to);
    }
  }
  // What outlives one phase's iterations lives through the others' too.
  for (Range* range : lasting)
    for (Chunk& chunk : range->chunks)
      for (std::size_t p = 0; p < phases_.size(); ++p)
        if (auto& in = held_[index_.at(&chunk)].in[p]; in.empty())
          hold(chunk, p, 0, phases_[p].script->positions() - 1);
}

std::vector<LayoutItem> AliasMode::items() const {
  std::vector<LayoutItem> all;
  for (std::size_t i = 0; i < chunks_.size(); ++i) {
    LayoutItem& item = all.emplace_back();
    item.bytes = chunks_[i]->bytes;
    item.unit = pool_.handle_size(item.bytes);
    // The phases one after the other.
    std::int32_t base = 0;
    double base_us = 0;
    for (std::size_t p = 0; p < phases_.size(); ++p) {
      for (const LayoutSpan& span : held_[i].in[p])
        item.held.push_back(
            {base + span.from, base + span.to, base_us + span.start_us, base_us + span.free_us});
      base += phases_[p].script->positions();
      base_us += phases_[p].script->start_us(phases_[p].script->positions());
    }
    std::sort(item.held.begin(), item.held.end(),
              [](const LayoutSpan& a, const LayoutSpan& b) { return a.from < b.from; });
  }
  return all;
}

// Of one iteration of each phase.
double AliasMode::duration_us() const {
  double us = 0;
  for (const AliasPhase& phase : phases_) us += phase.script->start_us(phase.script->positions());
  return us;
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

// --- in and out

Status AliasMode::build(std::vector<AliasPhase> phases, Held& held) {
  phases_ = std::move(phases);
  pool_.use_units();
  collect();
  const std::uint64_t others = page + beside();
  const std::uint64_t room = pool_.least_limit() > others ? pool_.least_limit() - others : 0;
  const Layout layout = lay_out(items(), room);
  log::info("layout: {} of {}, expected waits {:.1f} ms", format_bytes(layout.bytes()), format_bytes(room),
            layout.wait_us / 1e3);
  shortfall_ = layout.bytes() > room ? layout.bytes() - room : 0;
  Status done = Done{};
  if (shortfall_ > 0) {
    done = Error{ErrorCode::out_of_memory,
                 fmt::format("the layout needs {} more memory", format_bytes(shortfall_))};
  } else if (layout.wait_us > (wasteful_ < first_layouts ? few_waits : most_waits) * duration_us()) {
    ++wasteful_;
    shortfall_ = room / 64;
    done = Error{ErrorCode::out_of_memory, "the layout makes ops wait for each other"};
  }
  if (done) done = save_and_unmap(held);
  if (done) done = take_frames(layout);
  if (done) done = map_all(layout);
  if (done) return done;
  (void)dismantle();
  return done;
}

// Everything that lives goes to the host; the handles go back to the pool, with those of memory that nobody
// uses.
Status AliasMode::save_and_unmap(Held& held) {
  std::vector<Chunk*> leaving = chunks_;
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
    auto pieces = pool_.acquire(bytes);
    if (!pieces) return pieces.error();
    frames_.push_back({std::move(*pieces), nullptr});
  }
  return Done{};
}

Status AliasMode::map_all(const Layout& layout) {
  for (std::size_t i = 0; i < chunks_.size(); ++i) {
    std::vector<Frame*> frames;
    for (const std::uint32_t frame : layout.frames_of[i]) frames.push_back(&frames_[frame]);
    if (const auto mapped = residency_.map_to(*chunks_[i], std::move(frames)); !mapped) return mapped;
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
  for (Chunk* chunk : chunks_)
    if (!chunk->frames.empty())
      if (const auto gone = residency_.unmap_from_frames(*chunk); !gone && outcome) outcome = gone;
  for (const Frame& frame : frames_)
    if (!frame.given_away) pool_.give_back(frame.pieces);
  frames_.clear();
  phases_.clear();
  return outcome;
}

// --- in an iteration

bool AliasMode::held(const Chunk& chunk, std::size_t phase, std::int32_t position) const {
  const auto found = index_.find(&chunk);
  if (found == index_.end()) return false;
  const auto& in = held_[found->second].in[phase];
  return std::any_of(in.begin(), in.end(),
                     [&](const LayoutSpan& span) { return span.from <= position && position <= span.to; });
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
    chunk.before.add(before->uses);
    chunk.uses.add(before->uses);
  }
  chunk.tenant = true;
  return true;
}

bool AliasMode::admit(const Script* script, std::int32_t position,
                      std::span<const tracker::Operand> operands) {
  const std::size_t phase = index_of(script);
  for (const tracker::Operand& operand : operands) {
    if (!operand.managed) continue;
    Range& range = *static_cast<Range*>(operand.backing);
    const std::uint64_t end = operand.offset + operand.bytes;
    auto chunk = std::partition_point(range.chunks.begin(), range.chunks.end(),
                                      [&](const Chunk& c) { return c.offset + c.bytes <= operand.offset; });
    for (; chunk != range.chunks.end() && chunk->offset < end; ++chunk) {
      if (chunk->frames.empty()) continue;
      if (chunk->tenant) {
        chunk->stale = false;  // sent away, and nobody came
        continue;
      }
      if (phase == phases_.size() || !held(*chunk, phase, position) || !begin_tenancy(*chunk)) return false;
    }
  }
  return true;
}

Result<bool> AliasMode::fetch(const Script* script, std::int32_t position, Chunk& chunk) {
  if (chunk.tenant) {
    chunk.stale = false;
    return true;
  }
  const std::size_t phase = index_of(script);
  if (phase == phases_.size() || !held(chunk, phase, position) || !begin_tenancy(chunk)) return false;
  if (!chunk.stale) return true;
  if (const auto fetched = residency_.fetch(chunk); !fetched) return fetched.error();
  return true;
}

}  // namespace pooch::runtime
