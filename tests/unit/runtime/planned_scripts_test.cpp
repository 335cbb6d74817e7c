// What the planner makes, the runtime follows: two workings of the same rules that share no code.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>

#include "policy/decide.h"
#include "runtime/script/script.h"
#include "tests/support/network_profile.h"
#include "tests/support/outliving.h"
#include "tests/support/random_profile.h"

namespace pooch {
namespace {

struct Tally {
  int plans = 0, replaying = 0, brief = 0, in_pieces = 0, substituting = 0, through = 0;
  std::map<std::string, int> refused;
};

std::uint64_t need_of(const policy::Problem& problem, policy::Class of, std::uint64_t cap) {
  policy::Rules rules;
  rules.cap = cap;
  return policy::Simulator(problem, rules).run(policy::all(problem, of)).peak;
}

// Under caps from what keeping everything needs down to what swapping everything does.
void plan_and_compile(const Profile& profile, const PhaseProfile& phase, const std::string& what,
                      std::initializer_list<const char*> policies, Tally& tally) {
  const auto problem = policy::make_problem(profile, phase);
  if (!problem || problem->maps.empty()) return;
  const std::uint64_t least = need_of(*problem, policy::Class::swap, 0),
                      most = need_of(*problem, policy::Class::keep, 0);
  const PhaseProfile mine = test::with_operands(phase);
  for (const char* policy : policies) {
    for (const std::uint64_t eighth : {0, 1, 3, 6}) {
      policy::PlanRequest request;
      request.memory = least + (most - least) * eighth / 8;
      request.bound = false;
      const auto plan = policy::make_plan(profile, phase.id, policy, request);
      if (!plan) continue;
      ++tally.plans;
      tally.replaying += std::any_of(plan->maps.begin(), plan->maps.end(),
                                     [](const PlanMap& map) { return map.of == MapClass::recompute; });
      tally.brief +=
          std::any_of(plan->maps.begin(), plan->maps.end(), [](const PlanMap& map) { return map.brief; });
      tally.in_pieces += std::any_of(plan->before.begin(), plan->before.end(), [](const auto& before) {
        return std::any_of(before.second.begin(), before.second.end(),
                           [](const PlanAction& action) { return action.up_to > 0; });
      });
      bool substituting = false, through = false;
      for (const auto& [position, actions] : plan->before) {
        for (const PlanAction& action : actions) {
          substituting |= action.formula.has_value();
          through |= action.formula && phase.ops[action.subject].substitute->through != outside;
        }
      }
      tally.substituting += substituting;
      tally.through += through;
      const auto read = plan_from_json(to_json(*plan));
      ASSERT_TRUE(read) << what << policy << ": " << read.error().message;
      const auto script = runtime::Script::compile(*read, mine, 0);
      if (!script) ++tally.refused[what + " " + policy + ": " + script.error().message];
    }
  }
}

TEST(PlannedScripts, OfMadeUpNetworksAreAllFollowed) {
  const char* const wanted = std::getenv("PLANNED_SCRIPTS_SEEDS");
  const std::uint64_t seeds = wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : 24;
  Tally tally;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    const Profile profile = test::random_profile(30 + 5 * (seed % 24), seed);
    for (const PhaseProfile& phase : profile.phases)
      plan_and_compile(profile, phase, fmt::format("seed {}", seed),
                       {"hybrid", "pooch", "superneurons", "swap-all", "vdnn-dyn"}, tally);
  }
  for (const auto& [why, times] : tally.refused) ADD_FAILURE() << why << " (" << times << ")";
  EXPECT_GT(tally.plans, 100);
  EXPECT_GT(tally.replaying, 20);
  EXPECT_GT(tally.brief, 5);
  EXPECT_GT(tally.in_pieces, 5);
}

// Batch norms can be made again in less time; where a ReLU follows in place, with that.
void add_substitutes(PhaseProfile& phase) {
  for (ProfileOp& op : phase.ops) {
    if (op.kind != OpKind::batch_norm_forward) continue;
    ProfileSubstitute by{op.reads, op.writes, outside, Clip::none, Formula::one_fma, op.us * 2 / 3};
    const ProfileVersion& made = phase.versions[op.writes[0]];
    const std::int32_t reader = made.readers.size() == 1 ? made.readers[0] : outside;
    if (reader != outside && phase.ops[reader].mode == "relu" && phase.ops[reader].writes.size() == 1 &&
        phase.versions[phase.ops[reader].writes[0]].buffer == made.buffer)
      by.makes = phase.ops[reader].writes, by.through = reader, by.clip = Clip::keeps_nan;
    op.substitute = std::move(by);
  }
}

TEST(PlannedScripts, WithSubstitutesAreAllFollowed) {
  Tally tally;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    Profile profile = test::random_profile(60 + 10 * seed, seed);
    for (PhaseProfile& phase : profile.phases) {
      add_substitutes(phase);
      plan_and_compile(profile, phase, fmt::format("seed {}", seed), {"hybrid", "superneurons"}, tally);
    }
  }
  Profile resnet = test::resnet_profile(test::v100_pcie3(), 64, {1, 1, 1, 1});
  add_substitutes(resnet.phases[0]);
  plan_and_compile(resnet, resnet.phases[0], "resnet", {"hybrid", "superneurons"}, tally);
  for (const auto& [why, times] : tally.refused) ADD_FAILURE() << why << " (" << times << ")";
  EXPECT_GT(tally.substituting, 10);
  EXPECT_GT(tally.through, 5);
}

// Less memory than what outlives an iteration and pauses for longest leaves room for.
TEST(PlannedScripts, WithOtherPausesAreAllFollowed) {
  int plans = 0, replaying = 0;
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    Profile profile = test::random_profile(40 + 6 * seed, seed);
    test::add_what_outlives(profile, seed);
    const PhaseProfile& phase = profile.phases[0];
    const auto problem_for = [&](std::uint64_t memory) {
      return *policy::make_problem(profile, phase, {}, policy::Movers::everything, memory);
    };
    const std::uint64_t usual = need_of(problem_for(~std::uint64_t{0}), policy::Class::swap, 0),
                        less = need_of(problem_for(usual * 3 / 4), policy::Class::swap, 0);
    policy::PlanRequest request;
    request.memory = (usual + less) / 2;
    request.bound = false;
    const auto plan = policy::make_plan(profile, phase.id, "hybrid", request);
    if (less == usual || !plan) continue;
    ++plans;
    replaying += std::any_of(plan->maps.begin(), plan->maps.end(),
                             [](const PlanMap& map) { return map.of == MapClass::recompute; });
    const auto script = runtime::Script::compile(*plan, test::with_operands(phase), 0);
    EXPECT_TRUE(script) << seed << ": " << script.error().message;
  }
  EXPECT_GT(plans, 4);
  EXPECT_GT(replaying, 2);
}

TEST(PlannedScripts, OfWellKnownNetworksAreAllFollowed) {
  Tally tally;
  const test::Machine machine = test::v100_pcie3();
  for (const Profile& profile : {test::resnet_profile(machine, 64, {1, 1, 1, 1}),
                                 test::vgg16_profile(machine, 32), test::alexnet_profile(machine, 128),
                                 test::googlenet_profile(machine, 64), test::chain_profile(machine, 64, 12)})
    plan_and_compile(profile, profile.phases[0], profile.phases[0].id, {"hybrid", "superneurons", "swap-all"},
                     tally);
  for (const auto& [why, times] : tally.refused) ADD_FAILURE() << why << " (" << times << ")";
  EXPECT_GT(tally.replaying, 10);
}

}  // namespace
}  // namespace pooch
