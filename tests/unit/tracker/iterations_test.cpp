#include "tracker/iterations.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

#include "tracker/layers.h"
#include "tracker/phase_profile.h"
#include "tracker/tracker.h"

namespace pooch::tracker {
namespace {

constexpr std::uint64_t tensor_bytes = 4 * MiB;

// A chain of layers as a framework runs it: y = f(x, w) forward, gradients back, then an optimiser's step.
// Each layer is applied so many times in a row, as a recurrent one is; it has tables to look at then.
class Chain {
 public:
  Chain(Tracker& tracker, int layers, std::uint64_t base, std::uint64_t traits = 0, std::size_t times = 1)
      : tracker_(tracker), next_(base), traits_(traits), times_(times) {
    for (int i = 0; i < layers; ++i) {
      weights_.push_back(make());
      momenta_.push_back(make());
      run(OpKind::set, {{weights_[i], Effect::overwrite}});
      run(OpKind::set, {{momenta_[i], Effect::overwrite}});
    }
    for (int i = 0; times > 1 && i < 5; ++i) tables_.push_back({make(), Effect::read});
  }

  // `bytes`: of what layers make; weights are of one size.
  void train(bool step = true, std::uint64_t bytes = tensor_bytes) {
    map_bytes_ = bytes;
    pass(/*learn=*/true);
    map_bytes_ = tensor_bytes;
    if (!step) return;
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      run(OpKind::blas, {{momenta_[i], Effect::read_write}, {gradients_[i], Effect::read}});
      run(OpKind::blas, {{weights_[i], Effect::read_write}, {momenta_[i], Effect::read}});
      drop(gradients_[i]);
    }
    gradients_.clear();
  }
  void validate() { pass(/*learn=*/false); }
  void trial() {
    const Address y = make();
    run(OpKind::conv_forward, {{weights_[0], Effect::read}, {y, Effect::read_write}}, 0, true);
    drop(y);
  }
  // New tensors that stay, each filled as what nobody has set yet, and then set.
  void fill(int tensors) {
    for (int i = 0; i < tensors; ++i) {
      const Address made = make();
      for (int twice = 0; twice < 2; ++twice) run(OpKind::set, {{made, Effect::overwrite}});
    }
  }

 private:
  struct Use {
    Address address;
    Effect effect;
  };

  Address make_map() { return make(map_bytes_); }
  Address make(std::uint64_t bytes = tensor_bytes) {
    Address address{next_};
    if (!free_.empty()) {
      address = free_.back();
      free_.pop_back();
    } else {
      next_ += 2 * tensor_bytes;
    }
    tracker_.allocated(address, bytes, true, true);
    bytes_[address] = bytes;
    return address;
  }
  void drop(Address address) {
    tracker_.freed(address);
    free_.push_back(address);
  }
  void run(OpKind kind, const std::vector<Use>& uses, std::uint64_t traits = 0, bool trial = false) {
    std::vector<Access> accesses;
    for (const Use& use : uses) accesses.push_back({use.address, bytes_.at(use.address), use.effect});
    Call call{traits == 2 ? "infer" : "op", kind, StreamHandle::legacy, accesses};
    call.traits = traits + traits_ + map_bytes_;
    call.trial = trial;
    Op op;
    tracker_.resolve(call, op);
    tracker_.launched(op);
  }

  void pass(bool learn) {
    std::vector<Address> maps = {make_map()};
    run(OpKind::copy_in, {{maps[0], Effect::overwrite}});
    for (std::size_t i = 0; i < weights_.size() * times_; ++i) {
      maps.push_back(make_map());
      run(OpKind::conv_forward,
          {{maps[i], Effect::read}, {weights_[i / times_], Effect::read}, {maps[i + 1], Effect::overwrite}});
      // In validation as in frameworks: the same convolution, another normalisation.
      std::vector<Use> uses = tables_;
      uses.push_back({maps[i + 1], Effect::read_write});
      run(OpKind::batch_norm_forward, uses, learn ? 1 : 2);
      if (!learn) drop(maps[i]);
    }
    if (learn)
      back(maps);
    else
      drop(maps.back());
  }
  void back(std::vector<Address>& maps) {
    const bool accumulate = !gradients_.empty();
    if (!accumulate)
      for (std::size_t i = 0; i < weights_.size(); ++i) gradients_.push_back(make());
    Address dy = maps.back();
    for (std::size_t i = weights_.size() * times_; i-- > 0;) {
      const bool adds = accumulate || i % times_ != times_ - 1;
      run(OpKind::conv_backward_filter,
          {{maps[i], Effect::read},
           {dy, Effect::read},
           {gradients_[i / times_], adds ? Effect::read_write : Effect::overwrite}});
      const Address dx = make_map();
      run(OpKind::conv_backward_data,
          {{weights_[i / times_], Effect::read}, {dy, Effect::read}, {dx, Effect::overwrite}});
      drop(dy);
      dy = dx;
    }
    drop(dy);
    drop(maps[0]);
    for (std::size_t i = 1; i + 1 < maps.size(); ++i) drop(maps[i]);
  }

