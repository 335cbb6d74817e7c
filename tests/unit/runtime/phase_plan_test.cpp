#include "runtime/planning/phase_plan.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <type_traits>
#include <utility>
#include <variant>

namespace pooch::runtime {
namespace {

using Kind = Command::Kind;
using Proof = Profiler::Proof;

Plan plan_of(double ms) {
  Plan plan;
  plan.predicted_ms = ms;
  plan.in_core_ms = 3;
  return plan;
}
Basis basis_of(std::uint64_t unseen = 0) {
  return {1, "structure", {100, 100}, 0, unseen};
}

class PhasePlanning : public testing::Test {
 protected:
  Kind tell(Event event) {
    Transition made = next(std::move(plan), std::move(event));
    plan = std::move(made.phase);
    told = std::move(made.command.plan);
    return made.command.kind;
  }
  template <class Stage>
  bool is() const {
    return std::holds_alternative<Stage>(plan.stage);
  }
  void ask(Basis basis = basis_of()) {
    tell(seen::Requested{std::move(basis)});
    ASSERT_TRUE(is<stage::Asked>());
  }
  Kind come(double ms, Proof proof = Proof::yes) {
    tell(seen::Came{plan_of(ms)});
    return tell(seen::Judged{proof});
  }
  void settle() {
    ask();
    ASSERT_EQ(come(9), Kind::adopt);
    tell(seen::Adopted{});
    ASSERT_TRUE(plan.settled());
  }

