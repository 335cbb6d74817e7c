#include "runtime/observe/substitute_trials.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/lazy_device.h"

namespace pooch::runtime {
namespace {

constexpr std::uint64_t key = 7;
constexpr Address x{0x1000}, y{0x2000}, scale{0x3000}, bias{0x3100}, mean{0x3200}, inverse{0x3300};

// Formulas in `wrong` make other bits; a pass takes 40 us.
class Comparing : public test::LazyDevice {
 public:
  Comparing() : LazyDevice(64 << 20) {}
  std::vector<std::size_t> wrong;
  std::vector<NormaliseCall> asked;
  bool refuses = false;
  double takes_us = 40;

  Status compare(const NormaliseCall& call, std::uint32_t (*differs)[formulas],
                 StreamHandle stream) override {
    if (refuses) return Error{ErrorCode::not_supported, "the driver compiles no PTX"};
    asked.push_back(call);
    launch(
        stream,
        [=, these = wrong] {
          for (const std::size_t formula : these) (*differs)[formula] = 1;
        },
        takes_us);
    return Done{};
  }
};

class Trials : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto made = device.create_stream();
    ASSERT_TRUE(made);
    stream = *made;
  }
  void TearDown() override {
    ASSERT_TRUE(device.synchronize_all());
    trials.close();
  }
  void launch(std::uint64_t of = key) { trials.launched(of, how, accesses, stream); }

  Comparing device;
  SubstituteTrials trials{device, /*wanted=*/true};
  StreamHandle stream{};
  const Substitute how{{6, 49, 3, true, false}, {1, 0, 2, 3, 4, 5}};
  const std::vector<Access> accesses{{y, 1176, Effect::overwrite},  {x, 1176, Effect::read},
                                     {scale, 12, Effect::read},     {bias, 12, Effect::read},
                                     {mean, 12, Effect::overwrite}, {inverse, 12, Effect::overwrite}};
};

TEST_F(Trials, TellTheFormulaThatMakesTheSameBitsAndWhatAPassTakes) {
  device.wrong = {0, 1, 3};
  launch();
  EXPECT_FALSE(trials.finding(key)) << "nobody waits for it";
  ASSERT_TRUE(device.synchronize_all());
  const auto found = trials.finding(key);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->formula, Formula::centred_then_fma);
  EXPECT_NEAR(found->us, 40, 1);
  ASSERT_EQ(device.asked.size(), 1u);
  EXPECT_EQ(device.asked[0].at.x, x);
  EXPECT_EQ(device.asked[0].at.inverse, inverse);
  EXPECT_EQ(device.asked[0].how, how.how);
}

// The first one waits for the driver to load the kernel, 18 ms on an H200.
TEST_F(Trials, TakeTheShortestPass) {
  for (const double us : {18000.0, 45.0}) {
    device.takes_us = us;
    launch();
    ASSERT_TRUE(device.synchronize_all());
  }
  EXPECT_NEAR(trials.finding(key)->us, 45, 1);
}

TEST_F(Trials, AreTwoForCallsThatAreAlike) {
  EXPECT_TRUE(trials.wants(key));
  launch();
  EXPECT_TRUE(trials.wants(key));
  launch();
  EXPECT_FALSE(trials.wants(key));
  EXPECT_TRUE(trials.wants(key + 1));
}

TEST_F(Trials, WantAFormulaThatIsRightEachTime) {
  device.wrong = {0, 1};
  launch();
  device.wrong = {2};
  launch();
  ASSERT_TRUE(device.synchronize_all());
  EXPECT_EQ(trials.finding(key)->formula, Formula::one_fma);
  device.wrong = {0, 1, 2, 3};
  launch(key + 1);
  ASSERT_TRUE(device.synchronize_all());
  EXPECT_EQ(trials.finding(key + 1)->formula, std::nullopt);
}

TEST_F(Trials, OfWhatCameOutWrongLaterTellNothing) {
  launch();
  ASSERT_TRUE(device.synchronize_all());
  EXPECT_TRUE(trials.finding(key)->formula);
  trials.disprove(key);
  EXPECT_FALSE(trials.finding(key)->formula);
}

TEST_F(Trials, AreNoneWhereTheDeviceCannot) {
  device.refuses = true;
  launch();
  EXPECT_FALSE(trials.wants(key));
  EXPECT_FALSE(trials.wants(key + 1));
  EXPECT_FALSE(trials.finding(key));
}

// Else a plan that was made of them would be given up, and made again without end.
TEST_F(Trials, ThatFailLaterLeaveWhatWasFoundBefore) {
  launch();
  trials.await();
  device.refuses = true;
  launch(key + 1);
  EXPECT_FALSE(trials.working());
  EXPECT_TRUE(trials.finding(key));
  EXPECT_FALSE(trials.finding(key + 1));
}

TEST_F(Trials, AreNoneWhereNobodyWantsThem) {
  SubstituteTrials none(device, /*wanted=*/false);
  EXPECT_FALSE(none.wants(key));
  EXPECT_FALSE(none.working());
}

TEST_F(Trials, CanBeWaitedFor) {
  launch();
  trials.await();
  EXPECT_TRUE(trials.finding(key));
}

// As many as there is memory for their answers; the rest comes with later calls.
TEST_F(Trials, DoNotPileUp) {
  std::uint64_t many = 0;
  for (; trials.wants(many) && many < 1000; ++many) launch(many);
  EXPECT_LT(many, 1000u);
  ASSERT_TRUE(device.synchronize_all());
  EXPECT_TRUE(trials.finding(0));
  EXPECT_TRUE(trials.wants(many));
}

}  // namespace
}  // namespace pooch::runtime