  Tracker& tracker_;
  std::uint64_t next_, traits_;
  std::size_t times_;
  std::uint64_t map_bytes_ = tensor_bytes;
  std::map<Address, std::uint64_t> bytes_;
  std::vector<Address> weights_, momenta_, gradients_, free_;
  std::vector<Use> tables_;
};

struct Found {
  std::uint64_t iterations;
  std::size_t phases;
};
Found found(const Tracker& tracker) {
  return {tracker.iterations().count(), tracker.iterations().phases()};
}

// All that the program does now is one iteration.
template <class Program>
void expect_one(Tracker& tracker, const Program& program) {
  const StepIndex start = tracker.steps();
  (void)tracker.take_completed();
  program();
  const auto completed = tracker.take_completed();
  ASSERT_EQ(completed.size(), 1u);
  EXPECT_EQ(completed[0].start, start);
  EXPECT_EQ(completed[0].end, tracker.steps());
}

TEST(Iterations, PlainLoopIsKnownAtTheEndOfTheSecond) {
  Tracker tracker;
  Chain chain(tracker, 12, 1 << 30);
  chain.train();
  EXPECT_EQ(found(tracker).iterations, 0u);
  chain.train();
  EXPECT_EQ(found(tracker).iterations, 2u);
  for (int i = 0; i < 5; ++i) chain.train();
  EXPECT_EQ(found(tracker).iterations, 7u);
  EXPECT_EQ(found(tracker).phases, 1u);
}

// A short loop is known late, and then several iterations of it become known at one step: whoever asks after
// that step must still find all of them in the log, each op with what was said of it.
TEST(Iterations, ThoseThatBecomeKnownAtOnceAreStillInTheLog) {
  Tracker tracker;
  tracker.allocated(Address{1 << 30}, tensor_bytes, true, true);
  const Access accesses[] = {{Address{1 << 30}, tensor_bytes, Effect::read_write}};
  std::size_t most = 0;
  std::uint64_t taken = 0;
  for (std::uint32_t step = 0; step < 300; ++step) {
    Call call{"op", OpKind::elementwise, StreamHandle::legacy, accesses};
    call.traits = step % 3;
    call.site = step;
    Op op;
    tracker.resolve(call, op);
    tracker.launched(op);
    const auto completed = tracker.take_completed();
    most = std::max(most, completed.size());
    for (const Iteration& iteration : completed) {
      EXPECT_EQ(iteration.end - iteration.start, 3u);
      for (StepIndex i = iteration.start; i < iteration.end; ++i) {
        ASSERT_TRUE(tracker.log().has(i)) << "step " << i << " was forgotten at step " << step;
        EXPECT_EQ(tracker.log().at(i).description.site, i);
        ASSERT_EQ(tracker.log().operands(i).size(), 1u);
        EXPECT_EQ(tracker.log().operands(i)[0].base, Address{1 << 30});
      }
    }
    taken += completed.size();
  }
  EXPECT_GE(most, 3u);
  EXPECT_EQ(taken, tracker.iterations().count());
  // What has been looked at is forgotten.
  EXPECT_LE(tracker.log().end() - tracker.log().begin(), 2 * 3u);
}

// Equal layers repeat each other within one iteration; only the loop comes back to the same weights.
TEST(Iterations, EqualLayersAreNoIterations) {
  Tracker tracker;
  Chain chain(tracker, 200, 1 << 30);
  chain.train();
  EXPECT_EQ(found(tracker).phases, 0u);
  chain.train();
  EXPECT_EQ(found(tracker).iterations, 2u);
}

// Memory that a short repetition has made itself tells of no loop, though it is met twice.
TEST(Iterations, TensorsThatAreFilledTwiceAreNone) {
  Tracker tracker;
  Chain chain(tracker, 12, 1 << 30);
  chain.train(/*step=*/false);
  chain.fill(40);
  EXPECT_EQ(found(tracker).phases, 0u);
  chain.train();
  for (int i = 0; i < 3; ++i) chain.train();
  EXPECT_EQ(found(tracker).phases, 1u);
}

TEST(Iterations, TrialsBeforeTheFirstAreNotCounted) {
  Tracker tracker;
  Chain chain(tracker, 12, 1 << 30);
  for (int i = 0; i < 30; ++i) chain.trial();
  for (int i = 0; i < 3; ++i) chain.train();
  EXPECT_EQ(found(tracker).iterations, 3u);
  EXPECT_EQ(found(tracker).phases, 1u);
}

TEST(Iterations, TrialsInTheFirstOneOnlyDoNotHideIt) {
  Tracker tracker;
  Chain chain(tracker, 12, 1 << 30);
  chain.train();
  chain.trial();
  chain.train();
  chain.train();
  EXPECT_EQ(found(tracker).iterations, 3u);
}

TEST(Iterations, AccumulationIsPassesOfTwoOrThreePhases) {
  Tracker tracker;
  Chain chain(tracker, 12, 1 << 30);
  for (int i = 0; i < 16; ++i) chain.train(i % 4 == 3);
  EXPECT_GE(found(tracker).iterations, 14u);
  EXPECT_LE(found(tracker).iterations, 16u);
  // First (gradients are overwritten), middle, and last with the optimiser's step.
  EXPECT_EQ(found(tracker).phases, 3u);
}

// A pass that makes the gradients and one that adds to them and steps: two passes, though gradients live on.
TEST(Iterations, AccumulationOverTwoIsTwoPhases) {
  Tracker tracker;
  Chain chain(tracker, 12, 1 << 30);
  for (int i = 0; i < 12; ++i) chain.train(i % 2 == 1);
  EXPECT_EQ(found(tracker).iterations, 12u);
  EXPECT_EQ(found(tracker).phases, 2u);
}

TEST(Iterations, ValidationEveryFive) {
  Tracker tracker;
  Chain chain(tracker, 12, 1 << 30);
  for (int i = 0; i < 20; ++i) {
    chain.train();
    if (i % 5 == 4) chain.validate();
  }
  EXPECT_EQ(found(tracker).iterations, 24u);
  EXPECT_EQ(found(tracker).phases, 2u);
}

TEST(Iterations, SeveralValidationsInARow) {
  Tracker tracker;
  Chain chain(tracker, 12, 1 << 30);
  for (int i = 0; i < 12; ++i) {
    chain.train();
    if (i % 4 == 3)
      for (int v = 0; v < 3; ++v) chain.validate();
  }
  EXPECT_EQ(found(tracker).iterations, 12u + 9u);
  EXPECT_EQ(found(tracker).phases, 2u);
}

TEST(Iterations, TwoNetworksInTurnAreTwoPhases) {
  Tracker tracker;
  Chain one(tracker, 12, 1 << 30), other(tracker, 9, std::uint64_t{1} << 40, 100);
  for (int i = 0; i < 6; ++i) one.train(), other.train();
  EXPECT_EQ(found(tracker).iterations, 12u);
  EXPECT_EQ(found(tracker).phases, 2u);
}

TEST(Iterations, ThePhaseAheadIsPredictedFromHistory) {
  Tracker tracker;
  Chain chain(tracker, 12, 1 << 30);
  const auto cycle = [&] {
    for (int i = 0; i < 4; ++i) chain.train();
    chain.validate();
  };
  for (int i = 0; i < 3; ++i) cycle();
  const auto training = tracker.iterations().where();
  ASSERT_TRUE(training);
  EXPECT_EQ(training->start, tracker.steps()) << "between two iterations";
  for (int i = 0; i < 4; ++i) chain.train();
  const auto validation = tracker.iterations().where();
  ASSERT_TRUE(validation);
  EXPECT_NE(training->phase, validation->phase);
}

TEST(Iterations, OneValidationDoesNotMakeTheNextOneExpected) {
  Tracker tracker;
  Chain chain(tracker, 12, 1 << 30);
  for (int i = 0; i < 8; ++i) chain.train();
  const auto training = tracker.iterations().where();
  ASSERT_TRUE(training);
  chain.validate();
  for (int i = 0; i < 6; ++i) {
    chain.train();
    const auto next = tracker.iterations().where();
    ASSERT_TRUE(next);
    EXPECT_EQ(next->phase, training->phase) << "after iteration " << i << " behind the validation";
  }
}

// A layer that is applied 40 times comes back to its weights each time, as a loop does, but what it made is
// needed until its backward pass.
TEST(Iterations, RepetitionsWithinOneAreGivenUpForTheWhole) {
  Tracker tracker;
  Chain chain(tracker, 2, 1 << 30, 0, 40);
  for (int i = 0; i < 4; ++i) chain.train();
  EXPECT_LE(found(tracker).iterations, 4u);
  for (int i = 0; i < 5; ++i) expect_one(tracker, [&] { chain.train(); });
}

TEST(Iterations, RepetitionsAreGivenUpWhereValidationComesBetween) {
  Tracker tracker;
  Chain chain(tracker, 2, 1 << 30, 0, 40);
  for (int i = 0; i < 5; ++i) {
    chain.validate();
    for (int k = 0; k < 4; ++k) {
      if (i < 2)
        chain.train();
      else
        expect_one(tracker, [&] { chain.train(); });
    }
  }
}

// Batches of one size or another, and whether they are of one phase then.
class AnySize : public testing::Test {
 protected:
  void train(std::uint64_t pages) { chain.train(true, pages * MiB); }
  bool by_form() const { return tracker.iterations().likeness() == Likeness::form; }
  std::size_t current_phases() const {
    std::size_t count = 0;
    for (std::uint32_t i = 0; i < tracker.iterations().phases(); ++i)
      count += !tracker.iterations().phase(PhaseIndex{i}).given_up;
    return count;
  }
  Tracker tracker;
  Chain chain{tracker, 40, 1 << 30};
  std::mt19937 random{7};
  std::uint64_t next_pages() {
    return 1 + (pages_ = (pages_ + 1 + random() % 3) % 4);
  }  // never twice in a row

