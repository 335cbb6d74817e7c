// How hybrid searches: against proofs on small networks, on very long ones, on one thread and on many.
#include <gtest/gtest.h>
#include <tbb/global_control.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>

#include "policy/decide.h"
#include "policy/search.h"
#include "policy/shares.h"
#include "tests/support/network_profile.h"

namespace pooch::policy {
namespace {

Problem problem_of(const Profile& profile) {
  Result<Problem> problem = make_problem(profile, profile.phases[0]);
  EXPECT_TRUE(problem) << (problem ? "" : problem.error().message);
  return *problem;
}

// Of what swapping everything saves, `share` is given back.
Rules with_share(const Problem& problem, double share) {
  Simulator simulator(problem, Rules{});
  const auto least = static_cast<double>(simulator.run(all(problem, Class::swap)).peak);
  const auto most = static_cast<double>(simulator.run(all(problem, Class::keep)).peak);
  Rules rules;
  rules.cap = static_cast<std::uint64_t>(least + (most - least) * share);
  return rules;
}

Choice random_choice(const Problem& problem, std::mt19937_64& random) {
  Choice choice = all(problem, Class::swap);
  const std::uint64_t weight = 3 + random() % 8;
  for (std::size_t m = 0; m < problem.maps.size(); ++m) {
    const std::uint64_t drawn = random() % weight;
    if (drawn < 2) choice.of[m] = possible(problem.maps[m], drawn == 0 ? Class::keep : Class::recompute);
  }
  return choice;
}

TEST(Simulator, FromABaseGivesTheSameBitsAsFromScratch) {
  const test::Machine slow = test::v100_pcie3(), fast = test::v100_nvlink2();
  for (const Profile& profile : {test::googlenet_profile(slow, 256), test::resnet50_profile(slow, 512),
                                 test::resnet50_profile(fast, 640), test::vgg16_profile(slow, 128)}) {
    const Problem problem = problem_of(profile);
    for (const bool placed : {false, true}) {
      Rules rules = with_share(problem, 0.3);
      rules.placed = placed;
      Simulator incremental(problem, rules);
      std::mt19937_64 random(11);
      Choice base = random_choice(problem, random);
      base.part.resize(problem.maps.size(), 0);
      incremental.run(base);
      incremental.rebase(base);
      for (int i = 0; i < 300; ++i) {
        Choice choice = base;
        for (std::uint64_t changes = 1 + random() % 3; changes > 0; --changes) {
          const std::size_t map = random() % problem.maps.size();
          choice.of[map] = possible(problem.maps[map], static_cast<Class>(random() % 3));
          choice.part[map] = random() % 2 * (rules.handle_bytes / 2);
        }
        Simulator scratch(problem, rules);
        const Outcome one = incremental.run(choice), other = scratch.run(choice);
        ASSERT_EQ(one.us, other.us) << i;
        ASSERT_EQ(one.peak, other.peak);
        ASSERT_EQ(one.out_busy_us, other.out_busy_us);
        ASSERT_EQ(one.in_busy_us, other.in_busy_us);
        if (random() % 3 != 0) continue;
        incremental.rebase(choice);
        base = choice;
      }
    }
  }
}

TEST(Simulator, GivesUpOnlyOnWhatCostsMore) {
  const Problem problem = problem_of(test::googlenet_profile(test::v100_pcie3(), 256));
  const Rules rules = with_share(problem, 0.3);
  const Price price(problem, rules);
  Simulator simulator(problem, rules);
  std::mt19937_64 random(3);
  int given_up = 0;
  for (int i = 0; i < 400; ++i) {
    const Choice choice = random_choice(problem, random);
    const Outcome exact = simulator.run(choice);
    const double most = price(exact) * (0.8 + 0.05 * static_cast<double>(random() % 9));
    const Outcome within = price.run(simulator, choice, most);
    if (price(exact) <= most * (1 - 1e-12)) {
      EXPECT_EQ(within.excess, exact.excess);
      EXPECT_EQ(within.us, exact.us);
    } else {
      EXPECT_GE(price(within), most * (1 - 1e-9));
      EXPECT_LE(within.us, exact.us * (1 + 1e-9)) << "a time that it does not take";
      EXPECT_LE(within.excess, exact.excess) << "memory that it does not need";
      given_up += within.us < exact.us;
    }
  }
  EXPECT_GT(given_up, 100);
}

TEST(Search, EndsWithTheFirstChoiceThatIsEnough) {
  const Problem problem = problem_of(test::googlenet_profile(test::v100_pcie3(), 256));
  const Rules rules = with_share(problem, 0.3);
  const Choice start = all(problem, Class::swap);
  const auto found = [&](double enough_us) {
    Search search(problem, rules, 1, enough_us);
    return search.run(search.descend(search.anneal(start, 0.003, 2000), 500)).us;
  };
  const double started = Simulator(problem, rules).run(start).us, best = found(0),
               middle = (started + best) / 2;
  ASSERT_LT(best, 0.98 * started);
  EXPECT_EQ(found(started), started) << "nothing is tried";
  EXPECT_LE(found(middle), middle);
  EXPECT_GT(found(middle), best);
}

// Tries to refute that a plan is within `margin` of the best choice of whole maps: branch and bound. Of the
// maps that are not decided yet, the memory during their pause is free. That is no slower than any decision,
// but for anomalies of the fetches' order, and says what cannot fit.
class Refutation {
 public:
  Refutation(Problem problem, const Rules& rules, double us, double margin)
      : problem_(std::move(problem)),
        simulator_(problem_, rules),
        choice_(all(problem_, Class::keep)),
        target_us_(us / margin) {
    for (const MovableMap& map : problem_.maps) bytes_.push_back(map.bytes);
    for (std::size_t m = 0; m < bytes_.size(); ++m) set_free(m, true);
  }
  // A choice faster than us / margin.
  bool found() { return found(0); }
  std::int64_t nodes() const { return nodes_; }

