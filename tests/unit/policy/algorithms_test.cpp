// Policies that give convolutions other algorithms, on profiles that say what the program tried.
#include "policy/algorithms.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "policy/decide.h"
#include "tests/support/network_profile.h"
#include "tests/support/random_profile.h"

namespace pooch::policy {
namespace {

constexpr std::uint64_t MiB = std::uint64_t{1} << 20;
constexpr std::uint64_t large = 1024 * MiB, middle = 300 * MiB;

bool is_convolution(const ProfileOp& op) {
  return op.kind <= OpKind::conv_backward_filter;
}

// Every convolution ran with the second of four: without workspace slower by half, with ever more of it
// faster.
Profile tried_chain() {
  Profile profile = test::chain_profile(test::titanx(), 64, 8);
  for (ProfileOp& op : profile.phases[0].ops) {
    if (!is_convolution(op)) continue;
    profile.trials.push_back({{{"none", 1.5 * op.us, 0},
                               {"own", op.us, 0},
                               {"large", 0.5 * op.us, large},
                               {"middle", 0.8 * op.us, middle}}});
    op.trials = static_cast<std::uint32_t>(profile.trials.size());
    op.algorithm = 2;
  }
  return profile;
}

PlanRequest allowed(std::uint64_t memory) {
  PlanRequest request;
  request.memory = memory;
  request.allow_numerics = true;
  return request;
}
constexpr std::uint64_t plenty = std::uint64_t{1} << 40;

Plan planned(const Profile& profile, std::string_view policy, std::uint64_t memory = plenty) {
  Result<Plan> plan = make_plan(profile, "", policy, allowed(memory));
  EXPECT_TRUE(plan) << policy << ": " << (plan ? "" : plan.error().message);
  return plan ? *plan : Plan{};
}

std::uint64_t least(const Profile& profile, std::string_view policy) {
  const Result<Plan> refused = make_plan(profile, "", policy, allowed(MiB));
  EXPECT_FALSE(refused);
  const std::string says = "needs at least ", why = refused ? says + "0" : refused.error().message;
  return std::stoull(why.substr(why.find(says) + says.size()));
}

std::vector<std::string> taken(const Plan& plan) {
  std::vector<std::string> names;
  for (const PlanAlgorithm& each : plan.algorithms) names.push_back(each.takes);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

TEST(Algorithms, AreOnlyOtherOnesOnRequest) {
  const Profile profile = tried_chain();
  for (const PolicyInfo& info : numerics_policies()) {
    PlanRequest request = allowed(plenty);
    request.allow_numerics = false;
    const Result<Plan> plan = make_plan(profile, "", info.name, request);
    ASSERT_FALSE(plan) << info.name;
    EXPECT_EQ(plan.error().code, ErrorCode::invalid_argument);
    EXPECT_NE(plan.error().message.find("changes the numbers"), std::string::npos) << plan.error().message;
    EXPECT_TRUE(make_plan(profile, "", info.name, allowed(plenty))) << info.name;
  }
}

TEST(Algorithms, NoOtherPolicyKnowsOfThem) {
  const Profile tried = tried_chain();
  Profile untried = tried;
  untried.trials.clear();
  for (ProfileOp& op : untried.phases[0].ops) op.trials = op.algorithm = 0;
  for (const PolicyInfo& info : policies()) {
    const std::uint64_t memory = 2 * least(untried, "swap-all");
    const Result<Plan> with = make_plan(tried, "", info.name, allowed(memory));
    const Result<Plan> without = make_plan(untried, "", info.name, allowed(memory));
    ASSERT_EQ(with.operator bool(), without.operator bool()) << info.name;
    if (with) {
      EXPECT_EQ(to_json(*with), to_json(*without)) << info.name;
      EXPECT_TRUE(with->algorithms.empty());
    }
  }
}

TEST(Algorithms, MemoryOptimalOnesNeedNoWorkspaceAndPerformanceOptimalOnesAreTheFastest) {
  const Profile profile = tried_chain();
  const Plan conv = planned(profile, "vdnn-conv");
  const Plan memory = planned(profile, "vdnn-conv:m"), performance = planned(profile, "vdnn-conv:p");
  EXPECT_TRUE(memory.algorithms.empty()) << "of those without workspace the program's own is the fastest";
  EXPECT_EQ(memory.predicted_ms, conv.predicted_ms);
  EXPECT_EQ(taken(performance), std::vector<std::string>{"large"});
  EXPECT_LT(performance.predicted_ms, conv.predicted_ms);
  EXPECT_GE(performance.peak, conv.peak);
  for (const Plan& plan : {memory, performance})
    EXPECT_EQ(plan.in_core_ms, conv.in_core_ms) << "the program's own";
  const auto convolutions =
      std::count_if(profile.phases[0].ops.begin(), profile.phases[0].ops.end(), is_convolution);
  EXPECT_EQ(performance.algorithms.size(), static_cast<std::size_t>(convolutions));
  for (const PlanAlgorithm& each : performance.algorithms) {
    const ProfileOp& op = profile.phases[0].ops[each.op];
    EXPECT_EQ(each.instead_of, "own");
    EXPECT_DOUBLE_EQ(each.instead_of_ms, op.us / 1e3);
    EXPECT_DOUBLE_EQ(each.ms, 0.5 * op.us / 1e3);
    EXPECT_EQ(each.workspace, large);
  }
}

TEST(Algorithms, WorkspaceCountsAgainstTheMemory) {
  const Profile profile = tried_chain();
  const std::uint64_t own = least(profile, "vdnn-all"), memory = least(profile, "vdnn-all:m");
  const std::uint64_t performance = least(profile, "vdnn-all:p");
  EXPECT_EQ(memory, own);
  EXPECT_GT(performance, own);
  EXPECT_LE(performance, own + large);
  EXPECT_EQ(planned(profile, "vdnn-all:p", performance).peak, performance);
}

TEST(Algorithms, AWorkspaceThatShrinksGivesItsMemoryBack) {
  Profile profile = tried_chain();
  PhaseProfile& phase = profile.phases[0];
  const auto op = std::find_if(phase.ops.begin(), phase.ops.end(), is_convolution);
  const auto p = static_cast<std::int32_t>(op - phase.ops.begin());
  const auto buffer = static_cast<std::uint32_t>(phase.buffers.size());
  phase.buffers.push_back({large, true, p, p + 1});
  op->scratch = {buffer};
  op->algorithm = 3;
  const Algorithms algorithms(profile, phase);
  Picks picks(phase.ops.size(), 0);
  ASSERT_TRUE(algorithms.lessen(picks, p));
  EXPECT_EQ(picks[p], 4u) << "the fastest of those that need less";
  EXPECT_EQ(algorithms.applied(picks).buffers[buffer].bytes, middle);
  ASSERT_TRUE(algorithms.lessen(picks, p));
  EXPECT_EQ(picks[p], 2u);
  const PhaseProfile bare = algorithms.applied(picks);
  EXPECT_LE(bare.buffers[buffer].bytes, 1u);
  EXPECT_TRUE(bare.ops[p].scratch.empty());
  EXPECT_FALSE(algorithms.lessen(picks, p));
}

TEST(Algorithms, ASharedWorkspaceIsAsLargeAsTheLargestNeeds) {
  Profile profile = tried_chain();
  PhaseProfile& phase = profile.phases[0];
  const auto buffer = static_cast<std::uint32_t>(phase.buffers.size());
  phase.buffers.push_back({large, true, outside, outside});
  std::vector<std::int32_t> users;
  for (std::size_t p = 0; p < phase.ops.size(); ++p) {
    if (!is_convolution(phase.ops[p])) continue;
    phase.ops[p].scratch = {buffer};
    phase.ops[p].algorithm = 3;
    users.push_back(static_cast<std::int32_t>(p));
  }
  const Algorithms algorithms(profile, phase);
  Picks picks(phase.ops.size(), 0);
  picks[users[0]] = 4;
  EXPECT_EQ(algorithms.applied(picks).buffers[buffer].bytes, large);
  for (const std::int32_t p : users) picks[p] = 4;
  EXPECT_EQ(algorithms.applied(picks).buffers[buffer].bytes, middle);
}

TEST(Algorithms, WorkspaceInsideOfOtherMemoryStaysAsItIs) {
  Profile profile = tried_chain();
  PhaseProfile& phase = profile.phases[0];
  const auto op = std::find_if(phase.ops.begin(), phase.ops.end(), is_convolution);
  op->scratch = {phase.versions[op->writes.front()].buffer};
  const Picks picks = Algorithms(profile, phase).preferred(Preference::performance);
  EXPECT_EQ(picks[op - phase.ops.begin()], 0u);
  EXPECT_EQ(std::count(picks.begin(), picks.end(), 0u),
            1 + std::count_if(phase.ops.begin(), phase.ops.end(), std::not_fn(is_convolution)));
}

// Whatever is chosen, the result is a profile that the reader takes, with the same content.
TEST(Algorithms, AppliedToMadeUpNetworksGiveValidProfiles) {
  int changed = 0;
  for (std::uint64_t seed = 1; seed < 24; seed += 2) {
    Profile profile = test::random_profile(40, seed);
    const Algorithms algorithms(profile, profile.phases[0]);
    for (const Preference preference : {Preference::memory, Preference::performance}) {
      const Picks picks = algorithms.preferred(preference);
      Profile made = profile;
      made.phases[0] = algorithms.applied(picks);
      const Result<Profile> read = profile_from_json(to_json(made));
      ASSERT_TRUE(read) << seed << ": " << read.error().message;
      EXPECT_EQ(made.phases[0].versions.size(), profile.phases[0].versions.size());
      changed += static_cast<int>(algorithms.described(picks).size());
    }
  }
  EXPECT_GT(changed, 50);
}

TEST(VdnnDyn, KeepsEverythingWithTheFastestAlgorithmsWhereThatFits) {
  const Plan plan = planned(tried_chain(), "vdnn-dyn:p");
  EXPECT_EQ(taken(plan), std::vector<std::string>{"large"});
  EXPECT_TRUE(std::all_of(plan.maps.begin(), plan.maps.end(),
                          [](const PlanMap& m) { return m.of == MapClass::keep; }));
}

TEST(VdnnDyn, OffloadsBeforeItTakesASlowerAlgorithm) {
  const Profile profile = tried_chain();
  const std::uint64_t memory = least(profile, "vdnn-conv:p");
  const Plan plan = planned(profile, "vdnn-dyn:p", memory);
  EXPECT_EQ(taken(plan), std::vector<std::string>{"large"});
  EXPECT_EQ(plan.predicted_ms, planned(profile, "vdnn-conv:p", memory).predicted_ms);
}

TEST(VdnnDyn, TakesASlowerAlgorithmOnlyWhereMemoryOverflows) {
  const Profile profile = tried_chain();
  const std::uint64_t most = std::min(least(profile, "vdnn-conv:p"), least(profile, "vdnn-all:p"));
  const std::uint64_t fewest = least(profile, "vdnn-all:m");
  ASSERT_LT(fewest + 2 * granularity, most);
  bool mixed = false;
  double before = 0;
  for (int i = 1; i < 8; ++i) {
    const std::uint64_t memory = most - (most - fewest) * i / 8;
    const Plan plan = planned(profile, "vdnn-dyn:p", memory);
    EXPECT_LE(plan.peak, memory);
    mixed |= taken(plan).size() > 1;
    EXPECT_GE(plan.predicted_ms, before * 0.9) << "less memory, not much faster";
    before = plan.predicted_ms;
  }
  EXPECT_TRUE(mixed) << "some convolutions lost workspace, others kept it";
}

TEST(VdnnDyn, NeedsWhatTheMemoryOptimalOneNeeds) {
  const Profile profile = tried_chain();
  EXPECT_EQ(least(profile, "vdnn-dyn:p"), least(profile, "vdnn-all:m"));
  EXPECT_TRUE(make_plan(profile, "", "vdnn-dyn:p", allowed(least(profile, "vdnn-all:m"))));
}

TEST(VdnnDyn, WithoutTrialsTheProgramsOwnAlgorithmsStay) {
  const Profile profile = test::chain_profile(test::titanx(), 64, 8);
  EXPECT_FALSE(has_other_algorithms(profile, profile.phases[0]));
  EXPECT_TRUE(has_other_algorithms(tried_chain(), tried_chain().phases[0]));
  for (const PolicyInfo& info : numerics_policies())
    EXPECT_TRUE(planned(profile, info.name).algorithms.empty());
}

}  // namespace
}  // namespace pooch::policy
