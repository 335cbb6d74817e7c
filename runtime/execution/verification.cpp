#include "runtime/execution/verification.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "core/log.h"
#include "runtime/memory/host_wait.h"

namespace pooch::runtime {
namespace {

bool holds_content(const Chunk& chunk) {
  return chunk.state == ChunkState::resident && chunk.live && !chunk.stale && chunk.occupied > 0 &&
         (chunk.frames.empty() || chunk.tenant);
}

}  // namespace

Status Verification::prepare(Held& held) {
  return on() ? digests_.prepare(held) : Status(Done{});
}

// --- iterations

void Verification::begin(MapTrust& trust, std::uint64_t host_bytes) {
  end();
  trust_ = &trust;
  copies_.leave(host_bytes);
  trust.sampling = ++trust.iterations % sample_interval == 0;
  if (!trust.sampling) return;
  const auto maps = static_cast<std::uint32_t>(trust.dropped.size());
  for (std::uint32_t step = 0; step < maps; ++step) {
    trust.turn = (trust.turn + 1) % maps;
    if (trust.dropped[trust.turn] && !trust.refused[trust.turn]) break;
  }
}

void Verification::end() {
  for (auto& [map, comparison] : comparisons_) release(comparison);
  comparisons_.clear();
  due_.clear();
  trust_ = nullptr;
}

void Verification::release(Comparison& comparison) {
  digests_.release_places(comparison.pieces, comparison.done);
  copies_.free(comparison.copy);
  if (comparison.pinned)
    for (Chunk* chunk : comparison.chunks) --chunk->pins;
  comparison = {};
}

void Verification::forget(std::uint32_t map) {
  const auto found = comparisons_.find(map);
  if (found == comparisons_.end()) return;
  release(found->second);
  comparisons_.erase(found);
  std::erase(due_, map);
}

bool Verification::proven(std::uint32_t map) const {
  return trust_->compared[map] >= proofs;
}

bool Verification::wants(std::uint32_t map) const {
  if (!on() || !digests_.ready() || trust_ == nullptr || failure_) return false;
  return how_ == Verify::all || !proven(map) || trust_->never_enough ||
         (trust_->sampling && trust_->turn == map);
}

// --- digests and copies

// What lies in memory now of `written`, in pieces without a hole.
std::vector<DigestPiece> Verification::pieces_of(Range& range, const Extents& written,
                                                 std::vector<Chunk*>& chunks) {
  std::vector<DigestPiece> pieces;
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

Status Verification::dropping(std::uint32_t map, std::string_view name, Range& range,
                              const Extents& written) {
  if (!wants(map)) return Done{};
  const auto blocked = order_.host_blocked();
  if (!blocked) return blocked.error();
  if (*blocked) return Done{};  // the host could not wait for the comparison
  forget(map);
  Comparison comparison;
  comparison.name = name;
  comparison.pieces = pieces_of(range, written, comparison.chunks);
  if (comparison.pieces.empty() || !digests_.take_places(comparison.pieces)) return Done{};
  const auto done = digests_.compute(comparison.pieces, comparison.chunks, &DigestPiece::before);
  if (!done) {
    release(comparison);
    if (done.error().code != ErrorCode::not_supported) return done.error();
    digests_.disable(done.error());
    return Done{};
  }
  comparison.done = *done;
  if (!proven(map)) {
    auto saved = copies_.save(comparison.chunks);
    if (!saved) {
      release(comparison);
      return saved.error();
    }
    comparison.copy = std::move(*saved);
  }
  comparisons_.emplace(map, std::move(comparison));
  return Done{};
}

Status Verification::restored(std::uint32_t map, std::string_view function) {
  const auto found = comparisons_.find(map);
  if (found == comparisons_.end()) return Done{};
  Comparison& comparison = found->second;
  const bool there = std::all_of(comparison.chunks.begin(), comparison.chunks.end(),
                                 [](const Chunk* chunk) { return holds_content(*chunk); });
  if (!there || !digests_.has_memory()) {
    forget(map);
    return Done{};
  }
  const auto done = digests_.compute(comparison.pieces, comparison.chunks, &DigestPiece::after);
  if (!done) return done.error();
  comparison.done = *done;
  comparison.function = function;
  if (how_ != Verify::all && proven(map)) {  // there is no copy that would have to be put back in time
    late_.push_back(std::move(comparison));
    comparisons_.erase(found);
    return Done{};
  }
  comparison.pinned = true;
  for (Chunk* chunk : comparison.chunks) ++chunk->pins;
  due_.push_back(map);
  return Done{};
}

// --- comparisons

Status Verification::settle(Late late, Held& held) {
  while (!due_.empty()) {
    const std::uint32_t map = due_.front();
    Marks done;
    done.add(comparisons_.at(map).done);
    if (const auto waited = await(device_, order_, done, held); !waited) return waited;
    // Another thread may have been here.
    if (due_.empty() || due_.front() != map) continue;
    const auto finished = order_.finished(comparisons_.at(map).done);
    if (!finished) return finished.error();
    if (!*finished) continue;
    due_.pop_front();
    const auto judged = judge(map, comparisons_.at(map));
    forget(map);
    if (!judged) return judged;
  }
  if (const auto settled = settle_late(late, held); !settled) return settled;
  return failure_ ? Status(*failure_) : Status(Done{});
}

// In the order in which they were launched.
Status Verification::settle_late(Late late, Held& held) {
  while (!late_.empty()) {
    const auto finished = order_.finished(late_.front().done);
    if (!finished) return finished.error();
    if (*finished) {
      if (!equal(late_.front())) fail(late_.front());
      release(late_.front());
      late_.pop_front();
      continue;
    }
    if (late == Late::where_known) return Done{};
    const auto blocked = order_.host_blocked();
    if (!blocked) return blocked.error();
    if (*blocked) return Done{};  // to wait might have no end
    Marks done;
    done.add(late_.front().done);
    if (const auto waited = await(device_, order_, done, held); !waited) return waited;
  }
  return Done{};
}

bool Verification::equal(const Comparison& comparison) {
  ++counts_.verified;
  const bool same = digests_.equal(comparison.pieces);
  if (!same) ++counts_.mismatches;
  return same;
}

void Verification::fail(const Comparison& comparison) {
  failure_ = Error{ErrorCode::internal, fmt::format("{}, made again by {}, is not what it was",
                                                    comparison.name, comparison.function)};
}

Status Verification::judge(std::uint32_t map, Comparison& comparison) {
  if (equal(comparison)) {
    if (!proven(map)) ++trust_->compared[map];
    return Done{};
  }
  if (comparison.copy.empty()) {
    fail(comparison);
    return Done{};
  }
  log::warn("{}, made again by {}, is not what it was; its copy is put back, and it is swapped from now on",
            comparison.name, comparison.function);
  refused_.push_back(map);
  return copies_.put_back(comparison.copy);
}

}  // namespace pooch::runtime
