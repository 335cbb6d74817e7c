#pragma once

#include "softgpu/cublas/handle.h"

namespace softgpu::cublas {

// Pointers, rotg: a, b, cosine, none, sine; rotmg: d1, d2, x1, y1, the five parameters.
template <class T>
struct MakeRotation {
  static constexpr const char* name = by_precision<T>("srotg", "drotg");
  static constexpr std::size_t pointers = 5;
  struct Args {
    std::int32_t modified;
  };
  static void footprint(const Pointers<5>& p, const Args& a, Footprint& out);
  static void run(const Pointers<5>& p, const Args& a);
};

}  // namespace softgpu::cublas
