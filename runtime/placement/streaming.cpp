#include "runtime/placement/streaming.h"

#include <algorithm>

#include "runtime/memory/landing.h"

namespace pooch::runtime {
namespace {

// How far to look, in ops.
constexpr std::uint64_t furthest = 512;
// Parts of the cap. Content that has been copied out can still be taken back until its memory is needed, so
// much of it may leave at a time. What comes in early takes the place of something else.
constexpr std::uint64_t most_leaving = 2, most_early = 8;

}  // namespace

void Streaming::passed(const tracker::Op& op, const std::vector<ChunkUse>& uses) {
  foresight_.passed(op);
  const std::vector<NextTouch>& next = foresight_.next();
  for (const ChunkUse& use : uses) {
    use.chunk->next_use = next[use.operand].op;
    use.chunk->ends = next[use.operand].ends;
    use.chunk->early = false;
  }
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    const tracker::Operand& operand = op.operands[i];
    if (!operand.managed || next[i].op == unknown_op || next[i].ends) continue;
    expected_.insert({next[i].op,
                      {static_cast<const Range*>(operand.backing)->base, operand.allocation, operand.offset,
                       operand.bytes}});
  }
  expected_.erase(expected_.begin(), expected_.upper_bound(foresight_.now()));
}

// Goes through the ops to come, with the memory that is free, or will be without a copy. What they lack is
// fetched as long as there is some; when none is left, so much has to be copied out. Little is fetched early:
// else a loop over more than fits would fetch all of it in each pass
// (docs/decisions/0089-what-follows-is-what-followed-before.md).
Status Streaming::move_ahead(Held& held) {
  if (residency_.landing() != nullptr || !foresight_.foresees()) return Done{};
  const std::uint64_t cap = pool_.cap();
  Outlook outlook;
  outlook.spare = outlook.least =
      static_cast<std::int64_t>(pool_.available() + departures_.bytes() + bytes_without_copy());
  outlook.may_come = cap / most_early;
  const auto enough = -static_cast<std::int64_t>(cap / most_leaving);
  OpNumber when = foresight_.now() + 1;
  auto next = expected_.begin();
  for (std::uint64_t ahead = 1; ahead <= furthest && outlook.spare > enough; ++ahead, ++when) {
    for (; next != expected_.end() && next->first == when; ++next)
      if (const auto done = see_to(when, next->second, outlook, held); !done) return done;
    const MemoryChange change = foresight_.change(ahead);
    outlook.take(change.written_anew);
    outlook.spare += static_cast<std::int64_t>(change.freed);
  }
  if (const auto sent = send_away(outlook.lacking, Content::without_copy, outlook.lacking_at); !sent)
    return sent;
  const std::uint64_t short_of = outlook.least < 0 ? static_cast<std::uint64_t>(-outlook.least) : 0;
  return send_away(short_of, Content::dirty, when);
}

// In order: once something lacks memory, nothing behind it may take that. What is to be made again takes
// memory, and what it is made from has to come.
Status Streaming::see_to(OpNumber when, const Expected& expected, Outlook& outlook, Held& held) {
  std::vector<Expected> inputs;
  if (remaker_ != nullptr) remaker_->needed_for(expected.allocation, inputs);
  for (const Expected& input : inputs)
    if (const auto done = see_to(when, input, outlook, held); !done) return done;
  const Needs needs = gather_missing(expected);
  const std::uint64_t room = outlook.least > 0 ? static_cast<std::uint64_t>(outlook.least) : 0;
  outlook.may_come -= std::min(outlook.may_come, needs.early);
  const std::uint64_t wanted = whole_chunks(std::min(room, outlook.may_come));
  outlook.may_come -= wanted;
  outlook.least -= static_cast<std::int64_t>(wanted);  // from now on, not only from then on
  outlook.take(needs.missing + needs.clean + needs.dropped);
  if (wanted == 0) return Done{};
  std::uint64_t came = 0;
  if (outlook.lacking == 0) {
    const auto fetched = fetch(expected, wanted, held);
    if (!fetched) return fetched.error();
    came = *fetched;
    outlook.lacking_at = when;
  }
  outlook.lacking += wanted - came;
  return Done{};
}

// Bytes of the first chunks in `missing_` that fit into so many.
std::uint64_t Streaming::whole_chunks(std::uint64_t most) const {
  std::uint64_t bytes = 0;
  for (const ChunkUse& use : missing_) {
    if (bytes + use.chunk->bytes > most) break;
    bytes += use.chunk->bytes;
  }
  return bytes;
}

