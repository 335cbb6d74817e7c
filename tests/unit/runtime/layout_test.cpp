#include "runtime/script/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "runtime/script/layout_ways.h"

namespace pooch::runtime {
namespace {

constexpr std::uint64_t small = 2 << 20, large = 16 << 20;
constexpr double move_us = 100;

bool meet(const LayoutSpan& a, const LayoutSpan& b) {
  return a.from <= b.to && b.from <= a.to;
}

// Most bytes held at one position.
std::uint64_t peak(const std::vector<LayoutItem>& items, std::int32_t positions) {
  std::uint64_t most = 0;
  for (std::int32_t p = 0; p < positions; ++p) {
    std::uint64_t now = 0;
    for (const LayoutItem& item : items)
      for (const LayoutSpan& span : item.held)
        if (span.from <= p && p <= span.to) now += item.bytes;
    most = std::max(most, now);
  }
  return most;
}

// One span each, or two with a pause between; what is there at both ends may cross the border.
// `large_of_ten`: how many are large.
std::vector<LayoutItem> made_up(unsigned seed, std::int32_t positions, bool with_borders,
                                int large_of_ten = 3) {
  std::mt19937 random(seed);
  const auto pick = [&](std::int32_t from, std::int32_t to) {
    return std::uniform_int_distribution<std::int32_t>(from, to)(random);
  };
  const auto span = [](std::int32_t from, std::int32_t to, bool crosses) {
    return LayoutSpan{from, to, from * 10.0, (to + 1) * 10.0, crosses};
  };
  std::vector<LayoutItem> items;
  for (int i = 0; i < 120; ++i) {
    LayoutItem item{pick(0, 9) < large_of_ten ? large : small, {}};
    const bool crosses = with_borders && pick(0, 9) == 0;
    const std::int32_t from = crosses ? 0 : pick(0, positions - 1);
    const std::int32_t to = crosses ? positions - 1 : pick(from, positions - 1);
    const bool pauses = to - from > 4 && pick(0, 1) == 0;
    const std::int32_t away = pauses ? pick(from, to - 2) : to;
    item.held.push_back(span(from, away, crosses));
    if (pauses) item.held.push_back(span(pick(away + 2, to), to, crosses));
    items.push_back(item);
  }
  return items;
}

TEST(Layout, StaysThatShareAFrameNeverMeetAndEachHasItsBytes) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const auto items = made_up(seed, 60, /*with_borders=*/true);
    const Layout layout = lay_out(items, peak(items, 60), move_us);
    ASSERT_EQ(layout.frames_of.size(), items.size());
    std::vector<std::vector<LayoutSpan>> of_frame(layout.frames.size());
    for (std::size_t i = 0; i < items.size(); ++i) {
      ASSERT_EQ(layout.frames_of[i].size(), items[i].held.size());
      for (std::size_t s = 0; s < items[i].held.size(); ++s) {
        std::uint64_t bytes = 0;
        for (const std::uint32_t frame : layout.frames_of[i][s]) {
          bytes += layout.frames[frame];
          for (const LayoutSpan& other : of_frame[frame]) EXPECT_FALSE(meet(items[i].held[s], other)) << seed;
          of_frame[frame].push_back(items[i].held[s]);
        }
        EXPECT_EQ(bytes, items[i].bytes);
      }
    }
  }
}

TEST(Layout, ItTakesNoMoreThanThePeak) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const auto items = made_up(seed, 60, /*with_borders=*/false);
    const std::uint64_t most = peak(items, 60);
    EXPECT_EQ(lay_out(items, most, move_us).bytes(), most) << "seed " << seed;
    EXPECT_EQ(lay_out(items, 0, move_us).bytes(), most) << "seed " << seed;
  }
}

TEST(Layout, WhatCrossesABorderStaysWhereItIs) {
  int pauses = 0;
  for (unsigned seed = 0; seed < 20; ++seed) {
    const auto items = made_up(seed, 60, /*with_borders=*/true);
    const Layout layout = lay_out(items, peak(items, 60), move_us);
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (!items[i].held.front().crosses || items[i].held.size() == 1) continue;
      ++pauses;
      EXPECT_EQ(layout.frames_of[i].front(), layout.frames_of[i].back()) << seed;
    }
  }
  EXPECT_GT(pauses, 20);
}

// The first map's copy to the host ends long after its last use; memory for a second frame avoids the wait.
TEST(Layout, MemoryThatIsThereAnywayAvoidsWaits) {
  const std::vector<LayoutItem> items{{small, {{0, 1, 0, 500}, {8, 9, 80, 100}}}, {small, {{3, 5, 30, 60}}}};
  const Layout tight = lay_out(items, small, move_us), roomy = lay_out(items, 2 * small, move_us);
  EXPECT_EQ(tight.frames.size(), 1u);
  EXPECT_DOUBLE_EQ(tight.wait_us, 470);
  EXPECT_EQ(roomy.frames.size(), 2u);
  EXPECT_DOUBLE_EQ(roomy.wait_us, 0);
  EXPECT_EQ(roomy.moves, 0u);
}

// While the first is away two others want its frame, one after the other, and the later of them stays.
TEST(Layout, WhereSomebodyElseStaysAChunkComesBackElsewhere) {
  const std::vector<LayoutItem> items{{small, {{0, 1, 0, 20}, {6, 7, 60, 80}}},
                                      {small, {{2, 3, 20, 40}}},
                                      {small, {{0, 4, 0, 50}}},
                                      {small, {{4, 7, 40, 80}}}};
  const Layout layout = lay_out(items, 2 * small, move_us);
  EXPECT_EQ(layout.bytes(), 2 * small);
  EXPECT_DOUBLE_EQ(layout.wait_us, 0);
  EXPECT_NE(layout.frames_of[0][0], layout.frames_of[0][1]);
  EXPECT_EQ(layout.moves, 2u);  // there and back
}

