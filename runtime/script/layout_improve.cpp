#include <algorithm>
#include <random>
#include <utility>

#include "core/pages.h"
#include "runtime/script/layout_groups.h"

namespace pooch::runtime {
namespace {

// Large neighbourhood search (Shaw, 1998): a few items give up their frames and get others, one after the
// other. What costs no more than before is kept.
class Improver {
 public:
  Improver(const Layout& start, const StayTable& stays, std::uint64_t limit, double move_us,
           std::uint32_t seed)
      : stays_(stays),
        cost_(stays, move_us),
        groups_(stays, start, limit / page),
        groups_before_(groups_),
        random_(seed) {}

  Layout run() {
    double cost = cost_.weigh(groups_, moved_);
    for (std::size_t in_vain = 0; cost > 0 && in_vain < most_in_vain && spent() < most_work; ++in_vain) {
      groups_before_ = groups_;
      moved_before_ = moved_;
      change();
      const double now = cost_.weigh(groups_, moved_);
      if (now < cost) in_vain = 0;
      if (now <= cost) {
        cost = now;
      } else {
        std::swap(groups_, groups_before_);
        std::swap(moved_, moved_before_);
      }
    }
    (void)cost_.weigh(groups_, moved_);
    return groups_.layout(cost_.wait_us());
  }

 private:
  // Counted in stays that are looked at, never in time.
  static constexpr std::size_t most_work = 30'000'000;
  static constexpr std::size_t most_in_vain = 1000;  // changes, since one that helped
  std::size_t spent() const { return spent_ + cost_.spent(); }
  std::size_t pick(std::size_t count) {
    return std::uniform_int_distribution<std::size_t>(0, count - 1)(random_);
  }
  void change() {
    leaving_.clear();
    const auto beyond =
        std::find_if(groups_.all().begin(), groups_.all().end(), [](const PageGroup& g) { return g.beyond; });
    if (beyond != groups_.all().end() && pick(2) == 0) {
      const std::uint32_t item = stays_.item_of(beyond->stays[pick(beyond->stays.size())]);
      leave(item);
      push_out(groups_[pick(groups_.size())], item);
    }
    if (!moved_.empty() && pick(8) != 0) {
      const std::uint32_t item = moved_[pick(moved_.size())];
      leave(item);
      clear_place(item);
    }
    for (std::size_t more = pick(3); more > 0 || leaving_.empty(); more -= more > 0 ? 1 : 0)
      leave(static_cast<std::uint32_t>(pick(stays_.item_count())));
    take_out();
    // Mostly the one that it is about chooses first, or the large ones that are often away.
    const auto weight = [this](std::uint32_t item) {
      return stays_.items()[item].bytes * stays_.count(item);
    };
    const auto begin = leaving_.begin() + static_cast<std::ptrdiff_t>(pick(2));
    if (pick(2) == 0)
      std::shuffle(begin, leaving_.end(), random_);
    else
      std::stable_sort(begin, leaving_.end(),
                       [&](std::uint32_t a, std::uint32_t b) { return weight(a) > weight(b); });
    preferred_ = static_cast<Preferred>(pick(3));
    for (const std::uint32_t item : leaving_) give(item);
    groups_.join_alike();
  }
  bool leaves(std::uint32_t item) const {
    return std::find(leaving_.begin(), leaving_.end(), item) != leaving_.end();
  }
  void leave(std::uint32_t item) {
    if (!leaves(item)) leaving_.push_back(item);
  }
  // Whoever keeps the item from staying where it is in one of its stays.
  void clear_place(std::uint32_t item) {
    constexpr std::size_t most = 4;
    const StayIndex there = stays_.index(item, pick(stays_.count(item)));
    for (const PageGroup& group : groups_.all()) {
      if (leaving_.size() > most) return;
      const auto found = groups_.at(group, stays_.span(there).from);
      if (found != group.stays.end() && *found == there && pick(2) == 0) push_out(group, item);
    }
  }
  void push_out(const PageGroup& group, std::uint32_t item) {
    for (const StayIndex other : group.stays) {
      if (stays_.item_of(other) == item) continue;
      for (std::size_t s = 0; s < stays_.count(item); ++s)
        if (stays_.meet(other, stays_.index(item, s))) {
          leave(stays_.item_of(other));
          break;
        }
    }
  }
  void take_out() {
    for (const PageGroup& group : groups_.all()) spent_ += group.stays.size();
    groups_.take_out([this](StayIndex each) { return leaves(stays_.item_of(each)); });
  }

