// Kernels on vectors (level 1). Loops of our own: OpenBLAS would sum in an order that depends on addresses.
#pragma once

#include "softgpu/cublas/handle.h"

namespace softgpu::cublas {

// y = alpha * x + y. Pointers: x, y, alpha.
struct Axpy {
  static constexpr const char* name = "saxpy";
  static constexpr std::size_t pointers = 3;
  struct Args {
    std::int64_t count, incx, incy;
    Scalar alpha;
  };
  static void footprint(const Pointers<3>& p, const Args& a, Footprint& out);
  static void run(const Pointers<3>& p, const Args& a);
};

// x = alpha * x. Pointers: x, alpha.
struct Scal {
  static constexpr const char* name = "sscal";
  static constexpr std::size_t pointers = 2;
  struct Args {
    std::int64_t count, incx;
    Scalar alpha;
  };
  static void footprint(const Pointers<2>& p, const Args& a, Footprint& out);
  static void run(const Pointers<2>& p, const Args& a);
};

// y = x. Pointers: x, y.
struct Copy {
  static constexpr const char* name = "scopy";
  static constexpr std::size_t pointers = 2;
  struct Args {
    std::int64_t count, incx, incy;
  };
  static void footprint(const Pointers<2>& p, const Args& a, Footprint& out);
  static void run(const Pointers<2>& p, const Args& a);
};

enum class Reduction : std::int32_t { dot, norm2, sum_of_absolutes };

// One float from one or two vectors. Pointers: x, y (0 except for dot), result.
struct Reduce {
  static constexpr const char* name = "sreduce";
  static constexpr std::size_t pointers = 3;
  struct Args {
    Reduction kind;
    std::int64_t count, incx, incy;
  };
  static void footprint(const Pointers<3>& p, const Args& a, Footprint& out);
  static void run(const Pointers<3>& p, const Args& a);
};

}  // namespace softgpu::cublas
