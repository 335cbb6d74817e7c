// The pieces that large buffers move in.
#include "core/pages.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace pooch {
namespace {

constexpr std::uint64_t most = 512 * MiB;

TEST(Pieces, OfBuffersThatAreSharesOfEachOtherByPowersOfTwoHaveOneSize) {
  // ResNet-50's maps at batch 1440, in whole pages: 64 x 112 x 112 to 2048 x 7 x 7.
  for (const std::uint64_t bytes : {4410 * MiB, 2206 * MiB, 1104 * MiB, 552 * MiB, 276 * MiB})
    EXPECT_EQ(piece_of(bytes, most), 276 * MiB) << bytes / MiB;
  EXPECT_EQ(piece_of(138 * MiB, most), 138 * MiB);
}

TEST(Pieces, EndBehindTheBufferOnlyWhereNextToNothingIsMissing) {
  EXPECT_EQ(pieces_of(1104 * MiB, most), (std::vector<std::uint64_t>(4, 276 * MiB)));
  EXPECT_EQ(pieces_of(2206 * MiB, most), (std::vector<std::uint64_t>(8, 276 * MiB)));
  EXPECT_EQ(pieces_of(10 * MiB, 4 * MiB), (std::vector<std::uint64_t>{4 * MiB, 4 * MiB, 2 * MiB}));
}

TEST(Pieces, CoverTheBufferAndAreNoLargerThanAllowed) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 2000; ++i) {
    const std::uint64_t bytes = page * (1 + random() % 5000), limit = page * (1 + random() % 300);
    const auto pieces = pieces_of(bytes, limit);
    const std::uint64_t all = std::accumulate(pieces.begin(), pieces.end(), std::uint64_t{0});
    EXPECT_LE(pieces.front(), limit);
    EXPECT_GE(all, bytes);
    EXPECT_LE(all - bytes, pieces.front() / 32);
    EXPECT_GE(pieces.back(), page);
    EXPECT_LT(all - pieces.back(), bytes) << "the last one holds some of it";
    if (pieces.size() > 1) EXPECT_GT(2 * pieces.front(), limit - page) << "no more of them than it takes";
  }
}

}  // namespace
}  // namespace pooch