  PhasePlan plan;
  std::optional<Plan> told;
};

TEST_F(PhasePlanning, APlanIsAskedForComesAndIsAdopted) {
  EXPECT_EQ(plan.basis(), nullptr);
  EXPECT_EQ(tell(seen::Requested{basis_of()}), Kind::none);
  EXPECT_EQ(plan.basis()->structure, "structure");
  EXPECT_EQ(tell(seen::Came{plan_of(9)}), Kind::none);
  EXPECT_FALSE(plan.settled());
  EXPECT_EQ(tell(seen::Judged{Proof::yes}), Kind::adopt);
  ASSERT_TRUE(told);
  EXPECT_EQ(told->predicted_ms, 9);
  EXPECT_FALSE(plan.unplaced());
  EXPECT_TRUE(plan.settled());
  EXPECT_FALSE(plan.untested) << "the executor has not taken it yet";
  tell(seen::Adopted{});
  EXPECT_TRUE(plan.untested);
  tell(seen::LayoutTested{});
  EXPECT_FALSE(plan.untested);
}

TEST_F(PhasePlanning, APlanThatWasThereBringsItsOwnTimes) {
  settle();
  EXPECT_EQ(plan.basis()->in_core_ms, 0) << "it was made from this process's times";
  tell(seen::Changed{}), tell(seen::SourceIdle{});
  ask({2, "structure", {}, 0, 0});
  come(9);
  EXPECT_EQ(plan.basis()->in_core_ms, 3);
}

TEST_F(PhasePlanning, WhereThereIsNoPlanThePhaseGoesWithoutOne) {
  ask();
  EXPECT_EQ(tell(seen::SourceIdle{}), Kind::none);
  EXPECT_TRUE(plan.settled());
}

TEST_F(PhasePlanning, WhereNoneFitsBesideWhatOthersTakeOneIsAskedForAsIfTheyWereNotThere) {
  ask(basis_of(/*unseen=*/MiB));
  EXPECT_EQ(tell(seen::SourceIdle{}), Kind::forget);
  EXPECT_TRUE(is<stage::Wanted>());
  EXPECT_TRUE(plan.crowded);
  ask();
  EXPECT_EQ(tell(seen::SourceIdle{}), Kind::none);
  EXPECT_TRUE(plan.settled()) << "once";
}

TEST_F(PhasePlanning, WhileAPlannerWorksForWhatNoLongerHoldsNoOtherIsAskedFor) {
  ask();
  tell(seen::Changed{});
  EXPECT_TRUE(is<stage::Overtaken>());
  EXPECT_TRUE(plan.fresh);
  EXPECT_EQ(plan.basis()->revision, 1u);
  tell(seen::Came{plan_of(9)});
  EXPECT_TRUE(is<stage::Overtaken>()) << "what it made is for nothing";
  tell(seen::Changed{});
  EXPECT_TRUE(is<stage::Overtaken>());
  EXPECT_EQ(tell(seen::SourceIdle{}), Kind::forget);
  EXPECT_TRUE(is<stage::Wanted>());
}

TEST_F(PhasePlanning, WhatStillHoldsIsRememberedWithItsRevision) {
  settle();
  tell(seen::StillHolds{7});
  EXPECT_EQ(plan.basis()->revision, 7u);
  EXPECT_TRUE(plan.settled());
  EXPECT_FALSE(plan.fresh);
}

TEST_F(PhasePlanning, APhaseWhoseLayoutsCannotBeHadDoesWithoutInTheEnd) {
  settle();
  for (int lacks = 1; lacks <= most_layouts + 1; ++lacks) {
    EXPECT_FALSE(plan.unplaced()) << lacks;
    tell(seen::LayoutLacks{MiB});
    EXPECT_TRUE(is<stage::Overtaken>());
    EXPECT_TRUE(plan.fresh);
    EXPECT_EQ(plan.lacking, static_cast<std::uint64_t>(lacks) * MiB);
    tell(seen::SourceIdle{});
    ask();
    ASSERT_EQ(come(9), Kind::adopt);
    EXPECT_EQ(plan.unplaced(), lacks > most_layouts);
  }
  EXPECT_TRUE(plan.unplaced());
}

TEST_F(PhasePlanning, APlanForLessTakesThePlaceOfAShortOneOnlyIfItIsFaster) {
  for (const double ms : {11.0, 12.0, 13.0}) {
    plan = {};
    settle();
    EXPECT_EQ(tell(seen::Shortage{/*iteration_ms=*/12, /*step=*/MiB, /*unseen=*/0}), Kind::plan_for_less);
    EXPECT_FALSE(plan.fresh) << "one from the cache will do";
    tell(seen::SourceIdle{});
    EXPECT_EQ(plan.lacking, MiB);
    ask();
    EXPECT_EQ(come(ms), ms < 12 ? Kind::adopt : Kind::none);
    EXPECT_TRUE(plan.settled());
    EXPECT_EQ(plan.lacking, ms < 12 ? MiB : 0);
    EXPECT_FALSE(plan.relief());
  }
}

TEST_F(PhasePlanning, WithoutAPlanForLessTheShortOneIsKeptEvenWhereOthersTakeMemory) {
  settle();
  tell(seen::Shortage{12, MiB, 0}), tell(seen::SourceIdle{});
  ask(basis_of(/*unseen=*/MiB));
  EXPECT_EQ(tell(seen::SourceIdle{}), Kind::none);
  EXPECT_TRUE(plan.settled());
  EXPECT_EQ(plan.lacking, 0u);
  EXPECT_FALSE(plan.crowded);
}

TEST_F(PhasePlanning, EachPlanForLessLeavesTwiceAsMuchAndTheirNumberIsLimited) {
  settle();
  std::uint64_t lacking = 0;
  for (int i = 0; i < most_shortages; ++i) {
    ASSERT_EQ(tell(seen::Shortage{12, MiB, 0}), Kind::plan_for_less);
    lacking += MiB << i;
    EXPECT_EQ(plan.lacking, lacking);
    tell(seen::SourceIdle{});
    ask();
    ASSERT_EQ(come(11), Kind::adopt);
  }
  EXPECT_EQ(tell(seen::Shortage{12, MiB, 0}), Kind::none);
  EXPECT_TRUE(plan.settled());
}

TEST_F(PhasePlanning, WhatOthersHaveTakenSinceIsLeftToThemAnyway) {
  settle();
  ASSERT_EQ(tell(seen::Shortage{12, MiB, /*unseen=*/4 * MiB}), Kind::plan_for_less);
  EXPECT_EQ(plan.lacking, 0u);
}

TEST_F(PhasePlanning, AShortPlanIsStillToBeBeatenAfterTimesHaveChanged) {
  settle();
  tell(seen::Shortage{12, MiB, 0}), tell(seen::SourceIdle{});
  ask();
  tell(seen::Changed{}), tell(seen::SourceIdle{});
  ask();
  EXPECT_EQ(come(13), Kind::none);
  EXPECT_EQ(plan.lacking, 0u);
}

TEST_F(PhasePlanning, SubstitutesStillTriedAreWaitedForSoManyIterations) {
  ask();
  tell(seen::Came{plan_of(9)});
  for (int i = 0; i < most_waited; ++i) {
    ASSERT_EQ(tell(seen::Judged{Proof::not_yet}), Kind::wait) << i;
    ASSERT_TRUE(is<stage::Proving>());
  }
  PhasePlan in_time = plan;
  EXPECT_EQ(tell(seen::Judged{Proof::not_yet}), Kind::plan_anew);
  EXPECT_TRUE(is<stage::Overtaken>());
  EXPECT_TRUE(plan.fresh) << "the cache has the same again";
  plan = std::move(in_time);
  EXPECT_EQ(tell(seen::Judged{Proof::yes}), Kind::adopt);
}

TEST_F(PhasePlanning, APlanWhoseSubstitutesAreWrongHereIsReplacedUnlessItIsTheOnlyOne) {
  ask();
  EXPECT_EQ(come(9, Proof::no), Kind::plan_anew);
  EXPECT_TRUE(is<stage::Overtaken>());
  plan = {};
  plan.given = true;
  ask();
  EXPECT_EQ(come(9, Proof::no), Kind::go_without);
  EXPECT_TRUE(plan.settled());
}

TEST_F(PhasePlanning, DisprovedSubstitutesCallForAPlanWithoutThem) {
  settle();
  EXPECT_EQ(tell(seen::Disproved{}), Kind::plan_without);
  EXPECT_TRUE(is<stage::Overtaken>());
  plan = {};
  EXPECT_EQ(tell(seen::Disproved{}), Kind::plan_without);
  EXPECT_TRUE(is<stage::Wanted>()) << "one will be asked for anyway";
  EXPECT_TRUE(plan.fresh);
  plan = {};
  plan.given = true;
  settle();
  EXPECT_EQ(tell(seen::Disproved{}), Kind::none) << "whatever is asked for, it is the same plan";
  EXPECT_TRUE(plan.settled());
}

TEST_F(PhasePlanning, TrialsPutOffTheRequestAFewTimesPerPhase) {
  for (int i = 0; i < most_deferred; ++i) EXPECT_EQ(tell(seen::TrialsPending{}), Kind::wait);
  EXPECT_EQ(tell(seen::TrialsPending{}), Kind::none);
  settle();
  tell(seen::Changed{}), tell(seen::SourceIdle{});
  EXPECT_EQ(tell(seen::TrialsPending{}), Kind::none);
}

// ---- whatever happens

// What a phase is surrounded by: a planner that takes some time, answers or does not, and an executor.
struct World {
  enum class Source : std::uint8_t { idle, at_work, has_plan };
  Source source = Source::idle;
  bool adopted = false, given_up = false;  // it follows a plan; the latest request brought none
};

class AnyOrder : public PhasePlanning {
 protected:
  unsigned below(unsigned n) { return static_cast<unsigned>(random_() % n); }
  bool one_in(unsigned n) { return below(n) == 0; }
  Proof proof() { return std::array{Proof::yes, Proof::no, Proof::not_yet}[below(3)]; }

