// What makes a phase another one with a few ops in between. The shorter one is a chain: ops 0 to 3 make a map
// each, ops 4 to 7 read them in reverse order.
#include "tracker/inserted_ops.h"

#include <gtest/gtest.h>

#include "tests/support/chain.h"

namespace pooch::tracker {
namespace {

constexpr int maps = 4, ops = 2 * maps;

void move_behind(std::int32_t& position, std::int32_t at, std::int32_t count) {
  if (position != outside && position > at) position += count;
}

// The chain, and ahead of the op at `at` as many that read the map.
PhaseProfile with_ops(std::int32_t at, std::int32_t count, std::uint32_t map) {
  PhaseProfile phase = test::chain_of(maps, 100);
  ProfileOp op;
  op.kind = OpKind::elementwise;
  op.reads = {map};
  op.operands = {map};
  phase.ops.insert(phase.ops.begin() + at, static_cast<std::size_t>(count), op);
  for (ProfileBuffer& buffer : phase.buffers) {
    move_behind(buffer.from, at, count);
    move_behind(buffer.until, at, count);
  }
  return phase;
}

const PhaseProfile chain = test::chain_of(maps, 100);

TEST(InsertedOps, AreFoundWhereverTheyAre) {
  for (std::int32_t at = 0; at < ops; ++at)
    EXPECT_EQ(inserted_ops(chain, with_ops(at, 2, 1)), (InsertedOps{at, 2})) << at;
}

// The op that was inserted looks like the one behind it, which reads another map.
TEST(InsertedOps, AreToldFromTheOpsBehindThemByTheirBuffers) {
  PhaseProfile longer = with_ops(5, 1, 0);
  longer.ops[5].kind = longer.ops[6].kind;
  EXPECT_EQ(inserted_ops(chain, longer), (InsertedOps{5, 1}));
}

TEST(InsertedOps, BehindTheLastOpAreAnotherPhase) {
  EXPECT_EQ(inserted_ops(chain, with_ops(ops, 1, 0)), std::nullopt);
}

TEST(InsertedOps, AreFew) {
  EXPECT_TRUE(inserted_ops(chain, with_ops(3, most_inserted_ops, 1)));
  EXPECT_FALSE(inserted_ops(chain, with_ops(3, most_inserted_ops + 1, 1)));
  EXPECT_FALSE(inserted_ops(chain, chain));
  EXPECT_FALSE(inserted_ops(with_ops(3, 1, 1), chain)) << "it is the shorter one";
}

TEST(InsertedOps, LeaveEverythingElseAsItIs) {
  const PhaseProfile longer = with_ops(3, 1, 1);
  PhaseProfile other = longer;
  other.ops[6].kind = OpKind::gemm;
  EXPECT_FALSE(inserted_ops(chain, other)) << "another call";
  other = longer;
  other.buffers[2].bytes += 512;
  EXPECT_FALSE(inserted_ops(chain, other)) << "a larger buffer";
  other = longer;
  ++other.buffers[0].until;
  EXPECT_FALSE(inserted_ops(chain, other)) << "a buffer that lives longer";
  other = longer;
  std::swap(other.ops[7].operands, other.ops[8].operands);
  EXPECT_FALSE(inserted_ops(chain, other)) << "another order of buffers";
}

TEST(InsertedOps, CountWhatHasPassedWithoutThem) {
  constexpr InsertedOps three{.at = 2, .count = 3};
  EXPECT_EQ(three.without(1), 1);
  EXPECT_EQ(three.without(4), 2);
  EXPECT_EQ(three.without(5), 2);
  EXPECT_EQ(three.without(6), 3);
  EXPECT_TRUE(three.contains(2));
  EXPECT_FALSE(three.contains(5));
}

}  // namespace
}  // namespace pooch::tracker
