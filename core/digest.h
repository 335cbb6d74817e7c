// The digest that verifies replays, as Device::digest computes it on the device: two sums over 8-byte words.
// Each word is mixed with its index first, so words may be taken in any order. A last partial word is padded
// with zeros; only digests of equally many bytes are compared.
//
// Implemented three times: here, interpose/device/digest.ptx, softgpu/kernels/memory_digest.cpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace pooch {

struct Digest {
  std::uint64_t sums[2] = {0, 0};

  // The finalizer of splitmix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014),
  // and one more round of its kind for the second sum.
  void add(std::uint64_t index, std::uint64_t word) {
    std::uint64_t z = word ^ ((index + 1) * 0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    z ^= z >> 31;
    sums[0] += z;
    z = (z ^ (z >> 32)) * 0xD6E8FEB86659FD93;
    sums[1] += z ^ (z >> 29);
  }
  friend bool operator==(const Digest&, const Digest&) = default;
};

inline Digest digest_of(std::span<const std::byte> memory) {
  Digest digest;
  for (std::size_t at = 0; at < memory.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, memory.data() + at, std::min<std::size_t>(8, memory.size() - at));
    digest.add(at / 8, word);
  }
  return digest;
}

}  // namespace pooch
