#include "policy/search.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

namespace pooch::policy {
namespace {

constexpr double coldest = 6e-6;  // at the end of annealing, as `heat`

template <typename KeyOf>
Groups group_by(const Problem& problem, KeyOf key_of) {
  std::map<decltype(key_of(problem.maps.front())), std::uint32_t> numbers;
  Groups groups;
  for (std::uint32_t m = 0; m < problem.maps.size(); ++m) {
    const auto next = static_cast<std::uint32_t>(groups.members.size());
    const std::uint32_t group = numbers.try_emplace(key_of(problem.maps[m]), next).first->second;
    if (group == next) groups.members.emplace_back();
    groups.members[group].push_back(m);
    groups.of.push_back(group);
  }
  return groups;
}

}  // namespace

Groups groups_of(const Problem& problem) {
  return group_by(problem, [](const MovableMap& map) {
    return std::tuple(map.bytes, std::llround(map.replay_us), map.by_convolution, map.droppable);
  });
}

Search::Search(const Problem& problem, const Rules& rules, std::uint64_t seed, double enough_us)
    : problem_(problem),
      enough_us_(enough_us),
      simulator_(problem, rules),
      price_(problem, rules),
      random_(seed),
      alike_(groups_of(problem)),
      of_size_(group_by(problem, [](const MovableMap& map) { return map.bytes; })) {}

// Mostly a map nearby: maps of one block depend on each other.
std::size_t Search::neighbour(std::size_t map) {
  const std::size_t n = problem_.maps.size();
  return below(2) == 0 ? below(n) : (map + n - std::min<std::size_t>(n, 4) + below(9)) % n;
}

bool Search::change(Choice& choice, std::size_t map, Class to, double progress) {
  if (to == Class::recompute && !problem_.maps[map].droppable) return false;
  const std::uint64_t unit =
      piece_of(problem_.maps[map].bytes, std::as_const(simulator_).rules().piece_bytes);
  std::uint64_t part = 0;
  // Parts of maps are for the end, when whole ones are about right.
  if (to == Class::swap && progress > 0.5 && problem_.maps[map].bytes > unit && below(3) == 0 &&
      !problem_.maps[map].for_good) {
    part = unit * (1 + below((problem_.maps[map].bytes - 1) / unit));
  }
  const std::uint8_t brief = to == Class::recompute && progress > 0 && below(3) == 0;
  if (choice.of[map] == to && choice.part[map] == part && choice.brief[map] == brief) return false;
  choice.of[map] = to;
  choice.part[map] = part;
  choice.brief[map] = brief;
  return true;
}

// What the map is made from is near in front of it. Where memory is short, replays must pass through all of
// that, and each map by itself would not help.
void Search::pass_through(Choice& choice, std::size_t map) const {
  constexpr std::size_t near = 6;
  for (std::size_t m = map - std::min(map, near); m < map; ++m)
    if (choice.of[m] == Class::recompute) choice.brief[m] = 1;
}

// A run of maps that play the same role in successive blocks.
void Search::change_group(Choice& choice, std::size_t map, Class to) {
  const auto& group = alike_.members[alike_.of[map]];
  const std::size_t first = below(group.size()), count = 1 + below(group.size() - first);
  const std::uint8_t brief = to == Class::recompute && below(2) == 0;
  for (std::size_t i = first; i < first + count; ++i) {
    choice.of[group[i]] = to == Class::recompute && !problem_.maps[group[i]].droppable ? Class::swap : to;
    choice.part[group[i]] = 0;
    choice.brief[group[i]] = brief;
  }
}

// Equal in size, so memory and links stay about as they are.
bool Search::exchange(Choice& choice, std::size_t map) {
  const auto& alike = of_size_.members[of_size_.of[map]];
  const std::size_t other = alike[below(alike.size())];
  if (choice.of[map] == choice.of[other]) return false;
  if (choice.of[map] == Class::recompute && !problem_.maps[other].droppable) return false;
  if (choice.of[other] == Class::recompute && !problem_.maps[map].droppable) return false;
  std::swap(choice.of[map], choice.of[other]);
  std::swap(choice.part[map], choice.part[other]);
  std::swap(choice.brief[map], choice.brief[other]);
  return true;
}

bool Search::propose(Choice& choice, double progress) {
  const std::size_t map = below(problem_.maps.size());
  if (below(3) == 0) return exchange(choice, map);
  const Class was = choice.of[map], to = static_cast<Class>(below(3));
  if (choice.of[map] == Class::recompute && below(4) == 0) {
    choice.brief[map] ^= 1;
    return true;
  }
  if (to == Class::recompute && below(4) == 0 && change(choice, map, to, progress)) {
    pass_through(choice, map);
    return true;
  }
  if (progress < 0.3 && below(8) == 0) {
    change_group(choice, map, to);
    return true;
  }
  if (!change(choice, map, to, progress)) return false;
  if (below(2) == 0) {
    change(choice, neighbour(map), below(2) == 0 ? was : static_cast<Class>(below(3)), progress);
  }
  return true;
}

Choice Search::anneal(Choice start, double heat, std::int64_t simulations) {
  if (problem_.maps.empty()) return start;
  start.part.resize(problem_.maps.size(), 0);
  start.brief.resize(problem_.maps.size(), 0);
  Choice current = start, best = start, trial;
  Outcome least = simulator_.run(current);
  simulator_.rebase(current);
  double price = price_(least);
  for (std::int64_t i = 0; i < simulations && !enough(least); ++i) {
    const double progress = static_cast<double>(i) / static_cast<double>(simulations);
    const double temperature = problem_.compute_us * heat * std::pow(coldest / heat, progress);
    trial = current;
    if (!propose(trial, progress)) continue;
    // What is accepted: less is always, more the less often the more it is.
    const double chance = static_cast<double>((random_() >> 11) + 1) * 0x1p-53;
    const double most = price - temperature * std::log(chance);
    const Outcome outcome = least.feasible() ? price_.run(simulator_, trial, std::max(most, price_(least)))
                                             : simulator_.run(trial);
    const double trial_price = price_(outcome);
    if (price_.better(outcome, least)) least = outcome, best = trial;
    if (trial_price > most) continue;
    std::swap(current, trial);
    simulator_.rebase(current);
    price = trial_price;
  }
  return best;
}

Choice Search::descend(Choice best, std::int64_t simulations) {
  const std::size_t n = problem_.maps.size();
  best.part.resize(n, 0);
  best.brief.resize(n, 0);
  Outcome least = simulator_.run(best);
  simulator_.rebase(best);
  Choice trial;
  bool improved = true;
  const auto attempt = [&] {
    --simulations;
    const Outcome outcome =
        least.feasible() ? price_.run(simulator_, trial, price_(least)) : simulator_.run(trial);
    if (!price_.better(outcome, least)) return;
    least = outcome;
    best = trial;
    simulator_.rebase(best);
    improved = true;
  };
  while (improved && simulations > 0 && !enough(least)) {
    improved = false;
    for (std::size_t m = 0; m < n && simulations > 0 && !enough(least); ++m) {
      for (const Class to : {Class::keep, Class::swap, Class::recompute}) {
        trial = best;
        if (change(trial, m, to, 0)) attempt();
      }
      if (trial = best; best.of[m] == Class::swap && change(trial, m, Class::recompute, 0)) {
        pass_through(trial, m);
        attempt();
      }
      if (best.of[m] == Class::recompute) {
        trial = best;
        trial.brief[m] ^= 1;
        attempt();
      }
      // Exchange with a near one.
      for (std::size_t other = m + 1; other < std::min(n, m + 7) && simulations > 0; ++other) {
        if (best.of[m] == best.of[other]) continue;
        trial = best;
        if (change(trial, m, best.of[other], 0) && change(trial, other, best.of[m], 0)) attempt();
      }
    }
  }
  return best;
}

}  // namespace pooch::policy