// 120 us on the average before anything is exchanged.
TEST(Layout, WhoHasToWaitExchangesFramesWithOthers) {
  constexpr int seeds = 200;
  double waits_us = 0;
  for (unsigned seed = 0; seed < seeds; ++seed) {
    auto items = made_up(seed, 60, /*with_borders=*/false);
    for (LayoutItem& item : items)
      if (item.held.size() > 1) item.held[0].free_us += 40, item.held[1].start_us -= 20;
    waits_us += lay_out(items, peak(items, 60) * 106 / 100, move_us).wait_us;
  }
  EXPECT_LT(waits_us / seeds, 60);
}

// The first one's place is taken by a map whose copy to the host takes long. Another place is free in time.
TEST(Layout, NobodyWaitsForItsOldPlaceWhereOthersAreFree) {
  const std::vector<LayoutItem> items{
      {small, {{0, 1, 0, 20}, {6, 7, 60, 80}}}, {small, {{2, 3, 20, 1000}}}, {small, {{0, 3, 0, 40}}}};
  const Layout layout = lay_out(items, 2 * small, move_us);
  EXPECT_DOUBLE_EQ(layout.wait_us, 0);
  EXPECT_EQ(layout.moves, 2u);
}

TEST(Layout, PagesThatAlwaysServeTogetherAreOneFrame) {
  const std::vector<LayoutItem> items{{large, {{0, 1, 0, 20}}}, {large, {{2, 3, 20, 40}}}};
  EXPECT_EQ(lay_out(items, large, move_us).frames, std::vector<std::uint64_t>{large});
}

TEST(Layout, ChunksGoBackToWhereTheyWere) {
  std::uint64_t moves = 0, stays = 0;
  for (unsigned seed = 0; seed < 20; ++seed) {
    const auto items = made_up(seed, 60, /*with_borders=*/true);
    moves += lay_out(items, peak(items, 60) * 21 / 20, move_us).moves;
    for (const LayoutItem& item : items) stays += item.held.size() > 1;
  }
  EXPECT_LT(moves, stays / 40) << stays;
}

// What crosses the border needs frames that are free at both ends. In two of these there may be none.
TEST(Layout, WhatCrossesABorderFitsIntoThePeakToo) {
  int fits = 0;
  for (unsigned seed = 0; seed < 20; ++seed) {
    const auto items = made_up(seed, 60, /*with_borders=*/true);
    fits += lay_out(items, peak(items, 60), move_us).bytes() == peak(items, 60);
  }
  EXPECT_GE(fits, 18);
}

// A forward pass and its reverse.
TEST(Layout, MapsComeBackInReverseToWhereTheyWere) {
  constexpr std::int32_t maps = 40, last = 2 * maps + 1;
  std::vector<LayoutItem> items;
  for (std::int32_t i = 0; i < maps; ++i)
    items.push_back({i % 3 == 0 ? large : small,
                     {{i, i + 1, i * 10.0, (i + 2) * 10.0},
                      {last - i - 1, last - i, (last - i - 1) * 10.0, (last - i + 1) * 10.0}}});
  const Layout layout = lay_out(items, peak(items, last + 1) + 2 * small, move_us);
  EXPECT_EQ(layout.moves, 0u);
  EXPECT_DOUBLE_EQ(layout.wait_us, 0);
}

TEST(LayoutByBlocks, AStayOfTheUsualSizeHasABlockAndOthersBreakUpFew) {
  std::size_t stays = 0, frames = 0, by_time = 0, by_blocks = 0;
  for (unsigned seed = 0; seed < 20; ++seed) {
    const auto items = made_up(seed, 60, /*with_borders=*/true, /*large_of_ten=*/8);
    const std::uint64_t limit = peak(items, 60) + 2 * large;
    const auto layout = lay_out_by_blocks(items, limit, move_us);
    ASSERT_TRUE(layout) << seed;
    EXPECT_LE(layout->bytes(), limit) << seed;
    EXPECT_EQ(what_is_wrong({{"a"}, items, *layout, 0}), "") << seed;
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (items[i].bytes != large) continue;
      for (const auto& each : layout->frames_of[i]) ++stays, frames += each.size();
    }
    by_blocks += layout->moves;
    by_time += improve(lay_out_roughly(items, limit, move_us), items, limit, move_us).moves;
  }
  EXPECT_LT(frames, 2 * stays);
  EXPECT_LE(by_blocks, by_time);
}

TEST(LayoutByBlocks, ThereIsNoneWithoutRoomForIt) {
  const auto items = made_up(1, 60, /*with_borders=*/false, /*large_of_ten=*/8);
  EXPECT_FALSE(lay_out_by_blocks(items, peak(items, 60) - large, move_us));
  EXPECT_FALSE(lay_out_by_blocks(items, small, move_us));
  EXPECT_FALSE(lay_out_by_blocks({items[0]}, large, move_us)) << "one is laid out anyway";
}

TEST(Layout, EqualArgumentsGiveEqualLayouts) {
  const auto items = made_up(3, 60, /*with_borders=*/true);
  const Layout one = lay_out(items, peak(items, 60), move_us),
               other = lay_out(items, peak(items, 60), move_us);
  EXPECT_GT(one.moves, 0u);
  EXPECT_EQ(one.frames, other.frames);
  EXPECT_EQ(one.frames_of, other.frames_of);
}

}  // namespace
}  // namespace pooch::runtime
