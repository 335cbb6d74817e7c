#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <string>
#include <tuple>

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
// Made once: a plan for all the memory of its machine takes a while.
const Plan& resnet50_plan(const test::Machine& machine, int batch, std::string_view policy) {
  static std::map<std::tuple<std::string, int, std::string>, Plan> plans;
  const auto [at, is_new] = plans.try_emplace({machine.name, batch, std::string(policy)});
  if (is_new) {
    at->second = planned(test::resnet50_profile(machine, batch), policy, with_memory(usable(machine)));
  }
  return at->second;
}
// One block in each of the four stages.
Profile small_residual_profile(int batch) {
  return test::resnet_profile(test::v100_pcie3(), batch, {1, 1, 1, 1});
}
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
  const Profile profile = small_residual_profile(32);
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
  const Profile profile = small_residual_profile(384);
  const Range range = range_of(profile);
  for (const char* policy : {"pooch", "hybrid"}) {
    const PlanRequest request = with_memory(range.least + (range.most - range.least) / 4);
    EXPECT_EQ(to_json(planned(profile, policy, request)), to_json(planned(profile, policy, request)));
  }
}

// What a plan expects of its engines: each does one thing after the other, within the iteration, and a map
// comes back when it has left.
void expect_sound_times(const Plan& plan, const std::string& name) {
  constexpr double rounding_us = 0.11;  // times are written with one decimal
  const double end_us = plan.predicted_ms * 1e3 + rounding_us;
  std::map<std::uint32_t, double> left_us;
  const auto follow = [&](const PlanAction& action, double& free_us) {
    ASSERT_TRUE(action.time) << name;
    EXPECT_GE(action.time->at_us, free_us - rounding_us) << name;
    EXPECT_GE(action.time->takes_us, 0) << name;
    free_us = action.time->end_us();
  };
  double out_us = 0, in_us = 0, compute_us = 0;
  for (const auto& [position, actions] : plan.after)
    for (const PlanAction& action : actions)
      if (action.kind == PlanAction::Kind::evict) {
        follow(action, out_us);
        left_us[action.subject] = out_us;
      } else {
        EXPECT_FALSE(action.time) << name;
      }
  for (const auto& [position, actions] : plan.before)
    for (const PlanAction& action : actions)
      if (action.kind == PlanAction::Kind::prefetch) {
        EXPECT_GE(action.time->at_us, left_us.at(action.subject) - rounding_us) << name;
        follow(action, in_us);
      } else {
        follow(action, compute_us);
      }
  compute_us = 0;
  for (const auto& [position, us] : plan.starts_us) {
    EXPECT_GT(us, compute_us) << name;
    compute_us = us;
    const auto before = plan.before.find(position);
    if (before == plan.before.end()) continue;
    for (const PlanAction& action : before->second) {
      if (action.kind == PlanAction::Kind::replay) {
        EXPECT_GE(us, action.time->end_us() - rounding_us) << name;
      }
    }
  }
  EXPECT_LE(std::max(in_us, compute_us), end_us) << name;
}

// Every plan is one that the reader accepts, within its memory, and no faster than the bound.
TEST(Policies, MakeValidPlansForMadeUpNetworks) {
  int plans = 0;
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    const Profile profile = test::random_profile(30 + 4 * seed, seed);
    const Result<Problem> problem = make_problem(profile, profile.phases[0]);
    ASSERT_TRUE(problem);
    if (problem->maps.empty()) continue;
    const Range range = range_of(profile);
    PlanRequest request = with_memory(range.least + (range.most - range.least) / 3);
    const Plan ours = planned(profile, "hybrid", request);
    ASSERT_TRUE(ours.bound_ms);
    EXPECT_GE(*ours.bound_ms, ours.in_core_ms - 1e-6);
    request.bound = false;  // it is the same for all
    for (const PolicyInfo& info : policies()) {
      const bool is_ours = info.name == "hybrid";
      const Result<Plan> plan = is_ours ? ours : make_plan(profile, "", info.name, request);
      if (!plan) {
        EXPECT_EQ(plan.error().code, ErrorCode::out_of_memory) << plan.error().message;
        continue;
      }
      ++plans;
      EXPECT_LE(plan->peak, request.memory) << info.name << seed;
      EXPECT_LE(*ours.bound_ms, plan->predicted_ms + 1e-6) << info.name << seed;
      EXPECT_LE(ours.predicted_ms, plan->predicted_ms + 1e-6) << info.name << seed;
      const Result<Plan> again = plan_from_json(to_json(*plan));
      ASSERT_TRUE(again) << info.name << seed << again.error().message;
      expect_sound_times(*again, fmt::format("{} {}", info.name, seed));
    }
  }
  EXPECT_GT(plans, 100);
}

