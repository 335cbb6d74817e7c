#include "core/word_index.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/launch_parameters.h"

namespace pooch {
namespace {

using Bytes = test::LaunchParameters;

std::int64_t value(const std::string& text, const Bytes& params, std::uint32_t x = 0, std::uint32_t y = 0,
                   const LaunchGrid& grid = {}) {
  const auto index = WordIndex::parse(text);
  EXPECT_TRUE(index) << text;
  const auto read = [&](std::int64_t offset, unsigned bytes) { return params.read(offset, bytes); };
  return index ? index->at({x, y, 0}, grid, read) : -1;
}

TEST(WordIndex, IsWorkedOutFromBlockNumberGridAndParameters) {
  Bytes params(64);
  params.put<std::uint8_t>(19, 200);
  params.put<std::uint16_t>(34, 40000);
  params.put<std::int32_t>(40, -8);
  EXPECT_EQ(value("0x18", params), 24);
  EXPECT_EQ(value("CTAID.Y", params, 3, 5), 5);
  EXPECT_EQ(value("(CTAID.X * 0x8)", params, 3), 24);
  EXPECT_EQ(value("(p[CTAID.X + 16].u8 * 0x8)", params, 3), 1600);
  EXPECT_EQ(value("p[CTAID.X + 16].s8", params, 3), -56);
  EXPECT_EQ(value("(p[(CTAID.X * 0x2) + 32].u16 + 0x1)", params, 1), 40001);
  EXPECT_EQ(value("p[40].u32", params), -8) << "a register's 32 bits are an offset";
  EXPECT_EQ(value("((NCTAID.X + NTID.Y) & 0xff)", params, 0, 0, {{300, 1, 1}, {1, 4, 1}}), 304 & 0xff);
  EXPECT_EQ(value("(CTAID.X + 0xfffffff8)", params, 1), -7) << "sums wrap around";
}

TEST(WordIndex, TellsWhichBlockNumbersItDependsOn) {
  const auto index = WordIndex::parse("(p[CTAID.Y + 8].u8 * NCTAID.X)");
  ASSERT_TRUE(index);
  EXPECT_FALSE(index->depends_on(0));
  EXPECT_TRUE(index->depends_on(1));
  EXPECT_FALSE(index->depends_on(2));
}

TEST(WordIndex, IsNoneWhereThreadsOrTheUnknownDecide) {
  for (const char* text :
       {"?", "", "TID.X", "(TID.X * 0x8)", "(stack + 8)", "p[8]", "p[8].u7", "p[8].u64", "p[.u8",
        "(CTAID.X * 0x8", "(CTAID.X - 0x8)", "CTAID.W", "CTAID.X ", "0x", "(CTAID.X & 8)"})
    EXPECT_FALSE(WordIndex::parse(text)) << text;
  EXPECT_FALSE(WordIndex::parse(std::string(100'000, '(') + "CTAID.X"))
      << "the text cannot exhaust the stack";
}

}  // namespace
}  // namespace pooch
