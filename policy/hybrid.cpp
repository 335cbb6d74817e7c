// Ours: starts from orders of benefit per cost and from every other policy's choice, and improves the best of
// them by local search on the simulator.

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <iterator>
#include <utility>

#include "policy/decide.h"
#include "policy/parallel.h"
#include "policy/search.h"
#include "policy/shares.h"

namespace pooch::policy {
namespace {

// Work is counted in simulated steps, not in time: equal inputs give equal plans.
constexpr std::int64_t steps_to_spend = 12'000'000;
constexpr std::int64_t share_steps = 60'000'000;  // enough for a good plan of 100,000 ops
// At most, and for every map besides.
constexpr std::int64_t most_simulations = 5000, simulations_per_map = 200;
constexpr std::int64_t few_simulations = 2000;  // too few to mend a choice that does not fit
// A search ends where its steps end, often far above what the next one finds from there. So rounds follow
// each other, at most this many, each from the best so far. They end where the best is near the bound, and
// where a round has hardly improved it. The latter counts with many maps only: with few a round's end is more
// a matter of luck, and takes less time.
constexpr unsigned most_rounds = 8;
constexpr double near_bound = 1.02, worth_another = 0.997;
constexpr std::size_t many_maps = 50;
constexpr std::size_t most_tidied_steps = 20'000'000;
// Nothing is gained by searching on within this of the bound.
constexpr double at_bound = 1.001;

using Order = std::vector<std::uint32_t>;

// On its way out and back.
double copies_us(const Problem& problem, const MovableMap& map) {
  return (map.clean ? 0 : problem.out.us(map.bytes)) + (map.for_good ? 0 : problem.in.us(map.bytes));
}

// Capuchin (Peng et al., ASPLOS 2020): swap first what has the most time between its way out and back.
Order by_free_time(const Problem& problem) {
  std::vector<double> starts{0};
  for (const Segment& segment : problem.segments) starts.push_back(starts.back() + segment.us);
  std::vector<double> free(problem.maps.size());
  Order order;
  for (std::uint32_t m = 0; m < problem.maps.size(); ++m) {
    const MovableMap& map = problem.maps[m];
    const double around = map.across ? starts.back() : 0;
    free[m] = around + starts[map.returns] - starts[map.leaves + 1] - copies_us(problem, map);
    order.push_back(m);
  }
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return free[a] > free[b]; });
  return order;
}

// ... and recompute first what frees the most bytes per second of replay.
Order by_bytes_per_second(const Problem& problem) {
  Order order;
  for (std::uint32_t m = 0; m < problem.maps.size(); ++m) {
    if (problem.maps[m].droppable) order.push_back(m);
  }
  const auto worth = [&](std::uint32_t m) {
    return static_cast<double>(problem.maps[m].bytes) / std::max(1e-3, problem.maps[m].replay_us);
  };
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return worth(a) > worth(b); });
  return order;
}

// TERAIO and G10: most relief first. Relief is the pressure over the cap, integrated over time, that moving
// the map away takes off.
Order by_relief_per_cost(const Problem& problem, std::uint64_t cap) {
  std::vector<double> change(problem.segments.size() + 1, 0), relief{0};
  for (const MovableMap& map : problem.maps) {
    change[map.made] += static_cast<double>(map.bytes);
    change[map.ends + 1] -= static_cast<double>(map.bytes);
  }
  double live = 0;
  for (std::size_t s = 0; s < problem.segments.size(); ++s) {
    live += change[s];
    const bool over = live + static_cast<double>(problem.segments[s].base) > static_cast<double>(cap);
    relief.push_back(relief.back() + (over ? problem.segments[s].us : 0));
  }
  Order order;
  std::vector<double> worth;
  for (std::uint32_t m = 0; m < problem.maps.size(); ++m) {
    const MovableMap& map = problem.maps[m];
    const double copies = copies_us(problem, map);
    const double cost = map.droppable ? std::min(copies, map.replay_us) : copies;
    const double around = map.across ? relief.back() : 0;
    worth.push_back((around + relief[map.returns] - relief[map.leaves + 1]) * static_cast<double>(map.bytes) /
                    std::max(1e-3, cost));
    order.push_back(m);
  }
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return worth[a] > worth[b]; });
  return order;
}

