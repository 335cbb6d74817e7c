// The two steps of the search for a layout: pages are handed out in the order of time, and then exchanged.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/script/layout.h"

namespace pooch::runtime {

// A stay: of an item, one of its spans.
struct Tenant {
  std::uint32_t item, span;
  friend auto operator<=>(const Tenant&, const Tenant&) = default;
};
// Pages, and who has them at some time, in order.
struct Tenancies {
  std::uint64_t pages = 0;
  std::vector<Tenant> tenants;
};
// Pages of the same tenants are one frame. `wait_us` is the layout's.
Layout frames_from(const std::vector<LayoutItem>& items, const std::vector<Tenancies>& all, double wait_us);

// What a wait costs, in moves of the same time: a frame is mapped ahead of need, while the device works.
constexpr double wait_cost = 10;

// Penalties for the groups of pages that a tenant could take.
struct Taste {
  double conflict = 10;    // another tenant wants to return there meanwhile
  double meets_again = 5;  // ... at a time when this one does too, now or later
  double tight = 5;        // it has not been free for long
  double slack_us = 2000;  // ... for so long
  bool new_before_conflict = true;
};

// Places stays in the order of time: each finds frames within the peak of what lives at once, and many find
// their own. In that order nobody knows what comes later.
Layout lay_out_by_time(const std::vector<LayoutItem>& items, std::uint64_t limit, const Taste& taste);

// The best of such layouts by several tastes.
Layout lay_out_roughly(const std::vector<LayoutItem>& items, std::uint64_t limit, double move_us);

// A layout in which most items have blocks of their own size: each of their stays is one frame. Empty: there
// is none within the limit, or sizes differ too much.
std::optional<Layout> lay_out_by_blocks(const std::vector<LayoutItem>& items, std::uint64_t limit,
                                        double move_us);

// A layout that waits and moves less than `start`, and is within the limit if it can. Counts its work, not
// time.
Layout improve(const Layout& start, const std::vector<LayoutItem>& items, std::uint64_t limit, double move_us,
               std::uint32_t seed = 1);

}  // namespace pooch::runtime