 private:
  std::uint64_t pages_ = 0;
};

TEST_F(AnySize, BatchesThatAllDifferAreOfOnePhase) {
  std::uint64_t bytes = tensor_bytes;
  for (int i = 0; i < 17; ++i) chain.train(true, bytes -= 4096);
  ASSERT_TRUE(by_form());
  EXPECT_EQ(current_phases(), 1u);
  for (int i = 0; i < 8; ++i) expect_one(tracker, [&] { chain.train(true, bytes -= 4096); });
  EXPECT_EQ(current_phases(), 1u);
}

TEST_F(AnySize, SizesThatRecurInTurnAreAPhaseEach) {
  for (int i = 0; i < 40; ++i) train(1 + static_cast<std::uint64_t>(i) % 4);
  EXPECT_FALSE(by_form());
  EXPECT_EQ(current_phases(), 4u);
}

TEST_F(AnySize, ItIsEnoughThatMostSizesAreNew) {
  for (int i = 0; i < 4; ++i) chain.train();
  EXPECT_FALSE(by_form());
  std::uint64_t bytes = tensor_bytes;
  for (int i = 0; i < 40; ++i) chain.train(true, i % 3 == 0 ? tensor_bytes : bytes -= 4096);
  EXPECT_TRUE(by_form());
  for (int i = 0; i < 4; ++i) expect_one(tracker, [&] { chain.train(true, bytes -= 4096); });
  EXPECT_LE(current_phases(), 2u)
      << "the second is of an iteration's end, behind which they are compared by form";
}

TEST_F(AnySize, AFewSizesInAnyOrderArePhases) {
  for (int i = 0; i < 60; ++i) train(next_pages());
  EXPECT_FALSE(by_form());
  EXPECT_EQ(current_phases(), 4u);
}

TEST_F(AnySize, AnotherStructureIsAnotherPhase) {
  std::uint64_t bytes = tensor_bytes;
  for (int i = 0; i < 17; ++i) chain.train(true, bytes -= 4096);
  chain.validate();
  chain.train(true, bytes -= 4096);
  for (int i = 0; i < 2; ++i) expect_one(tracker, [&] { chain.train(true, bytes -= 4096); });
  EXPECT_EQ(current_phases(), 2u);
}

// Ops on random tensors that are never the same for long.
TEST(Iterations, RandomStreamsHaveNone) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    Tracker tracker;
    std::mt19937 random(seed);
    const auto tensors = 3 + random() % 12;
    for (std::uint64_t i = 0; i < tensors; ++i)
      tracker.allocated(Address{(i + 1) << 30}, tensor_bytes, true, true);
    const auto kinds = 2 + random() % 4;
    for (int i = 0; i < 4000; ++i) {
      const Access accesses[] = {{Address{(1 + random() % tensors) << 30}, tensor_bytes, Effect::read},
                                 {Address{(1 + random() % tensors) << 30}, tensor_bytes, Effect::overwrite}};
      Call call{"op", OpKind::elementwise, StreamHandle::legacy, accesses};
      call.traits = random() % kinds;
      Op op;
      tracker.resolve(call, op);
      tracker.launched(op);
    }
    EXPECT_EQ(found(tracker).iterations, 0u) << "seed " << seed;
  }
}

