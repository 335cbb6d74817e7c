#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>

#include "policy/decide.h"
#include "tests/support/network_profile.h"
#include "tests/support/random_profile.h"

namespace pooch::policy {
namespace {

// What a device of that size leaves to a plan.
std::uint64_t usable(const test::Machine& machine) {
  return machine.memory_bytes - (std::uint64_t{600} << 20);
}
PlanRequest with_memory(std::uint64_t bytes) {
  PlanRequest request;
  request.memory = bytes;
  return request;
}
double overhead(const Plan& plan) {
  return plan.predicted_ms / plan.in_core_ms - 1;
}
std::array<int, 3> counts(const Plan& plan) {
  std::array<int, 3> of{};
  for (const PlanMap& map : plan.maps) ++of[static_cast<std::size_t>(map.of)];
  return of;
}
Plan planned(const Profile& profile, std::string_view policy, const PlanRequest& request) {
  Result<Plan> plan = make_plan(profile, "", policy, request);
  EXPECT_TRUE(plan) << policy << ": " << (plan ? "" : plan.error().message);
  return plan ? *plan : Plan{};
}
struct Range {
  std::uint64_t least, most;
};
// Of memory: from what swapping everything needs to what nothing leaves.
Range range_of(const Profile& profile) {
  const Result<Problem> problem = make_problem(profile, profile.phases[0]);
  EXPECT_TRUE(problem);
  Simulator simulator(*problem, Rules{});
  return {simulator.run(all(*problem, Class::swap)).peak, simulator.run(all(*problem, Class::keep)).peak};
}

TEST(Policies, AreNamedOnceAndDocumented) {
  std::map<std::string_view, int> seen;
  for (const PolicyInfo& info : policies()) {
    EXPECT_EQ(++seen[info.name], 1);
    EXPECT_FALSE(info.line.empty());
  }
  for (const char* name : {"keep", "swap-all-unscheduled", "swap-all", "swap-opt", "pooch", "superneurons",
                           "vdnn-all", "vdnn-conv", "vdnn-dyn", "lms", "lms-sync", "hybrid"}) {
    EXPECT_EQ(seen[name], 1) << name;
  }
}

TEST(Policies, AnUnknownNameIsAnErrorThatListsThem) {
  const Result<Plan> plan =
      make_plan(test::chain_profile(test::v100_pcie3(), 8, 3), "", "magic", with_memory(1 << 30));
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, ErrorCode::invalid_argument);
  EXPECT_NE(plan.error().message.find("no policy magic; there are keep, "), std::string::npos)
      << plan.error().message;
}

TEST(Policies, AnUnknownPhaseIsAnError) {
  EXPECT_FALSE(make_plan(test::chain_profile(test::v100_pcie3(), 8, 3), "abc", "keep", with_memory(1 << 30)));
}

TEST(Policies, ALinkThatCarriesNothingIsAnError) {
  for (const double rate : {0.0, -1.0}) {
    PlanRequest request = with_memory(1 << 30);
    request.link_in = rate;
    const Result<Plan> plan =
        make_plan(test::chain_profile(test::v100_pcie3(), 8, 3), "", "swap-all", request);
    ASSERT_FALSE(plan);
    EXPECT_EQ(plan.error().code, ErrorCode::invalid_argument);
  }
}

TEST(Policies, TooLittleMemoryNamesTheLeastThatWorks) {
  const Profile profile = test::resnet50_profile(test::v100_pcie3(), 32);
  for (const PolicyInfo& info : policies()) {
    PlanRequest request = with_memory(1 << 20);
    request.bound = false;
    const Result<Plan> refused = make_plan(profile, "", info.name, request);
    ASSERT_FALSE(refused) << info.name;
    EXPECT_EQ(refused.error().code, ErrorCode::out_of_memory);
    const std::string says = "needs at least ";
    const std::size_t at = refused.error().message.find(says);
    ASSERT_NE(at, std::string::npos) << refused.error().message;
    request.memory = std::stoull(refused.error().message.substr(at + says.size()));
    EXPECT_TRUE(make_plan(profile, "", info.name, request)) << info.name;
    request.memory -= granularity;
    EXPECT_FALSE(make_plan(profile, "", info.name, request)) << info.name;
  }
}

TEST(Policies, AnEqualRequestGivesAnEqualPlan) {
  const Profile profile = test::resnet50_profile(test::v100_pcie3(), 384);
  for (const char* policy : {"pooch", "hybrid"}) {
    const PlanRequest request = with_memory(usable(test::v100_pcie3()));
    EXPECT_EQ(to_json(planned(profile, policy, request)), to_json(planned(profile, policy, request)));
  }
}

// Every plan is one that the reader accepts, within its memory, and no faster than the bound.
TEST(Policies, MakeValidPlansForMadeUpNetworks) {
  int plans = 0;
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    const Profile profile = test::random_profile(40 + 9 * seed, seed);
    const Result<Problem> problem = make_problem(profile, profile.phases[0]);
    ASSERT_TRUE(problem);
    if (problem->maps.empty()) continue;
    const Range range = range_of(profile);
    const PlanRequest request = with_memory(range.least + (range.most - range.least) / 3);
    double hybrid = 0, best = 1e300;
    for (const PolicyInfo& info : policies()) {
      const Result<Plan> plan = make_plan(profile, "", info.name, request);
      if (!plan) {
        EXPECT_EQ(plan.error().code, ErrorCode::out_of_memory) << plan.error().message;
        EXPECT_NE(info.name, "hybrid") << seed << ": " << plan.error().message;
        continue;
      }
      ++plans;
      EXPECT_LE(plan->peak, request.memory) << info.name << seed;
      ASSERT_TRUE(plan->bound_ms);
      EXPECT_LE(*plan->bound_ms, plan->predicted_ms + 1e-6) << info.name << seed;
      EXPECT_GE(*plan->bound_ms, plan->in_core_ms - 1e-6);
      const Result<Plan> again = plan_from_json(to_json(*plan));
      ASSERT_TRUE(again) << info.name << seed << again.error().message;
      (info.name == "hybrid" ? hybrid : best) =
          info.name == "hybrid" ? plan->predicted_ms : std::min(best, plan->predicted_ms);
    }
    EXPECT_LE(hybrid, best + 1e-6) << seed;
  }
  EXPECT_GT(plans, 100);
}

