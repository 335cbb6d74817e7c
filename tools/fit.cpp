#include "fit.h"

#include <algorithm>
#include <functional>
#include <set>

#include "core/bytes.h"
#include "placed_plan.h"
#include "runtime/script/plan_room.h"

namespace pooch::tools {
namespace {

// Of the cap where everything stays, in percent.
constexpr int shown_shares[] = {90, 75, 60, 50, 40, 33, 25, 20, 15, 10};
// Caps that are nearer to each other, as a share of the larger one, tell the same.
constexpr double too_near = 0.04;

std::uint64_t whole_mib(std::uint64_t bytes) {
  return (bytes + MiB - 1) / MiB * MiB;
}

runtime::PlanRoom room_of(std::uint64_t cap, const Profile& profile, const PhaseProfile& phase) {
  const runtime::CapUse use{cap, profile.outside_bytes, profile.outside_bytes};
  return runtime::room_with_layout(use, runtime::unseen_bytes(phase, use), 0);
}

bool plannable(const PhaseProfile& phase) {
  return phase.measured > 0;
}

// Training goes first: a short look at a program may see more of its validation.
const PhaseProfile& main_phase(const Profile& profile) {
  for (const PhaseProfile& phase : profile.phases)
    if (plannable(phase) && phase.turn != outside) return phase;
  return profile.phases.front();
}

bool link_measured(const Profile& profile) {
  const auto measured = [&](bool to_device) {
    return std::any_of(profile.link.begin(), profile.link.end(),
                       [&](const LinkSample& sample) { return sample.to_device == to_device; });
  };
  return measured(true) && measured(false);
}

// The profile's plans for one cap after the other.
class Fitting {
 public:
  Fitting(const Profile& profile, const std::string& policy)
      : profile_(profile), phase_(main_phase(profile)), policy_(policy) {}

  Result<Fit> run(std::vector<std::uint64_t> caps, FunctionRef<void(std::size_t, std::size_t)> progress) {
    auto series = policy::PlanSeries::make(profile_, phase_.id, policy_, request());
    if (!series) return series.error();
    const auto everything = most_of_phases([&](const PhaseProfile& phase) { return in_core_cap(phase); });
    const auto least = most_of_phases([&](const PhaseProfile& phase) { return least_cap(phase); });
    if (!everything) return everything.error();
    if (!least) return least.error();
    Fit fit;
    fit.in_core = std::max(*everything, *least);
    fit.smallest = *least;
    fit.training = phase_.turn != outside;
    fit.fits = profile_.cap_bytes >= fit.in_core;
    const std::vector<std::uint64_t> shown = choose(std::move(caps), fit);
    for (const std::uint64_t cap : shown) {
      progress(fit.rows.size(), shown.size());
      const auto plan = plan_for(cap, *series, cap == profile_.cap_bytes || cap == fit.smallest);
      FitRow& row = fit.rows.emplace_back();
      row.cap = cap;
      if (!plan) continue;
      row.ms = plan->predicted_ms, row.in_core_ms = plan->in_core_ms, row.host_bytes = plan->host_bytes;
    }
    progress(shown.size(), shown.size());
    return fit;
  }

 private:
  policy::PlanRequest request() const {
    policy::PlanRequest request;
    request.bound = false;
    request.cap = request.memory = profile_.cap_bytes;
    return request;
  }

  // A cap has to do for all phases: what is left without a plan is slow.
  Result<std::uint64_t> most_of_phases(
      FunctionRef<Result<std::uint64_t>(const PhaseProfile&)> cap_for) const {
    std::uint64_t most = 0;
    for (const PhaseProfile& phase : profile_.phases) {
      if (!plannable(phase)) continue;
      const auto cap = cap_for(phase);
      if (!cap) return cap;
      most = std::max(most, *cap);
    }
    return most;
  }

  // So much that a plan keeps everything.
  Result<std::uint64_t> in_core_cap(const PhaseProfile& phase) const {
    policy::PlanRequest with = request();
    with.memory = std::uint64_t{1} << 60;
    const auto plan = policy::make_plan(profile_, phase.id, "keep", with);
    if (!plan) return plan.error();
    return cap_for_memory(plan->peak, profile_, phase);
  }