TEST(Description, OfAChainIsItsLayersMapsAndRoles) {
  Tracker tracker;
  Chain chain(tracker, 5, 1 << 30);
  std::optional<PhaseProfile> phase;
  for (int i = 0; i < 3; ++i) {
    chain.train();
    for (const Iteration& iteration : tracker.take_completed())
      if (tracker.log().has(iteration.start))
        phase = describe_iteration(tracker.log(), iteration.start, iteration.end);
  }
  ASSERT_TRUE(phase);
  EXPECT_EQ(phase->kind, "train");
  EXPECT_EQ(phase->turn, 10);
  EXPECT_EQ(phase->ops.size(), 10u + 10u + 10u);
  const LayerGraph graph = build_layers(*phase);
  EXPECT_EQ(graph.layers.size(), 10u);
  // The input and every normalised convolution but the last, whose memory the first gradient takes.
  int kept = 0;
  for (const Map& map : graph.maps) kept += map.kept;
  EXPECT_EQ(kept, 6);
}

// Op 0 makes x; op 1 normalises it into y, and saves its statistics; op 2 clips y in its place, or does
// something else.
PhaseProfile normalised(Clip clip, std::uint64_t read_by_op_2 = tensor_bytes) {
  Tracker tracker;
  std::vector<Address> at;
  for (std::uint64_t i = 0; i < 6; ++i) {
    at.push_back(Address{(i + 1) << 30});
    (void)tracker.allocated(at.back(), tensor_bytes, true, true);
  }
  enum { x, y, scale, bias, mean, inverse };
  const auto run = [&](OpKind kind, const std::vector<Access>& accesses, Clip clips, bool normalises) {
    Call call{"f", kind, StreamHandle::legacy, accesses};
    call.clip = clips;
    Op op;
    tracker.resolve(call, op);
    if (normalises) op.description.substitute = {true, {0, 1, 2, 3, 4, 5}};
    tracker.launched(op);
  };
  const std::uint64_t all = tensor_bytes, few = 1024;
  for (const int weights : {scale, bias})
    run(OpKind::set, {{at[weights], few, Effect::overwrite}}, Clip::none, false);
  const StepIndex start = tracker.steps();
  run(OpKind::conv_forward, {{at[x], all, Effect::overwrite}}, Clip::none, false);
  run(OpKind::batch_norm_forward,
      {{at[x], all, Effect::read},
       {at[y], all, Effect::overwrite},
       {at[scale], few, Effect::read},
       {at[bias], few, Effect::read},
       {at[mean], few, Effect::overwrite},
       {at[inverse], few, Effect::overwrite}},
      Clip::none, true);
  run(OpKind::activation_forward, {{at[y], read_by_op_2, Effect::read_write}}, clip, false);
  return describe_iteration(tracker.log(), start, tracker.steps());
}

