// Layouts as the search for a better one changes them: groups of pages, each with the stays that have it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/script/layout_ways.h"

namespace pooch::runtime {

using StayIndex = std::uint32_t;  // of a span among those of all items
using StayList = std::vector<StayIndex>;

// All stays of the items, which outlive it.
class StayTable {
 public:
  explicit StayTable(const std::vector<LayoutItem>& items);

  const std::vector<LayoutItem>& items() const { return items_; }
  std::uint32_t item_count() const { return static_cast<std::uint32_t>(items_.size()); }
  std::size_t size() const { return spans_.size(); }
  StayIndex index(std::uint32_t item, std::size_t span) const {
    return first_[item] + static_cast<StayIndex>(span);
  }
  std::size_t count(std::uint32_t item) const { return items_[item].held.size(); }
  const LayoutSpan& span(StayIndex stay) const { return spans_[stay]; }
  std::uint32_t item_of(StayIndex stay) const { return item_of_[stay]; }
  Tenant tenant(StayIndex stay) const { return {item_of_[stay], stay - first_[item_of_[stay]]}; }
  bool meet(StayIndex a, StayIndex b) const {
    return spans_[a].from <= spans_[b].to && spans_[b].from <= spans_[a].to;
  }

 private:
  const std::vector<LayoutItem>& items_;
  std::vector<StayIndex> first_;        // by item
  std::vector<LayoutSpan> spans_;       // by stay
  std::vector<std::uint32_t> item_of_;  // by stay
};

// Pages that the same stays have, in order of time.
struct PageGroup {
  std::uint64_t pages = 0;
  bool beyond = false;    // over the limit: all its tenants have to leave
  std::uint64_t key = 0;  // of the stays: the sum of their hashes
  StayList stays;
};

class PageGroups {
 public:
  // Those of the layout, and what is missing up to `limit` pages. `stays` outlives it.
  PageGroups(const StayTable& stays, const Layout& layout, std::uint64_t limit);

  const std::vector<PageGroup>& all() const { return groups_; }
  std::size_t size() const { return groups_.size(); }
  const PageGroup& operator[](std::size_t group) const { return groups_[group]; }
  // The group's first stay that begins at that step or later.
  StayList::const_iterator at(const PageGroup& group, std::int32_t from) const {
    return std::partition_point(group.stays.begin(), group.stays.end(),
                                [&](StayIndex other) { return stays_->span(other).from < from; });
  }
  void enter(std::size_t group, StayIndex stay) { enter(groups_[group], stay); }
  // Pages over the limit, for these stays.
  void add_beyond(const StayList& stays, std::uint64_t pages);
  // The group keeps `pages`; another one of the same stays has the rest.
  void split(std::size_t group, std::uint64_t pages);
  // `goes(stay)`: whether the stay gives up its pages.
  template <class Goes>
  void take_out(Goes&& goes) {
    for (PageGroup& group : groups_) {
      for (const StayIndex each : group.stays)
        if (goes(each)) group.key -= hash(each);
      std::erase_if(group.stays, goes);
    }
    join_alike();
  }
  // One group for all pages of the same stays.
  void join_alike();
  Layout layout(double wait_us) const;

 private:
  static std::uint64_t hash(StayIndex stay);
  void enter(PageGroup& group, StayIndex stay) const;

  const StayTable* stays_;
  std::vector<PageGroup> groups_;
};

// What a layout costs, in moves.
class LayoutCost {
 public:
  LayoutCost(const StayTable& stays, double move_us);

  // 0: it cannot be better. Lists the items that are moved.
  double weigh(const PageGroups& groups, std::vector<std::uint32_t>& moved);
  // Of the layout that was weighed last.
  double wait_us() const;
  // Stays that were looked at, in all.
  std::size_t spent() const { return spent_; }

 private:
  std::size_t moves_of(std::uint32_t item) const;

  const StayTable& stays_;
  const double move_us_;
  std::vector<StayList> groups_of_;  // by stay: indices of groups, ascending
  std::vector<double> wait_us_;      // by stay
  std::size_t spent_ = 0;
};

}  // namespace pooch::runtime
