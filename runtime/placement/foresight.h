// What comes next, judged by what followed before: when each operand will be touched again.
//
// Ops are remembered with links: from each operand to the op that touched it next. Where the latest ops equal
// earlier ones, the program is expected to go on as it did then: an operand is touched again as many ops from
// now as it was at that time. No address is remembered, so it does not matter where the program's allocator
// puts things. The latest ops are compared with sizes first, and then without, so that a sequence of another
// length is known again. A wrong guess costs time only; where most are wrong, nothing is foreseen.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/ids.h"
#include "tracker/tracker.h"

namespace pooch::runtime {

using OpNumber = std::uint64_t;  // of all that passed, from 1

inline constexpr OpNumber unknown_op = 0;  // nothing like it was seen before

// When content will be touched next, or, if it is not touched again, freed.
struct NextTouch {
  OpNumber op = unknown_op;
  bool ends = false;
};

// What an op does to memory.
struct MemoryChange {
  std::uint64_t written_anew = 0;  // bytes that nothing touched before
  std::uint64_t freed = 0;         // bytes that are freed right after it
};

// What Foresight remembers.
namespace past {

struct Use {
  NextTouch next;
  std::uint32_t first = 0;  // the op's first operand with this content: that one has the links
};
struct Op {
  std::uint64_t shape = 0;  // hash of what it is, sizes and addresses left out
  std::vector<Use> uses;    // by operand
  MemoryChange change;
};

struct LastUse {
  OpNumber op;
  std::uint32_t operand;
  std::uint64_t bytes;             // the most that was touched there; 0: it is not managed
  OpNumber expected = unknown_op;  // when it was to be touched next
};

// Finds the latest op before which the same ops passed, `length` of them with itself.
class Windows {
 public:
  explicit Windows(std::size_t length);
  // The op's key comes behind the others. Returns where the same window ended last; unknown_op: nowhere.
  OpNumber push(std::uint64_t key, OpNumber op);
  void forget_before(OpNumber op);

 private:
  std::size_t length_;
  std::uint64_t oldest_factor_ = 1;  // of the key that is taken off
  std::deque<std::uint64_t> keys_;
  std::uint64_t hash_ = 0;
  std::unordered_map<std::uint64_t, OpNumber> ends_;
};

}  // namespace past

class Foresight {
 public:
  // The op was launched.
  void passed(const tracker::Op& op);
  // Ops follow that are not reported.
  void lose_track() { like_ = unknown_op; }
  // The allocation ends.
  void freed(AllocationId allocation);
  // Of the latest op, by operand.
  const std::vector<NextTouch>& next() const { return next_; }
  OpNumber now() const { return begin_ + past_.size() - 1; }  // the latest op; 0 before the first
  // Whether what the program does looks like something earlier, and did what was expected of late.
  bool foresees() const { return like_ != unknown_op && right_ > 0.5; }
  // What the op that comes `ahead` ops after the latest one, 1 or more, is expected to change. Only if
  // foresees().
  MemoryChange change(std::uint64_t ahead) const;

 private:
  using Place = std::pair<AllocationId, std::uint64_t>;  // offset

  static std::uint64_t shape_of(const tracker::Op& op);
  const past::Op& at(OpNumber op) const { return past_[op - begin_]; }
  past::Op& at(OpNumber op) { return past_[op - begin_]; }
  void link(const tracker::Op& op, past::Op& mine);
  void expect();
  void judge(const past::LastUse& last);
  void follow(std::uint64_t exact);
  void forget_some();

  OpNumber begin_ = 1;  // of the first op in past_
  std::deque<past::Op> past_;
  std::map<Place, past::LastUse> last_;
  std::vector<past::LastUse*> touched_;  // by operand of the latest op
  past::Windows exact_{8}, alike_{24};
  OpNumber like_ = unknown_op;  // the earlier op that the latest one stands for
  double right_ = 1;            // the share of the latest expectations that were right
  std::vector<NextTouch> next_;
};

}  // namespace pooch::runtime
