#include "runtime/script/layout_groups.h"

#include <algorithm>
#include <numeric>

#include "core/hash.h"
#include "core/pages.h"

namespace pooch::runtime {
namespace {

// In moves. Whoever moves later moves more frames where these are small.
constexpr double frame_cost = 0.3, beyond_cost = 100;

}  // namespace

StayTable::StayTable(const std::vector<LayoutItem>& items) : items_(items) {
  for (std::uint32_t i = 0; i < items.size(); ++i) {
    first_.push_back(static_cast<StayIndex>(spans_.size()));
    spans_.insert(spans_.end(), items[i].held.begin(), items[i].held.end());
    item_of_.resize(spans_.size(), i);
  }
}

// --- groups

PageGroups::PageGroups(const StayTable& stays, const Layout& layout, std::uint64_t limit) : stays_(&stays) {
  for (const std::uint64_t bytes : layout.frames) groups_.push_back({.pages = bytes / page});
  for (std::uint32_t i = 0; i < stays.item_count(); ++i)
    for (std::size_t s = 0; s < stays.count(i); ++s)
      for (const std::uint32_t frame : layout.frames_of[i][s]) enter(groups_[frame], stays.index(i, s));
  std::uint64_t pages = layout.bytes() / page;
  if (pages < limit) groups_.push_back({.pages = limit - pages});
  // Those that are used the least are the ones to do without.
  const auto used = [&](const PageGroup& group) {
    std::int64_t steps = 0;
    for (const StayIndex each : group.stays) steps += stays.span(each).to + 1 - stays.span(each).from;
    return steps;
  };
  std::stable_sort(groups_.begin(), groups_.end(),
                   [&](const PageGroup& a, const PageGroup& b) { return used(a) < used(b); });
  for (std::size_t g = 0; pages > limit; ++g) {
    if (groups_[g].pages > pages - limit) split(g, pages - limit);
    groups_[g].beyond = true;
    pages -= groups_[g].pages;
  }
}

std::uint64_t PageGroups::hash(StayIndex stay) {
  return mix(0, stay);
}

void PageGroups::enter(PageGroup& group, StayIndex stay) const {
  group.stays.insert(at(group, stays_->span(stay).from), stay);
  group.key += hash(stay);
}

void PageGroups::add_beyond(const StayList& stays, std::uint64_t pages) {
  if (pages == 0) return;
  groups_.push_back({.pages = pages, .beyond = true});
  for (const StayIndex each : stays) enter(groups_.back(), each);
}

void PageGroups::split(std::size_t group, std::uint64_t pages) {
  PageGroup rest = groups_[group];
  rest.pages -= pages;
  groups_[group].pages = pages;
  groups_.push_back(std::move(rest));
}

void PageGroups::join_alike() {
  std::vector<std::pair<std::uint64_t, std::uint32_t>> by_key;
  by_key.reserve(groups_.size());
  for (std::uint32_t g = 0; g < groups_.size(); ++g)
    by_key.emplace_back(groups_[g].key + (groups_[g].beyond ? 1 : 0), g);
  std::sort(by_key.begin(), by_key.end());
  for (std::size_t k = 1; k < by_key.size(); ++k)
    if (by_key[k].first == by_key[k - 1].first)
      groups_[by_key[k].second].pages += std::exchange(groups_[by_key[k - 1].second].pages, 0);
  std::erase_if(groups_, [](const PageGroup& group) {
    return group.pages == 0 || (group.beyond && group.stays.empty());
  });
}

Layout PageGroups::layout(double wait_us) const {
  std::vector<Tenancies> all;
  for (const PageGroup& group : groups_) {
    if (group.stays.empty()) continue;
    Tenancies& some = all.emplace_back(Tenancies{group.pages, {}});
    for (const StayIndex each : group.stays) some.tenants.push_back(stays_->tenant(each));
  }
  return frames_from(stays_->items(), all, wait_us);
}

// --- what a layout costs

LayoutCost::LayoutCost(const StayTable& stays, double move_us)
    : stays_(stays), move_us_(move_us), groups_of_(stays.size()), wait_us_(stays.size()) {}

double LayoutCost::weigh(const PageGroups& groups, std::vector<std::uint32_t>& moved) {
  for (StayList& of : groups_of_) of.clear();
  std::fill(wait_us_.begin(), wait_us_.end(), 0.0);
  double cost = 0;
  for (std::uint32_t g = 0; g < groups.size(); ++g) {
    const PageGroup& group = groups[g];
    spent_ += group.stays.size();
    if (group.beyond) cost += beyond_cost * static_cast<double>(group.pages * group.stays.size());
    for (std::size_t s = 0; s < group.stays.size(); ++s) {
      const StayIndex mine = group.stays[s];
      groups_of_[mine].push_back(g);
      if (s == 0 || stays_.item_of(group.stays[s - 1]) == stays_.item_of(mine)) continue;
      wait_us_[mine] =
          std::max(wait_us_[mine], stays_.span(group.stays[s - 1]).free_us - stays_.span(mine).start_us);
    }
  }
  moved.clear();
  for (std::uint32_t i = 0; i < stays_.item_count(); ++i) {
    const std::size_t moves = moves_of(i);
    if (moves == 0) continue;
    cost += static_cast<double>(moves);
    moved.push_back(i);
  }
  cost += wait_cost * wait_us() / move_us_;
  return cost == 0 ? 0 : cost + frame_cost * static_cast<double>(groups.size());
}

double LayoutCost::wait_us() const {
  return std::accumulate(wait_us_.begin(), wait_us_.end(), 0.0);
}

// As frames_from() counts them.
std::size_t LayoutCost::moves_of(std::uint32_t item) const {
  const StayList* const of = &groups_of_[stays_.index(item, 0)];
  const std::size_t count = stays_.count(item);
  std::size_t changes = 0, mapped = 0;
  for (std::size_t s = 0; s < count; ++s) {
    const StayList& next = of[(s + 1) % count];
    if (of[s] == next) continue;
    ++changes;
    mapped += next.size();
  }
  if (changes == 0) return 0;
  const auto common = std::count_if(of->begin(), of->end(), [&](std::uint32_t group) {
    return std::all_of(of + 1, of + count, [&](const StayList& groups) {
      return std::binary_search(groups.begin(), groups.end(), group);
    });
  });
  return mapped - changes * static_cast<std::size_t>(common);
}

}  // namespace pooch::runtime
