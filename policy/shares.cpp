#include "policy/shares.h"

#include <algorithm>

namespace pooch::policy {
namespace {

constexpr double coarsest = 0.5, finest = 1.0 / 128;

}  // namespace

ShareSearch::ShareSearch(const Problem& problem, const Rules& rules, std::size_t stretches)
    : problem_(problem),
      simulator_(problem, rules),
      price_(problem, rules),
      groups_(groups_of(problem).members) {
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const std::size_t n = groups_[g].size(), count = std::clamp<std::size_t>(n / 4, 1, stretches);
    group_starts_.push_back(stretches_.size());
    for (std::size_t i = 0; i < count; ++i) stretches_.push_back({g, n * i / count, n * (i + 1) / count});
  }
  group_starts_.push_back(stretches_.size());
}

std::vector<ShareSearch::Shares> ShareSearch::shares_of(const Choice& choice) const {
  std::vector<Shares> shares(stretches_.size(), Shares{});
  for (std::size_t i = 0; i < stretches_.size(); ++i) {
    const Stretch& stretch = stretches_[i];
    const double each = 1 / static_cast<double>(stretch.end - stretch.first);
    for (std::size_t at = stretch.first; at < stretch.end; ++at) {
      shares[i][static_cast<std::size_t>(choice.of[groups_[stretch.group][at]])] += each;
    }
  }
  return shares;
}

// What a class is short of its share is carried on, over the whole group.
Choice ShareSearch::choice_of(const std::vector<Shares>& shares) const {
  Choice choice{std::vector<Class>(problem_.maps.size(), Class::keep)};
  Shares due{};
  for (std::size_t i = 0; i < stretches_.size(); ++i) {
    const Stretch& stretch = stretches_[i];
    if (stretch.first == 0) due = {};
    for (std::size_t at = stretch.first; at < stretch.end; ++at) {
      for (std::size_t c = 0; c < due.size(); ++c) due[c] += shares[i][c];
      const auto next = std::max_element(due.begin(), due.end());
      *next -= 1;
      choice.of[groups_[stretch.group][at]] = static_cast<Class>(next - due.begin());
    }
  }
  return choice;
}

// Moves up to `amount` between two classes in all of these stretches, as long as that helps.
bool ShareSearch::improve(std::vector<Shares>& shares, std::size_t first, std::size_t end, double amount) {
  bool improved = false;
  for (std::size_t from = 0; from < 3; ++from) {
    for (std::size_t to = 0; to < 3; ++to) {
      const bool allowed =
          to != static_cast<std::size_t>(Class::recompute) ||
          std::all_of(stretches_.begin() + static_cast<std::ptrdiff_t>(first),
                      stretches_.begin() + static_cast<std::ptrdiff_t>(end),
                      [&](const Stretch& s) { return problem_.maps[groups_[s.group][s.first]].droppable; });
      while (from != to && allowed && simulations_ > 0) {
        std::vector<Shares> trial = shares;
        double moved = 0;
        for (std::size_t i = first; i < end; ++i) {
          const double share = std::min(amount, trial[i][from]);
          trial[i][from] -= share;
          trial[i][to] += share;
          moved = std::max(moved, share);
        }
        if (moved < finest / 2) break;
        --simulations_;
        Choice choice = choice_of(trial);
        const Outcome outcome =
            least_.feasible() ? price_.run(simulator_, choice, price_(least_)) : simulator_.run(choice);
        if (!price_.better(outcome, least_)) break;
        shares = std::move(trial);
        best_ = std::move(choice);
        least_ = outcome;
        simulator_.rebase(best_);
        improved = true;
      }
    }
  }
  return improved;
}

Choice ShareSearch::descend(const Choice& start, std::int64_t simulations) {
  simulations_ = simulations;
  std::vector<Shares> shares = shares_of(start);
  best_ = choice_of(shares);
  least_ = simulator_.run(best_);
  simulator_.rebase(best_);
  for (double amount = coarsest; amount >= finest && simulations_ > 0; amount /= 2) {
    for (bool improved = true; improved && simulations_ > 0;) {
      improved = improve(shares, 0, stretches_.size(), amount);
      for (std::size_t g = 0; g < groups_.size(); ++g) {
        const std::size_t first = group_starts_[g], end = group_starts_[g + 1];
        improved |= improve(shares, first, end, amount);
        // The part towards the input, or towards the output.
        for (std::size_t middle = first + 1; middle < end; ++middle) {
          improved |= improve(shares, first, middle, amount);
          improved |= improve(shares, middle, end, amount);
        }
        for (std::size_t i = first; end - first > 1 && i < end; ++i) {
          improved |= improve(shares, i, i + 1, amount);
        }
      }
    }
  }
  return best_;
}

}  // namespace pooch::policy
