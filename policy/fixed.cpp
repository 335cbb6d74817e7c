// Policies that look at no numbers: everything stays, or everything is swapped.
#include "policy/decide.h"

namespace pooch::policy {

Choice all(const Problem& problem, Class of) {
  Choice choice{std::vector<Class>(problem.maps.size(), of)};
  for (std::size_t m = 0; m < problem.maps.size(); ++m) choice.of[m] = possible(problem.maps[m], of);
  return choice;
}

Class possible(const MovableMap& map, Class of) {
  return of == Class::recompute && !map.droppable ? Class::swap : of;
}

double in_core_us(const Problem& problem) {
  Rules rules;
  rules.cap = ~std::uint64_t{0} / 4;
  return Simulator(problem, rules).run(all(problem, Class::keep)).us;
}

Decision keep(const Question& question) {
  return {all(question.problem, Class::keep), question.rules};
}

// PooCH, 5.1: "Each swapping-in simply starts simultaneously with the previous computation."
Decision swap_all_unscheduled(const Question& question) {
  Decision decision{all(question.problem, Class::swap), question.rules};
  decision.rules.prefetch = Prefetch::previous_layer;
  return decision;
}

// PooCH, 4.3: the same, but "executes swapping-in when there is room in the GPU memory".
Decision swap_all(const Question& question) {
  return {all(question.problem, Class::swap), question.rules};
}

// Large Model Support in Chainer (Cho et al.; Imai et al., 3.1), async: while a layer computes, the data of
// the next one to come is on its way. The timeline is that of swap-all-unscheduled, which PooCH built on it.
Decision lms(const Question& question) {
  return swap_all_unscheduled(question);
}

// The same, sync: compute waits for every copy, and only the layer at work is on the device.
Decision lms_sync(const Question& question) {
  Decision decision{all(question.problem, Class::swap), question.rules};
  decision.rules.prefetch = Prefetch::at_need;
  decision.rules.eviction_blocks = true;
  return decision;
}

}  // namespace pooch::policy
