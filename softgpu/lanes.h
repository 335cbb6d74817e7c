// Sums in one fixed order, eight lanes wide so that they vectorise: the same bits for any address and thread
// count.
#pragma once

#include <cstdint>

namespace softgpu {

inline constexpr int lanes = 8;

struct Lanes {
  double sum[lanes] = {};

  double total() const {
    return ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]));
  }
};

// Adds f(i) for i in [0, count) to the lanes.
template <class F>
void accumulate(Lanes& l, std::int64_t count, F f) {
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    for (int k = 0; k < lanes; ++k) l.sum[k] += f(i + k);
  }
  for (int k = 0; i + k < count; ++k) l.sum[k] += f(i + k);
}

}  // namespace softgpu
