// vDNN's choice of algorithms (Rhu et al., MICRO 2016, section III-C; seeds: the lecture on it, "vDNN Memory
// Transfer Policy"): memory-optimal (:m) or performance-optimal (:p) for all convolutions, and vDNN-dyn's
// search for the fastest ones that fit. The changed numbers are the caller's to allow.
#include <utility>

#include "policy/decide.h"

namespace pooch::policy {
namespace {

class Chooser {
 public:
  Chooser(const Profile& profile, const PhaseProfile& phase, const LinkRates& rates, const Rules& rules)
      : profile_(profile), phase_(phase), rates_(rates), rules_(rules), algorithms_(profile, phase) {}

  Result<Variant> with(Preference preference, Decide decide) {
    return with(algorithms_.preferred(preference), decide);
  }

  // 1. vDNN-all with memory-optimal algorithms: where that does not fit, nothing else does. 2. The fastest
  // algorithms without offloading, then with vDNN-conv, then with vDNN-all. 3. For vDNN-conv, then for
  // vDNN-all: the fastest algorithms, but where memory overflows one that needs less. 4. What fitted in 1.
  Result<Variant> dynamic() {
    Result<Variant> least = with(Preference::memory, vdnn_all);
    if (!least || !fits(*least)) return least;
    for (const Decide decide : {keep, vdnn_conv, vdnn_all}) {
      Result<Variant> fastest = with(Preference::performance, decide);
      if (!fastest || fits(*fastest)) return fastest;
    }
    for (const Decide decide : {vdnn_conv, vdnn_all}) {
      Result<Variant> lessened = with(Preference::performance, decide);
      for (;;) {
        if (!lessened || fits(*lessened)) return lessened;
        Picks picks = std::move(lessened->picks);
        if (!lessen_where_it_overflows(lessened->problem, picks)) break;
        lessened = with(std::move(picks), decide);
      }
    }
    return least;
  }

 private:
  Result<Variant> with(Picks picks, Decide decide) {
    const PhaseProfile changed = algorithms_.applied(picks);
    Result<Problem> problem = make_problem(profile_, changed, rates_);
    if (!problem) return problem.error();
    Variant made{std::move(picks), std::move(*problem), {}};
    made.decision = decide({made.problem, rules_});
    return made;
  }

  bool fits(const Variant& variant) {
    Simulator simulator(variant.problem, variant.decision.rules);
    const bool feasible = simulator.run(variant.decision.choice).feasible();
    schedule_ = simulator.schedule();
    return feasible;
  }

  // By the schedule of what was last seen not to fit.
  bool lessen_where_it_overflows(const Problem& problem, Picks& picks) const {
    bool lessened = false;
    for (std::size_t i = 0; i < schedule_.steps.size(); ++i) {
      if (schedule_.live[i] <= rules_.cap) continue;
      const Segment& segment = problem.segments[schedule_.steps[i].segment];
      for (std::int32_t p = segment.first; p <= segment.last; ++p) lessened |= algorithms_.lessen(picks, p);
    }
    return lessened;
  }

  const Profile& profile_;
  const PhaseProfile& phase_;
  const LinkRates rates_;
  const Rules rules_;
  const Algorithms algorithms_;
  Schedule schedule_;
};

}  // namespace

const std::vector<NumericsPolicy>& all_numerics_policies() {
  static const std::vector<NumericsPolicy> list{
      {{"vdnn-all:m", "Rhu et al. 2016", "vdnn-all; algorithms with the least workspace"},
       Preference::memory,
       vdnn_all},
      {{"vdnn-all:p", "Rhu et al. 2016", "vdnn-all; the fastest algorithms"},
       Preference::performance,
       vdnn_all},
      {{"vdnn-conv:m", "Rhu et al. 2016", "vdnn-conv; algorithms with the least workspace"},
       Preference::memory,
       vdnn_conv},
      {{"vdnn-conv:p", "Rhu et al. 2016", "vdnn-conv; the fastest algorithms"},
       Preference::performance,
       vdnn_conv},
      {{"vdnn-dyn:p", "Rhu et al. 2016",
        "the first that fits of keep, vdnn-conv and vdnn-all with the fastest algorithms, then with less "
        "workspace"},
       std::nullopt,
       nullptr},
  };
  return list;
}

Result<Variant> choose_algorithms(const NumericsPolicy& policy, const Profile& profile,
                                  const PhaseProfile& phase, const LinkRates& rates, const Rules& rules) {
  Chooser chooser(profile, phase, rates, rules);
  return policy.preference ? chooser.with(*policy.preference, policy.decide) : chooser.dynamic();
}

}  // namespace pooch::policy
