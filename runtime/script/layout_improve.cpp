#include <algorithm>
#include <numeric>
#include <random>
#include <utility>

#include "core/hash.h"
#include "core/pages.h"
#include "runtime/script/layout_ways.h"

namespace pooch::runtime {
namespace {

using Stay = std::uint32_t;  // index of a span among all
using Stays = std::vector<Stay>;

// Pages that the same stays have, in order of time.
struct Group {
  std::uint64_t pages = 0;
  bool beyond = false;    // over the limit: all its tenants have to leave
  std::uint64_t key = 0;  // of the stays: the sum of their hashes
  Stays stays;
};

// Large neighbourhood search (Shaw, 1998): a few items give up their frames and get others, one after the
// other. What costs no more than before is kept.
class Improver {
 public:
  Improver(const std::vector<LayoutItem>& items, std::uint64_t limit, double move_us)
      : items_(items), limit_(limit / page), move_us_(move_us) {
    for (std::uint32_t i = 0; i < items.size(); ++i) {
      first_.push_back(static_cast<Stay>(spans_.size()));
      spans_.insert(spans_.end(), items[i].held.begin(), items[i].held.end());
      item_of_.resize(spans_.size(), i);
    }
    groups_of_.resize(spans_.size());
    wait_us_.resize(spans_.size());
  }

  Layout run(const Layout& start) {
    load(start);
    double cost = weigh();
    for (std::size_t in_vain = 0; cost > 0 && in_vain < most_in_vain && spent_ < most_work; ++in_vain) {
      groups_before_ = groups_;
      moved_before_ = moved_;
      change();
      const double now = weigh();
      if (now < cost) in_vain = 0;
      if (now <= cost) {
        cost = now;
      } else {
        std::swap(groups_, groups_before_);
        std::swap(moved_, moved_before_);
      }
    }
    return result();
  }

 private:
  // Counted in stays that are looked at, never in time.
  static constexpr std::size_t most_work = 30'000'000;
  static constexpr std::size_t most_in_vain = 1000;  // changes, since one that helped
  // In moves. Whoever moves later moves more frames where these are small.
  static constexpr double frame_cost = 0.3, beyond_cost = 100;

  std::size_t pick(std::size_t count) {
    return std::uniform_int_distribution<std::size_t>(0, count - 1)(random_);
  }
  Stay stay(std::uint32_t item, std::size_t span) const { return first_[item] + static_cast<Stay>(span); }
  std::size_t stays_of(std::uint32_t item) const { return items_[item].held.size(); }
  bool meet(Stay a, Stay b) const { return spans_[a].from <= spans_[b].to && spans_[b].from <= spans_[a].to; }

  // --- groups

  void load(const Layout& layout) {
    for (const std::uint64_t bytes : layout.frames) groups_.push_back({.pages = bytes / page});
    for (std::uint32_t i = 0; i < items_.size(); ++i)
      for (std::size_t s = 0; s < stays_of(i); ++s)
        for (const std::uint32_t frame : layout.frames_of[i][s]) enter(groups_[frame], stay(i, s));
    std::uint64_t pages = layout.bytes() / page;
    if (pages < limit_) groups_.push_back({.pages = limit_ - pages});
    // Those that are used the least are the ones to do without.
    const auto used = [this](const Group& group) {
      std::int64_t steps = 0;
      for (const Stay each : group.stays) steps += spans_[each].to + 1 - spans_[each].from;
      return steps;
    };
    std::stable_sort(groups_.begin(), groups_.end(),
                     [&](const Group& a, const Group& b) { return used(a) < used(b); });
    for (std::size_t g = 0; pages > limit_; ++g) {
      if (groups_[g].pages > pages - limit_) split(g, pages - limit_);
      groups_[g].beyond = true;
      pages -= groups_[g].pages;
    }
  }
  // The group's first stay that begins at that step or later.
  Stays::const_iterator at(const Group& group, std::int32_t from) const {
    return std::partition_point(group.stays.begin(), group.stays.end(),
                                [&](Stay other) { return spans_[other].from < from; });
  }
  void enter(Group& group, Stay stay) const {
    group.stays.insert(at(group, spans_[stay].from), stay);
    group.key += mix(0, stay);
  }
  // The group keeps `pages`; another one of the same stays has the rest.
  void split(std::size_t index, std::uint64_t pages) {
    Group rest = groups_[index];
    rest.pages -= pages;
    groups_[index].pages = pages;
    groups_.push_back(std::move(rest));
  }
  void join_alike() {
    by_key_.clear();
    for (std::uint32_t g = 0; g < groups_.size(); ++g)
      by_key_.emplace_back(groups_[g].key + (groups_[g].beyond ? 1 : 0), g);
    std::sort(by_key_.begin(), by_key_.end());
    for (std::size_t k = 1; k < by_key_.size(); ++k)
      if (by_key_[k].first == by_key_[k - 1].first)
        groups_[by_key_[k].second].pages += std::exchange(groups_[by_key_[k - 1].second].pages, 0);
    std::erase_if(groups_, [](const Group& group) {
      return group.pages == 0 || (group.beyond && group.stays.empty());
    });
  }
  Layout result() {
    (void)weigh();
    std::vector<Tenancies> all;
    for (const Group& group : groups_) {
      if (group.stays.empty()) continue;
      Tenancies& some = all.emplace_back(Tenancies{group.pages, {}});
      for (const Stay each : group.stays)
        some.tenants.push_back({item_of_[each], each - first_[item_of_[each]]});
    }
    return frames_from(items_, all, std::accumulate(wait_us_.begin(), wait_us_.end(), 0.0));
  }

