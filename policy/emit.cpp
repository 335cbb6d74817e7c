// A decision as a plan: actions by position, and for every map why it is what it is.
#include <fmt/core.h>

#include <algorithm>

#include "policy/decide.h"
#include "policy/parallel.h"

namespace pooch::policy {
namespace {

constexpr std::size_t most_simulated_steps = 50'000'000;  // for all alternatives together

MapClass plan_class(Class of) {
  return static_cast<MapClass>(of);
}
static_assert(static_cast<int>(MapClass::recompute) == static_cast<int>(Class::recompute));
static_assert(static_cast<int>(MapClass::swap) == static_cast<int>(Class::swap));

// What a map's class costs, and what the other way of leaving the device would: times against the same plan
// with the map on the device at no cost in memory.
struct Costs {
  double mine = 0;
  Class other = Class::keep;
  std::optional<double> others;
};

Costs costs_of(const Problem& problem, const Decision& decision, std::uint32_t map, double us,
               Simulator& simulator) {
  Costs costs;
  Choice trial = decision.choice;
  if (!trial.part.empty()) trial.part[map] = 0;
  double free_us = us;
  simulator.rules() = decision.rules;
  if (decision.choice.of[map] != Class::keep) {
    trial.of[map] = Class::keep;
    simulator.rules().cap += problem.maps[map].bytes;
    free_us = simulator.run(trial).us;
    costs.mine = std::max(0.0, us - free_us);
    simulator.rules() = decision.rules;
  }
  for (const Class other : {Class::swap, Class::recompute}) {
    if (other == decision.choice.of[map] || possible(problem.maps[map], other) != other) continue;
    trial.of[map] = other;
    const Outcome outcome = simulator.run(trial);
    if (!outcome.feasible()) continue;
    const double cost = std::max(0.0, outcome.us - free_us);
    if (!costs.others || cost < *costs.others) costs.others = cost, costs.other = other;
  }
  return costs;
}

std::string why(const Problem& problem, const Choice& choice, std::uint32_t m, const Costs& costs,
                double waited_ms) {
  const MovableMap& map = problem.maps[m];
  const std::string other = costs.others ? fmt::format("; {} would cost {:.2f} ms",
                                                       name(plan_class(costs.other)), *costs.others / 1e3)
                                         : "";
  if (choice.of[m] == Class::keep) return "fits" + other;
  if (choice.of[m] == Class::recompute)
    return fmt::format("replayed in {:.2f} ms{}{}", costs.mine / 1e3,
                       choice.is_brief(m) ? ", and in passing before" : "", other);
  const double link_ms =
      (problem.out.us(choice.swapped(problem, m)) + problem.in.us(choice.swapped(problem, m))) / 1e3;
  const std::string part = choice.swapped(problem, m) < map.bytes ? "a part; " : "";
  const std::string hidden =
      waited_ms > 0.005 ? fmt::format("compute waits {:.2f} of {:.2f} ms on the link", waited_ms, link_ms)
                        : fmt::format("{:.2f} ms on the link, hidden behind compute", link_ms);
  return part + hidden + other;
}

// The times of what an engine does, in the engine's order.
class Expected {
 public:
  Expected(const Trace& trace, Engine engine) : trace_(trace), engine_(engine) {}
  PlanTime next() {
    while (trace_.spans[at_].engine != engine_) ++at_;
    const Span& span = trace_.spans[at_++];
    return {span.start, span.end - span.start};
  }

