#include "policy/planner.h"

#include <fmt/format.h>
#include <array>

#include <algorithm>

#include "policy/decide.h"

namespace pooch::policy {
namespace {

Decision least_by_itself(const Question& question) {
  return {all(question.problem, Class::swap), question.rules};
}

const Policy* find_policy(std::string_view name) {
  for (const Policy& policy : all_policies()) {
    if (policy.info.name == name) return &policy;
  }
  return nullptr;
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

Error too_little(const Policy& policy, const Question& question) {
  const Decision least = policy.least(question);
  Rules rules = least.rules;
  rules.cap = 0;  // nothing is fetched before its time
  Simulator simulator(question.problem, rules);
  const std::uint64_t bytes = simulator.run(least.choice).peak;
  return {
      ErrorCode::out_of_memory,
      fmt::format("{} needs at least {} bytes ({:.2f} GiB) of device memory here, and may use {}",
                  policy.info.name, bytes, static_cast<double>(bytes) / double(1 << 30), question.rules.cap)};
}

}  // namespace

const std::vector<Policy>& all_policies() {
  static const std::vector<Policy> list{
      {{"keep", "", "every map stays on the device"}, keep, keep},
      {{"swap-all-unscheduled", "PooCH 5.1",
        "every map is swapped; fetched with the layer before its reader"},
       swap_all_unscheduled,
       swap_all_unscheduled},
      {{"swap-all", "PooCH 4.3", "every map is swapped; fetched when there is room"},
       swap_all,
       least_by_itself},
      {{"swap-opt", "PooCH 4.4.2", "keep or swap, by a search over the maps whose copies are not hidden"},
       swap_opt,
       least_by_itself},
      {{"pooch", "PooCH 4.4.3", "swap-opt, then swap or recompute by r(X)"}, pooch, least_by_itself},
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
       least_by_itself},
  };
  return list;
}

const std::vector<PolicyInfo>& policies() {
  static const std::vector<PolicyInfo> infos = [] {
    std::vector<PolicyInfo> list;
    for (const Policy& policy : all_policies()) list.push_back(policy.info);
    return list;
  }();
  return infos;
}

Result<Plan> make_plan(const Profile& profile, std::string_view phase_id, std::string_view policy_name,
                       const PlanRequest& request) {
  const Policy* policy = find_policy(policy_name);
  if (policy == nullptr) {
    return Error{ErrorCode::invalid_argument,
                 fmt::format("no policy {}; there are {}", policy_name, policy_names())};
  }
  const Result<const PhaseProfile*> phase = find_phase(profile, phase_id);
  if (!phase) return phase.error();
  const Result<Problem> problem = make_problem(profile, **phase, {request.link_out, request.link_in});
  if (!problem) return problem.error();
  Question question{*problem, {}, request.seed};
  question.rules.cap = request.memory;
  question.rules.remap = request.backing == Backing::remap;
  const Decision decision = policy->decide(question);
  Simulator simulator(*problem, decision.rules);
  if (!simulator.run(decision.choice).feasible()) return too_little(*policy, question);
  Plan plan = write_plan(*problem, decision, policy->info.name);
  plan.phase = (*phase)->id;
  plan.device = profile.device;
  plan.cap = request.memory;
  plan.seed = request.seed;
  plan.structure = structure_of(**phase);
  plan.backing = request.backing;
  if (request.bound) {
    const auto solve = [&] { return relax(*problem, std::array{request.memory}).front().bound_us; };
    plan.bound_ms = (decision.bound_us ? *decision.bound_us : solve()) / 1e3;
  }
  return plan;
}

}  // namespace pooch::policy
