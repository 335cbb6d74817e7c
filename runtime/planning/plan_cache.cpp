#include "runtime/planning/plan_cache.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>

#include "core/hash.h"
#include "runtime/observe/json_text.h"
#include "runtime/planning/refused.h"

namespace pooch::runtime {
namespace {

constexpr std::string_view made_for = "{\"made_for\":";

Error useless(const std::string& path, const std::string& why) {
  return {ErrorCode::invalid_argument, fmt::format("{}: {}", path, why)};
}

std::string name_of(const PlanIdentity& identity) {
  const bool plain = std::all_of(identity.phase.begin(), identity.phase.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  });
  return fmt::format("{}-{:016x}.json", plain ? identity.phase : "plan", hash(identity.to_json()));
}

}  // namespace

std::string PlanIdentity::to_json() const {
  return fmt::format(
      R"({{"phase":{},"structure":{},"device":{},"policy":{},"placed":{},"cap":{},"host_budget":{},)"
      R"("planner":{}}})",
      json_quoted(phase), json_quoted(structure), json_quoted(device), json_quoted(policy), placed, cap,
      host_budget, json_quoted(planner));
}

std::string PlanIdentity::mismatch(const Plan& plan) const {
  const auto differs = [](const char* what, const auto& is, const auto& wanted) {
    return is == wanted ? std::string() : fmt::format("its {} is '{}', not '{}'", what, is, wanted);
  };
  if (!plan.algorithms.empty()) return "it gives convolutions other algorithms, which would change results";
  for (const std::string& found : {differs("phase", plan.phase, phase),
                                   structure.empty() ? "" : differs("structure", plan.structure, structure),
                                   differs("device", plan.device, device),
                                   differs("policy", plan.policy, policy), differs("cap", plan.cap, cap)}) {
    if (!found.empty()) return found;
  }
  return {};
}

std::string PlanCache::path_of(const PlanIdentity& identity) const {
  return folder_.path() + "/" + name_of(identity);
}

Result<std::optional<Plan>> PlanCache::find(const PlanIdentity& identity) const {
  if (folder_.path().empty()) return std::optional<Plan>{};
  const std::string path = path_of(identity);
  const auto text = folder_.read(name_of(identity));
  if (!text) {
    const int reason = text.error().vendor_status;
    if (reason == ENOENT || reason == ENOTDIR) return std::optional<Plan>{};
    return useless(path, text.error().message);
  }
  auto plan = plan_in(*text, identity);
  if (!plan) return useless(path, plan.error().message);
  return std::optional<Plan>(std::move(*plan));
}

Result<Plan> PlanCache::plan_in(std::string_view text, const PlanIdentity& identity) {
  auto plan = plan_from_json(text);
  if (!plan) return plan;
  if (!text.starts_with(fmt::format("{}{},", made_for, identity.to_json())))
    return refused("it was made for something else");
  if (std::string why = identity.mismatch(*plan); !why.empty()) return refused(std::move(why));
  return plan;
}

Status PlanCache::store(const PlanIdentity& identity, const Plan& plan) const {
  if (folder_.path().empty()) return Done{};
  const std::string text = fmt::format("{}{},\n {}", made_for, identity.to_json(), to_json(plan).substr(1));
  return folder_.store(name_of(identity), text);
}

}  // namespace pooch::runtime
