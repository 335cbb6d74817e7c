#include "runtime/execution/layout.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

namespace pooch::runtime {
namespace {

constexpr std::int32_t far = 1 << 30;
constexpr int most_rounds = 3;  // of choosing, for each order

// When pieces of memory are taken, while they are handed out.
class Times {
 public:
  // What taking it costs in waits; nothing where it is taken at one of these times.
  struct Cost {
    double wait_us = 0;
    std::int64_t unused = 0;  // positions that remain free right before and after: the tighter the better
    bool operator<(const Cost& other) const {
      return wait_us != other.wait_us ? wait_us < other.wait_us : unused < other.unused;
    }
  };
  std::optional<Cost> cost(const std::vector<LayoutSpan>& held) const {
    Cost cost;
    for (std::size_t i = 0; i < held.size(); ++i) {
      const auto next = after(held[i].from);
      if (next != spans_.end() && next->second.from <= held[i].to) return std::nullopt;
      if (next != spans_.end()) cost.wait_us += std::max(0.0, held[i].free_us - next->second.start_us);
      cost.unused += (next != spans_.end() ? next->second.from : far) - held[i].to;
      if (next == spans_.begin()) continue;
      const LayoutSpan& before = std::prev(next)->second;
      if (before.to >= held[i].from) return std::nullopt;
      cost.wait_us += std::max(0.0, before.free_us - held[i].start_us);
    }
    return cost;
  }
  void take(const std::vector<LayoutSpan>& held) {
    for (const LayoutSpan& span : held) spans_.emplace(span.from, span);
  }

 private:
  std::map<std::int32_t, LayoutSpan>::const_iterator after(std::int32_t from) const {
    return spans_.lower_bound(from);
  }
  std::map<std::int32_t, LayoutSpan> spans_;  // by their begin
};

// Pieces that have been given to the same chunks so far.
struct Group {
  Times taken;
  std::vector<std::uint32_t> frames;
};

// Who chooses first. None of these is the best for all plans.
enum class Order { earliest, longest, latest };

class Choosing {
 public:
  Choosing(const std::vector<LayoutItem>& items, std::uint64_t limit) : items_(items), limit_(limit) {
    layout_.frames_of.resize(items.size());
  }
  // `first`: by item, the higher ones choose first; equal ones in this order. Those that nothing good was
  // left for are raised in it.
  Layout run(Order kind, std::vector<std::int32_t>& first) {
    std::vector<std::tuple<std::int32_t, std::int64_t, std::uint32_t>> order;
    for (std::uint32_t i = 0; i < items_.size(); ++i) order.emplace_back(-first[i], rank(items_[i], kind), i);
    std::sort(order.begin(), order.end());
    for (const auto& [before, rank, i] : order) {
      const double waited_us = layout_.wait_us;
      const std::uint64_t was = total_;
      place(i);
      if (layout_.wait_us > waited_us || (total_ > limit_ && total_ > was)) ++first[i];
    }
    return std::move(layout_);
  }

 private:
  static std::int64_t rank(const LayoutItem& item, Order kind) {
    if (item.held.empty()) return far;
    if (kind == Order::earliest) return item.held.front().from;
    if (kind == Order::latest) return -item.held.back().to;
    std::int64_t held = 0;
    for (const LayoutSpan& span : item.held) held += span.to - span.from + 1;
    return -held;
  }
  struct Offer {
    Times::Cost cost;
    std::size_t group;
  };
  void place(std::uint32_t index) {
    const LayoutItem& item = items_[index];
    auto& groups = of_unit_[item.unit];
    offers_.clear();
    for (std::size_t g = 0; g < groups.size(); ++g)
      if (const auto cost = groups[g].taken.cost(item.held)) offers_.push_back({*cost, g});
    std::stable_sort(offers_.begin(), offers_.end(),
                     [](const Offer& a, const Offer& b) { return a.cost < b.cost; });
    double wait_us = 0;
    std::uint64_t wanted = item.bytes / item.unit;
    for (const Offer& offer : offers_) {
      // Rather than wait: new memory, as long as there is some.
      if (offer.cost.wait_us > 0) wanted -= add(index, groups, std::min(wanted, left() / item.unit));
      if (wanted == 0) break;
      wanted -= take(index, groups, offer.group, wanted);
      wait_us = std::max(wait_us, offer.cost.wait_us);
    }
    add(index, groups, wanted);
    layout_.wait_us += wait_us;
  }
  std::uint64_t left() const { return limit_ - std::min(limit_, total_); }
  // Frames of the group for the item, `wanted` at most: how many.
  std::uint64_t take(std::uint32_t index, std::vector<Group>& groups, std::size_t from,
                     std::uint64_t wanted) {
    if (groups[from].frames.size() > wanted) {  // the rest stays as it is
      Group& rest = groups.emplace_back(groups[from]);
      rest.frames.erase(rest.frames.begin(), rest.frames.begin() + static_cast<std::ptrdiff_t>(wanted));
      groups[from].frames.resize(wanted);
    }
    Group& group = groups[from];
    group.taken.take(items_[index].held);
    auto& mine = layout_.frames_of[index];
    mine.insert(mine.end(), group.frames.begin(), group.frames.end());
    return group.frames.size();
  }
  // New ones.
  std::uint64_t add(std::uint32_t index, std::vector<Group>& groups, std::uint64_t count) {
    if (count == 0) return 0;
    Group& group = groups.emplace_back();
    for (std::uint64_t i = 0; i < count; ++i) {
      group.frames.push_back(static_cast<std::uint32_t>(layout_.frames.size()));
      layout_.frames.push_back(items_[index].unit);
    }
    total_ += count * items_[index].unit;
    return take(index, groups, groups.size() - 1, count);
  }

  const std::vector<LayoutItem>& items_;
  const std::uint64_t limit_;
  Layout layout_;
  std::map<std::uint64_t, std::vector<Group>> of_unit_;
  std::vector<Offer> offers_;  // reused storage
  std::uint64_t total_ = 0;    // bytes handed out
};

// One that fits, with the least waits; else the smallest.
bool better(const Layout& a, const Layout& b, std::uint64_t limit) {
  const bool fits = a.bytes() <= limit;
  if (fits != (b.bytes() <= limit)) return fits;
  return fits ? a.wait_us < b.wait_us : a.bytes() < b.bytes();
}

}  // namespace

Layout lay_out(const std::vector<LayoutItem>& items, std::uint64_t limit) {
  std::optional<Layout> best;
  // Memory taken early to avoid a wait may lack later: then with less of it.
  for (const double share : {1.0, 0.98, 0.95, 0.9, 0.0}) {
    const auto generous = static_cast<std::uint64_t>(static_cast<double>(limit) * share);
    for (const Order order : {Order::earliest, Order::longest, Order::latest}) {
      std::vector<std::int32_t> first(items.size());
      for (int round = 0; round < most_rounds; ++round) {
        Layout made = Choosing(items, generous).run(order, first);
        if (!best || better(made, *best, limit)) best = std::move(made);
        if (best->bytes() <= limit && best->wait_us == 0) return std::move(*best);
      }
    }
  }
  return std::move(*best);
}

}  // namespace pooch::runtime
