// Where bytes come from: runs that go on, and hashes that do not depend on how a run is cut.
#include "softgpu/driver/terms/origin.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace softgpu {
namespace {

using Origins = RunMap<Origin>;

constexpr Token a = 10, b = 20, zeros = 31;

std::vector<Origin> bytes_of(const Origins& map, std::uint64_t begin, std::uint64_t end) {
  std::vector<Origin> bytes;
  map.visit(begin, end, [&](std::uint64_t from, std::uint64_t to, const Origin& origin) {
    for (std::uint64_t at = from; at < to; ++at) bytes.push_back(origin.at(at - from));
  });
  return bytes;
}

std::uint64_t hash_of(const Origins& map, std::uint64_t begin, std::uint64_t end) {
  OriginHash hash;
  map.visit(begin, end,
            [&](std::uint64_t from, std::uint64_t to, const Origin& origin) { hash.add(to - from, origin); });
  return hash.value();
}

TEST(SoftgpuOrigin, APartOfARunKeepsItsPlaceInTheToken) {
  Origins map;
  map.set(100, 200, {a, 0});
  map.set(120, 130, {b, 0});
  EXPECT_EQ(bytes_of(map, 140, 141)[0], (Origin{a, 40}));
  EXPECT_EQ(bytes_of(map, 125, 126)[0], (Origin{b, 5}));
  EXPECT_EQ(bytes_of(map, 99, 100)[0], Origin{});
}

TEST(SoftgpuOrigin, WhatIsWrittenBackInPiecesIsOneRunAgain) {
  Origins map;
  map.set(100, 200, {a, 0});
  const std::uint64_t before = hash_of(map, 100, 200);
  map.set(130, 170, {b, 0});
  EXPECT_NE(hash_of(map, 100, 200), before);
  map.set(150, 170, {a, 50});
  map.set(130, 150, {a, 30});
  EXPECT_EQ(hash_of(map, 100, 200), before);
  EXPECT_EQ(map.runs(), 1U);
}

TEST(SoftgpuOrigin, APieceAtTheWrongPlaceIsAnotherContent) {
  Origins map;
  map.set(100, 200, {a, 0});
  const std::uint64_t before = hash_of(map, 100, 200);
  map.set(150, 170, {a, 60});
  EXPECT_NE(hash_of(map, 100, 200), before);
}

TEST(SoftgpuOrigin, SetsAreAlikeHoweverTheyAreCut) {
  Origins map;
  map.set(0, 100, {zeros, 0});
  map.set(100, 150, {zeros, 0});
  EXPECT_EQ(map.runs(), 1U);
  EXPECT_EQ(hash_of(map, 0, 50), hash_of(map, 70, 120));
}

TEST(SoftgpuOrigin, AnyOperationsLeaveWhatBytesWouldHold) {
  constexpr std::uint64_t size = 300;
  const std::vector<Token> tokens{a, b, zeros, nobody};
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    Origins map;
    std::vector<Origin> plain(size);
    for (int step = 0; step < 60; ++step) {
      std::uint64_t begin = random() % size, end = random() % (size + 1);
      if (begin > end) std::swap(begin, end);
      const Token token = tokens[random() % tokens.size()];
      const Origin origin = Origin{token, 0}.at(random() % 3 * 10);
      if (random() % 5 == 0) {
        map.forget(begin, end);
        std::fill(plain.begin() + static_cast<long>(begin), plain.begin() + static_cast<long>(end), Origin{});
      } else {
        map.set(begin, end, origin);
        for (std::uint64_t at = begin; at < end; ++at) plain[at] = origin.at(at - begin);
      }
      ASSERT_EQ(bytes_of(map, 0, size), plain) << "seed " << seed << ", step " << step;
    }
    // The hash is that of the bytes one by one.
    OriginHash hash;
    for (const Origin& origin : plain) hash.add(1, origin);
    ASSERT_EQ(hash_of(map, 0, size), hash.value());
  }
}

}  // namespace
}  // namespace softgpu