TEST(Description, SaysFromWhatABatchNormIsMadeAgainAndThroughWhichReLU) {
  const PhaseProfile phase = normalised(Clip::drops_nan);
  EXPECT_FALSE(phase.ops[0].substitute);
  EXPECT_FALSE(phase.ops[2].substitute);
  ASSERT_TRUE(phase.ops[1].substitute);
  const ProfileSubstitute& by = *phase.ops[1].substitute;
  std::vector<std::uint32_t> buffers;
  for (const std::uint32_t v : by.reads) buffers.push_back(phase.versions[v].buffer);
  const auto buffer = [&](std::size_t op, std::size_t write) {
    return phase.versions[phase.ops[op].writes[write]].buffer;
  };
  ASSERT_EQ(buffers.size(), 5u);
  EXPECT_EQ(buffers[0], buffer(0, 0)) << "x";
  EXPECT_EQ(buffers[3], buffer(1, 1)) << "the mean that it saved";
  EXPECT_EQ(buffers[4], buffer(1, 2));
  EXPECT_EQ(by.makes, phase.ops[2].writes);
  EXPECT_EQ(by.through, 2);
  EXPECT_EQ(by.clip, Clip::drops_nan);
  EXPECT_FALSE(by.formula);
}

TEST(Description, ABatchNormGoesThroughNothingElse) {
  for (const PhaseProfile& phase : {normalised(Clip::none), normalised(Clip::keeps_nan, tensor_bytes / 2)}) {
    ASSERT_TRUE(phase.ops[1].substitute);
    EXPECT_EQ(phase.ops[1].substitute->makes[0], phase.ops[1].writes[0]);
    EXPECT_EQ(phase.ops[1].substitute->through, outside);
    EXPECT_EQ(phase.ops[1].substitute->clip, Clip::none);
  }
}

}  // namespace
}  // namespace pooch::tracker
