#include "core/digest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

namespace pooch {
namespace {

TEST(Digest, DependsOnEveryByteAndItsPlace) {
  std::array<std::byte, 100> memory;
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = std::byte(i);
  const Digest whole = digest_of(memory);
  EXPECT_EQ(whole, (Digest{{0x3a7ae176c5e07242, 0x885643881b7176bf}})) << "as in digest_ptx.py";
  for (std::byte& byte : memory) {
    byte ^= std::byte{16};
    const Digest other = digest_of(memory);
    EXPECT_NE(other.sums[0], whole.sums[0]);
    EXPECT_NE(other.sums[1], whole.sums[1]);
    byte ^= std::byte{16};
  }
  std::swap_ranges(memory.begin(), memory.begin() + 8, memory.begin() + 48);
  EXPECT_NE(digest_of(memory), whole) << "words have changed places";
}

}  // namespace
}  // namespace pooch