  // Frames that the item has in all its stays, as far as there are any; others change as seldom as they can.
  void give(std::uint32_t item) {
    const std::vector<StayList> parts = parts_of(item);
    std::uint64_t wanted = stays_.items()[item].bytes / page;
    StayList all;
    std::vector<std::uint32_t> found = within_limit();
    for (const StayList& part : parts) {
      keep_free(found, part, Waits::no);
      all.insert(all.end(), part.begin(), part.end());
    }
    wanted -= take(found, all, wanted);
    for (std::size_t p = 0; p < parts.size() && wanted > 0;) {
      StayList some = parts[p++];
      found = within_limit();
      keep_free(found, some, Waits::no);
      if (pages_of(found) < wanted) {
        found = within_limit();
        keep_free(found, some, Waits::yes);
      } else {
        for (; p < parts.size(); ++p) {
          std::vector<std::uint32_t> still = found;
          keep_free(still, parts[p], Waits::no);
          if (pages_of(still) < wanted) break;
          found = std::move(still);
          some.insert(some.end(), parts[p].begin(), parts[p].end());
        }
      }
      groups_.add_beyond(some, wanted - take(found, some, wanted));
    }
  }
  // The item's stays in their order, from any of them on; those that must have the same frames together.
  std::vector<StayList> parts_of(std::uint32_t item) {
    std::vector<StayList> parts;
    StayList crossing;
    for (std::size_t s = 0; s < stays_.count(item); ++s) {
      const StayIndex each = stays_.index(item, s);
      if (stays_.span(each).crosses)
        crossing.push_back(each);
      else
        parts.push_back({each});
    }
    if (!crossing.empty()) parts.push_back(std::move(crossing));
    std::rotate(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(pick(parts.size())), parts.end());
    return parts;
  }
  std::vector<std::uint32_t> within_limit() const {
    std::vector<std::uint32_t> groups;
    for (std::uint32_t g = 0; g < groups_.size(); ++g)
      if (!groups_[g].beyond) groups.push_back(g);
    return groups;
  }
  std::uint64_t pages_of(const std::vector<std::uint32_t>& groups) const {
    std::uint64_t pages = 0;
    for (const std::uint32_t g : groups) pages += groups_[g].pages;
    return pages;
  }
  enum class Waits : bool { no, yes };
  void keep_free(std::vector<std::uint32_t>& groups, const StayList& stays, Waits waits) {
    std::erase_if(groups, [&](std::uint32_t g) {
      return !std::all_of(stays.begin(), stays.end(),
                          [&](StayIndex each) { return is_free(groups_[g], each, waits); });
    });
  }
  bool is_free(const PageGroup& group, StayIndex stay, Waits waits) {
    ++spent_;
    const LayoutSpan& mine = stays_.span(stay);
    const auto follows = [&](StayIndex before, StayIndex after) {
      return stays_.span(before).to < stays_.span(after).from &&
             (waits == Waits::yes || stays_.item_of(before) == stays_.item_of(after) ||
              stays_.span(before).free_us <= stays_.span(after).start_us);
    };
    const auto next = groups_.at(group, mine.from);
    return (next == group.stays.end() || follows(stay, *next)) &&
           (next == group.stays.begin() || follows(*(next - 1), stay));
  }

  // Pages of these groups, `wanted` at most, go to the stays: how many.
  std::uint64_t take(std::vector<std::uint32_t>& groups, const StayList& stays, std::uint64_t wanted) {
    sort_by_preference(groups);
    const auto pages = [this](std::uint32_t g) { return groups_[g].pages; };
    std::uint64_t taken = 0;
    for (auto group = groups.begin(); group != groups.end() && taken < wanted; ++group) {
      const std::uint64_t rest = wanted - taken;
      auto least = group;  // the smallest that is enough
      for (auto other = group; other != groups.end(); ++other)
        if (pages(*other) >= rest && (pages(*least) < rest || pages(*other) < pages(*least))) least = other;
      if (pages(*least) == rest || pages(*group) > rest) std::swap(*group, *least);
      if (pages(*group) > rest) groups_.split(*group, rest);
      for (const StayIndex each : stays) groups_.enter(*group, each);
      taken += pages(*group);
    }
    return taken;
  }
  void sort_by_preference(std::vector<std::uint32_t>& groups) {
    const auto sort_by = [&](auto key) {
      std::stable_sort(groups.begin(), groups.end(),
                       [&](std::uint32_t a, std::uint32_t b) { return key(groups_[a]) > key(groups_[b]); });
    };
    switch (preferred_) {
      case Preferred::large:
        return sort_by([](const PageGroup& group) { return group.pages; });
      case Preferred::busy:
        return sort_by([](const PageGroup& group) { return group.stays.size(); });
      case Preferred::any:
        return std::shuffle(groups.begin(), groups.end(), random_);
    }
  }
  const StayTable& stays_;
  LayoutCost cost_;
  PageGroups groups_, groups_before_;
  std::vector<std::uint32_t> moved_, moved_before_, leaving_;  // items
  enum class Preferred : std::uint8_t { large, busy, any } preferred_ = Preferred::large;
  std::mt19937 random_;
  std::size_t spent_ = 0;  // beside cost_'s
};

}  // namespace

Layout improve(const Layout& start, const std::vector<LayoutItem>& items, std::uint64_t limit, double move_us,
               std::uint32_t seed) {
  const StayTable stays(items);
  return Improver(start, stays, limit, move_us, seed).run();
}

}  // namespace pooch::runtime
