#include "runtime/observe/profiler.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/support/program.h"
#include "tests/support/rig.h"

namespace pooch::runtime {
namespace {

constexpr int maps = 12;
constexpr std::size_t ops = 2 * maps + 1;

class Profiled : public testing::Test {
 protected:
  void iterate(int times, double op_us = 100) {
    program.op_us = op_us;
    for (int i = 0; i < times; ++i) {
      const Status done = program.iterate();
      ASSERT_TRUE(done) << done.error().message;
    }
  }
  tracker::PhaseIndex phase() const { return rig.tracker.iterations().where()->phase; }
  const KnownPhase* known() { return rig.profiler.plannable(phase()); }

  test::Rig rig{test::session_config("64MiB", "64MiB")};
  Profiler& profiler = rig.profiler;
  test::ChainProgram program{rig, maps};
};

TEST_F(Profiled, EachPhaseIsTimedInThreeIterationsAndThenNoTimerIsLeft) {
  EXPECT_FALSE(profiler.measuring());
  iterate(1);
  EXPECT_TRUE(profiler.timing());
  EXPECT_TRUE(profiler.describing());
  iterate(5);
  EXPECT_FALSE(profiler.timing());
  EXPECT_FALSE(profiler.describing());
  EXPECT_FALSE(profiler.measuring());
  ASSERT_NE(known(), nullptr);
  EXPECT_EQ(known()->profile.measured, Profiler::wanted);
  ASSERT_EQ(known()->profile.ops.size(), ops);
  for (const ProfileOp& op : known()->profile.ops) {
    EXPECT_NEAR(op.us, 100, 0.01);
    EXPECT_FALSE(op.outlier);
  }
  EXPECT_NEAR(known()->profile.iteration_us, ops * 100, 0.1);
}

TEST_F(Profiled, TheMedianCountsAndOthersAreOutliers) {
  iterate(2);
  iterate(1, 300);
  iterate(4);
  ASSERT_NE(known(), nullptr);
  EXPECT_EQ(known()->profile.measured, Profiler::wanted);
  EXPECT_NEAR(known()->profile.ops[3].us, 100, 0.01);
  EXPECT_TRUE(known()->profile.ops[3].outlier);
}

TEST_F(Profiled, APhaseIsSettledOnceItsPlacesAreKnown) {
  iterate(2);
  EXPECT_TRUE(profiler.settled().empty());
  iterate(4);
  ASSERT_EQ(profiler.settled().size(), 1u);
  const KnownPhase& all = *profiler.settled().front();
  ASSERT_EQ(all.bases.size(), all.profile.buffers.size());
  for (std::size_t b = 0; b < all.bases.size(); ++b) {
    EXPECT_TRUE(all.fixed[b]) << b;
    EXPECT_EQ(all.bases[b], all.earlier[b]);
    EXPECT_FALSE(all.alternates[b]);
  }
}

TEST_F(Profiled, RevisionsGrowWithWhatIsKnown) {
  iterate(4);
  ASSERT_NE(known(), nullptr);
  const std::uint64_t revision = known()->revision;
  EXPECT_EQ(known()->revision, revision) << "nothing new was learnt";
  iterate(3);
  const std::uint64_t later = known()->revision;
  EXPECT_GE(later, revision);
  iterate(3);
  EXPECT_EQ(known()->revision, later);
}

TEST_F(Profiled, WhenMeasuringEndsNothingIsTimedAnyMore) {
  iterate(2);
  ASSERT_TRUE(profiler.measuring());
  profiler.finish();
  EXPECT_FALSE(profiler.measuring());
  iterate(4);
  EXPECT_FALSE(profiler.timing());
  Profile profile;
  profiler.fill(profile, /*estimates=*/false);
  EXPECT_EQ(profile.timer, "events");
  EXPECT_EQ(profile.iterations, rig.tracker.iterations().count());
  ASSERT_EQ(profile.phases.size(), 1u);
  EXPECT_LT(profile.phases[0].measured, Profiler::wanted);
  EXPECT_EQ(profile.phases[0].id, phase_id(rig.tracker.iterations().phase(phase())));
}

TEST_F(Profiled, AStreamThatIsDestroyedTakesNoTimesAlong) {
  iterate(6);
  const StreamHandle gone = *rig.device.create_stream();
  profiler.stream_destroyed(gone);
  profiler.stream_destroyed(program.stream());
  iterate(1);
  EXPECT_EQ(known()->profile.measured, Profiler::wanted);
}

TEST_F(Profiled, AFormulaIsProvenByTrialsOfTheCallAlone) {
  iterate(6);
  ASSERT_NE(known(), nullptr);
  using Proof = Profiler::Proof;
  EXPECT_EQ(profiler.proves(*known(), {}), Proof::yes) << "nothing is to be proven";
  EXPECT_EQ(profiler.proves(*known(), {{0, Formula::one_fma}}), Proof::no) << "the op has no substitute";
  EXPECT_EQ(profiler.proves(*known(), {{ops, Formula::one_fma}}), Proof::no) << "there is no such op";
  KnownPhase with = *known();
  with.profile.ops[0].substitute.emplace();
  EXPECT_EQ(profiler.proves(with, {{0, Formula::one_fma}}), Proof::not_yet);
  profiler.trials().close();
  EXPECT_EQ(profiler.proves(with, {{0, Formula::one_fma}}), Proof::no) << "nobody tries it any more";
}

// Each batch is there before the one before it is gone.
TEST(ProfiledProgram, ABufferInTurnAlternates) {
  test::Rig rig(test::session_config("64MiB", "64MiB"));
  const StreamHandle stream = *rig.device.create_stream();
  const auto run = [&](const char* function, std::vector<Access> accesses, std::uint64_t traits) {
    Call call{function, OpKind::elementwise, stream, accesses};
    call.traits = traits;
    ASSERT_TRUE(rig.submit(call, [&] {
      rig.device.launch(
          stream, [] {}, 50);
    }));
  };
  const Address weight = *rig.allocate(2 * MiB, stream);
  run("init", {{weight, 2 * MiB, Effect::overwrite}}, 0);
  Address before = *rig.allocate(4 * MiB, stream);
  run("first", {{before, 4 * MiB, Effect::overwrite}}, 0);
  for (int iteration = 0; iteration < 8; ++iteration) {
    const Address batch = *rig.allocate(4 * MiB, stream);
    run("batch", {{batch, 4 * MiB, Effect::overwrite}}, 0);
    ASSERT_TRUE(rig.free(std::exchange(before, batch), stream));
    for (std::uint64_t i = 0; i < 20; ++i)
      run("learn", {{batch, 4 * MiB, Effect::read}, {weight, 2 * MiB, Effect::read_write}}, i);
    rig.device.drain();
  }
  ASSERT_EQ(rig.profiler.settled().size(), 1u);
  const KnownPhase& all = *rig.profiler.settled().front();
  int batches = 0;
  for (std::size_t b = 0; b < all.bases.size(); ++b) {
    if (all.bases[b] == Address{}) continue;  // the one before, which no op touches
    const bool is_batch = all.profile.buffers[b].bytes == 4 * MiB;
    batches += is_batch;
    EXPECT_EQ(all.alternates[b], is_batch);
    EXPECT_EQ(all.fixed[b], !is_batch);
    EXPECT_EQ(all.bases[b] == all.earlier[b], !is_batch);
  }
  EXPECT_EQ(batches, 1);
}

}  // namespace
}  // namespace pooch::runtime
