// When phases get plans, and other ones: over a real executor and profiler, with planners that are shell
// scripts.
#include "runtime/planning/planning.h"

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/program.h"
#include "tests/support/rig.h"
#include "tests/unit/runtime/plan_source_support.h"

namespace pooch::runtime {
namespace {

constexpr int maps = 12;
constexpr tracker::PhaseIndex only{0};

class PlanningTest : public PlanSourceTest {
 protected:
  void SetUp() override {
    PlanSourceTest::SetUp();
    log::configure(LogLevel::info, root / "log");
    // It answers with what the test has written, for what it was asked for.
    planner(R"(echo "$@" >> asked
while [ $# -gt 1 ]; do case $1 in --memory) cap=$2;; -o) out=$2;; esac; shift; done
[ -e good.json ] && sed -e "s/\"cap\": *[0-9]*/\"cap\":$cap/" good.json > "$out")");
    fs::remove(root / "good.json");
    const Config usual = test::session_config("40MiB", "256MiB", Policy::hybrid);
    config.memory_cap = usual.memory_cap;
    config.host_memory = usual.host_memory;
    config.wait_for_plans = true;
    config.verify = Verify::off;
  }
  void TearDown() override {
    planning.reset();
    rig.reset();
    PlanSourceTest::TearDown();
  }

  void begin() {
    rig.emplace(config);
    program.emplace(*rig, maps);
    auto source = PlanSource::open(config, PlanTarget{"lazy", rig->limits.cap, rig->limits.host_budget});
    ASSERT_TRUE(source) << source.error().message;
    planning.emplace(std::move(*source), config, rig->memory.pool, *rig->executor, rig->profiler,
                     rig->tracker);
    if (landing) rig->memory.residency->land_with(&*rig->memory.landing);
  }
  void iterate(int iterations = 1) {
    for (; iterations > 0; --iterations) {
      const Status done = program->iterate();
      ASSERT_TRUE(done) << done.error().message;
      if (!planning->wants_to_act()) continue;
      Held held(rig->mutex);
      planning->act([this] { return write_plan(); }, 0, held);
      EXPECT_FALSE(planning->wants_to_act());
    }
  }
  // What planners find when they start.
  Profile write_plan() {
    const KnownPhase& known = *rig->profiler.plannable(only);
    if (const auto made = plan(known.profile)) write(root / "good.json", to_json(*made));
    Profile profile;
    rig->profiler.fill(profile, /*estimates=*/true);
    return profile;
  }
  // The first `count` maps are swapped, each from its maker to its reader.
  static Plan swapping(const PhaseProfile& of, std::uint32_t count) {
    Plan plan = plan_for(of.id);
    plan.structure = structure_of(of);
    plan.maps.clear(), plan.after.clear(), plan.before.clear();
    const std::int32_t first = of.functions[of.ops[0].function] == "make" ? 0 : 1;
    for (std::uint32_t map = 0; map < count; ++map) {
      const std::int32_t made = first + static_cast<std::int32_t>(map),
                         read = first + 2 * maps - 1 - static_cast<std::int32_t>(map);
      plan.maps.push_back({map,
                           "map",
                           of.ops[made].operands[1],
                           2 * MiB,
                           MapClass::swap,
                           2 * MiB,
                           {},
                           "",
                           0,
                           MapClass::keep,
                           {}});
      plan.after[made].push_back({PlanAction::Kind::evict, map});
      plan.before[read].push_back({PlanAction::Kind::prefetch, map});
    }
    return plan;
  }
  // By request: what follows the option.
  std::vector<std::string> asked_for(const std::string& option) {
    std::vector<std::string> all;
    std::istringstream lines(read(root / "asked"));
    for (std::string line; std::getline(lines, line);) {
      const std::size_t at = line.find(option);
      const std::size_t from = at + option.size() + 1;
      all.push_back(at == std::string::npos ? "" : line.substr(from, line.find(' ', from) - from));
    }
    return all;
  }
  std::size_t requests() { return asked_for("plan").size(); }
  std::size_t logged(const std::string& line) {
    const std::string text = warnings();
    std::size_t count = 0;
    for (std::size_t at = text.find(line); at != std::string::npos; at = text.find(line, at + 1)) ++count;
    return count;
  }

  std::function<std::optional<Plan>(const PhaseProfile&)> plan = [](const PhaseProfile& of) {
    return swapping(of, 4);
  };
  std::optional<test::Rig> rig;
  std::optional<test::ChainProgram> program;
  std::optional<Planning> planning;
  bool landing = false;  // then no plan can have a layout
};

TEST_F(PlanningTest, APhaseIsPlannedAsSoonAsItIsKnownAndFollowsItsPlan) {
  landing = true;
  begin();
  EXPECT_FALSE(planning->wants_to_act());
  iterate(8);
  EXPECT_EQ(requests(), 1u) << warnings();
  EXPECT_EQ(logged("plan by hybrid, 12.5 ms predicted"), 1u) << warnings();
  EXPECT_EQ(rig->executor->counts().planned_iterations, 6u) << warnings();
  EXPECT_EQ(planning->replans(), 0u);
  EXPECT_FALSE(planning->wants_profile());
  EXPECT_EQ(program->wrong(), 0);
}

TEST_F(PlanningTest, TimesThatChangedLeadToANewPlan) {
  landing = true;
  begin();
  iterate(1);
  program->op_us = 300;
  iterate(7);
  EXPECT_EQ(requests(), 2u) << warnings();
  EXPECT_EQ(logged("its times have changed; it is planned again"), 1u) << warnings();
  EXPECT_EQ(logged("plan by hybrid"), 2u) << warnings();
  EXPECT_EQ(planning->replans(), 1u);
  EXPECT_GT(rig->executor->counts().planned_iterations, 2u);
}

TEST_F(PlanningTest, APhaseWithoutAPlanIsNotAskedForAgain) {
  plan = [](const PhaseProfile&) { return std::nullopt; };
  begin();
  iterate(8);
  EXPECT_EQ(requests(), 1u);
  EXPECT_EQ(logged("stays in demand mode"), 1u) << warnings();
  EXPECT_FALSE(planning->wants_profile());
}

// Its layout is for nothing that there is.
TEST_F(PlanningTest, APlanWhoseLayoutCannotBeHadIsReplacedUntilThePhaseDoesWithout) {
  plan = [](const PhaseProfile& of) {
    Plan made = swapping(of, 4);
    made.layout = PlanLayout{{of.id}, {}, {}, 0};
    return made;
  };
  begin();
  iterate(8);
  std::vector<std::string> unplaced(2 + most_layouts);
  unplaced.back() = "-o";  // which follows it
  EXPECT_EQ(asked_for("--unplaced"), unplaced) << warnings();
  EXPECT_EQ(logged("no alias mode: "), 1u + most_layouts) << warnings();
  EXPECT_EQ(logged("plan by hybrid"), 2u + most_layouts) << warnings();
  EXPECT_EQ(rig->executor->counts().aliased_iterations, 0u);
  EXPECT_GT(rig->executor->counts().planned_iterations, 2u);
  EXPECT_EQ(program->wrong(), 0);
}

// The first plan keeps all maps, for which there is no memory.
class ShortPlan : public PlanningTest {
 protected:
  void run_with(double predicted_ms) {
    config.memory_cap = SizeSetting{"16MiB"};
    landing = true;
    plan = [this, predicted_ms](const PhaseProfile& of) {
      Plan made = swapping(of, requests() == 0 ? 0 : 9);
      made.predicted_ms = requests() == 0 ? 1 : predicted_ms;
      return made;
    };
    begin();
    iterate(16);
    EXPECT_EQ(logged("since memory is short under its plan; it is planned for less"), 1u) << warnings();
    const std::vector<std::string> memory = asked_for("--memory");
    ASSERT_EQ(memory.size(), 2u) << warnings();
    EXPECT_EQ(std::stoull(memory[1]) + page, std::stoull(memory[0]));
    EXPECT_EQ(planning->replans(), 1u);
    EXPECT_EQ(program->wrong(), 0);
  }
};

TEST_F(ShortPlan, IsReplacedByAFasterOneForLess) {
  run_with(0.001);
  EXPECT_EQ(logged("plan by hybrid"), 2u) << warnings();
}

TEST_F(ShortPlan, IsKeptWhereTheOneForLessIsNoFaster) {
  run_with(1e6);
  EXPECT_EQ(logged("plan by hybrid"), 1u) << warnings();
}

// Ops that make maps say that there is a shorter way; nobody has tried it.
TEST_F(PlanningTest, SubstitutesStillTriedAreWaitedForABoundedNumberOfIterations) {
  plan = [](const PhaseProfile& of) {
    Plan made = swapping(of, 1);
    const auto position = made.after.begin()->first;
    made.maps[0].of = MapClass::recompute;
    made.maps[0].moved = 0;
    made.maps[0].by = {position};
    made.after[position] = {{PlanAction::Kind::drop, 0}};
    made.before.begin()->second = {
        {PlanAction::Kind::replay, static_cast<std::uint32_t>(position), 0, Formula::one_fma}};
    return made;
  };
  landing = true;
  begin();
  rig->describe = [](tracker::Op& op) {
    if (op.description.function == "make") op.description.substitute = {true, {0, 1, 0, 0, 1, 1}};
  };
  iterate(2);
  EXPECT_EQ(requests(), 1u) << warnings();
  constexpr const char* doubt = "a plan makes calls again in a way that was not seen to make their bits";
  iterate(most_waited - 1);
  EXPECT_EQ(logged(doubt), 0u) << warnings();
  EXPECT_EQ(requests(), 1u);
  iterate(1);
  EXPECT_EQ(logged(doubt), 1u) << warnings();
  iterate(1);
  EXPECT_EQ(requests(), 2u) << "planned anew";
  EXPECT_EQ(logged("plan by hybrid"), 0u) << warnings();
}

}  // namespace
}  // namespace pooch::runtime
