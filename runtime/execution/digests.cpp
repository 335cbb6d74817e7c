#include "runtime/execution/digests.h"

#include <algorithm>
#include <cstring>

#include "core/bytes.h"
#include "core/log.h"
#include "core/pages.h"

namespace pooch::runtime {
namespace {

constexpr std::uint32_t places = 4096;

}  // namespace

Digests::~Digests() {
  if (results_ != nullptr) (void)device_.host_free(results_);
  for (const StreamHandle stream : {stream_, results_stream_})
    if (stream != StreamHandle{}) (void)device_.destroy_stream(stream);
}

Status Digests::prepare(Held& held) {
  if (!working_ || ready_) return Done{};
  for (StreamHandle* const stream : {&stream_, &results_stream_}) {
    if (*stream != StreamHandle{}) continue;
    const auto made = device_.create_stream();
    if (!made) return made.error();
    *stream = *made;
  }
  if (results_ == nullptr) {
    const auto memory = device_.host_allocate(places * sizeof(Digest));
    if (!memory) return memory.error();
    results_ = *memory;
    for (std::uint32_t place = places; place-- > 0;) free_places_.push_back(place);
  }
  if (memory_ == nullptr) {
    const auto address = temporaries_.allocate(page);
    if (!address) return Error{ErrorCode::out_of_memory, "the address space for digests is exhausted"};
    memory_ = &residency_.open(*address, page, AllocationId::none, page);
  }
  const tracker::Operand whole{AllocationId::none, memory_->base, 0, page, Effect::scratch, true, 0, memory_};
  std::vector<ChunkUse> uses;
  const auto placed = placement_.place("a digest", {&whole, 1}, uses, held);
  if (!placed && placed.error().code != ErrorCode::out_of_memory) return placed;
  if (!placed || ready_) return Done{};
  const StreamIndex stream = order_.index(stream_);
  if (const auto ordered = order_.follow(stream, memory_->chunks.front().before); !ordered) return ordered;
  memory_->chunks.front().stays = true;
  ++memory_->chunks.front().pins;
  ready_ = true;
  return Done{};
}

bool Digests::give_up_memory() {
  if (!ready_) return false;
  memory_->chunks.front().stays = false;
  --memory_->chunks.front().pins;
  ready_ = false;
  return true;
}

std::uint32_t Digests::take_place() {
  const std::uint32_t place = free_places_.back();
  free_places_.pop_back();
  return place;
}

bool Digests::take_places(std::vector<DigestPiece>& pieces) {
  if (2 * pieces.size() > free_places_.size()) return false;
  for (DigestPiece& piece : pieces) piece.before = take_place(), piece.after = take_place();
  return true;
}

void Digests::release_places(const std::vector<DigestPiece>& pieces, Mark done) {
  for (const DigestPiece& piece : pieces)
    for (const std::uint32_t place : {piece.before, piece.after}) free_places_.push_back(place);
  abandoned_.add(done);
}

Address Digests::on_device(std::uint32_t place) const {
  static_assert(places * sizeof(Digest) <= page);
  return memory_->base + place * sizeof(Digest);
}

Digest Digests::result(std::uint32_t place) const {
  Digest digest;
  std::memcpy(&digest, results_ + place * sizeof digest, sizeof digest);
  return digest;
}

void Digests::disable(const Error& why) {
  working_ = false;
  log::warn("what replays make is not verified: {}", why.message);
}

Result<Mark> Digests::compute(const std::vector<DigestPiece>& pieces, const std::vector<Chunk*>& chunks,
                              std::uint32_t DigestPiece::*place) {
  const StreamIndex stream = order_.index(stream_), results = order_.index(results_stream_);
  for (Chunk* chunk : chunks)
    for (const Marks* marks : {&chunk->uses, &chunk->before})
      if (const auto ordered = order_.follow(stream, *marks); !ordered) return ordered.error();
  if (const auto ordered = order_.follow(stream, abandoned_); !ordered) return ordered.error();
  abandoned_.clear();
  Status done = Done{};
  for (const DigestPiece& piece : pieces)
    if (done) done = device_.digest(piece.at, piece.bytes, on_device(piece.*place), stream_);
  // Where one was refused, those before it are under way all the same.
  const Mark read = order_.launched_exactly(stream);
  for (Chunk* chunk : chunks) {
    chunk->uses.add(read);
    chunk->before.add(read);  // a writer, should the memory be taken back
  }
  memory_->chunks.front().uses.add(read);
  if (const auto ordered = order_.follow(results, read); !ordered) return ordered.error();
  for (const DigestPiece& piece : pieces) {
    std::byte* const to = results_ + piece.*place * sizeof(Digest);
    if (done) done = device_.copy_out(to, on_device(piece.*place), sizeof(Digest), results_stream_);
  }
  const Mark copied = order_.launched_exactly(results);
  memory_->chunks.front().uses.add(copied);
  if (!done) return done.error();
  return copied;
}

bool Digests::equal(const std::vector<DigestPiece>& pieces) const {
  return std::all_of(pieces.begin(), pieces.end(), [this](const DigestPiece& piece) {
    return result(piece.before) == result(piece.after);
  });
}

}  // namespace pooch::runtime
