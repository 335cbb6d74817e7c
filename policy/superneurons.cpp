// SuperNeurons (Wang et al., PPoPP 2018), by the three rules of PooCH's section 5.2.
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

// Rule 1: maps are "stored on GPU memory preferentially from output layer", as many as fit: kept maps take
// the memory that is left in the middle of the iteration, the early layers' own needs come before and after.
// Where even none kept leaves too little for the swap-ins of rule 3, the policy has no plan.
Decision superneurons(const Question& question) {
  const Problem& problem = question.problem;
  const Decision none = superneurons_least(question);
  const auto with_kept = [&](std::size_t count) {
    Choice choice = none.choice;
    for (std::size_t i = 0; i < count; ++i) choice.of[problem.by_return[i]] = Class::keep;
    return choice;
  };
  Simulator simulator(problem, none.rules);
  if (!simulator.run(none.choice).feasible()) return none;
  std::size_t kept = 0, too_many = problem.maps.size() + 1;
  while (too_many - kept > 1) {
    const std::size_t middle = kept + (too_many - kept) / 2;
    (simulator.run(with_kept(middle)).feasible() ? kept : too_many) = middle;
  }
  return {with_kept(kept), none.rules};
}

}  // namespace pooch::policy