  // --- what a layout costs

  // 0: it cannot be better. Lists the items that are moved.
  double weigh() {
    for (Stays& groups : groups_of_) groups.clear();
    std::fill(wait_us_.begin(), wait_us_.end(), 0.0);
    double cost = 0;
    for (std::uint32_t g = 0; g < groups_.size(); ++g) {
      const Group& group = groups_[g];
      spent_ += group.stays.size();
      if (group.beyond) cost += beyond_cost * static_cast<double>(group.pages * group.stays.size());
      for (std::size_t s = 0; s < group.stays.size(); ++s) {
        const Stay mine = group.stays[s];
        groups_of_[mine].push_back(g);
        if (s == 0 || item_of_[group.stays[s - 1]] == item_of_[mine]) continue;
        wait_us_[mine] = std::max(wait_us_[mine], spans_[group.stays[s - 1]].free_us - spans_[mine].start_us);
      }
    }
    moved_.clear();
    for (std::uint32_t i = 0; i < items_.size(); ++i) {
      const std::size_t moves = moves_of(i);
      if (moves == 0) continue;
      cost += static_cast<double>(moves);
      moved_.push_back(i);
    }
    cost += wait_cost * std::accumulate(wait_us_.begin(), wait_us_.end(), 0.0) / move_us_;
    return cost == 0 ? 0 : cost + frame_cost * static_cast<double>(groups_.size());
  }
  // As frames_from() counts them.
  std::size_t moves_of(std::uint32_t item) const {
    const Stays* const of = &groups_of_[first_[item]];
    const std::size_t count = stays_of(item);
    std::size_t changes = 0, mapped = 0;
    for (std::size_t s = 0; s < count; ++s) {
      const Stays& next = of[(s + 1) % count];
      if (of[s] == next) continue;
      ++changes;
      mapped += next.size();
    }
    if (changes == 0) return 0;
    const auto common = std::count_if(of->begin(), of->end(), [&](std::uint32_t group) {
      return std::all_of(of + 1, of + count, [&](const Stays& groups) {
        return std::binary_search(groups.begin(), groups.end(), group);
      });
    });
    return mapped - changes * static_cast<std::size_t>(common);
  }

  // --- changes

  void change() {
    leaving_.clear();
    const auto beyond = std::find_if(groups_.begin(), groups_.end(), [](const Group& g) { return g.beyond; });
    if (beyond != groups_.end() && pick(2) == 0) {
      const std::uint32_t item = item_of_[beyond->stays[pick(beyond->stays.size())]];
      leave(item);
      push_out(groups_[pick(groups_.size())], item);
    }
    if (!moved_.empty() && pick(8) != 0) {
      const std::uint32_t item = moved_[pick(moved_.size())];
      leave(item);
      clear_place(item);
    }
    for (std::size_t more = pick(3); more > 0 || leaving_.empty(); more -= more > 0 ? 1 : 0)
      leave(static_cast<std::uint32_t>(pick(items_.size())));
    take_out();
    // Mostly the one that it is about chooses first, or the large ones that are often away.
    const auto weight = [this](std::uint32_t item) { return items_[item].bytes * stays_of(item); };
    const auto begin = leaving_.begin() + static_cast<std::ptrdiff_t>(pick(2));
    if (pick(2) == 0)
      std::shuffle(begin, leaving_.end(), random_);
    else
      std::stable_sort(begin, leaving_.end(),
                       [&](std::uint32_t a, std::uint32_t b) { return weight(a) > weight(b); });
    preferred_ = static_cast<Preferred>(pick(3));
    for (const std::uint32_t item : leaving_) give(item);
    join_alike();
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
    const Stay there = stay(item, pick(stays_of(item)));
    for (const Group& group : groups_) {
      if (leaving_.size() > most) return;
      const auto found = at(group, spans_[there].from);
      if (found != group.stays.end() && *found == there && pick(2) == 0) push_out(group, item);
    }
  }
  void push_out(const Group& group, std::uint32_t item) {
    for (const Stay other : group.stays) {
      if (item_of_[other] == item) continue;
      for (std::size_t s = 0; s < stays_of(item); ++s)
        if (meet(other, stay(item, s))) {
          leave(item_of_[other]);
          break;
        }
    }
  }
  void take_out() {
    const auto goes = [this](Stay each) { return leaves(item_of_[each]); };
    for (Group& group : groups_) {
      spent_ += group.stays.size();
      for (const Stay each : group.stays)
        if (goes(each)) group.key -= mix(0, each);
      std::erase_if(group.stays, goes);
    }
    join_alike();
  }

