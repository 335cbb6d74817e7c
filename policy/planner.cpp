#include "policy/planner.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/pages.h"
#include "policy/decide.h"

namespace pooch::policy {
namespace {

template <class Each>
const Each* find_policy(const std::vector<Each>& among, std::string_view name) {
  for (const Each& policy : among) {
    if (policy.info.name == name) return &policy;
  }
  return nullptr;
}

template <class Each>
std::vector<PolicyInfo> infos_of(const std::vector<Each>& of) {
  std::vector<PolicyInfo> list;
  for (const Each& policy : of) list.push_back(policy.info);
  return list;
}

std::string policy_names() {
  std::string names;
  for (const PolicyInfo& info : policies()) names += (names.empty() ? "" : ", ") + std::string(info.name);
  return names;
}

Result<const PhaseProfile*> find_phase(const Profile& profile, std::string_view id) {
  for (const PhaseProfile& phase : profile.phases) {
    if (id.empty() || phase.id == id) return &phase;
  }
  if (profile.phases.empty()) return Error{ErrorCode::invalid_argument, "profile: no phases"};
  return Error{ErrorCode::invalid_argument, fmt::format("profile: no phase {}", id)};
}

// Least squares over what was measured: so much for the calls, so much for each handle in them.
void price_moves(const Profile& profile, Rules& rules) {
  rules.launch_us = profile.launch_us;
  double n = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (const MoveSample& sample : profile.moves) {
    const double handles = sample.handles;
    ++n, x += handles, y += sample.us, xx += handles * handles, xy += handles * sample.us;
    rules.handle_bytes = std::max<std::uint64_t>(sample.bytes, 1);
  }
  if (x == 0) return;
  const double spread = n * xx - x * x;
  rules.handle_us = spread > 0 ? std::max(0.0, (n * xy - x * y) / spread) : y / x;
  rules.chunk_us = std::max(0.0, (y - rules.handle_us * x) / n);
}

// What the policy's least choice takes where it has all that it asks for.
std::uint64_t least_peak(const Question& question, const Decision& least) {
  Rules rules = least.rules;
  rules.cap = 0;  // nothing is fetched before its time
  return Simulator(question.problem, rules).run(least.choice).peak;
}

Error too_little(std::string_view policy, std::uint64_t least, std::uint64_t memory) {
  return {ErrorCode::out_of_memory,
          fmt::format("{} needs at least {} bytes ({:.2f} GiB) of device memory here, and may use {}", policy,
                      least, static_cast<double>(least) / double(1 << 30), memory)};
}

bool fits(const Problem& problem, const Decision& decision) {
  return Simulator(problem, decision.rules).run(decision.choice).feasible();
}

Plan plan_of(const Policy& policy, const Question& question, const Decision& decision, bool bound) {
  Plan plan = write_plan(question.problem, decision, policy.info.name);
  if (!bound) return plan;
  const auto solve = [&] { return relax(question.problem, std::array{question.rules.cap}).front().bound_us; };
  plan.bound_ms = (decision.bound_us ? *decision.bound_us : solve()) / 1e3;
  return plan;
}

// In-core and bound are of the program's own algorithms: the first is what to compare with, the second says
// nothing here.
Result<Plan> plan_with_algorithms(const NumericsPolicy& policy, const Profile& profile,
                                  const PhaseProfile& phase, const LinkRates& rates, const Rules& rules) {
  const Result<Variant> variant = choose_algorithms(policy, profile, phase, rates, rules);
  if (!variant) return variant.error();
  const Question question{variant->problem, rules};
  if (!fits(variant->problem, variant->decision))
    return too_little(policy.info.name, least_peak(question, variant->decision), rules.cap);
  Plan plan = write_plan(variant->problem, variant->decision, policy.info.name);
  plan.algorithms = Algorithms(profile, phase).described(variant->picks);
  return plan;
}

Rules rules_of(const Profile& profile, const PlanRequest& request) {
  Rules rules;
  rules.cap = request.memory;
  rules.piece_bytes = largest_piece(request.cap > 0 ? request.cap : request.memory);
  rules.placed = request.placed;
  price_moves(profile, rules);
  return rules;
}

}  // namespace

const std::vector<Policy>& all_policies() {
  static const std::vector<Policy> list{
      {{"keep", "", "every map stays on the device"}, keep, keep},
      {{"swap-all-unscheduled", "PooCH 5.1",
        "every map is swapped; fetched with the layer before its reader"},
       swap_all_unscheduled,
       swap_all_unscheduled},
      {{"swap-all", "PooCH 4.3", "every map is swapped; fetched when there is room"}, swap_all, swap_all},
      {{"swap-opt", "PooCH 4.4.2", "keep or swap, by a search over the maps whose copies are not hidden"},
       swap_opt,
       swap_all},
      {{"pooch", "PooCH 4.4.3", "swap-opt, then swap or recompute by r(X)"}, pooch, swap_all},
      {{"superneurons", "Wang et al. 2018; PooCH 5.2",
        "keep from the output back, swap convolutions, recompute the rest"},
       superneurons,
       superneurons_least},
      {{"vdnn-all", "Rhu et al. 2016", "every layer's input is swapped"}, vdnn_all, vdnn_all},
      {{"vdnn-conv", "Rhu et al. 2016", "convolutions' inputs are swapped"}, vdnn_conv, vdnn_conv},
      {{"vdnn-dyn", "Rhu et al. 2016", "the fastest of keep, vdnn-conv and vdnn-all, thinned out greedily"},
       vdnn_dyn,
       vdnn_all},
      {{"lms", "Cho et al. 2018; Imai et al. 2018", "every map is swapped, asynchronously, one layer ahead"},
       lms,
       lms},
      {{"lms-sync", "Imai et al. 2018", "every map is swapped; compute waits for every copy"},
       lms_sync,
       lms_sync},
      {{"hybrid", "",
        "keep, swap or recompute, by local search on the simulator from every other policy's plan"},
       hybrid,
       swap_all},
  };
  return list;
}

const std::vector<PolicyInfo>& policies() {
  static const std::vector<PolicyInfo> infos = infos_of(all_policies());
  return infos;
}

const std::vector<PolicyInfo>& numerics_policies() {
  static const std::vector<PolicyInfo> infos = infos_of(all_numerics_policies());
  return infos;
}

bool has_other_algorithms(const Profile& profile, const PhaseProfile& phase) {
  return Algorithms(profile, phase).any();
}

struct PlanSeries::State {
  const Profile& profile;
  const PhaseProfile& phase;
  const Policy* policy;
  const NumericsPolicy* numerics;  // one of the two
  const PlanRequest request;
  Problem problem;
  std::optional<Decision> last = {};