class Hybrid {
 public:
  explicit Hybrid(const Question& question)
      : question_(question),
        problem_(question.problem),
        rules_(with_replays_ahead(question.rules)),
        simulator_(question.problem, rules_),
        price_(question.problem, rules_) {
    const auto steps = static_cast<std::int64_t>(std::max<std::size_t>(1, problem_.segments.size()));
    const auto maps = static_cast<std::int64_t>(problem_.maps.size());
    simulations_ = std::max<std::int64_t>(
        40, std::min(steps_to_spend / steps, most_simulations + simulations_per_map * maps));
    share_simulations_ =
        std::clamp<std::int64_t>(share_steps / steps, 100, std::min<std::int64_t>(1000, 200 + 10 * maps));
  }

  Decision decide() {
    Decision least = swap_all(question_);
    if (!simulator_.run(least.choice).feasible()) return least;  // then nothing fits
    if (question_.near != nullptr) {
      gather_near(*question_.near);
    } else {
      gather();
    }
    sort_seeds();
    Seed best = seeds_.front();
    const unsigned rounds = is_enough(best) || !searches() ? 0 : std::max(1U, most_rounds / question_.effort);
    for (unsigned round = 0; round < rounds; ++round) {
      const Outcome before = best.outcome;
      for (const Choice& choice : improve(round, best.decision.choice)) {
        const Outcome outcome = simulator_.run(choice);
        if (price_.better(outcome, best.outcome)) best = {{choice, rules_}, outcome};
      }
      if (best.outcome.feasible() && best.outcome.us <= near_bound * relaxed_.bound_us) break;
      const bool hardly_better = before.feasible() && best.outcome.us > worth_another * before.us;
      if (round > 0 && problem_.maps.size() > many_maps && hardly_better) break;
    }
    be_brief_where_it_helps(best);
    replay_at_another_time_where_it_helps(best);
    best.decision.bound_us = relaxed_.bound_us;
    return best.decision;
  }

 private:
  struct Seed {
    Decision decision;
    Outcome outcome;
  };

  static Rules with_replays_ahead(Rules rules) {
    rules.replays_ahead = true;
    return rules;
  }
  void sort_seeds() {
    std::stable_sort(seeds_.begin(), seeds_.end(),
                     [&](const Seed& a, const Seed& b) { return price_.better(a.outcome, b.outcome); });
  }
  bool searches() const { return question_.effort > 0; }
  double enough_us() const { return relaxed_.bound_us * at_bound; }
  bool is_enough(const Seed& seed) const { return seed.outcome.feasible() && seed.outcome.us <= enough_us(); }

  Seed seed_of(Decision decision) const {
    Simulator simulator(problem_, decision.rules);
    const Outcome outcome = simulator.run(decision.choice);
    return {std::move(decision), outcome};
  }

