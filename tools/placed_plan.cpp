#include "placed_plan.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/pages.h"
#include "runtime/script/layout.h"
#include "runtime/script/places.h"
#include "runtime/script/script.h"

namespace pooch::tools {
namespace {

using runtime::PlacedPhase;

// What the host needs to map a frame anew: an H200 takes 50 us for unmap, map and access on an idle device,
// and 1 ms beside copies to the host (docs/decisions/0079), which are under way most of the time.
constexpr double move_us = 1000;
// Of an iteration. A plan for a little less memory costs less than the device waiting longer, or the host
// mapping longer. The first layouts must do with less than those after them; what comes then is taken as it
// is.
struct Patience {
  double waits, mapping;
};
constexpr Patience at_first{0.003, 0.002}, later{0.05, 0.5};
constexpr int first_layouts = 3, all_layouts = 6;  // of those that are given up for that
constexpr int most_plans = 9;
// A plan that takes so many times as long as the one for all memory is no better than one without a layout.
constexpr double most_for_layout = 2;
// Frames are mapped ahead of need, while the device works: the share of that time that an iteration is
// longer.
constexpr double seen_of_mapping = 0.3;
// Of the memory, what plans leave free where several phases share a layout: what outlives their iterations
// has one place for all, and everything else must fit around it.
constexpr std::uint64_t shared_slack = 24;  // one part of so many
// Room beside what a layout is known to lack: another plan loses a little elsewhere.
constexpr std::uint64_t most_slack = 16 * MiB, least_slack = 4 * MiB;
constexpr std::uint64_t slack_share = 512;  // one part of so many, between these

// Layouts of one profile for plans of some of its phases.
class LayoutMaker {
 public:
  LayoutMaker(const Profile& profile, std::uint64_t room) : profile_(profile), room_(room) {}

  struct Found {
    PlanLayout made;
    std::uint64_t lacks = 0;  // bytes
    double duration_us = 0;   // of one iteration of each phase
  };
  Result<Found> find(std::vector<const Plan*> plans) const {
    std::sort(plans.begin(), plans.end(), [](const Plan* a, const Plan* b) { return a->phase < b->phase; });
    std::vector<runtime::Script> scripts;
    std::vector<PlacedPhase> phases;
    Found found;
    for (const Plan* plan : plans) {
      const PhaseProfile* const phase = phase_of(*plan);
      if (phase == nullptr) return wrong("the profile has no phase " + plan->phase);
      auto script = runtime::Script::compile(*plan, *phase, out_us_per_byte(profile_.link));
      if (!script) return script.error();
      scripts.push_back(std::move(*script));
      found.made.phases.push_back(plan->phase);
    }
    for (std::size_t i = 0; i < plans.size(); ++i) {
      PlacedPhase& placed = phases.emplace_back(PlacedPhase{&scripts[i], phase_of(*plans[i]), {}});
      for (const ProfileBuffer& buffer : placed.profile->buffers) placed.ranges.push_back(buffer.ranges);
    }
    lay_out(phases, found);
    return found;
  }

 private:
  static Error wrong(std::string why) { return {ErrorCode::invalid_argument, std::move(why)}; }
  const PhaseProfile* phase_of(const Plan& plan) const {
    const auto found = std::find_if(profile_.phases.begin(), profile_.phases.end(),
                                    [&](const PhaseProfile& phase) { return phase.id == plan.phase; });
    return found == profile_.phases.end() ? nullptr : &*found;
  }
  void lay_out(const std::vector<PlacedPhase>& phases, Found& found) const {
    std::vector<ProfileRange> ranges = profile_.ranges;
    runtime::add_slots(phases, ranges);
    const auto places = runtime::places_of(phases, ranges, profile_.cap_bytes);
    const std::uint64_t beside = runtime::bytes_beside(places, phases, ranges);
    const std::uint64_t room = room_ - std::min(room_, beside);
    PlanLayout& made = found.made;
    made.items = runtime::items_of(places, phases);
    made.at_once = runtime::most_at_once(made.items);
    found.duration_us = runtime::duration_us(phases);
    // What no layout can do with is not looked for.
    if (made.at_once <= room) made.layout = runtime::lay_out(made.items, room, move_us);
    const std::uint64_t needs = std::max(made.at_once, made.layout.bytes());
    found.lacks = needs - std::min(needs, room);
    for (LayoutItem& item : made.items)
      for (LayoutSpan& span : item.held) span.start_us = span.free_us = 0;
  }

