// A plan drops two maps of which one is made from an early version of the other. Where the other one is not
// dropped after all, its content stays what it is, and what is made from the early version is right too.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <optional>
#include <string>

#include "runtime/session/session.h"
#include "tests/support/ladder.h"
#include "tests/support/program.h"

namespace pooch::runtime {
namespace {

using test::OpenDevice;
using test::PlanFile;

// The first map is changed in place once the second is made from it.
class Slope : public test::Ladder<Session, /*small_parts=*/true> {
 public:
  using Ladder::Ladder;

  // `at_the_fifth` stands for the op that comes last before the first map is dropped.
  void iterate(const std::function<void()>& at_the_fifth, bool kept = true) {
    twin(0);
    call("branch", OpKind::conv_forward,
         {{map(0), touched, Effect::read}, {map(1), touched, Effect::overwrite}});
    call("change", OpKind::conv_forward,
         {{weights(), touched, Effect::read}, {map(0), touched, Effect::read_write}}, kept);
    forward(2);
    forward(3);
    at_the_fifth();
    for (int map = 5; map < maps; ++map) forward(map);
    for (int map = maps; map-- > 0;) backward(map);
    update();
  }
  void iterate() {
    iterate([&] { forward(4); });
  }
  // The replay that is the n-th to write into the first map makes it wrong.
  void spoil(int nth) {
    spoils_ = [this, left = nth](Address at, StreamHandle stream) mutable {
      if (at != map(0) || --left != 0) return;
      device().launch(stream, [this, at] {
        if (auto* const first = word(at, 0)) *first += 1;
      });
    };
  }
};

Plan drop_both(const PhaseProfile& phase) {
  using Kind = PlanAction::Kind;
  Plan plan = test::empty_plan(phase);
  plan.maps = {test::planned_map(phase, 0, 0, MapClass::recompute, {0, 2}),
               test::planned_map(phase, 1, 1, MapClass::recompute, {1})};
  plan.after[4] = {{Kind::drop, 1}};
  plan.after[5] = {{Kind::drop, 0}};
  plan.before[15] = {{Kind::replay, 0}, {Kind::replay, 1}, {Kind::replay, 2}};
  return plan;
}

enum class Spared { never, not_kept, in_use, plan_left };

void iterate(Slope& slope, Spared spared) {
  const auto fifth = [&] { slope.forward(4); };
  switch (spared) {
    case Spared::never:
      return slope.iterate(fifth);
    case Spared::not_kept:
      return slope.iterate(fifth, /*kept=*/false);
    case Spared::in_use:
      return slope.iterate([&] { slope.look_at(0, fifth); });
    case Spared::plan_left:
      return slope.iterate([&] { slope.cousin(4); });
  }
}

constexpr int settled = 16;

struct Course {
  Summary before, after;  // the iteration in which the map is spared
  std::uint64_t result = 0;
};

Course run(OpenDevice& device, const Config& config, Spared spared, std::optional<Plan>* plan = nullptr) {
  const auto session = Session::open(config, device);
  EXPECT_TRUE(session);
  Slope slope(device, **session);
  for (int iteration = 0; iteration < settled; ++iteration) slope.iterate();
  Course course{(*session)->summary(), {}};
  iterate(slope, spared);
  course.after = (*session)->summary();
  for (int iteration = 0; iteration < 3; ++iteration) slope.iterate();
  course.result = slope.result();
  if (plan != nullptr) plan->emplace(drop_both((*session)->profile().phases.at(0)));
  EXPECT_TRUE(device.complaints().empty()) << device.complaints().front();
  return course;
}

class SparedMaps : public testing::TestWithParam<Spared> {};

TEST_P(SparedMaps, AreNotOverwrittenByWhatOthersAreMadeAgainFrom) {
  std::optional<Plan> plan;
  OpenDevice ample(512 * MiB);
  const Course in_core = run(ample, test::session_config("64MiB", "256MiB"), GetParam(), &plan);
  for (unsigned seed = 0; seed < 2; ++seed) {
    const PlanFile file(*plan);
    Config config = test::session_config("24MiB", "256MiB");
    config.plan_file = file.path;
    OpenDevice device(512 * MiB, seed);
    const Course planned = run(device, config, GetParam());
    EXPECT_EQ(planned.result, in_core.result) << "seed " << seed;
    EXPECT_EQ(planned.after.mismatches, 0u);
    EXPECT_GT(planned.before.planned_iterations, 3u);
    EXPECT_EQ(planned.before.replays % 3, 0u);
    EXPECT_EQ(planned.after.replays - planned.before.replays, GetParam() == Spared::never ? 3u : 2u)
        << "the second map is dropped, the first is not";
  }
}

// It is found wrong in the iteration that proves the other one. From then on it is swapped, and holds its
// last version where the other one would have to be made from an earlier.
TEST(SparedMap, ThatIsRefusedKeepsWhatIsMadeFromItsEarlyVersionFromBeingDropped) {
  constexpr int iterations = 20;
  std::optional<Plan> plan;
  const auto result = [&](bool planned, Config config) {
    OpenDevice device(512 * MiB);
    const std::optional<PlanFile> file = planned ? std::optional<PlanFile>(*plan) : std::nullopt;
    if (planned) config.plan_file = file->path;
    const auto session = Session::open(config, device);
    EXPECT_TRUE(session);
    Slope slope(device, **session);
    slope.spoil(4);  // two of them bring it back
    for (int iteration = 0; iteration < iterations; ++iteration) slope.iterate();
    const std::uint64_t found = slope.result();
    if (!planned) plan.emplace(drop_both((*session)->profile().phases.at(0)));
    EXPECT_EQ((*session)->summary().mismatches, planned ? 1u : 0u);
    EXPECT_EQ((*session)->summary().plans_left, 0u);
    return found;
  };
  const std::uint64_t in_core = result(false, test::session_config("64MiB", "256MiB"));
  testing::internal::CaptureStderr();
  EXPECT_EQ(result(true, test::session_config("24MiB", "256MiB")), in_core);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("map 0, made again by change, is not what it was"), std::string::npos) << said;
}

std::string name_of(const testing::TestParamInfo<Spared>& info) {
  constexpr const char* names[] = {"Never", "CallNotKept", "InUse", "PlanLeft"};
  return names[static_cast<int>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(All, SparedMaps,
                         testing::Values(Spared::never, Spared::not_kept, Spared::in_use, Spared::plan_left),
                         name_of);

}  // namespace
}  // namespace pooch::runtime
