// Search for very long phases: what identical blocks do is decided once for many of them.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "policy/search.h"

namespace pooch::policy {

// A choice as shares of keep, swap and recompute among neighbours in a group of like maps (groups_of). Within
// a stretch of neighbours the classes are mixed evenly: replays of maps that follow each other chain, and one
// that stays or comes back in between ends the chain. A step of the search moves a share from one class to
// another, in one stretch or in a whole group, so its cost does not grow with the number of maps.
class ShareSearch {
 public:
  // `stretches`: at most that many per group.
  ShareSearch(const Problem& problem, const Rules& rules, std::size_t stretches);

  // The best that was found within `simulations`, from the shares that `start` has; may be worse than it.
  Choice descend(const Choice& start, std::int64_t simulations);

 private:
  using Shares = std::array<double, 3>;  // by class; their sum is 1
  struct Stretch {
    std::size_t group, first, end;  // maps of the group
  };
  std::vector<Shares> shares_of(const Choice& choice) const;
  Choice choice_of(const std::vector<Shares>& shares) const;
  bool improve(std::vector<Shares>& shares, std::size_t first, std::size_t end, double amount);

  const Problem& problem_;
  Simulator simulator_;
  Price price_;
  std::vector<std::vector<std::uint32_t>> groups_;
  std::vector<Stretch> stretches_;         // group after group
  std::vector<std::size_t> group_starts_;  // indices into stretches_, and their number
  std::int64_t simulations_ = 0;
  Choice best_;
  Outcome least_;
};

}  // namespace pooch::policy
