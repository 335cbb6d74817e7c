// The two algorithms that hand out pages. The search for a layout tries each many times.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/execution/layout.h"

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

// Which items choose first. No order is the best for all plans.
enum class First { earliest, longest, latest };

// Places chunk after chunk: each keeps its frames while there are any, and few find none. Interval colouring,
// for intervals with holes (a map that is away in between), each item in turn taking what costs least.
// `raised`: by item, higher ones choose first; equal ones as `first` says. Items left without a good choice
// are raised.
Layout lay_out_by_chunk(const std::vector<LayoutItem>& items, std::uint64_t limit, First first,
                        std::vector<std::int32_t>& raised);

// Penalties for the groups of pages that a tenant could take.
struct Taste {
  double conflict = 10;    // another tenant wants to return there meanwhile
  double meets_again = 5;  // ... at a time when this one does too, now or later
  double tight = 5;        // it has not been free for long
  double slack_us = 2000;  // ... for so long
  double noise = 0;        // a random addition up to this
  bool new_before_conflict = true;
};

// Places stays in the order of time, which `order` is: each finds frames within the peak of what lives at
// once, and most find their own. `settles`: by item, whether it wants to return to its earlier frames.
// `seed`: for the noise.
Layout lay_out_by_time(const std::vector<LayoutItem>& items, const std::vector<Tenant>& order,
                       std::uint64_t limit, const Taste& taste, const std::vector<bool>& settles,
                       unsigned seed);

}  // namespace pooch::runtime
