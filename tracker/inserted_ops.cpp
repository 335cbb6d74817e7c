#include "tracker/inserted_ops.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

namespace pooch::tracker {
namespace {

// Buffers of one phase to those of the other, as far as ops have named them.
class Pairs {
 public:
  Pairs(const PhaseProfile& shorter, const PhaseProfile& longer)
      : shorter_(shorter),
        longer_(longer),
        to_(shorter.buffers.size(), none),
        from_(longer.buffers.size(), none) {}

  bool join(std::uint32_t a, std::uint32_t b) {
    if (a == no_buffer || b == no_buffer) return a == b;
    if (to_[a] != none || from_[b] != none) return to_[a] == b;
    const ProfileBuffer &p = shorter_.buffers[a], &q = longer_.buffers[b];
    if (p.bytes != q.bytes || p.managed != q.managed) return false;
    to_[a] = b;
    from_[b] = a;
    return true;
  }
  bool same_lives(const InsertedOps& between) const {
    const auto matches = [&](std::int32_t a, std::int32_t b) {
      return a == outside || b == outside ? a == b : between.without(b) == a;
    };
    for (std::size_t a = 0; a < to_.size(); ++a)
      if (to_[a] != none && (!matches(shorter_.buffers[a].from, longer_.buffers[to_[a]].from) ||
                             !matches(shorter_.buffers[a].until, longer_.buffers[to_[a]].until)))
        return false;
    return true;
  }

 private:
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max() - 1;
  const PhaseProfile &shorter_, &longer_;
  std::vector<std::uint32_t> to_, from_;
};

bool same_call(const PhaseProfile& shorter, const ProfileOp& a, const PhaseProfile& longer,
               const ProfileOp& b) {
  return shorter.functions[a.function] == longer.functions[b.function] && a.kind == b.kind &&
         a.stream == b.stream && a.shape == b.shape && a.filter == b.filter && a.window == b.window &&
         a.mode == b.mode && a.reads.size() == b.reads.size() && a.writes.size() == b.writes.size() &&
         a.operands.size() == b.operands.size();
}

// How many of the ops from these positions on are the same.
std::size_t count_same(const PhaseProfile& shorter, std::size_t from, const PhaseProfile& longer,
                       std::size_t from_longer, Pairs& pairs, std::size_t most) {
  for (std::size_t i = 0; i < most; ++i) {
    const ProfileOp &a = shorter.ops[from + i], &b = longer.ops[from_longer + i];
    if (!same_call(shorter, a, longer, b)) return i;
    for (std::size_t o = 0; o < a.operands.size(); ++o)
      if (!pairs.join(a.operands[o], b.operands[o])) return i;
  }
  return most;
}

}  // namespace

std::optional<InsertedOps> inserted_ops(const PhaseProfile& shorter, const PhaseProfile& longer) {
  const auto ops = static_cast<std::int32_t>(shorter.ops.size());
  const auto count = static_cast<std::int32_t>(longer.ops.size()) - ops;
  if (ops == 0 || count <= 0 || count > most_inserted_ops) return std::nullopt;
  Pairs first(shorter, longer);
  const auto last_at =
      static_cast<std::int32_t>(count_same(shorter, 0, longer, 0, first, static_cast<std::size_t>(ops) - 1));
  // What was inserted may begin as the shorter one goes on.
  for (std::int32_t at = last_at; at >= std::max(0, last_at - most_inserted_ops); --at) {
    Pairs pairs(shorter, longer);
    const auto before = static_cast<std::size_t>(at), behind = static_cast<std::size_t>(ops - at);
    (void)count_same(shorter, 0, longer, 0, pairs, before);
    const InsertedOps found{at, count};
    if (count_same(shorter, before, longer, before + static_cast<std::size_t>(count), pairs, behind) ==
            behind &&
        pairs.same_lives(found))
      return found;
  }
  return std::nullopt;
}

}  // namespace pooch::tracker
