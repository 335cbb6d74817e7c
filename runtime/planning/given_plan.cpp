#include "runtime/planning/given_plan.h"

#include <fmt/core.h>

#include "core/files.h"
#include "core/log.h"
#include "runtime/planning/refused.h"

namespace pooch::runtime {
Status GivenPlan::read(const std::string& path, const PlanTarget& target) {
  const auto wrong = [&](const std::string& why) {
    return refused(
        fmt::format("POOCH_PLAN: '{}': {}: accepted are plans that `pooch plan` wrote", path, why));
  };
  const auto text = read_whole(path);
  if (!text) return wrong(text.error().message);
  auto plan = plan_from_json(*text);
  if (!plan) return wrong(plan.error().message);
  if (plan->cap > target.cap) {
    return refused(
        fmt::format("POOCH_PLAN: '{}': it was made for {} bytes of device memory: accepted are plans "
                    "for at most {}",
                    path, plan->cap, target.cap));
  }
  if (!plan->algorithms.empty()) {
    log::warn(
        "POOCH_PLAN: '{}' gives {} convolutions other algorithms, which would change results: it is not "
        "followed",
        path, plan->algorithms.size());
    return Done{};
  }
  if (plan->device != target.device)
    remark_ =
        fmt::format("POOCH_PLAN: '{}' was made for {}, and this is {}", path, plan->device, target.device);
  plan_ = std::move(*plan);
  return Done{};
}

}  // namespace pooch::runtime