// As `most` says: of overhead. Never worse than another policy.
void expect_limit(const std::string& name, const Plan& plan, double most,
                  const std::function<Result<Plan>(const char*)>& other) {
  EXPECT_LE(overhead(plan), most) << name;
  EXPECT_LE(plan.peak, plan.cap) << name;
  EXPECT_LE(*plan.bound_ms, plan.predicted_ms) << name;
  for (const char* policy : {"pooch", "superneurons", "vdnn-dyn", "swap-opt", "swap-all"}) {
    const Result<Plan> theirs = other(policy);
    if (!theirs) continue;
    EXPECT_LE(plan.predicted_ms, theirs->predicted_ms + 1e-6) << name << " " << policy;
  }
}

TEST(Hybrid, StaysWithinItsLimitsForResNet) {
  struct Case {
    test::Machine machine;
    int batch;
    double most;
  };
  const test::Machine pcie = test::v100_pcie3(), nvlink = test::v100_nvlink2();
  for (const Case& each : {Case{pcie, 512, 0.09}, Case{pcie, 640, 0.11}, Case{pcie, 1024, 0.25},
                           Case{nvlink, 640, 0.02}, Case{nvlink, 1152, 0.04}}) {
    const Profile profile = test::resnet50_profile(each.machine, each.batch);
    PlanRequest request = with_memory(usable(each.machine));
    request.bound = false;
    expect_limit("resnet50 " + std::to_string(each.batch) + " " + each.machine.name,
                 resnet50_plan(each.machine, each.batch, "hybrid"), each.most,
                 [&](const char* policy) { return make_plan(profile, "", policy, request); });
  }
}

TEST(Hybrid, StaysWithinItsLimitsForOtherNetworks) {
  struct Case {
    const char* name;
    test::Machine machine;
    Profile profile;
    double most;
  };
  const test::Machine pcie = test::v100_pcie3(), titan = test::titanx();
  const Case cases[] = {
      {"vgg16 256", titan, test::vgg16_profile(titan, 256), 0.03},
      {"alexnet 2688", pcie, test::alexnet_profile(pcie, 2688), 0.03},
      {"resnext101-3d", pcie, test::resnext101_3d_profile(pcie, 1, 448, 224, 256), 0.05},
  };
  for (const Case& each : cases) {
    PlanRequest request = with_memory(usable(each.machine));
    const Plan plan = planned(each.profile, "hybrid", request);
    request.bound = false;
    expect_limit(each.name, plan, each.most,
                 [&](const char* policy) { return make_plan(each.profile, "", policy, request); });
  }
}

// One search may end a fifth above another where memory is very short.
TEST(Hybrid, SearchesOnWhileTheBoundIsFar) {
  int far = 0;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const Profile profile = test::random_profile(60 + 8 * seed, seed);
    const Range range = range_of(profile);
    PlanRequest request = with_memory(range.least + (range.most - range.least) / 20);
    const Plan usual = planned(profile, "hybrid", request);
    if (usual.predicted_ms <= 1.06 * *usual.bound_ms) continue;
    request.effort = 4;
    EXPECT_LE(usual.predicted_ms, planned(profile, "hybrid", request).predicted_ms + 1e-6) << seed;
    ++far;
  }
  EXPECT_GT(far, 3);
}

