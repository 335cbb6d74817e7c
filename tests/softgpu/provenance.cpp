// In timing mode nothing is computed, and yet what the host reads tells where it comes from: the same
// operations on the same operands give the same bytes, and all that goes wrong on the way gives others.
#include <cmath>
#include <cstring>

#include "tests/softgpu/driver.h"

using namespace softgpu_test;

namespace {

constexpr std::size_t words = 1024, bytes = 4 * words;
constexpr std::size_t large =
    64 * MiB;  // of so much page-locked memory large copies leave their first bytes alone
using Content = std::vector<float>;

Content content(CUdeviceptr at, std::size_t count = words) {
  Content result(count);
  EXPECT_EQ(cuMemcpyDtoH(result.data(), at, 4 * count), CUDA_SUCCESS);
  return result;
}

// A small net: y = x + w, twice. What x and w hold says who filled them.
struct Net {
  CUdeviceptr x = allocate(bytes), w = allocate(bytes), y = allocate(bytes);
  Net() {
    EXPECT_EQ(fill(x, words, 1), CUDA_SUCCESS);
    EXPECT_EQ(fill(w, words, 2), CUDA_SUCCESS);
    EXPECT_EQ(cuMemsetD32(y, 0, words), CUDA_SUCCESS);
  }
  Content forward() const {
    EXPECT_EQ(add(y, x, words), CUDA_SUCCESS);
    EXPECT_EQ(add(y, w, words), CUDA_SUCCESS);
    return content(y);
  }
};

TEST(SoftgpuProvenance, TheSameOperationsGiveTheSameBytesAtWhateverAddresses) {
  ON_DEVICE("v100-pcie3:timing", "", {
    Net one;
    allocate(7 * MiB);
    Net two;
    const Content first = one.forward();
    EXPECT_EQ(first, two.forward());
    for (const float value : first) EXPECT_TRUE(value >= 0.5F && value < 1);
    EXPECT_NE(one.forward(), first) << "y is added to";
  });
}

TEST(SoftgpuProvenance, AReplayFromWrongOperandsIsSeen) {
  ON_DEVICE("v100-pcie3:timing", "", {
    Net right;
    Net wrong;
    EXPECT_EQ(add(wrong.y, wrong.w, words), CUDA_SUCCESS);
    EXPECT_EQ(add(wrong.y, wrong.x, words), CUDA_SUCCESS);
    EXPECT_NE(content(wrong.y), right.forward());
  });
}

TEST(SoftgpuProvenance, OtherScalarsAreSeen) {
  ON_DEVICE("v100-pcie3:timing", "", {
    Net right;
    Net wrong;
    EXPECT_EQ(fill(wrong.w, words, 3), CUDA_SUCCESS);
    EXPECT_NE(wrong.forward(), right.forward());
  });
}

TEST(SoftgpuProvenance, ALostWriteIsSeen) {
  ON_DEVICE("v100-pcie3:timing", "", {
    Net right;
    Net wrong;
    EXPECT_EQ(add(wrong.y, wrong.w, words), CUDA_SUCCESS);
    EXPECT_NE(content(wrong.y), right.forward());
  });
}

TEST(SoftgpuProvenance, StaleContentIsSeen) {
  ON_DEVICE("v100-pcie3:timing", "", {
    Net net;
    void* host = nullptr;
    EXPECT_EQ(cuMemHostAlloc(&host, bytes, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuMemcpyDtoH(host, net.w, bytes), CUDA_SUCCESS);
    const Content then = content(net.w);
    EXPECT_EQ(add(net.w, net.x, words), CUDA_SUCCESS);
    EXPECT_NE(content(net.w), then);
    EXPECT_EQ(cuMemcpyHtoD(net.w, host, bytes), CUDA_SUCCESS);
    EXPECT_EQ(content(net.w), then);
  });
}

// As chunks leave and come back: in pieces, through page-locked memory, to another place.
TEST(SoftgpuProvenance, ContentThatMovesInPiecesIsTheSame) {
  ON_DEVICE("v100-pcie3:timing", "", {
    constexpr std::size_t piece = 2 * MiB, count = 3;
    constexpr std::size_t all = count * piece / 4;
    const CUdeviceptr from = allocate(count * piece), to = allocate(count * piece);
    EXPECT_EQ(fill(from, all, 5), CUDA_SUCCESS);
    const Content before = content(from, all);
    void* host = nullptr;
    EXPECT_EQ(cuMemHostAlloc(&host, large, 0), CUDA_SUCCESS);
    char* const kept = static_cast<char*>(host);
    for (const std::size_t i : {2, 0, 1})
      EXPECT_EQ(cuMemcpyDtoH(kept + i * piece, from + i * piece, piece), CUDA_SUCCESS);
    for (const std::size_t i : {1, 2, 0})
      EXPECT_EQ(cuMemcpyHtoD(to + i * piece, kept + i * piece, piece), CUDA_SUCCESS);
    EXPECT_EQ(content(to, all), before);
    EXPECT_EQ(cuMemcpyHtoD(to, kept + piece, piece), CUDA_SUCCESS);
    EXPECT_NE(content(to, all), before) << "a piece at the wrong place";
  });
}

TEST(SoftgpuProvenance, ResultsInPageLockedMemoryOfTheirOwnAreThereToTheLastByte) {
  ON_DEVICE("v100-pcie3:timing", "", {
    constexpr std::size_t count = MiB;
    const CUdeviceptr at = allocate(4 * count);
    EXPECT_EQ(fill(at, count, 5), CUDA_SUCCESS);
    void* host = nullptr;
    EXPECT_EQ(cuMemHostAlloc(&host, 4 * count, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuMemcpyDtoH(host, at, 4 * count), CUDA_SUCCESS);
    EXPECT_EQ(std::memcmp(host, content(at, count).data(), 4 * count), 0);
  });
}

TEST(SoftgpuProvenance, WhatTheProgramWritesIntoPageLockedMemoryCounts) {
  ON_DEVICE("v100-pcie3:timing", "", {
    for (const std::size_t size : {bytes, 4 * MiB}) {
      const CUdeviceptr at = allocate(size);
      EXPECT_EQ(fill(at, size / 4, 5), CUDA_SUCCESS);
      void* host = nullptr;
      EXPECT_EQ(cuMemHostAlloc(&host, large, 0), CUDA_SUCCESS);
      EXPECT_EQ(cuMemcpyDtoH(host, at, size), CUDA_SUCCESS);
      const Content before = content(at);
      EXPECT_EQ(cuMemcpyHtoD(at, host, size), CUDA_SUCCESS);
      EXPECT_EQ(content(at), before);
      static_cast<float*>(host)[3] = 7;
      EXPECT_EQ(cuMemcpyHtoD(at, host, size), CUDA_SUCCESS);
      EXPECT_NE(content(at), before);
    }
  });
}

TEST(SoftgpuProvenance, ASetOfPageLockedMemoryIsThereForTheProgram) {
  ON_DEVICE("v100-pcie3:timing", "", {
    void* host = nullptr;
    EXPECT_EQ(cuMemHostAlloc(&host, 4 * MiB, 0), CUDA_SUCCESS);
    const auto at = reinterpret_cast<CUdeviceptr>(host);
    EXPECT_EQ(cuMemsetD8(at, 7, 4 * MiB), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    EXPECT_EQ(static_cast<char*>(host)[4 * MiB - 1], 7);
  });
}

TEST(SoftgpuProvenance, TheProgramsOwnContentIsKnownByItsBytes) {
  ON_DEVICE("v100-pcie3:timing", "", {
    Content batch(MiB);
    const CUdeviceptr at = allocate(4 * MiB);
    const auto uploaded = [&] {
      EXPECT_EQ(cuMemcpyHtoD(at, batch.data(), 4 * MiB), CUDA_SUCCESS);
      return content(at);
    };
    const Content zeros = uploaded();
    EXPECT_EQ(uploaded(), zeros);
    batch[0] = 1;
    EXPECT_NE(uploaded(), zeros);
  });
}

TEST(SoftgpuProvenance, FreshMemoryHoldsNothingThatWasThereBefore) {
  ON_DEVICE("v100-pcie3:timing:memory=8MiB", "", {
    CUdeviceptr at = allocate(6 * MiB);
    EXPECT_EQ(fill(at, words, 5), CUDA_SUCCESS);
    EXPECT_EQ(cuMemFree(at), CUDA_SUCCESS);
    at = allocate(6 * MiB);
    for (const float value : content(at)) EXPECT_TRUE(std::isnan(value));
  });
}

TEST(SoftgpuProvenance, WhatProgramsBranchOnLetsThemGoOn) {
  ON_DEVICE("v100-pcie3:timing", "", {
    Net net;
    const auto scalar = [&](auto value, CUdeviceptr at) {
      EXPECT_EQ(cuMemcpyDtoH(&value, at, sizeof value), CUDA_SUCCESS);
      return value;
    };
    EXPECT_LE(scalar(std::uint64_t{7}, net.x), 1U) << "a size, or an index";
    EXPECT_EQ(scalar(std::uint8_t{7}, net.x), 0) << "a flag";
    const float loss = scalar(0.0F, net.x);
    EXPECT_TRUE(loss >= 0.5F && loss < 1);
    EXPECT_EQ(scalar(7.0F, net.y), 0) << "what a set left";
    const double rate = 1e-3;
    EXPECT_EQ(cuMemcpyHtoD(net.x, &rate, sizeof rate), CUDA_SUCCESS);
    EXPECT_EQ(cuMemcpyDtoD(net.w, net.x, sizeof rate), CUDA_SUCCESS);
    EXPECT_EQ(scalar(0.0, net.w), rate) << "what the host gave";
  });
}

}  // namespace