bool Streaming::can_leave(const Chunk& chunk, Content content) const {
  if (chunk.state != ChunkState::resident || chunk.pins > 0 || chunk.stale || chunk.expendable ||
      !chunk.frames.empty())
    return false;
  if (chunk.live && chunk.next_use <= foresight_.now()) return false;  // not foreseen, or wrongly
  return (content == Content::dirty) == (chunk.live && !chunk.host_valid);
}

std::uint64_t Streaming::bytes_without_copy() const {
  std::uint64_t bytes = 0;
  for (const Chunk* chunk : residency_.mapped())
    if (can_leave(*chunk, Content::without_copy)) bytes += chunk->bytes;
  return bytes;
}

// What of it fits into so much memory, and into what is free. Returns its bytes.
Result<std::uint64_t> Streaming::fetch(const Expected& what, std::uint64_t most, Held& held) {
  if (pool_.available() < most) {
    const auto reclaimed = departures_.reclaim(most, Departures::Wait::no, held);
    if (!reclaimed) return reclaimed.error();
  }
  gather_missing(what);
  const std::uint64_t bytes = whole_chunks(std::min(most, pool_.available()));
  for (std::uint64_t more = Residency::missing(missing_); more > bytes; missing_.pop_back())
    more -= missing_.back().chunk->bytes;
  if (missing_.empty()) return bytes;
  const auto resident = residency_.make_resident(missing_);
  if (!resident && resident.error().code != ErrorCode::out_of_memory) return resident.error();
  if (!resident) return std::uint64_t{0};
  const std::uint64_t clock = placement_.tick();
  for (const ChunkUse& use : missing_) use.chunk->last_use = clock, use.chunk->early = true;
  return bytes;
}

// The chunks that are on the host alone, in `missing_`.
Needs Streaming::gather_missing(const Expected& what) {
  missing_.clear();
  Needs needs;
  Range* const range = residency_.find(what.base);
  if (range == nullptr || !range->in_use) return needs;
  for (Chunk& chunk : range->chunks) {
    if (chunk.offset >= what.offset + what.bytes) break;
    if (chunk.offset + chunk.bytes <= what.offset || chunk.owner != what.allocation) continue;
    if (can_leave(chunk, Content::without_copy)) needs.clean += chunk.bytes;
    if (chunk.state == ChunkState::dropped) needs.dropped += chunk.bytes;
    if (chunk.early && chunk.state == ChunkState::resident) needs.early += chunk.bytes;
    if (!chunk.frames.empty() || chunk.landed || chunk.state != ChunkState::evicted) continue;
    missing_.push_back({&chunk, true, false});
    needs.missing += chunk.bytes;
  }
  return needs;
}

Status Streaming::send_away(std::uint64_t bytes, Content content, OpNumber after) {
  const std::uint64_t most = pool_.cap() / most_leaving;
  const std::uint64_t leaving = departures_.bytes();
  if (content == Content::without_copy) bytes -= std::min(bytes, leaving);
  if (bytes == 0 || leaving >= most) return Done{};
  const auto blocked = order_.host_blocked();
  if (!blocked) return blocked.error();
  if (*blocked) return Done{};
  leaving_.clear();
  for (Chunk* chunk : residency_.mapped())
    if (can_leave(*chunk, content) && (!chunk->live || chunk->next_use > after)) leaving_.push_back(chunk);
  std::sort(leaving_.begin(), leaving_.end(), [](const Chunk* a, const Chunk* b) {
    if (a->live != b->live) return !a->live;
    if (a->live && a->next_use != b->next_use) return a->next_use > b->next_use;
    return a->last_use != b->last_use ? a->last_use < b->last_use : a->address < b->address;
  });
  std::uint64_t sent = 0;
  for (Chunk* chunk : leaving_) {
    if (sent >= bytes || leaving + sent >= most) break;
    if (chunk->state != ChunkState::resident) continue;  // it went with another one
    const auto begun = begin(*chunk, content);
    if (!begun && begun.error().code == ErrorCode::out_of_memory) break;
    if (!begun) return begun.error();
    sent += *begun;
  }
  return Done{};
}

// Returns the bytes that leave, with what leaves together with it.
Result<std::uint64_t> Streaming::begin(Chunk& chunk, Content content) {
  if (content == Content::dirty && remaker_ != nullptr) {
    const auto dropped = remaker_->drop(chunk, /*gathering=*/0);
    if (!dropped || *dropped > 0) return dropped;
  }
  if (const auto begun = residency_.begin_eviction(chunk); !begun) return begun.error();
  departures_.add(chunk);
  return chunk.bytes;
}

}  // namespace pooch::runtime
