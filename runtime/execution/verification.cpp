#include "runtime/execution/verification.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "core/bytes.h"
#include "core/log.h"
#include "runtime/memory/host_wait.h"
#include "runtime/memory/memory_limits.h"

namespace pooch::runtime {
namespace {

constexpr std::uint32_t places = 4096;

bool holds_content(const Chunk& chunk) {
  return chunk.state == ChunkState::resident && chunk.live && !chunk.stale && chunk.occupied > 0 &&
         (chunk.frames.empty() || chunk.tenant);
}

}  // namespace

// --- memory

Verification::~Verification() {
  if (results_ != nullptr) (void)parts_.device.host_free(results_);
  for (const StreamHandle stream : {stream_, results_stream_})
    if (stream != StreamHandle{}) (void)parts_.device.destroy_stream(stream);
}

Status Verification::prepare(Held& held) {
  if (!on() || !working_ || ready_) return Done{};
  for (StreamHandle* const stream : {&stream_, &results_stream_}) {
    if (*stream != StreamHandle{}) continue;
    const auto made = parts_.device.create_stream();
    if (!made) return made.error();
    *stream = *made;
  }
  if (results_ == nullptr) {
    const auto memory = parts_.device.host_allocate(places * sizeof(Digest));
    if (!memory) return memory.error();
    results_ = *memory;
    for (std::uint32_t place = places; place-- > 0;) free_places_.push_back(place);
  }
  if (memory_ == nullptr) {
    const auto address = parts_.temporaries.allocate(page);
    if (!address) return Error{ErrorCode::out_of_memory, "the address space for digests is exhausted"};
    memory_ = &parts_.residency.open(*address, page, AllocationId::none, page);
  }
  const tracker::Operand whole{AllocationId::none, memory_->base, 0, page, Effect::scratch, true, 0, memory_};
  std::vector<ChunkUse> uses;
  const auto placed = parts_.placement.place("a digest", {&whole, 1}, uses, held);
  if (!placed && placed.error().code != ErrorCode::out_of_memory) return placed;
  if (!placed || ready_) return Done{};
  const StreamIndex stream = parts_.order.index(stream_);
  if (const auto ordered = parts_.order.follow(stream, memory_->chunks.front().before); !ordered)
    return ordered;
  memory_->chunks.front().stays = true;
  ++memory_->chunks.front().pins;
  ready_ = true;
  return Done{};
}

bool Verification::give_up_memory() {
  if (!ready_) return false;
  memory_->chunks.front().stays = false;
  --memory_->chunks.front().pins;
  ready_ = false;
  return true;
}

std::optional<std::uint32_t> Verification::take_place() {
  if (free_places_.empty()) return std::nullopt;
  const std::uint32_t place = free_places_.back();
  free_places_.pop_back();
  return place;
}

Address Verification::on_device(std::uint32_t place) const {
  static_assert(places * sizeof(Digest) <= page);
  return memory_->base + place * sizeof(Digest);
}

Digest Verification::result(std::uint32_t place) const {
  Digest digest;
  std::memcpy(&digest, results_ + place * sizeof digest, sizeof digest);
  return digest;
}

void Verification::disable(const Error& why) {
  working_ = false;
  log::warn("what replays make is not verified: {}", why.message);
}

// --- iterations

void Verification::begin(MapTrust& trust, std::uint64_t host_bytes) {
  end();
  trust_ = &trust;
  host_bytes_ = host_bytes;
  trust.sampling = ++trust.iterations % sample_interval == 0;
  if (!trust.sampling) return;
  const auto maps = static_cast<std::uint32_t>(trust.dropped.size());
  for (std::uint32_t step = 0; step < maps; ++step) {
    trust.turn = (trust.turn + 1) % maps;
    if (trust.dropped[trust.turn] && !trust.refused[trust.turn]) break;
  }
}

void Verification::end() {
  for (auto& [map, record] : records_) release(record);
  records_.clear();
  due_.clear();
  trust_ = nullptr;
}

void Verification::release(Record& record) {
  for (const Piece& piece : record.pieces)
    for (const std::uint32_t place : {piece.before, piece.after}) free_places_.push_back(place);
  abandoned_.add(record.done);
  for (Saved& saved : record.copy) {
    copied_bytes_ -= saved.bytes;
    parts_.host.free(std::move(saved.slot), saved.last_use);
  }
  if (record.pinned)
    for (Chunk* chunk : record.chunks) --chunk->pins;
  record = {};
}

void Verification::forget(std::uint32_t map) {
  const auto found = records_.find(map);
  if (found == records_.end()) return;
  release(found->second);
  records_.erase(found);
  std::erase(due_, map);
}

bool Verification::proven(std::uint32_t map) const {
  return trust_->compared[map] >= proofs;
}

bool Verification::wants(std::uint32_t map) const {
  if (!on() || !working_ || !ready_ || trust_ == nullptr || failure_) return false;
  return how_ == Verify::all || !proven(map) || (trust_->sampling && trust_->turn == map);
}

// --- digests and copies

// What lies in memory now of `written`, in pieces without a hole.
std::vector<Verification::Piece> Verification::pieces_of(Range& range, const Extents& written,
                                                         std::vector<Chunk*>& chunks) {
  std::vector<Piece> pieces;
  for (const auto& [offset, bytes] : written) {
    std::uint64_t end = ~std::uint64_t{0};  // of the latest piece
    for (Chunk& chunk : range.chunks) {
      const std::uint64_t from = std::max(offset, chunk.offset);
      const std::uint64_t to = std::min(offset + bytes, chunk.offset + chunk.occupied);
      if (from >= to || !holds_content(chunk) || chunk.pins > 0) continue;
      if (chunks.empty() || chunks.back() != &chunk) chunks.push_back(&chunk);
      if (end == from) {
        pieces.back().bytes += to - from;
      } else {
        pieces.push_back({range.base + from, to - from, 0, 0});
      }
      end = to;
    }
  }
  return pieces;
}

Result<Mark> Verification::digest(const Record& record, std::uint32_t Piece::*place) {
  const StreamIndex stream = parts_.order.index(stream_), results = parts_.order.index(results_stream_);
  for (Chunk* chunk : record.chunks)
    for (const Marks* marks : {&chunk->uses, &chunk->before})
      if (const auto ordered = parts_.order.follow(stream, *marks); !ordered) return ordered.error();
  if (const auto ordered = parts_.order.follow(stream, abandoned_); !ordered) return ordered.error();
  abandoned_.clear();
  Status done = Done{};
  for (const Piece& piece : record.pieces)
    if (done) done = parts_.device.digest(piece.at, piece.bytes, on_device(piece.*place), stream_);
  // Where one was refused, those before it are under way all the same.
  const Mark read = parts_.order.launched_exactly(stream);
  for (Chunk* chunk : record.chunks) {
    chunk->uses.add(read);
    chunk->before.add(read);  // a writer, should the memory be taken back
  }
  memory_->chunks.front().uses.add(read);
  if (const auto ordered = parts_.order.follow(results, read); !ordered) return ordered.error();
  for (const Piece& piece : record.pieces) {
    std::byte* const to = results_ + piece.*place * sizeof(Digest);
    if (done) done = parts_.device.copy_out(to, on_device(piece.*place), sizeof(Digest), results_stream_);
  }
  const Mark copied = parts_.order.launched_exactly(results);
  memory_->chunks.front().uses.add(copied);
  if (!done) return done.error();
  return copied;
}

// All of its chunks, or none: half a copy does not help.
Status Verification::save(Record& record) {
  std::uint64_t bytes = 0;
  for (const Chunk* chunk : record.chunks) bytes += chunk->occupied;
  if (copied_bytes_ + bytes + host_bytes_ > host_budget_) return Done{};
  for (Chunk* chunk : record.chunks) {
    const auto saved = parts_.residency.save(*chunk);
    if (!saved && saved.error().code != ErrorCode::out_of_memory) return saved;
    if (!saved) break;
    auto [slot, last_use] = parts_.residency.take_copy(*chunk);
    copied_bytes_ += chunk->occupied;
    record.copy.push_back({chunk, std::move(slot), last_use, chunk->occupied});
  }
  if (record.copy.size() == record.chunks.size()) return Done{};
  for (Saved& saved : record.copy) {
    copied_bytes_ -= saved.bytes;
    parts_.host.free(std::move(saved.slot), saved.last_use);
  }
  record.copy.clear();
  return Done{};
}

Status Verification::dropping(std::uint32_t map, std::string_view name, Range& range,
                              const Extents& written) {
  if (!wants(map)) return Done{};
  const auto blocked = parts_.order.host_blocked();
  if (!blocked) return blocked.error();
  if (*blocked) return Done{};  // the host could not wait for the comparison
  forget(map);
  Record record;
  record.name = name;
  record.pieces = pieces_of(range, written, record.chunks);
  if (record.pieces.empty() || 2 * record.pieces.size() > free_places_.size()) return Done{};
  for (Piece& piece : record.pieces) piece.before = *take_place(), piece.after = *take_place();
  const auto done = digest(record, &Piece::before);
  if (!done) {
    release(record);
    if (done.error().code != ErrorCode::not_supported) return done.error();
    disable(done.error());
    return Done{};
  }
  record.done = *done;
  const auto saved = proven(map) ? Status(Done{}) : save(record);
  if (!saved) {
    release(record);
    return saved;
  }
  records_.emplace(map, std::move(record));
  return Done{};
}

Status Verification::restored(std::uint32_t map, std::string_view function) {
  const auto found = records_.find(map);
  if (found == records_.end()) return Done{};
  Record& record = found->second;
  const bool there = std::all_of(record.chunks.begin(), record.chunks.end(),
                                 [](const Chunk* chunk) { return holds_content(*chunk); });
  if (!there || !ready_) {
    forget(map);
    return Done{};
  }
  const auto done = digest(record, &Piece::after);
  if (!done) return done.error();
  record.done = *done;
  record.function = function;
  if (how_ != Verify::all && proven(map)) {  // there is no copy that would have to be put back in time
    late_.push_back(std::move(record));
    records_.erase(found);
    return Done{};
  }
  record.pinned = true;
  for (Chunk* chunk : record.chunks) ++chunk->pins;
  due_.push_back(map);
  return Done{};
}

// --- comparisons

Status Verification::settle(Late late, Held& held) {
  while (!due_.empty()) {
    const std::uint32_t map = due_.front();
    Marks done;
    done.add(records_.at(map).done);
    if (const auto waited = await(parts_.device, parts_.order, done, held); !waited) return waited;
    // Another thread may have been here.
    if (due_.empty() || due_.front() != map) continue;
    const auto finished = parts_.order.finished(records_.at(map).done);
    if (!finished) return finished.error();
    if (!*finished) continue;
    due_.pop_front();
    const auto judged = judge(map, records_.at(map));
    forget(map);
    if (!judged) return judged;
  }
  if (const auto settled = settle_late(late, held); !settled) return settled;
  return failure_ ? Status(*failure_) : Status(Done{});
}

// In the order in which they were launched.
Status Verification::settle_late(Late late, Held& held) {
  while (!late_.empty()) {
    const auto finished = parts_.order.finished(late_.front().done);
    if (!finished) return finished.error();
    if (*finished) {
      if (!equal(late_.front())) fail(late_.front());
      release(late_.front());
      late_.pop_front();
      continue;
    }
    if (late == Late::where_known) return Done{};
    const auto blocked = parts_.order.host_blocked();
    if (!blocked) return blocked.error();
    if (*blocked) return Done{};  // to wait might have no end
    Marks done;
    done.add(late_.front().done);
    if (const auto waited = await(parts_.device, parts_.order, done, held); !waited) return waited;
  }
  return Done{};
}

bool Verification::equal(const Record& record) {
  ++counts_.verified;
  const bool same = std::all_of(record.pieces.begin(), record.pieces.end(), [&](const Piece& piece) {
    return result(piece.before) == result(piece.after);
  });
  if (!same) ++counts_.mismatches;
  return same;
}

void Verification::fail(const Record& record) {
  failure_ = Error{ErrorCode::internal,
                   fmt::format("{}, made again by {}, is not what it was", record.name, record.function)};
}

Status Verification::judge(std::uint32_t map, Record& record) {
  if (equal(record)) {
    if (!proven(map)) ++trust_->compared[map];
    return Done{};
  }
  if (record.copy.empty()) {
    fail(record);
    return Done{};
  }
  log::warn("{}, made again by {}, is not what it was; its copy is put back, and it is swapped from now on",
            record.name, record.function);
  refused_.push_back(map);
  return put_back(record);
}

Status Verification::put_back(Record& record) {
  for (Saved& saved : record.copy) {
    copied_bytes_ -= saved.bytes;
    if (const auto back = parts_.residency.put_back(*saved.chunk, std::move(saved.slot), saved.last_use);
        !back)
      return back;
  }
  record.copy.clear();
  return Done{};
}

}  // namespace pooch::runtime
