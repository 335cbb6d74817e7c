#include "runtime/execution/recipes.h"

#include <gtest/gtest.h>

#include <string_view>

#include "tracker/tracker.h"

namespace pooch::runtime {
namespace {

// Buffers of a page each, and ops that could all be made again.
class RecipesTest : public testing::Test {
 protected:
  static constexpr std::uint64_t bytes = 2 * MiB;

  Address allocate() {
    const Address base{(std::uint64_t{1} << 45) + count_++ * 16 * MiB};
    tracker_.allocated(base, bytes, /*managed=*/true, /*by_program=*/true);
    Range& range = ranges_.emplace_back();
    range.base = base;
    range.bytes = bytes;
    tracker_.set_backing(base, &range);
    return base;
  }
  AllocationId id(Address base) const { return tracker_.allocations().starting_at(base)->id; }
  Range& range(Address base) {
    return *static_cast<Range*>(tracker_.allocations().starting_at(base)->backing);
  }

  void launch(std::string_view function, std::vector<Access> accesses, OpKind kind = OpKind::elementwise,
              bool can_be_kept = true) {
    class Nothing : public Replay {
      Status run(std::span<const Address>, StreamHandle) override { return Done{}; }
    };
    const auto keep = []() -> std::unique_ptr<Replay> { return std::make_unique<Nothing>(); };
    const FunctionRef<std::unique_ptr<Replay>()> kept = keep;
    Call call{function, kind, StreamHandle::legacy, accesses};
    if (can_be_kept) call.keep = &kept;
    tracker::Op op;
    tracker_.resolve(call, op);
    const bool wanted = recipes.wants(call, op);
    tracker_.launched(op);
    recipes.launched(op, wanted ? std::make_shared<const KeptCall>(call, op, keep()) : nullptr);
  }
  static Access read(Address at) { return {at, bytes, Effect::read}; }
  static Access make(Address at) { return {at, bytes, Effect::overwrite}; }
  static Access change(Address at) { return {at, bytes, Effect::read_write}; }

  const Recipe* of(Address base) { return recipes.of(id(base)); }
  void free(Address base) {
    recipes.freed(id(base));
    tracker_.freed(base);
  }

  Recipes recipes;

 private:
  tracker::Tracker tracker_;
  std::deque<Range> ranges_;
  std::uint64_t count_ = 0;
};

TEST_F(RecipesTest, WhatAnOpOverwritesCanBeMadeAgainFromWhatTheOpReads) {
  const Address x = allocate(), y = allocate();
  launch("f", {read(x), make(y)});
  ASSERT_NE(of(y), nullptr);
  EXPECT_EQ(of(y)->calls.size(), 1u);
  EXPECT_TRUE(of(y)->reads(id(x)));
  EXPECT_EQ(of(x), nullptr) << "nobody saw how it was made";
}

TEST_F(RecipesTest, AChangeInPlaceBelongsToTheRecipe) {
  const Address x = allocate(), y = allocate(), other = allocate();
  launch("f", {read(x), make(y)});
  launch("add", {read(other), change(y)});
  ASSERT_NE(of(y), nullptr);
  EXPECT_EQ(of(y)->calls.size(), 2u);
  EXPECT_TRUE(of(y)->reads(id(other)));
}

TEST_F(RecipesTest, AChangeThatCannotBeMadeAgainEndsTheRecipe) {
  const Address x = allocate(), y = allocate();
  launch("f", {read(x), make(y)});
  launch("unknown", {change(y)}, OpKind::elementwise, /*can_be_kept=*/false);
  EXPECT_EQ(of(y), nullptr);
}

TEST_F(RecipesTest, WhatReadsAChangedBufferCannotBeMadeAgain) {
  const Address x = allocate(), y = allocate(), z = allocate();
  launch("f", {read(x), make(y)});
  launch("g", {read(y), make(z)});
  launch("h", {read(x), change(y)});
  EXPECT_EQ(of(z), nullptr) << "it was made from what y was before";
  EXPECT_EQ(of(y)->calls.size(), 2u);
  launch("f", {make(x)});
  EXPECT_EQ(of(y), nullptr);
}

TEST_F(RecipesTest, WhatReadsAFreedBufferCannotBeMadeAgain) {
  const Address x = allocate(), y = allocate();
  launch("f", {read(x), make(y)});
  free(x);
  EXPECT_EQ(of(y), nullptr);
}

TEST_F(RecipesTest, APartIsNoRecipeForTheWhole) {
  const Address x = allocate(), y = allocate();
  launch("all", {make(y)});
  launch("part", {read(x), {y, bytes / 2, Effect::overwrite}});
  EXPECT_EQ(of(y), nullptr);
}

TEST_F(RecipesTest, AnOpThatAlsoChangesSomethingElseIsNotRunTwice) {
  const Address sum = allocate(), y = allocate();
  launch("f", {change(sum), make(y)});
  EXPECT_EQ(of(y), nullptr);
  launch("norm", {change(sum), make(y)}, OpKind::batch_norm_forward);
  EXPECT_NE(of(y), nullptr) << "a replay leaves running statistics alone";
}

TEST_F(RecipesTest, WhatSomethingUnseenMayChangeHasNoRecipe) {
  const Address x = allocate(), y = allocate();
  range(x).pinned = true;
  launch("f", {read(x), make(y)});
  EXPECT_EQ(of(y), nullptr);
}

TEST_F(RecipesTest, TheSameBufferOfEachIterationHasTheSameNumber) {
  const Address x = allocate();
  std::vector<std::uint32_t> numbers;
  for (int iteration = 0; iteration < 2; ++iteration) {
    const Address y = allocate(), z = allocate();
    launch("f", {read(x), make(y)});
    launch("f", {read(x), make(z)});
    EXPECT_NE(of(y)->number, of(z)->number);
    numbers.insert(numbers.end(), {of(y)->number, of(z)->number});
    free(y);
    free(z);
  }
  EXPECT_EQ(numbers[0], numbers[2]);
  EXPECT_EQ(numbers[1], numbers[3]);
}

TEST_F(RecipesTest, ThoseThatAreForgottenWhileDroppedAreTold) {
  const Address x = allocate(), y = allocate();
  launch("f", {read(x), make(y)});
  recipes.set_dropped(*recipes.of(id(y)), true);
  EXPECT_EQ(recipes.count_dropped(), 1u);
  const std::uint32_t number = of(y)->number;
  launch("g", {make(y)});
  EXPECT_EQ(recipes.count_dropped(), 0u);
  EXPECT_EQ(recipes.take_lost(), std::vector<std::uint32_t>{number});
}

}  // namespace
}  // namespace pooch::runtime
