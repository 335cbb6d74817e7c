#include "runtime/execution/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace pooch::runtime {
namespace {

constexpr std::uint64_t small = 2 << 20, large = 16 << 20;

bool meet(const LayoutItem& a, const LayoutItem& b) {
  return std::any_of(a.held.begin(), a.held.end(), [&](const LayoutSpan& x) {
    return std::any_of(b.held.begin(), b.held.end(),
                       [&](const LayoutSpan& y) { return x.from <= y.to && y.from <= x.to; });
  });
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

// One span each, or two with a pause between.
std::vector<LayoutItem> made_up(unsigned seed, std::int32_t positions, bool with_pauses) {
  std::mt19937 random(seed);
  const auto pick = [&](std::int32_t from, std::int32_t to) {
    return std::uniform_int_distribution<std::int32_t>(from, to)(random);
  };
  std::vector<LayoutItem> items;
  for (int i = 0; i < 120; ++i) {
    LayoutItem item{pick(0, 2) == 0 ? large : small, small, {}};
    const std::int32_t from = pick(0, positions - 1), to = pick(from, positions - 1);
    const bool pauses = with_pauses && to - from > 4 && pick(0, 1) == 0;
    const std::int32_t away = pauses ? pick(from, to - 2) : to;
    item.held.push_back({from, away, from * 10.0, (away + 1) * 10.0});
    if (pauses) {
      const std::int32_t back = pick(away + 2, to);
      item.held.push_back({back, to, back * 10.0, (to + 1) * 10.0});
    }
    items.push_back(item);
  }
  return items;
}

TEST(Layout, ChunksThatShareAPieceNeverMeetAndEachHasItsBytes) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const auto items = made_up(seed, 60, /*with_pauses=*/true);
    const Layout layout = lay_out(items, 1 << 30);
    ASSERT_EQ(layout.frames_of.size(), items.size());
    std::vector<std::vector<std::size_t>> of_frame(layout.frames.size());
    for (std::size_t i = 0; i < items.size(); ++i) {
      std::uint64_t bytes = 0;
      for (const std::uint32_t frame : layout.frames_of[i]) {
        bytes += layout.frames[frame];
        for (const std::size_t other : of_frame[frame]) EXPECT_FALSE(meet(items[i], items[other])) << seed;
        of_frame[frame].push_back(i);
      }
      EXPECT_EQ(bytes, items[i].bytes);
    }
  }
}

TEST(Layout, WithoutPausesItTakesNoMoreThanThePeak) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const auto items = made_up(seed, 60, /*with_pauses=*/false);
    EXPECT_EQ(lay_out(items, 0).bytes(), peak(items, 60)) << "seed " << seed;
  }
}

TEST(Layout, PiecesOfTwoSizesAreNotMixed) {
  const Layout layout = lay_out({{small, small, {{0, 1, 0, 20}}}, {2 * large, large, {{2, 3, 20, 40}}}}, 0);
  EXPECT_EQ(layout.frames, (std::vector<std::uint64_t>{small, large, large}));
}

// The first map's copy to the host ends long after its last use; memory for a second piece avoids the wait.
TEST(Layout, MemoryThatIsThereAnywayAvoidsWaits) {
  const std::vector<LayoutItem> items{{small, small, {{0, 1, 0, 500}, {8, 9, 80, 100}}},
                                      {small, small, {{3, 5, 30, 60}}}};
  const Layout tight = lay_out(items, small), roomy = lay_out(items, 2 * small);
  EXPECT_EQ(tight.frames.size(), 1u);
  EXPECT_DOUBLE_EQ(tight.wait_us, 470);
  EXPECT_EQ(roomy.frames.size(), 2u);
  EXPECT_DOUBLE_EQ(roomy.wait_us, 0);
}

// 120 us on the average where each order is tried once.
TEST(Layout, WhoHadToWaitChoosesEarlierTheNextTime) {
  constexpr int seeds = 200;
  double waits_us = 0;
  for (unsigned seed = 0; seed < seeds; ++seed) {
    auto items = made_up(seed, 60, /*with_pauses=*/true);
    for (LayoutItem& item : items)
      if (item.held.size() > 1) item.held[0].free_us += 40, item.held[1].start_us -= 20;
    waits_us += lay_out(items, peak(items, 60) * 106 / 100).wait_us;
  }
  EXPECT_LT(waits_us / seeds, 110);
}

TEST(Layout, AChunkThatIsNeverHeldHasAPlaceToo) {
  const Layout layout = lay_out({{small, small, {}}, {small, small, {{0, 3, 0, 40}}}}, small);
  EXPECT_EQ(layout.frames.size(), 1u);
}

}  // namespace
}  // namespace pooch::runtime