// All 3^n choices of whole maps.
double oracle_us(const Problem& problem, const Rules& rules) {
  Simulator simulator(problem, rules);
  Choice choice = all(problem, Class::keep);
  double best = 1e300;
  for (;;) {
    const Outcome outcome = simulator.run(choice);
    if (outcome.feasible()) best = std::min(best, outcome.us);
    std::size_t m = 0;
    for (; m < choice.of.size(); ++m) {
      const int next = (static_cast<int>(choice.of[m]) + 1) % (problem.maps[m].droppable ? 3 : 2);
      choice.of[m] = static_cast<Class>(next);
      if (next != 0) break;
    }
    if (m == choice.of.size()) return best;
  }
}

TEST(Hybrid, IsWithinFivePercentOfTheOracleOnSmallChains) {
  for (const int channels : {16, 64, 192}) {
    const Profile profile = test::chain_profile(test::v100_pcie3(), 64, 9, channels);
    const Result<Problem> problem = make_problem(profile, profile.phases[0]);
    ASSERT_TRUE(problem);
    ASSERT_LE(problem->maps.size(), 10u);
    const Range range = range_of(profile);
    for (const int share : {0, 1, 2, 3}) {
      Rules rules;
      rules.cap = range.least + (range.most - range.least) * share / 4;
      Question question{*problem, rules, 0};
      const Decision decision = hybrid(question);
      const Outcome outcome = Simulator(*problem, decision.rules).run(decision.choice);
      ASSERT_TRUE(outcome.feasible());
      EXPECT_LE(outcome.us, 1.05 * oracle_us(*problem, rules)) << channels << " channels, share " << share;
    }
  }
}

struct Case {
  const char* name;
  Profile profile;
  std::uint64_t memory;
  double most;  // overhead
};

TEST(Hybrid, StaysWithinItsLimits) {
  const test::Machine pcie = test::v100_pcie3(), nvlink = test::v100_nvlink2(), titan = test::titanx();
  const Case cases[] = {
      {"resnet50 512 pcie", test::resnet50_profile(pcie, 512), usable(pcie), 0.09},
      {"resnet50 640 pcie", test::resnet50_profile(pcie, 640), usable(pcie), 0.11},
      {"resnet50 1024 pcie", test::resnet50_profile(pcie, 1024), usable(pcie), 0.25},
      {"resnet50 640 nvlink", test::resnet50_profile(nvlink, 640), usable(nvlink), 0.02},
      {"resnet50 1152 nvlink", test::resnet50_profile(nvlink, 1152), usable(nvlink), 0.04},
      {"vgg16 256 titanx", test::vgg16_profile(titan, 256), usable(titan), 0.03},
      {"alexnet 2688 pcie", test::alexnet_profile(pcie, 2688), usable(pcie), 0.03},
      {"resnext101-3d pcie", test::resnext101_3d_profile(pcie, 1, 448, 224, 256), usable(pcie), 0.05},
  };
  for (const Case& each : cases) {
    const Plan plan = planned(each.profile, "hybrid", with_memory(each.memory));
    EXPECT_LE(overhead(plan), each.most) << each.name;
    EXPECT_LE(plan.peak, each.memory) << each.name;
    EXPECT_LE(*plan.bound_ms, plan.predicted_ms) << each.name;
    for (const char* other : {"pooch", "superneurons", "vdnn-dyn", "swap-opt", "swap-all"}) {
      PlanRequest request = with_memory(each.memory);
      request.bound = false;
      const Result<Plan> theirs = make_plan(each.profile, "", other, request);
      if (!theirs) continue;
      EXPECT_LE(plan.predicted_ms, theirs->predicted_ms + 1e-6) << each.name << " " << other;
    }
  }
}