  const Profile& profile_;
  const std::uint64_t room_;
};

// Looks for a plan with a layout: where one lacks memory, or takes too long, the next is for less.
class PlacedSearch {
 public:
  PlacedSearch(const Profile& profile, const PlacedRequest& request)
      : profile_(profile),
        request_(request),
        room_(request.room > 0 ? request.room : request.plan.memory),
        maker_(profile, room_) {}

  Result<Plan> run() {
    policy::PlanRequest asked = request_.plan;
    asked.cap = profile_.cap_bytes;
    auto series = policy::PlanSeries::make(profile_, request_.phase, request_.policy, asked);
    if (!series) return series.error();
    std::optional<Plan> best;  // of those that fit
    double best_us = 0;
    double whole_ms = 0;  // predicted with all memory
    for (int tried = 0, wasteful = 0; tried < most_plans; ++tried) {
      auto plan = series->next(asked.memory);
      if (!plan && tried == 0) return plan;
      if (!plan) break;
      if (tried == 0) whole_ms = plan->predicted_ms;
      if (plan->predicted_ms > most_for_layout * whole_ms) break;
      if (best && plan->predicted_ms * 1e3 > best_us) break;  // nor will less memory do better
      const auto found = maker_.find(together_with(*plan));
      if (!found) return found.error();
      if (found->lacks == 0) {
        plan->layout = found->made;
        plan->cap = request_.plan.memory;  // what is left of that is its layout's
        const double us = expected_us(*plan, found->made.layout);
        if (!best || us < best_us) {
          best = std::move(*plan);
          best_us = us;
        }
        if (!takes_too_long(*found, wasteful++)) break;
      }
      const std::uint64_t slack = std::clamp(room_ / slack_share, least_slack, most_slack),
                          less = (found->lacks > 0 ? found->lacks : room_ / 64) + slack;
      if (less >= asked.memory) break;
      asked.memory -= less;
    }
    if (best) return std::move(*best);
    asked = request_.plan;
    asked.placed = false;
    return policy::make_plan(profile_, request_.phase, request_.policy, asked);
  }

  Result<Plan> follow() const {
    Plan plan = *request_.follow;
    const auto found = maker_.find(together_with(plan));
    if (!found) return found.error();
    plan.layout.reset();
    if (found->lacks == 0) plan.layout = found->made;
    return plan;
  }

 private:
  std::vector<const Plan*> together_with(const Plan& plan) const {
    std::vector<const Plan*> all{&plan};
    for (const Plan& other : request_.beside) all.push_back(&other);
    return all;
  }
  static double expected_us(const Plan& plan, const Layout& layout) {
    return plan.predicted_ms * 1e3 + layout.wait_us +
           seen_of_mapping * move_us * static_cast<double>(layout.moves);
  }
  static bool takes_too_long(const LayoutMaker::Found& found, int wasteful) {
    if (wasteful >= all_layouts) return false;
    const Patience most = wasteful < first_layouts ? at_first : later;
    const Layout& layout = found.made.layout;
    return layout.wait_us > most.waits * found.duration_us ||
           static_cast<double>(layout.moves) * move_us > most.mapping * found.duration_us;
  }

  const Profile& profile_;
  const PlacedRequest& request_;
  const std::uint64_t room_;
  LayoutMaker maker_;
};

}  // namespace

bool knows_places(const Profile& profile, const std::string& phase) {
  for (const PhaseProfile& each : profile.phases) {
    if (!phase.empty() && each.id != phase) continue;
    return std::any_of(each.buffers.begin(), each.buffers.end(),
                       [](const ProfileBuffer& buffer) { return !buffer.ranges.empty(); });
  }
  return false;
}

Result<Plan> make_placed_plan(const Profile& profile, const PlacedRequest& request) {
  if (request.follow) return PlacedSearch(profile, request).follow();
  const auto make = [&](const PlacedRequest& asked) {
    if (asked.plan.placed && knows_places(profile, asked.phase)) return PlacedSearch(profile, asked).run();
    return policy::make_plan(profile, asked.phase, asked.policy, asked.plan);
  };
  if (request.plan.placed && profile.phases.size() > 1) {
    PlacedRequest less = request;
    if (less.room == 0) less.room = less.plan.memory;
    less.plan.memory -= less.plan.memory / shared_slack;
    if (auto plan = make(less)) {
      plan->cap = request.plan.memory;
      return plan;
    }
  }
  return make(request);
}

}  // namespace pooch::tools