  // Whether the plan there has no layout. Then mapping memory takes longer than a plan knows.
  bool too_tight(std::uint64_t cap, const PhaseProfile& phase) const {
    const auto plan = make_placed_plan(profile_, request_for(cap, phase, /*effort=*/0));
    return !plan || (!plan->layout && knows_places(profile_, phase.id));
  }

  Result<std::uint64_t> least_cap(const PhaseProfile& phase) const {
    const auto series = policy::PlanSeries::make(profile_, phase.id, policy_, request());
    if (!series) return series.error();
    const auto least = series->least();
    if (!least) return least.error();
    std::uint64_t tight = cap_for_memory(*least, profile_, phase) - MiB, enough = tight;
    const std::uint64_t plenty = cap_for_memory(4 * profile_.need_bytes, profile_, phase);
    do enough += enough / 16;
    while (too_tight(enough, phase) && enough < plenty);
    while (enough - tight > enough / 128) {
      const std::uint64_t middle = tight + (enough - tight) / 2;
      (too_tight(middle, phase) ? tight : enough) = middle;
    }
    return whole_mib(enough);
  }

  PlacedRequest request_for(std::uint64_t cap, const PhaseProfile& phase, unsigned effort) const {
    const runtime::PlanRoom room = room_of(cap, profile_, phase);
    PlacedRequest request;
    request.phase = phase.id;
    request.policy = policy_;
    request.plan.memory = cap - std::min(cap, room.reserve);
    request.plan.bound = false;
    request.plan.effort = effort;
    request.room = room.room;
    return request;
  }

  std::vector<std::uint64_t> choose(std::vector<std::uint64_t> caps, const Fit& fit) const {
    std::set<std::uint64_t, std::greater<>> all{caps.begin(), caps.end()};
    const bool asked = !all.empty();
    all.insert({fit.in_core, fit.smallest});
    if (profile_.cap_bytes < fit.in_core) all.insert(profile_.cap_bytes);
    const auto near = [&](std::uint64_t cap) {
      return std::any_of(all.begin(), all.end(), [&](std::uint64_t other) {
        const auto [low, high] = std::minmax(cap, other);
        return static_cast<double>(high - low) < too_near * static_cast<double>(high);
      });
    };
    if (!asked)
      for (const int share : shown_shares)
        if (const std::uint64_t cap = whole_mib(fit.in_core / 100 * static_cast<std::uint64_t>(share));
            cap > fit.smallest && !near(cap))
          all.insert(cap);
    return {all.begin(), all.end()};
  }

  // `placed`: as the runtime will have it made. The others are near enough, and take a part of the time.
  Result<Plan> plan_for(std::uint64_t cap, policy::PlanSeries& series, bool placed) const {
    const PlacedRequest request = request_for(cap, phase_, /*effort=*/1);
    return placed ? make_placed_plan(profile_, request) : series.next(request.plan.memory);
  }

  const Profile& profile_;
  const PhaseProfile& phase_;  // the main one
  const std::string& policy_;
};

}  // namespace

std::uint64_t memory_for_plan(std::uint64_t cap, const Profile& profile, const PhaseProfile& phase) {
  return cap - std::min(cap, room_of(cap, profile, phase).reserve);
}

std::uint64_t cap_for_memory(std::uint64_t memory, const Profile& profile, const PhaseProfile& phase) {
  std::uint64_t enough = 2 * (memory + profile.outside_bytes) + GiB, too_little = 0;
  while (enough - too_little > MiB) {
    const std::uint64_t middle = too_little + (enough - too_little) / 2;
    (memory_for_plan(middle, profile, phase) >= memory ? enough : too_little) = middle;
  }
  return whole_mib(enough);
}

Result<Fit> fit(const Profile& profile, std::vector<std::uint64_t> caps, const std::string& policy,
                FunctionRef<void(std::size_t, std::size_t)> progress) {
  const auto refused = [](const char* why) { return Error{ErrorCode::invalid_argument, why}; };
  if (profile.phases.empty() || !plannable(main_phase(profile)))
    return refused("no iteration was timed: let the command run longer, eight iterations or more");
  if (!link_measured(profile))
    return refused("the link to the host was not measured: let the command run longer");
  return Fitting(profile, policy).run(std::move(caps), progress);
}

}  // namespace pooch::tools