  // hybrid moves everything. Where that needs more than there is, buffers pause at other times.
  bool moves_everything() const { return policy != nullptr && policy->decide == hybrid; }
  Result<Problem> problem_for(std::uint64_t memory) const {
    Movers movers = Movers::feature_maps;
    if (moves_everything())
      movers = profile.phases.size() > 1 ? Movers::everything_in_turn : Movers::everything;
    return make_problem(profile, phase, {request.link_out, request.link_in}, movers, memory);
  }

  Result<Plan> plan_for(const PlanRequest& with) {
    const Rules rules = rules_of(profile, with);
    if (last && moves_everything() && !fits(problem, swap_all({problem, rules}))) {
      auto other = problem_for(with.memory);
      if (!other) return other.error();
      problem = std::move(*other);
      last.reset();
    }
    if (numerics != nullptr)
      return plan_with_algorithms(*numerics, profile, phase, {with.link_out, with.link_in}, rules);
    const Question question{problem, rules, with.seed, with.effort, last ? &last->choice : nullptr};
    Decision decision = policy->decide(question);
    if (!fits(problem, decision)) return too_little(policy->info.name, least_memory(question), with.memory);
    Plan plan = plan_of(*policy, question, decision, with.bound);
    last = std::move(decision);
    return plan;
  }

  bool has_plan(std::uint64_t memory) const {
    PlanRequest with = request;
    with.memory = memory;
    const auto other = problem_for(memory);
    return other && fits(*other, policy->least({*other, rules_of(profile, with)}));
  }
  // What the question's least choice takes is not the least where buffers pause at other times for less
  // memory.
  std::uint64_t least_memory(const Question& question) const {
    std::uint64_t least = least_peak(question, policy->least(question)), none = question.rules.cap;
    if (!moves_everything()) return least;
    while (!has_plan(least)) none = least, least += least / 64 + granularity;
    while (least > none + granularity) {
      const std::uint64_t middle = none + (least - none) / 2;
      (has_plan(middle) ? least : none) = middle;
    }
    return least;
  }
};

PlanSeries::PlanSeries(std::unique_ptr<State> state) : state_(std::move(state)) {}
PlanSeries::PlanSeries(PlanSeries&&) noexcept = default;
PlanSeries& PlanSeries::operator=(PlanSeries&&) noexcept = default;
PlanSeries::~PlanSeries() = default;

Result<PlanSeries> PlanSeries::make(const Profile& profile, std::string_view phase_id,
                                    std::string_view policy_name, const PlanRequest& request) {
  const Policy* const policy = find_policy(all_policies(), policy_name);
  const NumericsPolicy* const numerics = find_policy(all_numerics_policies(), policy_name);
  if (policy == nullptr && numerics == nullptr)
    return Error{ErrorCode::invalid_argument,
                 fmt::format("no policy {}; there are {}", policy_name, policy_names())};
  if (numerics != nullptr && !request.allow_numerics)
    return Error{
        ErrorCode::invalid_argument,
        fmt::format("{} gives convolutions other algorithms, and so changes the numbers: it has to be "
                    "allowed",
                    policy_name)};
  const Result<const PhaseProfile*> phase = find_phase(profile, phase_id);
  if (!phase) return phase.error();
  auto state = std::make_unique<State>(State{profile, **phase, policy, numerics, request, {}});
  auto problem = state->problem_for(request.memory);
  if (!problem) return problem.error();
  state->problem = std::move(*problem);
  return PlanSeries(std::move(state));
}

Result<Plan> PlanSeries::next(std::uint64_t memory) {
  PlanRequest with = state_->request;
  with.memory = memory;
  Result<Plan> plan = state_->plan_for(with);
  if (!plan) return plan;
  plan->in_core_ms = in_core_us(state_->problem) / 1e3;
  plan->phase = state_->phase.id;
  plan->device = state_->profile.device;
  plan->cap = memory;
  plan->seed = with.seed;
  plan->structure = structure_of(state_->phase);
  return plan;
}

Result<std::uint64_t> PlanSeries::least() const {
  PlanRequest with = state_->request;
  with.memory = 0;
  const Rules rules = rules_of(state_->profile, with);
  if (state_->numerics != nullptr)
    return Error{ErrorCode::invalid_argument, "the least memory depends on the algorithms that it is for"};
  auto problem = state_->problem_for(with.memory);
  if (!problem) return problem.error();
  return state_->least_memory({*problem, rules});
}

Result<Plan> make_plan(const Profile& profile, std::string_view phase, std::string_view policy,
                       const PlanRequest& request) {
  auto series = PlanSeries::make(profile, phase, policy, request);
  if (!series) return series.error();
  return series->next(request.memory);
}

}  // namespace pooch::policy