  // The first k of an order leave, for the least k that fits.
  Seed prefix_of(const Choice& base, const Order& order, Class to) const {
    Simulator simulator(problem_, rules_);
    std::size_t low = 0, high = order.size();
    const auto with = [&](std::size_t k) {
      Choice choice = base;
      for (std::size_t i = 0; i < k; ++i) {
        Class& of = choice.of[order[i]];
        if (of == Class::keep) of = possible(problem_.maps[order[i]], to);
      }
      return choice;
    };
    while (low < high) {
      const std::size_t middle = (low + high) / 2;
      if (simulator.run(with(middle)).feasible()) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    Choice choice = with(high);
    const Outcome outcome = simulator.run(choice);
    return {{std::move(choice), rules_}, outcome};
  }

  // Swaps for a share of the time that the link has.
  Choice swap_share(const Order& free_time, double share) const {
    Choice choice = all(problem_, Class::keep);
    double booked = 0;
    for (const std::uint32_t m : free_time) {
      if (booked >= share * problem_.compute_us / 2) break;
      booked += problem_.out.us(problem_.maps[m].bytes);
      choice.of[m] = Class::swap;
    }
    return choice;
  }

  using Work = std::vector<std::function<Seed()>>;
  // The seeds in the order of the work; `beside` is done at the same time.
  void add(const Work& work, const std::function<void()>& beside = {}) {
    std::vector<Seed> made(work.size());
    parallel_for(work.size() + 1, [&](std::size_t i) {
      if (i > 0) {
        made[i - 1] = work[i - 1]();
      } else if (beside) {
        beside();
      }
    });
    std::move(made.begin(), made.end(), std::back_inserter(seeds_));
  }

  // Left out: what another one covers, and what takes too long on large phases. lms is
  // swap-all-unscheduled; pooch starts from swap-opt and vdnn-dyn from the other two, and never gets worse.
  std::vector<const Policy*> other_policies() const {
    const bool large = problem_.segments.size() * problem_.maps.size() > 200'000;
    std::vector<const Policy*> others;
    for (const Policy& policy : all_policies()) {
      const auto is = [&](auto... those) { return ((policy.decide == those) || ...); };
      if (is(hybrid, keep, swap_all, lms, swap_opt, vdnn_all, vdnn_conv)) continue;
      if (!large || !is(pooch, vdnn_dyn)) others.push_back(&policy);
    }
    return others;
  }

  // All other policies, swaps for a share of the link's time with the rest by recomputing, and each alone;
  // then the linear program's choice, as it is and for tighter memory: rounding and transients take room.
  void gather() {
    constexpr std::array<double, 4> memory{1.0, 0.95, 0.88, 0.8};
    std::array<std::uint64_t, memory.size()> caps;
    std::ranges::transform(memory, caps.begin(), [&](double share) {
      return static_cast<std::uint64_t>(share * static_cast<double>(rules_.cap));
    });
    const Order free_time = by_free_time(problem_), per_second = by_bytes_per_second(problem_),
                relief = by_relief_per_cost(problem_, rules_.cap);
    Work first;
    first.emplace_back([this] { return seed_of(keep(question_)); });
    first.emplace_back([this] { return seed_of(swap_all(question_)); });
    using Way = std::pair<const Order*, Class>;
    for (const Way& way : {Way{&free_time, Class::swap}, Way{&per_second, Class::recompute},
                           Way{&relief, Class::swap}, Way{&relief, Class::recompute}})
      first.emplace_back(
          [this, way] { return prefix_of(all(problem_, Class::keep), *way.first, way.second); });
    for (const double share : {0.2, 0.4, 0.7})
      first.emplace_back(
          [&, share] { return prefix_of(swap_share(free_time, share), per_second, Class::recompute); });
    for (const Policy* policy : other_policies())
      first.emplace_back([this, policy] { return seed_of(policy->decide(question_)); });
    std::vector<Relaxed> relaxed;
    add(first, [&] { relaxed = relax(problem_, caps); });
    Work then;
    for (const Relaxed& each : relaxed) {
      then.emplace_back([&] { return seed_of({each.choice, rules_}); });
      then.emplace_back([&] { return prefix_of(each.choice, free_time, Class::swap); });
    }
    add(then);
    relaxed_ = std::move(relaxed.front());
    sort_seeds();
    if (searches() && !is_enough(seeds_.front())) share_out();
  }

  // The choice for a little more memory, and as many swaps more as are needed.
  void gather_near(const Choice& choice) {
    const Order free_time = by_free_time(problem_);
    std::vector<Relaxed> relaxed;
    add({[&] {
           return seed_of({choice, rules_});
         },
         [&] { return prefix_of(choice, free_time, Class::swap); }},
        [&] { relaxed = relax(problem_, std::array{rules_.cap}); });
    relaxed_ = std::move(relaxed.front());
  }

  // Whole stretches of identical blocks at a time.
  void share_out() {
    struct Start {
      const Choice* choice;
      std::size_t stretches;
    };
    const Choice& best = seeds_.front().decision.choice;
    const std::array<Start, 4> starts{
        {{&relaxed_.choice, 1}, {&relaxed_.choice, 4}, {&best, 4}, {&relaxed_.choice, 8}}};
    std::vector<Choice> found(starts.size());
    parallel_for(starts.size(), [&](std::size_t lane) {
      ShareSearch search(problem_, rules_, starts[lane].stretches);
      found[lane] = search.descend(*starts[lane].choice, share_simulations_);
    });
    Work work;
    for (const Choice& choice : found) work.emplace_back([&] { return seed_of({choice, rules_}); });
    add(work);
  }

  // A flag that changes nothing is cleared: readers of the plan would look for its reason.
  void be_brief_where_it_helps(Seed& best) {
    Choice& choice = best.decision.choice;
    if (choice.brief.size() * problem_.segments.size() > most_tidied_steps) return;
    for (std::size_t m = 0; m < choice.brief.size(); ++m) {
      if (std::exchange(choice.brief[m], 0) == 0 || choice.of[m] != Class::recompute) continue;
      const Outcome without = simulator_.run(choice);
      if (!without.feasible() || without.us > best.outcome.us) choice.brief[m] = 1;
    }
  }

  // Replays at another time cost nothing to try: at need where they ran ahead, or ahead where they ran at
  // need.
  void replay_at_another_time_where_it_helps(Seed& best) const {
    Decision other = best.decision;
    other.rules.replays_ahead = !other.rules.replays_ahead;
    Seed made = seed_of(std::move(other));
    if (price_.better(made.outcome, best.outcome)) best = std::move(made);
  }

  // Each lane anneals with random numbers of its own, gently or thoroughly, then descends: the best so far,
  // but at first most of them the linear program's choice. Where few maps decide, where a lane ends is more a
  // matter of luck, and each takes less time.
  std::vector<Choice> improve(unsigned round, const Choice& so_far) const {
    constexpr std::array<double, 8> heats{0.0003, 0.001, 0.003, 0.01, 0.01, 0.003, 0.001, 0.03};
    constexpr std::size_t from_best = 1, few_maps = 200;
    const std::size_t kinds = problem_.maps.size() <= few_maps ? heats.size() : heats.size() / 2;
    const std::size_t lanes = kinds * question_.effort;
    // The fewer the maps, the more each one weighs.
    const double weight =
        std::max(1.0, 100 / static_cast<double>(std::max<std::size_t>(1, problem_.maps.size())));
    std::vector<Choice> improved(lanes);
    parallel_for(lanes, [&](std::size_t lane) {
      const bool best = round > 0 || question_.near != nullptr || lane % kinds == from_best ||
                        simulations_ < few_simulations;
      Choice start = best ? so_far : relaxed_.choice;
      if (!best && lane % 2 == 0) start.brief.assign(problem_.maps.size(), 1);
      Search search(problem_, rules_, question_.seed * 1'000'003 + round * lanes + lane, enough_us());
      improved[lane] = search.descend(
          search.anneal(start, weight * heats[lane % kinds], simulations_ * 3 / 4), simulations_ / 4);
    });
    return improved;
  }

  const Question& question_;
  const Problem& problem_;
  const Rules rules_;
  Simulator simulator_;
  Price price_;
  std::vector<Seed> seeds_;
  Relaxed relaxed_;  // for the cap itself
  std::int64_t simulations_ = 0, share_simulations_ = 0;
};

}  // namespace

Decision hybrid(const Question& question) {
  return Hybrid(question).decide();
}

}  // namespace pooch::policy
