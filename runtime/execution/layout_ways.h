// The two ways of handing out pages that the search for a layout tries, each many times.
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

// Who chooses first. None of these is the best for all plans.
enum class First { earliest, longest, latest };

// Chunks one after the other: each keeps its frames as long as there are any, and few find none. Interval
// colouring, for intervals with holes (a map that is away in between), each item in turn taking what costs
// least. `raised`: by item, the higher ones choose first; equal ones as `first` says. Those that nothing good
// was left for are raised in it.
Layout lay_out_by_chunk(const std::vector<LayoutItem>& items, std::uint64_t limit, First first,
                        std::vector<std::int32_t>& raised);

// How a tenant weighs the groups that it could have.
struct Taste {
  double conflict = 10;    // somebody else wants to come back meanwhile
  double meets_again = 5;  // ... when this one wants to come back, now or later
  double tight = 5;        // it has not been free for long
  double slack_us = 2000;  // ... so long
  double noise = 0;        // up to so much by chance
  bool new_before_conflict = true;
};

// Stays in the order of time, which `order` is: each finds frames within the most that lives at once, and
// most find their own. `settles`: by item, whether it wants to come back to where it was. `seed`: for the
// noise.
Layout lay_out_by_time(const std::vector<LayoutItem>& items, const std::vector<Tenant>& order,
                       std::uint64_t limit, const Taste& taste, const std::vector<bool>& settles,
                       unsigned seed);

}  // namespace pooch::runtime
