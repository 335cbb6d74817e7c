// A plan drops a map that is made from memory of the driver's. Where the program frees that memory earlier
// than it did before, the map is made again first: behind the free its operand is whatever lies there by
// then.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <optional>

#include "runtime/session/session.h"
#include "tests/support/ladder.h"
#include "tests/support/program.h"

namespace pooch::runtime {
namespace {

using test::OpenDevice;
using test::PlanFile;

// The first map is made from the weights and from a scale, which is no memory of the session's.
class Scaled : public test::Ladder<Session, /*small_parts=*/true> {
 public:
  Scaled(OpenDevice& device, Session& session) : Ladder(device, session), session_(session) {
    scale_ = *device.reserve(scale_bytes);
    EXPECT_TRUE(device.map(scale_, scale_bytes, *device.create(scale_bytes)));
    EXPECT_TRUE(device.set_access(scale_, scale_bytes));
    EXPECT_TRUE(session.admit_pass_through(scale_bytes));
    session.passed_through(scale_, scale_bytes, /*by_program=*/true);
    call("fill", OpKind::set, {{scale_, touched, Effect::overwrite}});
  }
  void iterate(const std::function<void()>& behind_the_drop = {}) {
    call("scaled", OpKind::conv_forward,
         {{scale_, touched, Effect::read},
          {weights(), touched, Effect::read},
          {map(0), touched, Effect::overwrite}});
    twin(1);
    forward(2);
    forward(3);
    if (behind_the_drop) behind_the_drop();
    for (int map = 4; map < maps; ++map) forward(map);
    for (int map = maps; map-- > 0;) backward(map);
    update();
  }
  // In the order of a stream that nothing else is in.
  void free_scale() {
    const auto gone = session_.pass_through_freed(scale_);
    EXPECT_TRUE(gone && *gone);
    EXPECT_TRUE(device().unmap(scale_, scale_bytes));
  }

 private:
  static constexpr std::uint64_t scale_bytes = 2 * MiB;
  Session& session_;
  Address scale_{};
};

Plan drop_first(const PhaseProfile& phase) {
  using Kind = PlanAction::Kind;
  Plan plan = test::empty_plan(phase);
  plan.maps = {test::planned_map(phase, 0, 0, MapClass::recompute, {0})};
  plan.after[2] = {{Kind::drop, 0}};
  plan.before[15] = {{Kind::replay, 0}};
  return plan;
}

constexpr int settled = 16;

TEST(FreedOperands, AMapIsMadeAgainBeforeWhatItIsMadeFromIsFreed) {
  std::uint64_t in_core = 0;
  std::optional<Plan> plan;
  {
    OpenDevice ample(512 * MiB);
    const auto session = Session::open(test::session_config("64MiB", "256MiB"), ample);
    ASSERT_TRUE(session);
    Scaled program(ample, **session);
    for (int iteration = 0; iteration <= settled; ++iteration) program.iterate();
    in_core = program.result();
    plan = drop_first((*session)->profile().phases.at(0));
  }
  const PlanFile file(*plan);
  Config config = test::session_config("24MiB", "256MiB");
  config.plan_file = file.path;
  OpenDevice device(512 * MiB);
  const auto session = Session::open(config, device);
  ASSERT_TRUE(session);
  Scaled program(device, **session);
  for (int iteration = 0; iteration < settled; ++iteration) program.iterate();
  const Summary before = (*session)->summary();
  ASSERT_GT(before.replays, 3u);
  program.iterate([&] { program.free_scale(); });
  EXPECT_EQ((*session)->summary().replays, before.replays + 1);
  EXPECT_EQ(program.result(), in_core);
  EXPECT_EQ((*session)->summary().mismatches, 0u);
  EXPECT_TRUE(device.complaints().empty()) << device.complaints().front();
}

}  // namespace
}  // namespace pooch::runtime
