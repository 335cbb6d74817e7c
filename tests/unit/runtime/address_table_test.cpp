#include "runtime/session/address_table.h"

#include <gtest/gtest.h>

#include <vector>

namespace pooch::runtime {
namespace {

constexpr Address base{0x6a5a'4c00'0000};
constexpr std::uint64_t bytes = std::uint64_t{40} << 30;
constexpr std::uint64_t allocation = 64 * MiB;  // all of the range is allocations of that size

// A word in the middle of the n-th allocation; its lower half is large.
std::uint64_t inside(std::uint64_t n) {
  return raw(base) + n * allocation + 32 * MiB;
}

std::vector<Address> found_in(const HostBlock& block, Evidence evidence = Evidence::table) {
  std::vector<Address> found;
  find_addresses(
      block, evidence, base, bytes,
      [](Address word) { return (word - base) % allocation == 0 ? PointsTo::begin : PointsTo::inside; },
      [&](Address word) { found.push_back(word); });
  return found;
}
std::vector<Address> found_in(const std::vector<std::uint64_t>& words, Evidence evidence = Evidence::table) {
  return found_in(HostBlock(std::as_bytes(std::span(words))), evidence);
}

TEST(AddressTable, ASingleWordIsATableWhereThereIsLittleElse) {
  std::vector<std::uint64_t> words(512, 7);
  words[300] = inside(3);
  EXPECT_EQ(found_in(words), std::vector{Address{inside(3)}});
  words.push_back(7);
  EXPECT_TRUE(found_in(words).empty()) << "not in more than a window";
  EXPECT_EQ(found_in(words, Evidence::word).size(), 1u) << "but where memory is looked at once";
  words[301] = inside(4);
  EXPECT_EQ(found_in(words).size(), 2u);
}

TEST(AddressTable, WordsOfDataThatLieApartAreNone) {
  std::vector<std::uint64_t> words(16 * 512, 7);
  for (std::size_t window = 0; window < 16; ++window) words[window * 512 + 100] = inside(window);
  EXPECT_TRUE(found_in(words).empty());
}

TEST(AddressTable, PairsOfSmallIntegersAreNone) {
  const std::uint64_t upper = (raw(base) >> 32) + 1;
  std::vector<std::uint64_t> words;
  for (std::uint64_t token = 1; token < 400; ++token) words.push_back(upper << 32 | token * 100);
  EXPECT_TRUE(found_in(words).empty());
  words[7] = inside(2);
  EXPECT_EQ(found_in(words).size(), words.size()) << "beside an address they may be some";
}

TEST(AddressTable, WhereAnAllocationBeginsASmallLowerHalfIsAnAddress) {
  const Address at_four_gib = base + (~raw(base) & 0xffff'ffff) + 1;
  ASSERT_EQ(raw(at_four_gib) & 0xffff'ffff, 0u);
  find_addresses(
      HostBlock(std::as_bytes(std::span(&at_four_gib, 1))), Evidence::table, base, bytes,
      [](Address) { return PointsTo::begin; }, [&](Address word) { EXPECT_EQ(word, at_four_gib); });
  EXPECT_EQ(found_in({raw(base)}).size(), 1u);
}

TEST(AddressTable, ALargeTableIsFoundWhole) {
  std::vector<std::uint64_t> words(8 * MiB / 8, 0);
  EXPECT_TRUE(found_in(words).empty());
  std::size_t addresses = 0;
  for (std::size_t at = 0; at < words.size(); at += 16, ++addresses) words[at] = inside(at % 600);
  EXPECT_GE(found_in(words).size(), addresses);
  // Only its second half:
  for (std::size_t at = 0; at < words.size() / 2; ++at) words[at] = 0;
  EXPECT_GE(found_in(words).size(), addresses / 2);
}

TEST(AddressTable, RowsAndLayersAreLookedAtOneBehindTheOther) {
  // Two layers of three rows of 12 bytes: a word and a half.
  std::vector<std::byte> memory(4096);
  HostBlock block;
  block.first = memory.data();
  block.width = 12, block.height = 3, block.depth = 2;
  block.pitch = 100, block.slice = 1000;
  const std::uint64_t hidden = inside(5);
  std::memcpy(memory.data() + 1000 + 200, &hidden, 8);
  EXPECT_EQ(found_in(block), std::vector{Address{hidden}});
  std::memcpy(memory.data() + 1000 + 200, &block, 8);
  std::memcpy(memory.data() + 300, &hidden, 8);  // behind the last row of the first layer
  EXPECT_TRUE(found_in(block).empty());
}

TEST(AddressTable, WordsAreWholeWhereTheyAreWholeOnTheDevice) {
  std::vector<std::byte> memory(20);
  const std::uint64_t hidden = inside(6);
  std::memcpy(memory.data() + 4, &hidden, 8);
  HostBlock block{std::span<const std::byte>(memory)};
  EXPECT_TRUE(found_in(block).empty());
  block.skipped = 4;
  EXPECT_EQ(found_in(block), std::vector{Address{hidden}});
}

}  // namespace
}  // namespace pooch::runtime
