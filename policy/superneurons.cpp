// SuperNeurons (Wang et al., PPoPP 2018), by the three rules of PooCH's section 5.2.
#include <algorithm>

#include "policy/decide.h"

namespace pooch::policy {
namespace {

// Rule 2: convolutions' outputs are swapped, all others recomputed.
Class by_layer_type(const MovableMap& map) {
  return map.by_convolution ? Class::swap : possible(map, Class::recompute);
}

// Rule 3: "Each swap-in starts simultaneously with the computation of the immediately preceding convolution
// layer", whatever memory there is.
Rules superneurons_rules(Rules rules) {
  rules.prefetch = Prefetch::previous_convolution;
  return rules;
}

// Rule 1: so many maps are "stored on GPU memory preferentially from output layer".
Choice with_kept(const Problem& problem, std::size_t count) {
  Choice choice = all(problem, Class::keep);
  for (std::size_t i = count; i < problem.by_return.size(); ++i) {
    const std::uint32_t map = problem.by_return[i];
    choice.of[map] = by_layer_type(problem.maps[map]);
  }
  return choice;
}

// Counts worth a simulation each, from many to none.
std::vector<std::size_t> counts_to_try(const Problem& problem) {
  const std::size_t step = std::max<std::size_t>(1, problem.maps.size() / 128);
  std::vector<std::size_t> counts;
  for (std::size_t count = 0; count <= problem.maps.size(); count += step) counts.push_back(count);
  std::reverse(counts.begin(), counts.end());
  return counts;
}

}  // namespace

// What is kept need not be made again, so keeping none does not always take the least.
Decision superneurons_least(const Question& question) {
  Simulator simulator(question.problem, superneurons_rules(question.rules));
  Choice least;
  std::uint64_t peak = ~std::uint64_t{0};
  for (const std::size_t count : counts_to_try(question.problem)) {
    Choice choice = with_kept(question.problem, count);
    const std::uint64_t needed = simulator.run(choice).peak;
    if (needed < peak) peak = needed, least = std::move(choice);
  }
  return {std::move(least), simulator.rules()};
}

// As many maps are kept as fit: they take the memory that is left in the middle of the iteration, the early
// layers' own needs come before and after. The more are kept, the more memory it takes, but for the first
// few.
Decision superneurons(const Question& question) {
  const Problem& problem = question.problem;
  Simulator simulator(problem, superneurons_rules(question.rules));
  const auto fits = [&](std::size_t count) { return simulator.run(with_kept(problem, count)).feasible(); };
  std::size_t kept = 0;
  if (fits(0)) {
    std::size_t too_many = problem.maps.size() + 1;
    while (too_many - kept > 1) {
      const std::size_t middle = kept + (too_many - kept) / 2;
      (fits(middle) ? kept : too_many) = middle;
    }
  } else {
    const std::vector<std::size_t> counts = counts_to_try(problem);
    const auto most = std::find_if(counts.begin(), counts.end(), fits);
    if (most != counts.end()) kept = *most;
  }
  return {with_kept(problem, kept), simulator.rules()};
}

}  // namespace pooch::policy