  void obey(Kind kind) {
    if (kind == Kind::forget) world = {World::Source::idle, world.adopted, false};
    if (kind == Kind::go_without) world.given_up = true;
    if (kind != Kind::adopt) return;
    world.adopted |= !one_in(8);
    world.given_up = !world.adopted;
    if (world.adopted) tell(seen::Adopted{});
  }
  // As Planning::act does it. `calm`: what was planned for holds, and is to be had.
  void iterate(bool calm) {
    if (!calm && plan.basis() != nullptr && one_in(4)) tell(seen::Changed{});
    const bool follows = plan.settled() && world.adopted;
    if (!calm && follows && !plan.unplaced() && one_in(4)) {
      ++lacks;
      tell(seen::LayoutLacks{2 * MiB});
    }
    if (!calm && follows && one_in(4))
      shortages += tell(seen::Shortage{10, MiB, one_in(2) * MiB}) == Kind::plan_for_less;
    if (!calm && one_in(8)) tell(seen::Disproved{});
    if (world.source == World::Source::idle) obey(tell(seen::SourceIdle{}));
    if (plan.settled()) return;
    if (is<stage::Wanted>() && one_in(2) && tell(seen::TrialsPending{}) == Kind::wait) return;
    if (is<stage::Wanted>()) {
      world.source =
          std::array{World::Source::idle, World::Source::at_work, World::Source::has_plan}[below(3)];
      tell(seen::Requested{basis_of(plan.crowded ? 0 : one_in(3) * MiB)});
    }
    if (world.source == World::Source::at_work && one_in(2))
      world.source = one_in(2) ? World::Source::has_plan : World::Source::idle;
    if (!is<stage::Proving>() && world.source == World::Source::has_plan) {
      world.source = World::Source::idle;
      tell(seen::Came{plan_of(5.0 + below(10))});
    }
    if (is<stage::Proving>()) return obey(tell(seen::Judged{proof()}));
    if (world.source == World::Source::idle) {
      world.given_up = is<stage::Asked>();
      obey(tell(seen::SourceIdle{}));
    }
  }
  // A plan is pending, adopted or given up, or the next iteration asks for one.
  void check() {
    const bool pending = world.source != World::Source::idle;
    EXPECT_EQ(is<stage::Asked>(), pending && !is<stage::Overtaken>());
    if (is<stage::Wanted>() || is<stage::Proving>()) {
      EXPECT_FALSE(pending);
    }
    if (plan.settled()) {
      EXPECT_TRUE(world.adopted || world.given_up);
      EXPECT_FALSE(plan.relief());
    }
    EXPECT_EQ(plan.basis() == nullptr, is<stage::Wanted>());
    EXPECT_LE(lacks, most_layouts + 1);
    EXPECT_LE(shortages, most_shortages);
    EXPECT_LE(plan.deferred, most_deferred);
    EXPECT_LE(plan.lacking, static_cast<std::uint64_t>(lacks) * 2 * MiB + (MiB << most_shortages))
        << "no underflow";
  }
  void begin(unsigned seed) {
    random_.seed(seed);
    plan = {}, world = {}, lacks = shortages = 0;
    plan.given = one_in(4);
  }

