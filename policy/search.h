// Local search over choices on the simulator: simulated annealing, then descent.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "policy/timeline.h"

namespace pooch::policy {

// The cost to minimise: microseconds, plus a price for bytes over the cap. `better` prefers what fits.
class Price {
 public:
  Price(const Problem& problem, const Rules& rules)
      : per_excess_byte_(8 * problem.compute_us /
                         static_cast<double>(std::max<std::uint64_t>(rules.cap, 1))) {}
  double operator()(const Outcome& outcome) const {
    return outcome.us + per_excess_byte_ * static_cast<double>(outcome.excess);
  }
  // The price is exact if it is at most `most`; else it is only known to be more.
  Outcome run(Simulator& simulator, const Choice& choice, double most) const {
    return simulator.run_within(choice, most, per_excess_byte_);
  }
  bool better(const Outcome& a, const Outcome& b) const {
    return a.feasible() != b.feasible() ? a.feasible() : (*this)(a) < (*this)(b);
  }

 private:
  double per_excess_byte_;
};

struct Groups {
  std::vector<std::vector<std::uint32_t>> members;  // each in the order of the problem's maps
  std::vector<std::uint32_t> of;                    // by map
};
// Maps of identical blocks: equal sizes and replays.
Groups groups_of(const Problem& problem);

class Search {
 public:
  // Ends early with a choice that fits and takes no more than `enough_us`.
  Search(const Problem& problem, const Rules& rules, std::uint64_t seed, double enough_us = 0);

  // Improves the choice within `simulations`; never returns a worse one. `heat`: by how much a change may
  // worsen the price at first, as a share of the compute time.
  Choice anneal(Choice start, double heat, std::int64_t simulations);
  // One map at a time, then pairs of near ones, until nothing helps or the simulations are used up.
  Choice descend(Choice start, std::int64_t simulations);
  Outcome run(const Choice& choice) { return simulator_.run(choice); }

 private:
  bool exchange(Choice& choice, std::size_t map);
  bool propose(Choice& choice, double progress);
  bool change(Choice& choice, std::size_t map, Class to, double progress);
  std::size_t neighbour(std::size_t map);
  void pass_through(Choice& choice, std::size_t map) const;
  void change_group(Choice& choice, std::size_t map, Class to);
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_() % n); }

  bool enough(const Outcome& outcome) const { return outcome.feasible() && outcome.us <= enough_us_; }

  const Problem& problem_;
  double enough_us_;
  Simulator simulator_;
  Price price_;
  std::mt19937_64 random_;  // same output on every platform; distributions differ
  Groups alike_;            // maps of identical blocks
  Groups of_size_;          // maps of equal bytes
};

}  // namespace pooch::policy