// The next search starts where the last one ended, with as much less memory as a layout may ask for.
TEST(PlanSeries, LooksForLessMemoryNearThePlanBefore) {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    const Profile profile = test::random_profile(60 + 8 * seed, seed);
    const Range range = range_of(profile);
    const std::uint64_t width = range.most - range.least;
    auto series = PlanSeries::make(profile, "", "hybrid", with_memory(range.most));
    ASSERT_TRUE(series);
    for (const std::uint64_t part : {width / 2, width / 3, width / 4}) {
      const Result<Plan> near = series->next(range.least + part);
      ASSERT_TRUE(near) << seed;
      const Plan afresh = planned(profile, "hybrid", with_memory(range.least + part));
      EXPECT_LE(near->peak, range.least + part) << seed;
      EXPECT_EQ(near->cap, range.least + part);
      EXPECT_LE(near->predicted_ms, 1.02 * afresh.predicted_ms) << seed;
      EXPECT_NEAR(*near->bound_ms, *afresh.bound_ms, 1e-3) << seed;
    }
    EXPECT_FALSE(series->next(1)) << seed;
  }
}

TEST(Hybrid, MoreMemoryOrAFasterLinkIsNotWorse) {
  const Profile profile = small_residual_profile(384);
  const Range range = range_of(profile);
  const auto share = [&](double of) {
    const auto width = static_cast<double>(range.most - range.least);
    return with_memory(range.least + static_cast<std::uint64_t>(of * width));
  };
  double before = 1e300;
  for (const double of : {0.05, 0.2, 0.5, 0.8}) {
    const double ms = planned(profile, "hybrid", share(of)).predicted_ms;
    EXPECT_LE(ms, before * 1.02) << of;
    before = ms;
  }
  before = 1e300;
  for (const double rate : {6e9, 12e9, 65e9}) {
    PlanRequest request = share(0.2);
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

// PooCH, figure 17: 1.40 to 1.73 times the speed of superneurons, which has not enough memory for 640. At 256
// it depends on the last GiB whether superneurons must swap the large maps at all.
TEST(Pooch, IsFasterThanSuperneuronsAsPublished) {
  const test::Machine pcie = test::v100_pcie3();
  for (const int batch : {256, 384, 512}) {
    const double ratio = resnet50_plan(pcie, batch, "superneurons").predicted_ms /
                         resnet50_plan(pcie, batch, "pooch").predicted_ms;
    EXPECT_GE(ratio, batch == 256 ? 1.2 : 1.3) << batch;
    EXPECT_LE(ratio, 1.9) << batch;
  }
  const Profile large = test::resnet50_profile(pcie, 640);
  EXPECT_FALSE(make_plan(large, "", "superneurons", with_memory(usable(pcie))));
  EXPECT_GT(resnet50_plan(pcie, 640, "pooch").predicted_ms, 0);
}

// PooCH, table 3: 66 kept, 21 swapped, 18 recomputed on either machine. Maps are kept as long as they fit
// beside the layers at work while they live, not beside the largest layer of all.
TEST(Superneurons, ClassifiesAsPublished) {
  const auto pcie = counts(resnet50_plan(test::v100_pcie3(), 512, "superneurons"));
  EXPECT_EQ(pcie, counts(resnet50_plan(test::v100_nvlink2(), 512, "superneurons")));
  const std::array<int, 3> published{66, 21, 18};
  for (std::size_t of = 0; of < pcie.size(); ++of) EXPECT_NEAR(pcie[of], published[of], 3) << of;
}

// PooCH, table 3: on the slower link more maps are recomputed, and fewer swapped.
TEST(Pooch, RecomputesMoreOnASlowerLink) {
  const auto pcie = counts(resnet50_plan(test::v100_pcie3(), 512, "pooch"));
  const auto nvlink = counts(resnet50_plan(test::v100_nvlink2(), 512, "pooch"));
  EXPECT_GT(pcie[2], nvlink[2] + 10);
  EXPECT_LT(pcie[1], nvlink[1]);
}

// PooCH, figure 15: each optimisation makes it faster.
TEST(Pooch, EachOfItsStepsIsFasterThanTheOneBefore) {
  double before = 1e300;
  for (const char* policy : {"swap-all-unscheduled", "swap-all", "swap-opt", "pooch", "hybrid"}) {
    const double ms = resnet50_plan(test::v100_pcie3(), 512, policy).predicted_ms;
    EXPECT_LT(ms, before) << policy;
    before = ms;
  }
}

TEST(Lms, SyncIsSlowerAndNeedsLess) {
  const Plan& async = resnet50_plan(test::v100_pcie3(), 256, "lms");
  const Plan& sync = resnet50_plan(test::v100_pcie3(), 256, "lms-sync");
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
  const Plan& plan = resnet50_plan(test::v100_pcie3(), 512, "hybrid");
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
