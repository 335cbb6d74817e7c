// What no two runs of a kernel have in common: how long it takes. A draw for each work, and a clock rate that
// rises and falls slowly. Both depend on the seed, the work's stream, its place in it, and virtual time
// alone.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "softgpu/driver/terms/clock.h"

namespace softgpu {

class Noise {
 public:
  Noise(double percent, std::uint64_t seed) : share_(percent / 100), seed_(seed) {}

  // `duration` of the work with this number in this stream, which starts at `start`.
  Nanoseconds over(Nanoseconds duration, Nanoseconds start, std::uint32_t stream,
                   std::uint64_t sequence) const {
    if (share_ == 0 || duration == 0) return duration;
    const double phase = 2 * std::numbers::pi * (static_cast<double>(start) / drift_period + unit(seed_));
    const double factor = 1 + share_ * (normal(stream, sequence) + std::sin(phase));
    return static_cast<Nanoseconds>(static_cast<double>(duration) * std::max(factor, least_factor));
  }

 private:
  static constexpr double drift_period = 20e9;  // nanoseconds: a device warms up and cools down in seconds
  static constexpr double least_factor = 0.1;

  // SplitMix64 (Steele, Lea, Flood 2014).
  static std::uint64_t mix(std::uint64_t value) {
    value += 0x9e3779b97f4a7c15;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
    value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
    return value ^ (value >> 31);
  }
  static double unit(std::uint64_t value) { return static_cast<double>(mix(value) >> 11) * 0x1p-53; }

  // Mean 0, deviation 1, between -3.5 and 3.5: the sum of four equal draws.
  double normal(std::uint32_t stream, std::uint64_t sequence) const {
    const std::uint64_t from = mix(seed_ ^ mix(stream)) ^ mix(sequence);
    double sum = 0;
    for (std::uint64_t draw = 0; draw < 4; ++draw) sum += unit(from + draw);
    return (sum - 2) * std::numbers::sqrt3;
  }

  double share_;
  std::uint64_t seed_;
};

}  // namespace softgpu