 private:
  const Trace& trace_;
  const Engine engine_;
  std::size_t at_ = 0;
};

// Both one after the other.
PlanTime join(const std::optional<PlanTime>& first, const PlanTime& then) {
  return first ? PlanTime{first->at_us, then.end_us() - first->at_us} : then;
}

void write_actions(const Problem& problem, const Choice& choice, const Schedule& schedule, const Trace& trace,
                   Plan& plan) {
  Expected compute(trace, Engine::compute), in(trace, Engine::in);
  constexpr double least_wait_us = 0.05;  // as plans are written
  double idle_us = 0;                     // compute has nothing to do from then on
  std::size_t next = 0;
  std::vector<std::uint64_t> fetched(problem.maps.size(), 0);
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(schedule.steps.size()); ++i) {
    const Step& step = schedule.steps[i];
    auto& before = plan.before[problem.segments[step.segment].first];
    for (; next < schedule.fetches.size() && schedule.fetches[next].trigger <= i; ++next) {
      const Fetch& fetch = schedule.fetches[next];
      const std::uint64_t there = fetched[fetch.map] += fetch.bytes;
      const bool joins = !before.empty() && before.back().kind == PlanAction::Kind::prefetch &&
                         before.back().subject == fetch.map;
      if (!joins) before.push_back({PlanAction::Kind::prefetch, fetch.map});
      before.back().up_to = there < choice.swapped(problem, fetch.map) ? there : 0;
      before.back().time = join(before.back().time, in.next());
    }
    const PlanTime time = compute.next();
    if (step.replay == nowhere) {
      if (time.at_us > idle_us + least_wait_us)
        plan.starts_us[problem.segments[step.segment].first] = time.at_us;
    } else {
      before.push_back({PlanAction::Kind::replay, static_cast<std::uint32_t>(step.replay)});
      before.back().time = time;
      const auto by = problem.substitutes.find(step.replay);
      if (by != problem.substitutes.end()) before.back().formula = by->second;
    }
    idle_us = time.end_us();
    if (before.empty()) plan.before.erase(problem.segments[step.segment].first);
  }
  std::vector<std::optional<PlanTime>> out(problem.maps.size());  // pieces of a map leave in a row
  for (const Span& span : trace.spans)
    if (span.engine == Engine::out)
      out[static_cast<std::size_t>(span.map)] =
          join(out[static_cast<std::size_t>(span.map)], {span.start, span.end - span.start});
  for (std::int32_t s = 0; s <= problem.last_segment(); ++s) {
    for (const std::uint32_t m : problem.by_leave[s]) {
      if (choice.of[m] == Class::keep) continue;
      const auto kind = choice.of[m] == Class::swap ? PlanAction::Kind::evict : PlanAction::Kind::drop;
      plan.after[problem.segments[s].last].push_back({kind, m});
      plan.after[problem.segments[s].last].back().time = out[m];
    }
  }
}

// Simulated in parallel; left out where that would take too long.
std::vector<Costs> all_costs(const Problem& problem, const Decision& decision, double us) {
  std::vector<Costs> costs(problem.maps.size());
  if (costs.size() * problem.segments.size() * 3 > most_simulated_steps) {
    for (std::size_t m = 0; m < costs.size(); ++m) {
      if (decision.choice.of[m] == Class::recompute) costs[m].mine = problem.maps[m].replay_us;
    }
    return costs;
  }
  constexpr std::size_t lanes = 8;
  parallel_for(lanes, [&](std::size_t lane) {
    Simulator simulator(problem, decision.rules);
    for (std::size_t m = lane; m < costs.size(); m += lanes) {
      costs[m] = costs_of(problem, decision, static_cast<std::uint32_t>(m), us, simulator);
    }
  });
  return costs;
}

}  // namespace

Plan write_plan(const Problem& problem, const Decision& decision, std::string_view policy) {
  Simulator simulator(problem, decision.rules);
  Trace trace;
  const Outcome outcome = simulator.run(decision.choice, &trace);
  Plan plan;
  plan.policy = policy;
  plan.predicted_ms = outcome.us / 1e3;
  plan.peak = outcome.peak;
  std::vector<double> waited(problem.maps.size(), 0);
  for (const Stall& stall : trace.stalls) {
    if (stall.map != nowhere) waited[stall.map] += stall.us / 1e3;
  }
  const std::vector<Costs> costs = all_costs(problem, decision, outcome.us);
  for (std::uint32_t m = 0; m < problem.maps.size(); ++m) {
    const MovableMap& map = problem.maps[m];
    PlanMap made;
    made.map = m;
    made.name = map.name;
    made.buffer = map.buffer;
    made.bytes = map.bytes;
    made.of = plan_class(decision.choice.of[m]);
    if (made.of == MapClass::swap) {
      plan.host_bytes += made.moved = decision.choice.swapped(problem, m);
      made.across = map.ends_away();
      made.leaves_again = map.leaves_again();
    }
    if (made.of == MapClass::recompute) {
      made.by = map.producers;
      made.brief = decision.choice.is_brief(m);
    }
    made.why = why(problem, decision.choice, m, costs[m], waited[m]);
    made.cost_ms = costs[m].mine / 1e3;
    if (costs[m].others)
      made.alternative = plan_class(costs[m].other), made.alternative_cost_ms = *costs[m].others / 1e3;
    plan.maps.push_back(std::move(made));
  }
  write_actions(problem, decision.choice, simulator.schedule(), trace, plan);
  return plan;
}

}  // namespace pooch::policy
