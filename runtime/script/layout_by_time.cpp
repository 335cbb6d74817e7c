#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "core/pages.h"
#include "runtime/script/layout_ways.h"

namespace pooch::runtime {
namespace {

constexpr double border = -2000;  // it crosses the border there, and has no choice
constexpr double own = -30;       // it was there before: worth no wait while others are free
constexpr double wait = 50;       // it has to wait

// Somebody who was here may want to come back.
struct Return {
  Tenant next;           // its next span; where it crosses a border, the next that does
  bool crosses = false;  // it must
  bool given_up = false;
};

// Pages that have been given to the same tenants so far.
struct Group {
  std::uint64_t pages = 0;
  std::int32_t last = -1;  // position up to which they are taken
  double free_us = -std::numeric_limits<double>::infinity();
  std::vector<Tenant> tenants;
  std::vector<Return> returns;
};

class InTime {
 public:
  InTime(const std::vector<LayoutItem>& items, std::uint64_t limit, const Taste& taste)
      : items_(items), limit_(limit / page), taste_(taste), has_border_(items.size()) {}

  Layout run() {
    for (const Tenant& tenant : in_order()) place(tenant);
    std::vector<Tenancies> all;
    for (Group& group : groups_) all.push_back({group.pages, std::move(group.tenants)});
    return frames_from(items_, all, wait_us_);
  }

 private:
  struct Offer {
    double cost;
    std::uint32_t group;
    double wait_us;
  };
  const LayoutSpan& span(const Tenant& tenant) const { return items_[tenant.item].held[tenant.span]; }
  std::vector<Tenant> in_order() const {
    std::vector<Tenant> order;
    for (std::uint32_t i = 0; i < items_.size(); ++i)
      for (std::uint32_t s = 0; s < items_[i].held.size(); ++s) order.push_back({i, s});
    std::stable_sort(order.begin(), order.end(), [&](const Tenant& a, const Tenant& b) {
      const LayoutSpan &x = span(a), &y = span(b);
      return x.from != y.from ? x.from < y.from : x.to > y.to;
    });
    return order;
  }

  void place(const Tenant& tenant) {
    const LayoutSpan& mine = span(tenant);
    std::uint64_t wanted = items_[tenant.item].bytes / page;
    offers_.clear();
    for (std::uint32_t g = 0; g < groups_.size(); ++g)
      if (const auto offer = weigh(g, tenant)) offers_.push_back(*offer);
    std::stable_sort(offers_.begin(), offers_.end(),
                     [](const Offer& a, const Offer& b) { return a.cost < b.cost; });
    double wait_us = 0;
    for (std::size_t i = 0; i < offers_.size() && wanted > 0; ++i) {
      const bool contested =
          offers_[i].cost >= (taste_.new_before_conflict ? taste_.conflict * 0.9 : wait * 0.9);
      if (contested) wanted -= add(tenant, std::min(wanted, limit_ - std::min(limit_, total_)));
      if (wanted == 0) break;
      choose_fitting(i, wanted);
      wait_us = std::max(wait_us, offers_[i].wait_us);
      wanted -= take(offers_[i].group, tenant, wanted);
    }
    add(tenant, wanted);
    wait_us_ += wait_us;
    advance(tenant, mine);
  }

  std::optional<Offer> weigh(std::uint32_t index, const Tenant& tenant) {
    const Group& group = groups_[index];
    const LayoutSpan& mine = span(tenant);
    if (group.last >= mine.from) return std::nullopt;
    bool returns = false;
    double cost = 0;
    for (const Return& other : group.returns) {
      if (other.next.item == tenant.item) {
        if (mine.crosses && other.crosses) return Offer{border, index, waits(group, tenant)};
        returns = true;
        continue;
      }
      const LayoutSpan& its = span(other.next);
      const bool meet = its.from <= mine.to;
      if (meet && other.crosses) return std::nullopt;
      if (other.given_up) continue;
      if (meet)
        cost += taste_.conflict;
      else if (meets_again(tenant, other.next))
        cost += taste_.meets_again;
    }
    // Its border frames are waiting for it, and it may have no others.
    if (mine.crosses && has_border_[tenant.item]) return std::nullopt;
    const double wait_us = waits(group, tenant);
    if (mine.start_us - group.free_us < taste_.slack_us) cost += taste_.tight;
    if (wait_us > 0) cost += wait + wait_us / 100;
    if (returns) cost += own;
    const double whole = static_cast<double>(items_[tenant.item].bytes) / page;
    cost -= std::min(1.0, static_cast<double>(group.pages) / whole);
    return Offer{cost, index, wait_us};
  }
  // What comes back waits for its own copy wherever it lies.
  double waits(const Group& group, const Tenant& tenant) const {
    if (group.tenants.back().item == tenant.item) return 0;
    return std::max(0.0, group.free_us - span(tenant).start_us);
  }
  // Whether any later stay of the tenant's item meets the other's stay or a later one of its item.
  bool meets_again(const Tenant& tenant, const Tenant& other) const {
    const auto &mine = items_[tenant.item].held, &its = items_[other.item].held;
    std::size_t m = tenant.span + 1, i = other.span;
    while (m < mine.size() && i < its.size()) {
      if (mine[m].from <= its[i].to && its[i].from <= mine[m].to) return true;
      if (mine[m].to < its[i].to)
        ++m;
      else
        ++i;
    }
    return false;
  }

