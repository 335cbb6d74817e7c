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

}  // namespace

Decision superneurons_least(const Question& question) {
  Decision decision{all(question.problem, Class::keep), superneurons_rules(question.rules)};
  for (std::size_t m = 0; m < question.problem.maps.size(); ++m) {
    decision.choice.of[m] = by_layer_type(question.problem.maps[m]);
  }
  return decision;
}

// Rule 1: maps are "stored on GPU memory preferentially from output layer", as many as fit beside the largest
// working set of a single layer. Only then it shows whether replays and fetches fit as well.
Decision superneurons(const Question& question) {
  const Problem& problem = question.problem;
  std::vector<std::uint64_t> working(problem.segments.size());
  for (std::size_t s = 0; s < working.size(); ++s) working[s] = problem.segments[s].base;
  for (const MovableMap& map : problem.maps) {
    working[map.made] += map.bytes;
    if (map.leaves != map.made) working[map.leaves] += map.bytes;
    for (std::int32_t s = map.returns; s <= map.ends; ++s) working[s] += map.bytes;
  }
  const std::uint64_t largest = *std::max_element(working.begin(), working.end());
  Decision decision = superneurons_least(question);
  std::uint64_t kept = 0;
  for (const std::uint32_t m : problem.by_return) {
    if (largest + kept + problem.maps[m].bytes > question.rules.cap) break;
    kept += problem.maps[m].bytes;
    decision.choice.of[m] = Class::keep;
  }
  return decision;
}

}  // namespace pooch::policy