TEST(Hybrid, MoreMemoryOrAFasterLinkIsNotWorse) {
  const Profile profile = test::resnet50_profile(test::v100_pcie3(), 384);
  double before = 1e300;
  for (const int gib : {8, 11, 14}) {
    const double ms = planned(profile, "hybrid", with_memory(std::uint64_t(gib) << 30)).predicted_ms;
    EXPECT_LE(ms, before * 1.02) << gib;
    before = ms;
  }
  before = 1e300;
  for (const double rate : {6e9, 12e9, 65e9}) {
    PlanRequest request = with_memory(std::uint64_t{10} << 30);
    request.link_in = request.link_out = rate;
    const double ms = planned(profile, "hybrid", request).predicted_ms;
    EXPECT_LE(ms, before * 1.02) << rate;
    before = ms;
  }
}

TEST(Hybrid, KeepsEverythingWhereItFits) {
  const Plan plan = planned(test::resnet50_profile(test::v100_pcie3(), 64), "hybrid",
                            with_memory(usable(test::v100_pcie3())));
  EXPECT_EQ(plan.predicted_ms, plan.in_core_ms);
  EXPECT_TRUE(plan.before.empty());
  EXPECT_TRUE(plan.after.empty());
}

// PooCH, figure 17: 1.40 to 1.73 times the speed of superneurons, which has not enough memory for 640.
TEST(Pooch, IsFasterThanSuperneuronsAsPublished) {
  const std::uint64_t memory = usable(test::v100_pcie3());
  for (const int batch : {256, 384, 512}) {
    const Profile profile = test::resnet50_profile(test::v100_pcie3(), batch);
    const double ratio = planned(profile, "superneurons", with_memory(memory)).predicted_ms /
                         planned(profile, "pooch", with_memory(memory)).predicted_ms;
    EXPECT_GE(ratio, 1.3) << batch;
    EXPECT_LE(ratio, 1.9) << batch;
  }
  const Profile large = test::resnet50_profile(test::v100_pcie3(), 640);
  EXPECT_FALSE(make_plan(large, "", "superneurons", with_memory(memory)));
  EXPECT_TRUE(make_plan(large, "", "pooch", with_memory(memory)));
}

// PooCH, table 3: on the slower link more maps are recomputed, and fewer swapped.
TEST(Pooch, RecomputesMoreOnASlowerLink) {
  const auto pcie = counts(planned(test::resnet50_profile(test::v100_pcie3(), 512), "pooch",
                                   with_memory(usable(test::v100_pcie3()))));
  const auto nvlink = counts(planned(test::resnet50_profile(test::v100_nvlink2(), 512), "pooch",
                                     with_memory(usable(test::v100_nvlink2()))));
  EXPECT_GT(pcie[2], nvlink[2] + 10);
  EXPECT_LT(pcie[1], nvlink[1]);
}

// PooCH, figure 15: each optimisation makes it faster.
TEST(Pooch, EachOfItsStepsIsFasterThanTheOneBefore) {
  const Profile profile = test::resnet50_profile(test::v100_pcie3(), 512);
  double before = 1e300;
  for (const char* policy : {"swap-all-unscheduled", "swap-all", "swap-opt", "pooch", "hybrid"}) {
    const double ms = planned(profile, policy, with_memory(usable(test::v100_pcie3()))).predicted_ms;
    EXPECT_LT(ms, before) << policy;
    before = ms;
  }
}

TEST(Lms, SyncIsSlowerAndNeedsLess) {
  const Profile profile = test::resnet50_profile(test::v100_pcie3(), 256);
  const Plan async = planned(profile, "lms", with_memory(usable(test::v100_pcie3())));
  const Plan sync = planned(profile, "lms-sync", with_memory(usable(test::v100_pcie3())));
  EXPECT_GT(sync.predicted_ms, async.predicted_ms);
  EXPECT_LT(sync.peak, async.peak);
}

TEST(Vdnn, ConvIsFasterThanAllAndNeedsMore) {
  const Profile profile = test::vgg16_profile(test::titanx(), 128);
  const Plan everything = planned(profile, "vdnn-all", with_memory(usable(test::titanx())));
  const Plan convolutions = planned(profile, "vdnn-conv", with_memory(usable(test::titanx())));
  const Plan chosen = planned(profile, "vdnn-dyn", with_memory(usable(test::titanx())));
  EXPECT_LE(convolutions.predicted_ms, everything.predicted_ms);
  EXPECT_GE(convolutions.peak, everything.peak);
  EXPECT_LE(chosen.predicted_ms, convolutions.predicted_ms);
}

TEST(Plans, SayWhyAndWhatTheAlternativeWouldCost) {
  const Plan plan = planned(test::resnet50_profile(test::v100_pcie3(), 512), "hybrid",
                            with_memory(usable(test::v100_pcie3())));
  int with_alternative = 0;
  for (const PlanMap& map : plan.maps) {
    EXPECT_FALSE(map.why.empty()) << map.name;
    EXPECT_GE(map.cost_ms, 0);
    if (!map.alternative_cost_ms) continue;
    ++with_alternative;
    EXPECT_NE(map.alternative, map.of);
  }
  EXPECT_GT(with_alternative, 50);
}

}  // namespace
}  // namespace pooch::policy