  // The last group that is needed should leave no rest, or a small one.
  void choose_fitting(std::size_t at, std::uint64_t wanted) {
    constexpr double alike = 3;
    if (groups_[offers_[at].group].pages <= wanted) return;
    std::size_t best = at;
    for (std::size_t i = at + 1; i < offers_.size() && offers_[i].cost < offers_[at].cost + alike; ++i) {
      const std::uint64_t pages = groups_[offers_[i].group].pages;
      if (pages >= wanted && pages < groups_[offers_[best].group].pages) best = i;
    }
    std::swap(offers_[at], offers_[best]);
  }

  // Pages of the group, `wanted` at most: how many.
  std::uint64_t take(std::uint32_t index, const Tenant& tenant, std::uint64_t wanted) {
    if (groups_[index].pages > wanted) {
      Group rest = groups_[index];
      rest.pages -= wanted;
      groups_[index].pages = wanted;
      groups_.push_back(std::move(rest));
    }
    Group& group = groups_[index];
    const LayoutSpan& mine = span(tenant);
    group.tenants.push_back(tenant);
    group.last = mine.to;
    group.free_us = mine.free_us;
    bool known = false;
    for (Return& other : group.returns) {
      known |= other.next.item == tenant.item;
      if (other.next.item != tenant.item && span(other.next).from <= mine.to) other.given_up = true;
    }
    const std::uint32_t next = next_of(tenant);
    if (!known && next < items_[tenant.item].held.size())
      group.returns.push_back({{tenant.item, next}, mine.crosses});
    return group.pages;
  }
  std::uint64_t add(const Tenant& tenant, std::uint64_t pages) {
    if (pages == 0) return 0;
    groups_.push_back({.pages = pages});
    total_ += pages;
    return take(static_cast<std::uint32_t>(groups_.size() - 1), tenant, pages);
  }
  // The span that the tenant's frames are wanted for next.
  std::uint32_t next_of(const Tenant& tenant) const {
    const auto& held = items_[tenant.item].held;
    std::uint32_t next = tenant.span + 1;
    if (held[tenant.span].crosses)
      while (next < held.size() && !held[next].crosses) ++next;
    return next;
  }

  // Wherever the item was before this span, it may come back to in its next.
  void advance(const Tenant& tenant, const LayoutSpan& mine) {
    const auto count = items_[tenant.item].held.size();
    if (mine.crosses) has_border_[tenant.item] = true;
    if (tenant.span == 0 && count == 1) return;
    for (Group& group : groups_)
      for (auto it = group.returns.begin(); it != group.returns.end();) {
        if (it->next.item == tenant.item && it->next.span == tenant.span) {
          it->next.span = it->crosses ? next_of(tenant) : tenant.span + 1;
          it->given_up &= it->crosses;
          if (it->next.span >= count) {
            it = group.returns.erase(it);
            continue;
          }
        }
        ++it;
      }
  }

  const std::vector<LayoutItem>& items_;
  const std::uint64_t limit_;  // pages
  const Taste taste_;
  std::vector<Group> groups_;
  std::vector<Offer> offers_;     // reused storage
  std::vector<bool> has_border_;  // by item
  std::uint64_t total_ = 0;       // pages
  double wait_us_ = 0;
};

}  // namespace

Layout lay_out_by_time(const std::vector<LayoutItem>& items, std::uint64_t limit, const Taste& taste) {
  return InTime(items, limit, taste).run();
}

}  // namespace pooch::runtime
