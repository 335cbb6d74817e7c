#include "runtime/execution/layout.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <random>
#include <utility>

#include "runtime/execution/layout_ways.h"
#include "runtime/memory/memory_limits.h"

namespace pooch::runtime {
namespace {

constexpr int most_rounds = 3;  // of choosing chunk by chunk, for each order

// Those that all spans have come first. How many are mapped in a round.
std::uint64_t order_frames(std::vector<std::vector<std::uint32_t>>& spans) {
  std::map<std::uint32_t, std::size_t> uses;
  for (auto& frames : spans) {
    std::sort(frames.begin(), frames.end());
    for (const std::uint32_t frame : frames) ++uses[frame];
  }
  const auto common = static_cast<std::size_t>(
      std::count_if(uses.begin(), uses.end(), [&](const auto& use) { return use.second == spans.size(); }));
  for (auto& frames : spans)
    std::stable_partition(frames.begin(), frames.end(),
                          [&](std::uint32_t frame) { return uses[frame] == spans.size(); });
  std::uint64_t moves = 0;
  for (std::size_t s = 0; s < spans.size(); ++s) {
    const auto& next = spans[(s + 1) % spans.size()];
    if (spans[s] != next) moves += next.size() - common;
  }
  return moves;
}

// What is tried of both ways: who chooses first; tastes, and items that give up coming back.
class Search {
 public:
  Search(const std::vector<LayoutItem>& items, std::uint64_t limit, double move_us)
      : items_(items), limit_(limit), move_us_(move_us) {
    for (std::uint32_t i = 0; i < items.size(); ++i)
      for (std::uint32_t s = 0; s < items[i].held.size(); ++s) order_.push_back({i, s});
    std::stable_sort(order_.begin(), order_.end(), [&](const Tenant& a, const Tenant& b) {
      const LayoutSpan &x = items[a.item].held[a.span], &y = items[b.item].held[b.span];
      return x.from != y.from ? x.from < y.from : x.to > y.to;
    });
    settles_.assign(items.size(), true);
    for (std::uint32_t i = 0; i < items.size(); ++i)
      if (items[i].held.size() > 1) movable_.push_back(i);
  }

  Layout run() {
    keep_frames();
    for (const double share : {1.0, 2.0, 0.5})
      for (const double slack_us : {0.0, 2000.0, 10000.0})
        for (const bool new_first : {true, false}) {
          Taste taste;
          taste.meets_again = share * taste.conflict;
          taste.slack_us = slack_us;
          taste.new_before_conflict = new_first;
          if (!perfect() && (attempts_ == 0 || spent_ < most_work)) attempt(taste, settles_, 0);
        }
    while (!perfect() && spent_ < most_work && attempts_ < most_attempts && in_vain_ < most_in_vain) vary();
    return std::move(*best_);
  }

 private:
  // Counted in spans that look at a frame, never in time.
  static constexpr std::size_t most_work = 50'000'000, most_attempts = 300;
  static constexpr std::size_t most_in_vain = 80;  // since the best one; more found 8 frames fewer of 340

  void keep_frames() {
    // Memory that is taken early to avoid a wait may lack later: then with less of it.
    for (const double share : {1.0, 0.98, 0.95, 0.9}) {
      const auto limit = static_cast<std::uint64_t>(static_cast<double>(limit_) * share);
      for (const First first : {First::earliest, First::longest, First::latest}) {
        std::vector<std::int32_t> raised(items_.size());
        for (int round = 0; round < most_rounds; ++round) {
          if (best_ && (perfect() || spent_ >= most_work / 4)) return;
          (void)consider(lay_out_by_chunk(items_, limit, first, raised));
        }
      }
    }
  }

  // The best attempt so far, or another taste, and a few items change their minds.
  void vary() {
    const auto pick = [this](std::size_t count) {
      return std::uniform_int_distribution<std::size_t>(0, count - 1)(random_);
    };
    Taste taste = taste_;
    if (pick(2) == 0) {
      taste.noise = std::array{0.0, 1.0, 4.0, 12.0}[pick(4)];
      taste.slack_us = std::array{0.0, 2000.0, 10000.0}[pick(3)];
      taste.conflict = std::array{3.0, 10.0, 30.0}[pick(3)];
      taste.meets_again = taste.conflict * std::array{0.5, 1.0, 2.0, 4.0}[pick(4)];
      taste.new_before_conflict = pick(3) != 0;
    }
    std::vector<bool> settles = settles_;
    for (std::size_t flips = pick(3) + 1; flips > 0 && !movable_.empty(); --flips) {
      const std::uint32_t item = movable_[pick(movable_.size())];
      settles[item] = !settles[item];
    }
    attempt(taste, settles, pick(2) == 0 ? seed_ : random_());
  }
  void attempt(const Taste& taste, const std::vector<bool>& settles, unsigned seed) {
    ++attempts_;
    if (!consider(lay_out_by_time(items_, order_, limit_, taste, settles, seed))) return;
    taste_ = taste;
    settles_ = settles;
    seed_ = seed;
  }
  // True: it is the best so far.
  bool consider(Layout made) {
    spent_ += order_.size() * (made.frames.size() + 16);
    const double cost = cost_of(made);
    ++in_vain_;
    if (best_ && cost >= cost_) return false;
    in_vain_ = 0;
    best_ = std::move(made);
    cost_ = cost;
    return true;
  }

  double cost_of(const Layout& layout) const {
    const std::uint64_t over = layout.bytes() > limit_ ? layout.bytes() - limit_ : 0;
    return layout.wait_us + static_cast<double>(layout.moves) * move_us_ +
           static_cast<double>(over / page) * 1e5;
  }
  bool perfect() const { return cost_ == 0; }

  const std::vector<LayoutItem>& items_;
  const std::uint64_t limit_;
  const double move_us_;
  std::vector<Tenant> order_;
  std::vector<std::uint32_t> movable_;
  std::vector<bool> settles_;
  Taste taste_;
  unsigned seed_ = 0;
  std::mt19937 random_{1};
  std::size_t spent_ = 0, attempts_ = 0, in_vain_ = 0;
  std::optional<Layout> best_;
  double cost_ = 0;
};

}  // namespace

Layout frames_from(const std::vector<LayoutItem>& items, const std::vector<Tenancies>& all, double wait_us) {
  Layout layout;
  layout.wait_us = wait_us;
  std::map<std::vector<Tenant>, std::uint32_t> frame_of;
  layout.frames_of.resize(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) layout.frames_of[i].resize(items[i].held.size());
  for (const Tenancies& some : all) {
    const auto [at, fresh] =
        frame_of.try_emplace(some.tenants, static_cast<std::uint32_t>(layout.frames.size()));
    if (!fresh) {
      layout.frames[at->second] += some.pages * page;
      continue;
    }
    layout.frames.push_back(some.pages * page);
    for (const Tenant& tenant : some.tenants)
      layout.frames_of[tenant.item][tenant.span].push_back(at->second);
  }
  for (auto& spans : layout.frames_of) layout.moves += order_frames(spans);
  return layout;
}

Layout lay_out(const std::vector<LayoutItem>& items, std::uint64_t limit, double move_us) {
  return Search(items, limit, move_us).run();
}

}  // namespace pooch::runtime
