#include "runtime/planning/standstill.h"

#include <fmt/core.h>

namespace pooch::runtime {

std::string Standstill::note(const PlanningNow& now) {
  if (now.planned > before_.planned || said_) {
    before_ = now;
    without_ = 0;
    return {};
  }
  if (++without_ < enough) return {};
  const std::string what =
      fmt::format("{} iterations in a row followed no plan, so memory moves as it is needed", without_);
  const std::uint64_t left = now.left - before_.left, phases = now.phases - before_.phases;
  std::string why;
  if (left >= enough / 2) {
    why = fmt::format(
        "each leaves its plan, the latest at op {} of the iteration, where it does something else than the "
        "ones that were planned: keep what iterations do alike, or set POOCH_LOG=info to see each time",
        now.left_at);
  } else if (phases >= enough / 2) {
    why = fmt::format("{} of them were unlike any before: a plan needs iterations that come back", phases);
  } else if (now.making) {
    why =
        "the planner is still at work; later runs find its plan in the cache, and POOCH_WAIT_FOR_PLANS=1 "
        "waits for it";
  }
  if (why.empty()) return {};
  said_ = true;
  return fmt::format("{}: {}", what, why);
}

}  // namespace pooch::runtime