  World world;
  int lacks = 0, shortages = 0;

 private:
  std::mt19937 random_;
};

TEST_F(AnyOrder, NoStageIsLeftWithoutAPlanPendingAdoptedOrGivenUp) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    begin(seed);
    for (int i = 0; i < 60; ++i) {
      iterate(/*calm=*/false);
      check();
      if (HasFailure()) FAIL() << "seed " << seed << ", iteration " << i;
    }
  }
}

TEST_F(AnyOrder, OnceNothingChangesAnyMoreThePhaseSettles) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    begin(seed);
    for (unsigned i = 0; i < seed % 40; ++i) iterate(/*calm=*/false);
    for (int i = 0; i < 400 && !plan.settled(); ++i) iterate(/*calm=*/true);
    ASSERT_TRUE(plan.settled()) << "seed " << seed;
  }
}

// Not only those that Planning sends.
TEST_F(AnyOrder, AnEventThatSaysNothingAboutAStageChangesNothing) {
  const auto any = [this]() -> Event {
    switch (below(12)) {
      case 0:
        return seen::StillHolds{2};
      case 1:
        return seen::Changed{};
      case 2:
        return seen::LayoutTested{};
      case 3:
        return seen::LayoutLacks{MiB};
      case 4:
        return seen::Shortage{10, MiB, 0};
      case 5:
        return seen::Disproved{};
      case 6:
        return seen::SourceIdle{};
      case 7:
        return seen::TrialsPending{};
      case 8:
        return seen::Requested{basis_of()};
      case 9:
        return seen::Came{plan_of(9)};
      case 10:
        return seen::Judged{proof()};
      default:
        return seen::Adopted{};
    }
  };
  begin(1);
  for (int i = 0; i < 20'000; ++i) {
    const Event event = any();
    const std::size_t before = plan.stage.index();
    const bool wanted = is<stage::Wanted>(), asked = is<stage::Asked>(), proving = is<stage::Proving>(),
               settled = plan.settled();
    const std::uint64_t lacking = plan.lacking;
    const Kind kind = tell(event);
    const bool means = std::visit(
        [&](const auto& what) {
          using What = std::decay_t<decltype(what)>;
          if constexpr (std::is_same_v<What, seen::Requested>)
            return wanted;
          else if constexpr (std::is_same_v<What, seen::Came>)
            return asked;
          else if constexpr (std::is_same_v<What, seen::Judged>)
            return proving;
          else if constexpr (std::is_same_v<What, seen::LayoutLacks> || std::is_same_v<What, seen::Shortage>)
            return settled;
          else
            return true;
        },
        event);
    ASSERT_TRUE(means || (plan.stage.index() == before && kind == Kind::none && plan.lacking == lacking))
        << i;
    ASSERT_EQ(kind == Kind::adopt, told.has_value()) << i;
  }
}

}  // namespace
}  // namespace pooch::runtime
