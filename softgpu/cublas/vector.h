// Kernels on vectors (level 1). Loops of our own: OpenBLAS would sum in an order that depends on addresses.
// All exist for float and double.
#pragma once

#include "softgpu/cublas/handle.h"

namespace softgpu::cublas {

// y = alpha * x + y. Pointers: x, y, alpha.
template <class T>
struct Axpy {
  static constexpr const char* name = by_precision<T>("saxpy", "daxpy");
  static constexpr std::size_t pointers = 3;
  struct Args {
    std::int64_t count, incx, incy;
    Scalar<T> alpha;
  };
  static void footprint(const Pointers<3>& p, const Args& a, Footprint& out);
  static void run(const Pointers<3>& p, const Args& a);
};

// x = alpha * x. Pointers: x, alpha.
template <class T>
struct Scal {
  static constexpr const char* name = by_precision<T>("sscal", "dscal");
  static constexpr std::size_t pointers = 2;
  struct Args {
    std::int64_t count, incx;
    Scalar<T> alpha;
  };
  static void footprint(const Pointers<2>& p, const Args& a, Footprint& out);
  static void run(const Pointers<2>& p, const Args& a);
};

// y = x, or both exchanged. Pointers: x, y.
template <class T>
struct Copy {
  static constexpr const char* name = by_precision<T>("scopy", "dcopy");
  static constexpr std::size_t pointers = 2;
  struct Args {
    std::int64_t count, incx, incy;
    std::int32_t exchange;
  };
  static void footprint(const Pointers<2>& p, const Args& a, Footprint& out);
  static void run(const Pointers<2>& p, const Args& a);
};

// A plane rotation of each (x, y): by cosine and sine, or by rotm's five parameters. Pointers: x, y, and
// cosine, sine (or the parameters) where those are in device memory.
template <class T>
struct Rotate {
  static constexpr const char* name = by_precision<T>("srot", "drot");
  static constexpr std::size_t pointers = 4;
  struct Args {
    std::int64_t count, incx, incy;
    std::int32_t modified, on_device;
    T parameters[5];
  };
  static void footprint(const Pointers<4>& p, const Args& a, Footprint& out);
  static void run(const Pointers<4>& p, const Args& a);
};

enum class Reduction : std::int32_t { dot, norm2, sum_of_absolutes, largest, smallest };

inline bool finds_index(Reduction kind) {
  return kind == Reduction::largest || kind == Reduction::smallest;
}

// One value from one or two vectors; for largest and smallest the first index of it, counted from 1, in 4 or
// 8 bytes. Pointers: x, y (0 except for dot), result.
template <class T>
struct Reduce {
  static constexpr const char* name = by_precision<T>("sreduce", "dreduce");
  static constexpr std::size_t pointers = 3;
  struct Args {
    Reduction kind;
    std::int32_t index_bytes;
    std::int64_t count, incx, incy;
  };
  static void footprint(const Pointers<3>& p, const Args& a, Footprint& out);
  static void run(const Pointers<3>& p, const Args& a);
};

}  // namespace softgpu::cublas
