#include "runtime/layout.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>

namespace pooch::runtime {
namespace {

constexpr std::int32_t far = 1 << 30;

// One piece of memory, while it is handed out.
class Piece {
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

Layout first_come(const std::vector<LayoutItem>& items, std::uint64_t limit) {
  Layout layout;
  layout.frame_of.resize(items.size());
  std::vector<std::uint32_t> order(items.size());
  std::iota(order.begin(), order.end(), 0u);
  const auto start = [&](std::uint32_t i) {
    return items[i].held.empty() ? std::numeric_limits<std::int32_t>::max() : items[i].held.front().from;
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return start(a) < start(b); });
  std::map<std::uint64_t, std::vector<std::uint32_t>> of_size;
  std::vector<Piece> pieces;
  std::uint64_t total = 0;
  for (const std::uint32_t i : order) {
    const LayoutItem& item = items[i];
    auto& candidates = of_size[item.bytes];
    std::optional<Piece::Cost> least;
    std::uint32_t best = 0;
    for (const std::uint32_t candidate : candidates) {
      const auto cost = pieces[candidate].cost(item.held);
      if (cost && (!least || *cost < *least)) least = cost, best = candidate;
    }
    if (!least || (least->wait_us > 0 && total + item.bytes <= limit)) {
      best = static_cast<std::uint32_t>(pieces.size());
      candidates.push_back(best);
      pieces.emplace_back();
      layout.frames.push_back(item.bytes);
      total += item.bytes;
      least.reset();
    }
    if (least) layout.wait_us += least->wait_us;
    pieces[best].take(item.held);
    layout.frame_of[i] = best;
  }
  return layout;
}

}  // namespace

Layout lay_out(const std::vector<LayoutItem>& items, std::uint64_t limit) {
  // Memory taken early to avoid a wait may lack later: then with less of it.
  Layout best = first_come(items, 0);
  for (const double share : {1.0, 0.98, 0.95}) {
    Layout generous = first_come(items, static_cast<std::uint64_t>(static_cast<double>(limit) * share));
    if (generous.bytes() <= limit && (best.bytes() > limit || generous.wait_us < best.wait_us))
      best = std::move(generous);
  }
  return best;
}

}  // namespace pooch::runtime