 private:
  void set_free(std::size_t m, bool free) {
    MovableMap& map = problem_.maps[m];
    map.bytes = free ? 0 : bytes_[m];
    for (std::int32_t s = map.made; s <= map.ends; ++s) {
      std::uint64_t& base = problem_.segments[s].base;
      if (s <= map.leaves || s >= map.returns) base = free ? base + bytes_[m] : base - bytes_[m];
    }
  }
  bool found(std::size_t decided) {
    ++nodes_;
    const Outcome outcome = simulator_.run(choice_);
    if (!outcome.feasible() || outcome.us >= target_us_) return false;
    if (decided == choice_.of.size()) return true;
    const std::size_t m = problem_.by_return[decided];
    set_free(m, false);
    for (const Class of : {Class::keep, Class::swap, Class::recompute}) {
      if (possible(problem_.maps[m], of) != of) continue;
      choice_.of[m] = of;
      if (found(decided + 1)) return true;
    }
    choice_.of[m] = Class::keep;
    set_free(m, true);
    return false;
  }

  Problem problem_;
  Simulator simulator_;
  std::vector<std::uint64_t> bytes_;
  Choice choice_;
  double target_us_;
  std::int64_t nodes_ = 0;
};

Relaxed relaxed(const Problem& problem, const Rules& rules) {
  return relax(problem, std::array{rules.cap}).front();
}

// The bound settles most cases; branch and bound the others.
TEST(Hybrid, IsWithinFivePercentOfTheBestOnChains) {
  int by_bound = 0, by_search = 0;
  for (const int layers : {9, 14, 24, 38}) {
    for (const int channels : {16, 64, 192}) {
      const Problem problem = problem_of(test::chain_profile(test::v100_pcie3(), 64, layers, channels));
      ASSERT_GE(problem.maps.size(), std::size_t(layers) - 1);
      for (const double share : {0.0, 0.25, 0.5, 0.75}) {
        SCOPED_TRACE(std::to_string(layers) + " layers, " + std::to_string(channels) + " channels, share " +
                     std::to_string(share));
        const Rules rules = with_share(problem, share);
        const Decision decision = hybrid({problem, rules, 0});
        const Outcome outcome = Simulator(problem, decision.rules).run(decision.choice);
        ASSERT_TRUE(outcome.feasible());
        if (outcome.us <= 1.05 * relaxed(problem, rules).bound_us) {
          ++by_bound;
          continue;
        }
        Refutation refutation(problem, rules, outcome.us, 1.05);
        EXPECT_FALSE(refutation.found());
        ++by_search;
      }
    }
  }
  EXPECT_GT(by_bound, 20);
  EXPECT_GT(by_search, 5);
}

// A proof that finds nothing must be able to find something.
TEST(Hybrid, APlanThatIsFarFromTheBestIsRefuted) {
  const Problem problem = problem_of(test::chain_profile(test::v100_pcie3(), 64, 14, 64));
  const Rules rules = with_share(problem, 0.5);
  const double us = Simulator(problem, rules).run(all(problem, Class::swap)).us;
  EXPECT_TRUE(Refutation(problem, rules, us, 1.05).found());
}

TEST(Hybrid, DoesNotDependOnTheNumberOfThreads) {
  const Profile profile = test::resnet_profile(test::v100_pcie3(), 384, {1, 1, 1, 1});
  const Problem problem = problem_of(profile);
  const auto decided = [&](std::size_t threads) {
    const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, threads);
    return hybrid({problem, with_share(problem, 0.25), 7}).choice;
  };
  const Choice alone = decided(1);
  EXPECT_EQ(decided(2), alone);
  EXPECT_EQ(decided(7), alone);
}

// The number of simulations does not grow with the network, so the distance from the bound must not either.
TEST(ShareSearch, IsNearTheBoundOnLongChains) {
  for (const int layers : {100, 1500}) {
    const Problem problem = problem_of(test::chain_profile(test::v100_pcie3(), 8, layers));
    const Rules rules = with_share(problem, 0.13);
    const Relaxed start = relaxed(problem, rules);
    const Choice found = ShareSearch(problem, rules, 4).descend(start.choice, 400);
    const Outcome outcome = Simulator(problem, rules).run(found);
    EXPECT_TRUE(outcome.feasible()) << layers;
    EXPECT_LE(outcome.us, 1.06 * start.bound_us) << layers;
  }
}

}  // namespace
}  // namespace pooch::policy