  // Frames that the item has in all its stays, as far as there are any; others change as seldom as they can.
  void give(std::uint32_t item) {
    const std::vector<Stays> parts = parts_of(item);
    std::uint64_t wanted = items_[item].bytes / page;
    Stays all;
    std::vector<std::uint32_t> found = within_limit();
    for (const Stays& part : parts) {
      keep_free(found, part, Waits::no);
      all.insert(all.end(), part.begin(), part.end());
    }
    wanted -= take(found, all, wanted);
    for (std::size_t p = 0; p < parts.size() && wanted > 0;) {
      Stays some = parts[p++];
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
      add_beyond(some, wanted - take(found, some, wanted));
    }
  }
  // The item's stays in their order, from any of them on; those that must have the same frames together.
  std::vector<Stays> parts_of(std::uint32_t item) {
    std::vector<Stays> parts;
    Stays crossing;
    for (std::size_t s = 0; s < stays_of(item); ++s) {
      const Stay each = stay(item, s);
      if (spans_[each].crosses)
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
  void keep_free(std::vector<std::uint32_t>& groups, const Stays& stays, Waits waits) {
    std::erase_if(groups, [&](std::uint32_t g) {
      return !std::all_of(stays.begin(), stays.end(),
                          [&](Stay each) { return is_free(groups_[g], each, waits); });
    });
  }
  bool is_free(const Group& group, Stay stay, Waits waits) {
    ++spent_;
    const LayoutSpan& mine = spans_[stay];
    const auto follows = [&](Stay before, Stay after) {
      return spans_[before].to < spans_[after].from &&
             (waits == Waits::yes || item_of_[before] == item_of_[after] ||
              spans_[before].free_us <= spans_[after].start_us);
    };
    const auto next = at(group, mine.from);
    return (next == group.stays.end() || follows(stay, *next)) &&
           (next == group.stays.begin() || follows(*(next - 1), stay));
  }

  // Pages of these groups, `wanted` at most, go to the stays: how many.
  std::uint64_t take(std::vector<std::uint32_t>& groups, const Stays& stays, std::uint64_t wanted) {
    sort_by_preference(groups);
    const auto pages = [this](std::uint32_t g) { return groups_[g].pages; };
    std::uint64_t taken = 0;
    for (auto group = groups.begin(); group != groups.end() && taken < wanted; ++group) {
      const std::uint64_t rest = wanted - taken;
      auto least = group;  // the smallest that is enough
      for (auto other = group; other != groups.end(); ++other)
        if (pages(*other) >= rest && (pages(*least) < rest || pages(*other) < pages(*least))) least = other;
      if (pages(*least) == rest || pages(*group) > rest) std::swap(*group, *least);
      if (pages(*group) > rest) split(*group, rest);
      for (const Stay each : stays) enter(groups_[*group], each);
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
        return sort_by([](const Group& group) { return group.pages; });
      case Preferred::busy:
        return sort_by([](const Group& group) { return group.stays.size(); });
      case Preferred::any:
        return std::shuffle(groups.begin(), groups.end(), random_);
    }
  }
  void add_beyond(const Stays& stays, std::uint64_t pages) {
    if (pages == 0) return;
    groups_.push_back({.pages = pages, .beyond = true});
    for (const Stay each : stays) enter(groups_.back(), each);
  }

  const std::vector<LayoutItem>& items_;
  const std::uint64_t limit_;  // pages
  const double move_us_;
  std::vector<Stay> first_;             // by item
  std::vector<LayoutSpan> spans_;       // by stay
  std::vector<std::uint32_t> item_of_;  // by stay
  std::vector<Group> groups_, groups_before_;
  std::vector<std::uint32_t> moved_, moved_before_, leaving_;  // items
  enum class Preferred : std::uint8_t { large, busy, any } preferred_ = Preferred::large;
  std::mt19937 random_{1};
  std::size_t spent_ = 0;
  // Reused storage.
  std::vector<Stays> groups_of_;  // by stay: indices of groups, ascending
  std::vector<double> wait_us_;   // by stay
  std::vector<std::pair<std::uint64_t, std::uint32_t>> by_key_;
};

}  // namespace

Layout improve(const Layout& start, const std::vector<LayoutItem>& items, std::uint64_t limit,
               double move_us) {
  return Improver(items, limit, move_us).run(start);
}

}  // namespace pooch::runtime
