// PooCH (Ito et al. 2019): 4.4.2 keep or swap, then 4.4.3 swap or recompute, as written.
//
// One departure: the search tree over L_I has 2^|L_I| leaves, and on a slow link L_I is nearly everything.
// Branches whose kept maps alone exceed the memory are cut, and the walk (output layer first, keep before
// swap) ends after a fixed number of simulations.

#include <algorithm>
#include <limits>

#include "policy/decide.h"
#include "policy/parallel.h"

namespace pooch::policy {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();

// Stretches of time in which compute stands still.
std::vector<std::pair<double, double>> idle(const Trace& trace) {
  std::vector<std::pair<double, double>> gaps;
  double end = 0;
  for (const Span& span : trace.spans) {
    if (span.engine != Engine::compute) continue;
    if (span.start > end + 1e-6) gaps.emplace_back(end, span.start);
    end = span.end;
  }
  return gaps;
}

bool meets(const std::vector<std::pair<double, double>>& gaps, const Span& span) {
  const auto gap = std::lower_bound(gaps.begin(), gaps.end(), span.start,
                                    [](const auto& g, double start) { return g.second <= start; });
  return gap != gaps.end() && gap->first < span.end;
}

class KeepOrSwap {
 public:
  explicit KeepOrSwap(const Question& question)
      : problem_(question.problem), simulator_(question.problem, question.rules) {}

  Choice search() {
    choice_ = best_ = all(problem_, Class::swap);
    Trace trace;
    const Outcome start = simulator_.run(choice_, &trace);
    best_us_ = start.feasible() ? start.us : never;
    find_exposed(trace);
    budget_ = std::max<std::int64_t>(
        200, std::int64_t{3'000'000} / static_cast<std::int64_t>(problem_.segments.size()));
    descend(0);
    return best_;
  }

 private:
  // Steps 1 and 2: L_O and L_I, the maps whose copies compute does not hide; each from the output layer back.
  void find_exposed(const Trace& trace) {
    const auto gaps = idle(trace);
    std::vector<char> out(problem_.maps.size()), in = out;
    for (const Span& span : trace.spans) {
      if (span.engine == Engine::out && meets(gaps, span)) out[span.map] = 1;
      if (span.engine == Engine::in && meets(gaps, span)) in[span.map] = 1;
    }
    for (const std::uint32_t m : problem_.by_return) {
      if (in[m]) l_i_.push_back(m);
      if (out[m] && !in[m]) l_o_.push_back(m);
    }
  }

  Outcome simulate() {
    --budget_;
    const Outcome outcome = simulator_.run(choice_);
    if (outcome.feasible() && outcome.us < best_us_) best_us_ = outcome.us, best_ = choice_;
    return outcome;
  }

  // Step 3: the binary tree over L_I.
  void descend(std::size_t level) {
    if (budget_ <= 0) return;
    if (level == l_i_.size()) return scan();
    choice_.of[l_i_[level]] = Class::keep;
    if (simulate().feasible()) descend(level + 1);
    choice_.of[l_i_[level]] = Class::swap;
    descend(level + 1);
  }

  // At a leaf: L_O \ L_I linearly, each kept if it fits.
  void scan() {
    simulate();
    for (const std::uint32_t m : l_o_) {
      choice_.of[m] = Class::keep;
      if (!simulate().feasible()) choice_.of[m] = Class::swap;
    }
    for (const std::uint32_t m : l_o_) choice_.of[m] = Class::swap;
  }

  const Problem& problem_;
  Simulator simulator_;
  std::vector<std::uint32_t> l_i_, l_o_;
  Choice choice_, best_;
  double best_us_ = never;
  std::int64_t budget_ = 0;
};

// r(X), equation 1. The overheads are against the same choice with X on the device at no cost in memory.
double ratio(const Question& question, const Choice& choice, double swapped_us, std::uint32_t x,
             Simulator& simulator) {
  if (!question.problem.maps[x].droppable) return never;
  Choice trial = choice;
  trial.of[x] = Class::recompute;
  simulator.rules() = question.rules;
  const Outcome recomputed = simulator.run(trial);
  if (!recomputed.feasible()) return never;
  if (recomputed.us >= swapped_us) return never;  // at least 1, whatever both are compared with
  trial.of[x] = Class::keep;
  simulator.rules().cap += question.problem.maps[x].bytes;
  const Outcome free = simulator.run(trial);
  const double swap_overhead = swapped_us - free.us, recompute_overhead = recomputed.us - free.us;
  return swap_overhead > 1e-6 ? std::max(0.0, recompute_overhead) / swap_overhead : never;
}

}  // namespace

Decision swap_opt(const Question& question) {
  return {KeepOrSwap(question).search(), question.rules};
}

Decision pooch(const Question& question) {
  Decision decision = swap_opt(question);
  Choice& choice = decision.choice;
  std::vector<std::uint32_t> undecided;
  for (std::uint32_t m = 0; m < choice.of.size(); ++m) {
    if (choice.of[m] == Class::swap) undecided.push_back(m);
  }
  while (!undecided.empty()) {
    std::vector<double> r(undecided.size());
    const double swapped_us = Simulator(question.problem, question.rules).run(choice).us;
    parallel_for(8, [&](std::size_t lane) {
      Simulator simulator(question.problem, question.rules);
      for (std::size_t i = lane; i < r.size(); i += 8)
        r[i] = ratio(question, choice, swapped_us, undecided[i], simulator);
    });
    const auto least = std::min_element(r.begin(), r.end());
    if (*least >= 1) break;  // all that are left are swaps
    const std::uint32_t picked = undecided[static_cast<std::size_t>(least - r.begin())];
    choice.of[picked] = Class::recompute;
    std::vector<std::uint32_t> rest;
    for (std::size_t i = 0; i < r.size(); ++i) {
      if (r[i] < 1 && undecided[i] != picked) rest.push_back(undecided[i]);
    }
    undecided = std::move(rest);
  }
  return decision;
}

}  // namespace pooch::policy
