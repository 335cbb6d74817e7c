// Random numbers that are the same on every machine: only integer arithmetic and exact float conversions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace train {

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  std::uint64_t bits() { return engine_(); }

  // Mean 0, variance 1: the sum of twelve uniform numbers of 16 bits (Irwin-Hall), which needs no libm.
  float normal() {
    std::int64_t sum = 0;
    for (int draw = 0; draw < 3; ++draw) {
      const std::uint64_t word = engine_();
      for (int shift = 0; shift < 64; shift += 16) sum += static_cast<std::int64_t>((word >> shift) & 0xFFFF);
    }
    return static_cast<float>(sum - std::int64_t{6} * 65535) / 65536.0F;
  }

  // Normal numbers times `deviation`. From a prime number of them on they repeat, so that networks of half a
  // billion weights start at once; no two rows of a matrix become equal by that.
  std::vector<float> normals(std::size_t count, float deviation) {
    constexpr std::size_t period = 262139;
    std::vector<float> values(count);
    for (std::size_t i = 0; i < std::min(count, period); ++i) values[i] = normal() * deviation;
    for (std::size_t i = period; i < count; i += period) {
      std::copy_n(values.begin(), std::min(count - i, period), &values[i]);
    }
    return values;
  }

  // Fisher and Yates; std::shuffle differs between libraries.
  void shuffle(std::vector<int>& values) {
    for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[engine_() % i]);
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace train
