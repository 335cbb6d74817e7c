// vDNN (Rhu et al., MICRO 2016; seeds: the lecture on it). A layer's input is offloaded beside the layer's
// own forward; the next layer starts when both have ended. In backward, the input of the layer before is
// fetched beside the layer at work. Convolution algorithms stay the program's own here, as changing them
// changes the numbers: vdnn_algorithms.cpp has :m and :p.
#include "policy/decide.h"

namespace pooch::policy {
namespace {

Rules vdnn_rules(Rules rules) {
  rules.prefetch = Prefetch::previous_layer;
  rules.eviction_blocks = rules.eviction_beside = true;
  return rules;
}

}  // namespace

// "offload all layers' X": the most memory-efficient one.
Decision vdnn_all(const Question& question) {
  return {all(question.problem, Class::swap), vdnn_rules(question.rules)};
}

// "only offload CONV layers' X": they compute long enough to hide it.
Decision vdnn_conv(const Question& question) {
  Decision decision{all(question.problem, Class::keep), vdnn_rules(question.rules)};
  for (std::size_t m = 0; m < question.problem.maps.size(); ++m) {
    if (question.problem.maps[m].read_by_convolution) decision.choice.of[m] = Class::swap;
  }
  return decision;
}

// Tries nothing, convolutions, all, and takes the fastest that fits; then drops offloads one by one from the
// output back where that fits and is faster: its greedy step, with the algorithms fixed.
Decision vdnn_dyn(const Question& question) {
  Decision best = vdnn_all(question);
  Simulator simulator(question.problem, best.rules);
  double best_us = 0;
  bool found = false;
  for (Decision& candidate : std::vector{keep(question), vdnn_conv(question), vdnn_all(question)}) {
    const Outcome outcome = simulator.run(candidate.choice);
    if (!outcome.feasible() || (found && outcome.us >= best_us)) continue;
    best.choice = std::move(candidate.choice);
    best_us = outcome.us;
    found = true;
  }
  if (!found) return best;
  for (std::size_t i = question.problem.by_return.size(), n = 0; n < i; ++n) {
    const std::uint32_t map = question.problem.by_return[n];
    if (best.choice.of[map] == Class::keep) continue;
    best.choice.of[map] = Class::keep;
    const Outcome outcome = simulator.run(best.choice);
    if (outcome.feasible() && outcome.us <= best_us) {
      best_us = outcome.us;
    } else {
      best.choice.of[map] = Class::swap;
    }
  }
  return best;
}

}  // namespace pooch::policy
