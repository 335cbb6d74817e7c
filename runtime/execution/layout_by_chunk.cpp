#include <algorithm>
#include <compare>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

#include "runtime/execution/layout_ways.h"
#include "runtime/memory/memory_limits.h"

namespace pooch::runtime {
namespace {

// Pages with everybody who has them at some time.
struct Shared {
  std::uint64_t pages = 0;
  std::map<std::int32_t, Tenant> taken;  // by the begin of their spans
};

class Keeping {
 public:
  Keeping(const std::vector<LayoutItem>& items, std::uint64_t limit) : items_(items), limit_(limit / page) {}
  // `raised`: by item, the higher ones choose first; equal ones as `first` says. Those that nothing good was
  // left for are raised in it.
  Layout run(First first, std::vector<std::int32_t>& raised) {
    std::vector<std::tuple<std::int32_t, std::int64_t, std::uint32_t>> order;
    for (std::uint32_t i = 0; i < items_.size(); ++i)
      order.emplace_back(-raised[i], rank(items_[i], first), i);
    std::sort(order.begin(), order.end());
    for (const auto& [before, rank, i] : order)
      if (!place(i)) ++raised[i];
    std::vector<Tenancies> all;
    for (const Shared& group : groups_) {
      Tenancies& made = all.emplace_back();
      made.pages = group.pages;
      for (const auto& [from, tenant] : group.taken) made.tenants.push_back(tenant);
    }
    return frames_from(items_, all, wait_us_);
  }

 private:
  struct Cost {
    double wait_us = 0;
    std::int64_t unused = 0;  // positions that remain free right before and after: the tighter the better
    friend auto operator<=>(const Cost&, const Cost&) = default;
  };
  static std::int64_t rank(const LayoutItem& item, First first) {
    if (first == First::earliest) return item.held.front().from;
    if (first == First::latest) return -item.held.back().to;
    std::int64_t held = 0;
    for (const LayoutSpan& span : item.held) held += span.to - span.from + 1;
    return -held;
  }
  const LayoutSpan& span(const Tenant& tenant) const { return items_[tenant.item].held[tenant.span]; }

  // What it costs to have the group at the tenant's time; nothing where it is taken then.
  std::optional<Cost> cost(const Shared& group, const Tenant& tenant) const {
    constexpr std::int32_t far = 1 << 30;
    const LayoutSpan& mine = span(tenant);
    Cost cost;
    const auto next = group.taken.lower_bound(mine.from);
    if (next != group.taken.end()) {
      const LayoutSpan& behind = span(next->second);
      if (behind.from <= mine.to) return std::nullopt;
      if (next->second.item != tenant.item) cost.wait_us += std::max(0.0, mine.free_us - behind.start_us);
    }
    cost.unused = (next != group.taken.end() ? next->first : far) - mine.to;
    if (next == group.taken.begin()) return cost;
    const Tenant& before = std::prev(next)->second;
    if (span(before).to >= mine.from) return std::nullopt;
    if (before.item != tenant.item) cost.wait_us += std::max(0.0, span(before).free_us - mine.start_us);
    return cost;
  }
  std::optional<Cost> cost(const Shared& group, std::span<const Tenant> tenants) const {
    Cost sum;
    for (const Tenant& tenant : tenants) {
      const auto one = cost(group, tenant);
      if (!one) return std::nullopt;
      sum.wait_us += one->wait_us, sum.unused += one->unused;
    }
    return sum;
  }

  // False: it has to wait, to be mapped anew or to have memory beyond the limit.
  bool place(std::uint32_t item) {
    std::vector<Tenant> all, crossing, single;
    for (std::uint32_t s = 0; s < items_[item].held.size(); ++s) {
      all.push_back({item, s});
      (items_[item].held[s].crosses ? crossing : single).push_back({item, s});
    }
    const double waited_us = wait_us_;
    const std::uint64_t left = serve(all, items_[item].bytes / page);
    if (left == 0) return wait_us_ == waited_us;
    // The rest is elsewhere each time, but for what crosses the border of an iteration.
    add(crossing, serve(crossing, left));
    for (const Tenant& tenant : single) add({&tenant, 1}, serve({&tenant, 1}, left));
    return false;
  }

  // Pages for all of these: what is still wanted.
  std::uint64_t serve(std::span<const Tenant> tenants, std::uint64_t wanted) {
    if (tenants.empty()) return 0;
    std::vector<std::pair<Cost, std::uint32_t>> offers;
    for (std::uint32_t g = 0; g < groups_.size(); ++g)
      if (const auto offer = cost(groups_[g], tenants)) offers.emplace_back(*offer, g);
    std::stable_sort(offers.begin(), offers.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    double wait_us = 0;
    for (const auto& [offer, group] : offers) {
      // Rather than wait: new memory, as long as there is some.
      if (offer.wait_us > 0) wanted -= add(tenants, std::min(wanted, left()));
      if (wanted == 0) break;
      wanted -= take(group, tenants, wanted);
      wait_us = std::max(wait_us, offer.wait_us);
    }
    wait_us_ += wait_us;
    return wanted - add(tenants, std::min(wanted, left()));
  }
  std::uint64_t left() const { return limit_ - std::min(limit_, total_); }
  std::uint64_t take(std::uint32_t index, std::span<const Tenant> tenants, std::uint64_t wanted) {
    if (groups_[index].pages > wanted) {
      Shared rest = groups_[index];
      rest.pages -= wanted;
      groups_[index].pages = wanted;
      groups_.push_back(std::move(rest));
    }
    for (const Tenant& tenant : tenants) groups_[index].taken.emplace(span(tenant).from, tenant);
    return groups_[index].pages;
  }
  std::uint64_t add(std::span<const Tenant> tenants, std::uint64_t pages) {
    if (pages == 0 || tenants.empty()) return 0;
    groups_.push_back({pages, {}});
    total_ += pages;
    return take(static_cast<std::uint32_t>(groups_.size() - 1), tenants, pages);
  }

  const std::vector<LayoutItem>& items_;
  const std::uint64_t limit_;  // pages
  std::vector<Shared> groups_;
  std::uint64_t total_ = 0;  // pages
  double wait_us_ = 0;
};

}  // namespace

Layout lay_out_by_chunk(const std::vector<LayoutItem>& items, std::uint64_t limit, First first,
                        std::vector<std::int32_t>& raised) {
  return Keeping(items, limit).run(first, raised);
}

}  // namespace pooch::runtime
