#include "softgpu/cublas/vector.h"

#include <cmath>
#include <utility>

#include "softgpu/lanes.h"

namespace softgpu::cublas {

template <class T>
void Axpy<T>::footprint(const Pointers<3>& p, const Args& a, Footprint& out) {
  touch_vector<T>(out, p[0], a.count, a.incx, TouchKind::read);
  touch_scalar<T>(out, p[2]);
  touch_vector<T>(out, p[1], a.count, a.incy, TouchKind::read_write);
  out.kind = "blas1";
  out.flops = 2 * static_cast<double>(a.count);
  out.bytes = 3 * sizeof(T) * static_cast<double>(a.count);
}

template <class T>
void Axpy<T>::run(const Pointers<3>& p, const Args& a) {
  const auto* x = start<const T>(p[0], a.count, a.incx);
  auto* y = start<T>(p[1], a.count, a.incy);
  const T alpha = a.alpha.get(p[2]);
  if (a.incx == 1 && a.incy == 1) {
    for (std::int64_t i = 0; i < a.count; ++i) y[i] += alpha * x[i];
  } else {
    for (std::int64_t i = 0; i < a.count; ++i) y[i * a.incy] += alpha * x[i * a.incx];
  }
}

template <class T>
void Scal<T>::footprint(const Pointers<2>& p, const Args& a, Footprint& out) {
  touch_scalar<T>(out, p[1]);
  touch_vector<T>(out, p[0], a.count, a.incx, TouchKind::read_write);
  out.kind = "blas1";
  out.flops = static_cast<double>(a.count);
  out.bytes = 2 * sizeof(T) * static_cast<double>(a.count);
}

template <class T>
void Scal<T>::run(const Pointers<2>& p, const Args& a) {
  auto* x = device_memory<T>(p[0]);
  const T alpha = a.alpha.get(p[1]);
  if (a.incx == 1) {
    for (std::int64_t i = 0; i < a.count; ++i) x[i] *= alpha;
  } else {
    for (std::int64_t i = 0; i < a.count; ++i) x[i * a.incx] *= alpha;
  }
}

template <class T>
void Copy<T>::footprint(const Pointers<2>& p, const Args& a, Footprint& out) {
  touch_vector<T>(out, p[0], a.count, a.incx, a.exchange ? TouchKind::read_write : TouchKind::read);
  touch_vector<T>(out, p[1], a.count, a.incy, a.exchange ? TouchKind::read_write : TouchKind::write);
  out.kind = "blas1";
  out.bytes = (a.exchange ? 4 : 2) * sizeof(T) * static_cast<double>(a.count);
}

template <class T>
void Copy<T>::run(const Pointers<2>& p, const Args& a) {
  auto* x = start<T>(p[0], a.count, a.incx);
  auto* y = start<T>(p[1], a.count, a.incy);
  for (std::int64_t i = 0; i < a.count; ++i) {
    if (a.exchange) {
      std::swap(x[i * a.incx], y[i * a.incy]);
    } else {
      y[i * a.incy] = x[i * a.incx];
    }
  }
}

template <class T>
void Rotate<T>::footprint(const Pointers<4>& p, const Args& a, Footprint& out) {
  touch_vector<T>(out, p[0], a.count, a.incx, TouchKind::read_write);
  touch_vector<T>(out, p[1], a.count, a.incy, TouchKind::read_write);
  touch<T>(out, p[2], a.modified ? 5 : 1, TouchKind::read);
  touch_scalar<T>(out, p[3]);
  out.kind = "blas1";
  out.flops = 6 * static_cast<double>(a.count);
  out.bytes = 4 * sizeof(T) * static_cast<double>(a.count);
}

namespace {

// The 2 x 2 matrix (h11, h12, h21, h22) that rotm's parameters stand for; their first one says which of the
// others count.
template <class T>
void expand(const T* parameters, T (&h)[4]) {
  const T flag = parameters[0];
  if (flag == T{-2}) {
    h[0] = h[3] = 1;
    h[1] = h[2] = 0;
    return;
  }
  h[0] = flag == T{0} ? T{1} : parameters[1];
  h[2] = flag == T{1} ? T{-1} : parameters[2];
  h[1] = flag == T{1} ? T{1} : parameters[3];
  h[3] = flag == T{0} ? T{1} : parameters[4];
}

}  // namespace

template <class T>
void Rotate<T>::run(const Pointers<4>& p, const Args& a) {
  T h[4];
  if (a.modified) {
    expand(a.on_device ? device_memory<const T>(p[2]) : a.parameters, h);
  } else {
    const T cosine = a.on_device ? *device_memory<const T>(p[2]) : a.parameters[0];
    const T sine = a.on_device ? *device_memory<const T>(p[3]) : a.parameters[1];
    h[0] = h[3] = cosine;
    h[1] = sine;
    h[2] = -sine;
  }
  auto* x = start<T>(p[0], a.count, a.incx);
  auto* y = start<T>(p[1], a.count, a.incy);
  for (std::int64_t i = 0; i < a.count; ++i) {
    const T old_x = x[i * a.incx];
    const T old_y = y[i * a.incy];
    x[i * a.incx] = h[0] * old_x + h[1] * old_y;
    y[i * a.incy] = h[2] * old_x + h[3] * old_y;
  }
}

template <class T>
void Reduce<T>::footprint(const Pointers<3>& p, const Args& a, Footprint& out) {
  touch_vector<T>(out, p[0], a.count, a.incx, TouchKind::read);
  if (a.kind == Reduction::dot) touch_vector<T>(out, p[1], a.count, a.incy, TouchKind::read);
  if (finds_index(a.kind)) {
    out.touches.push_back({p[2], static_cast<std::uint64_t>(a.index_bytes), TouchKind::write});
  } else {
    touch<T>(out, p[2], 1, TouchKind::write);
  }
  out.kind = "blas1";
  out.flops = 2 * static_cast<double>(a.count);
  out.bytes = (a.kind == Reduction::dot ? 2 : 1) * sizeof(T) * static_cast<double>(a.count);
}

namespace {

// The first position, counted from 1, of the largest or smallest absolute value.
template <class T>
std::int64_t extreme(const T* x, std::int64_t count, std::int64_t step, bool largest) {
  std::int64_t best = 0;
  for (std::int64_t i = 1; i < count; ++i) {
    const T value = std::fabs(x[i * step]);
    const T held = std::fabs(x[best * step]);
    if (largest ? value > held : value < held) best = i;
  }
  return best + 1;
}

}  // namespace

template <class T>
void Reduce<T>::run(const Pointers<3>& p, const Args& a) {
  const auto* x = start<const T>(p[0], a.count, a.incx);
  if (finds_index(a.kind)) {
    const std::int64_t index = extreme(x, a.count, a.incx, a.kind == Reduction::largest);
    if (a.index_bytes == 8) {
      *device_memory<std::int64_t>(p[2]) = index;
    } else {
      *device_memory<std::int32_t>(p[2]) = static_cast<std::int32_t>(index);
    }
    return;
  }
  T& result = *device_memory<T>(p[2]);
  Lanes sum;
  if (a.kind == Reduction::sum_of_absolutes) {
    accumulate(sum, a.count, [&](std::int64_t i) { return std::fabs(static_cast<double>(x[i * a.incx])); });
    result = static_cast<T>(sum.total());
    return;
  }
  const bool dot = a.kind == Reduction::dot;
  const auto* y = dot ? start<const T>(p[1], a.count, a.incy) : x;
  const std::int64_t step = dot ? a.incy : a.incx;
  accumulate(sum, a.count, [&](std::int64_t i) {
    return static_cast<double>(x[i * a.incx]) * static_cast<double>(y[i * step]);
  });
  result = static_cast<T>(dot ? sum.total() : std::sqrt(sum.total()));
}

template struct Axpy<float>;
template struct Axpy<double>;
template struct Scal<float>;
template struct Scal<double>;
template struct Copy<float>;
template struct Copy<double>;
template struct Rotate<float>;
template struct Rotate<double>;
template struct Reduce<float>;
template struct Reduce<double>;

}  // namespace softgpu::cublas
