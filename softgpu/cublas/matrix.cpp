#include "softgpu/cublas/matrix.h"

#include <cblas.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

namespace softgpu::cublas {
namespace {

// One thread: the order of sums is then a matter of the shapes alone.
void use_one_thread() {
  if (openblas_get_num_threads() != 1) openblas_set_num_threads(1);
}

CBLAS_TRANSPOSE cblas(std::int32_t transposed) {
  return transposed ? CblasTrans : CblasNoTrans;
}

blasint narrow(std::int64_t value) {
  return static_cast<blasint>(value);
}

template <class T>
void touch_operand(Footprint& out, std::uint64_t at, bool transposed, std::int64_t rows, std::int64_t columns,
                   std::int64_t leading) {
  if (transposed) {
    touch_matrix<T>(out, at, columns, rows, leading, TouchKind::read);
  } else {
    touch_matrix<T>(out, at, rows, columns, leading, TouchKind::read);
  }
}

template <class T>
std::uint64_t offset(std::uint64_t at, std::int64_t values) {
  return at + sizeof(T) * static_cast<std::uint64_t>(values);
}

void multiply(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, blasint m, blasint n, blasint k, float alpha,
              const float* a, blasint lda, const float* b, blasint ldb, float beta, float* c, blasint ldc) {
  cblas_sgemm(CblasColMajor, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
void multiply(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, blasint m, blasint n, blasint k, double alpha,
              const double* a, blasint lda, const double* b, blasint ldb, double beta, double* c,
              blasint ldc) {
  cblas_dgemm(CblasColMajor, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

void multiply(CBLAS_TRANSPOSE t, blasint m, blasint n, float alpha, const float* a, blasint lda,
              const float* x, blasint incx, float beta, float* y, blasint incy) {
  cblas_sgemv(CblasColMajor, t, m, n, alpha, a, lda, x, incx, beta, y, incy);
}
void multiply(CBLAS_TRANSPOSE t, blasint m, blasint n, double alpha, const double* a, blasint lda,
              const double* x, blasint incx, double beta, double* y, blasint incy) {
  cblas_dgemv(CblasColMajor, t, m, n, alpha, a, lda, x, incx, beta, y, incy);
}

// FLOPs and traffic of all products of a call.
template <class T>
void count_products(const typename Gemm<T>::Args& a, Footprint& out) {
  const double batch = static_cast<double>(a.batch);
  const double m = static_cast<double>(a.m);
  const double n = static_cast<double>(a.n);
  const double k = a.reads_inputs() ? static_cast<double>(a.k) : 0;
  out.kind = "gemm";
  out.flops = 2 * batch * m * n * k;
  out.bytes = sizeof(T) * batch * (m * k + k * n + m * n * (a.beta.zero() ? 1 : 2));
}

// One of the batch, with the addresses of its matrices.
template <class T>
void touch_product(const typename Gemm<T>::Args& a, std::uint64_t at_a, std::uint64_t at_b,
                   std::uint64_t at_c, Footprint& out) {
  if (a.reads_inputs()) {
    touch_operand<T>(out, at_a, a.transpose_a, a.m, a.k, a.lda);
    touch_operand<T>(out, at_b, a.transpose_b, a.k, a.n, a.ldb);
  }
  touch_matrix<T>(out, at_c, a.m, a.n, a.ldc, written(a.beta));
}

template <class T>
void run_product(const typename Gemm<T>::Args& a, T alpha, T beta, const T* from_a, const T* from_b, T* to) {
  multiply(cblas(a.transpose_a), cblas(a.transpose_b), narrow(a.m), narrow(a.n), narrow(a.k), alpha, from_a,
           narrow(a.lda), from_b, narrow(a.ldb), beta, to, narrow(a.ldc));
}

// `count` addresses at `at` in device memory; empty where there is no content to be read.
std::vector<std::uint64_t> read_addresses(std::uint64_t at, std::int64_t count) {
  std::vector<std::uint64_t> result(static_cast<std::size_t>(count));
  const std::size_t bytes = result.size() * sizeof(std::uint64_t);
  const iovec to{result.data(), bytes};
  const iovec from{device_memory<void>(at), bytes};
  // Through the kernel: an address without memory is then an answer, not a fault.
  if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) != static_cast<ssize_t>(bytes)) result.clear();
  return result;
}

}  // namespace

template <class T>
void Gemm<T>::footprint(const Pointers<5>& p, const Args& a, Footprint& out) {
  touch_scalar<T>(out, p[3]);
  touch_scalar<T>(out, p[4]);
  for (std::int64_t i = 0; i < a.batch; ++i) {
    touch_product<T>(a, offset<T>(p[0], i * a.stride_a), offset<T>(p[1], i * a.stride_b),
                     offset<T>(p[2], i * a.stride_c), out);
  }
  count_products<T>(a, out);
}

template <class T>
void Gemm<T>::run(const Pointers<5>& p, const Args& a) {
  use_one_thread();
  for (std::int64_t i = 0; i < a.batch; ++i) {
    run_product<T>(a, a.alpha.get(p[3]), a.beta.get(p[4]), device_memory<const T>(p[0]) + i * a.stride_a,
                   device_memory<const T>(p[1]) + i * a.stride_b, device_memory<T>(p[2]) + i * a.stride_c);
  }
}

template <class T>
void GemmBatched<T>::footprint(const Pointers<5>& p, const Args& a, Footprint& out) {
  touch_scalar<T>(out, p[3]);
  touch_scalar<T>(out, p[4]);
  if (a.reads_inputs()) {
    touch<std::uint64_t>(out, p[0], a.batch, TouchKind::read);
    touch<std::uint64_t>(out, p[1], a.batch, TouchKind::read);
  }
  touch<std::uint64_t>(out, p[2], a.batch, TouchKind::read);
  const auto at_c = read_addresses(p[2], a.batch);
  auto at_a = at_c;  // not looked at where the inputs do not count
  auto at_b = at_c;
  if (a.reads_inputs()) {
    at_a = read_addresses(p[0], a.batch);
    at_b = read_addresses(p[1], a.batch);
  }
  if (at_a.size() == at_c.size() && at_b.size() == at_c.size()) {
    for (std::size_t i = 0; i < at_c.size(); ++i) touch_product<T>(a, at_a[i], at_b[i], at_c[i], out);
  }
  count_products<T>(a, out);
}

template <class T>
void GemmBatched<T>::run(const Pointers<5>& p, const Args& a) {
  use_one_thread();
  const auto* from_a = device_memory<const T* const>(p[0]);
  const auto* from_b = device_memory<const T* const>(p[1]);
  const auto* to = device_memory<T* const>(p[2]);
  for (std::int64_t i = 0; i < a.batch; ++i) {
    const bool reads = a.reads_inputs();
    run_product<T>(a, a.alpha.get(p[3]), a.beta.get(p[4]), reads ? from_a[i] : to[i],
                   reads ? from_b[i] : to[i], to[i]);
  }
}

template <class T>
void Gemv<T>::footprint(const Pointers<5>& p, const Args& a, Footprint& out) {
  if (!a.alpha.zero()) {
    touch_matrix<T>(out, p[0], a.m, a.n, a.lda, TouchKind::read);
    touch_vector<T>(out, p[1], a.x_count(), a.incx, TouchKind::read);
  }
  touch_scalar<T>(out, p[3]);
  touch_scalar<T>(out, p[4]);
  touch_vector<T>(out, p[2], a.y_count(), a.incy, written(a.beta));
  out.kind = "gemm";
  out.flops = 2 * static_cast<double>(a.m * a.n);
  out.bytes = sizeof(T) * static_cast<double>(a.m * a.n + a.m + a.n);
}

template <class T>
void Gemv<T>::run(const Pointers<5>& p, const Args& a) {
  use_one_thread();
  const T beta = a.beta.get(p[4]);
  T* y = device_memory<T>(p[2]);
  if (beta == T{0}) {  // what was there may be no number
    const std::int64_t step = a.incy < 0 ? -a.incy : a.incy;
    for (std::int64_t i = 0; i < a.y_count(); ++i) y[i * step] = T{0};
  }
  multiply(cblas(a.transpose), narrow(a.m), narrow(a.n), a.alpha.get(p[3]), device_memory<const T>(p[0]),
           narrow(a.lda), device_memory<const T>(p[1]), narrow(a.incx), beta, y, narrow(a.incy));
}

template <class T>
void Geam<T>::footprint(const Pointers<5>& p, const Args& a, Footprint& out) {
  const double count = static_cast<double>(a.m * a.n);
  out.kind = "blas1";
  out.bytes = sizeof(T) * count;
  if (!a.alpha.zero()) {
    touch_operand<T>(out, p[0], a.transpose_a, a.m, a.n, a.lda);
    out.bytes += sizeof(T) * count;
  }
  if (!a.beta.zero()) {
    touch_operand<T>(out, p[1], a.transpose_b, a.m, a.n, a.ldb);
    out.bytes += sizeof(T) * count;
  }
  touch_scalar<T>(out, p[3]);
  touch_scalar<T>(out, p[4]);
  touch_matrix<T>(out, p[2], a.m, a.n, a.ldc, TouchKind::write);
  out.flops = 3 * count;
}

template <class T>
void Geam<T>::run(const Pointers<5>& p, const Args& a) {
  const T alpha = a.alpha.get(p[3]);
  const T beta = a.beta.get(p[4]);
  const auto* from_a = device_memory<const T>(p[0]);
  const auto* from_b = device_memory<const T>(p[1]);
  const std::int64_t a_row = a.transpose_a ? a.lda : 1;
  const std::int64_t a_column = a.transpose_a ? 1 : a.lda;
  const std::int64_t b_row = a.transpose_b ? a.ldb : 1;
  const std::int64_t b_column = a.transpose_b ? 1 : a.ldb;
  for (std::int64_t column = 0; column < a.n; ++column) {
    T* to = device_memory<T>(p[2]) + column * a.ldc;
    for (std::int64_t row = 0; row < a.m; ++row) {
      T value = T{0};
      if (alpha != T{0}) value = alpha * from_a[row * a_row + column * a_column];
      if (beta != T{0}) value += beta * from_b[row * b_row + column * b_column];
      to[row] = value;
    }
  }
}

template <class T>
void Dgmm<T>::footprint(const Pointers<3>& p, const Args& a, Footprint& out) {
  touch_matrix<T>(out, p[0], a.m, a.n, a.lda, TouchKind::read);
  touch_vector<T>(out, p[1], a.left ? a.m : a.n, a.incx, TouchKind::read);
  touch_matrix<T>(out, p[2], a.m, a.n, a.ldc, TouchKind::write);
  out.kind = "blas1";
  out.flops = static_cast<double>(a.m * a.n);
  out.bytes = 2 * sizeof(T) * static_cast<double>(a.m * a.n);
}

template <class T>
void Dgmm<T>::run(const Pointers<3>& p, const Args& a) {
  const std::int64_t count = a.left ? a.m : a.n;
  // A negative increment runs through the vector backwards.
  const T* x = device_memory<const T>(p[1]) + (a.incx < 0 ? (1 - count) * a.incx : 0);
  for (std::int64_t column = 0; column < a.n; ++column) {
    const T* from = device_memory<const T>(p[0]) + column * a.lda;
    T* to = device_memory<T>(p[2]) + column * a.ldc;
    for (std::int64_t row = 0; row < a.m; ++row) to[row] = from[row] * x[(a.left ? row : column) * a.incx];
  }
}

template <class T>
void Tbsv<T>::footprint(const Pointers<2>& p, const Args& a, Footprint& out) {
  touch_matrix<T>(out, p[0], a.k + 1, a.n, a.lda, TouchKind::read);
  touch_vector<T>(out, p[1], a.n, a.incx, TouchKind::read_write);
  out.kind = "blas1";
  out.flops = 2 * static_cast<double>(a.n * (a.k + 1));
  out.bytes = sizeof(T) * static_cast<double>(a.n * (a.k + 3));
}

template <class T>
void Tbsv<T>::run(const Pointers<2>& p, const Args& a) {
  const T* band = device_memory<const T>(p[0]);
  T* x = start<T>(p[1], a.n, a.incx);
  // Element (row, column) of A, within the band.
  const auto at = [&](std::int64_t row, std::int64_t column) {
    return band[(a.upper ? a.k + row - column : row - column) + column * a.lda];
  };
  const bool forward = (a.upper != 0) == (a.transpose != 0);
  for (std::int64_t step = 0; step < a.n; ++step) {
    const std::int64_t row = forward ? step : a.n - 1 - step;
    T value = x[row * a.incx];
    for (std::int64_t beside = std::min(a.k, step); beside > 0; --beside) {
      const std::int64_t known = forward ? row - beside : row + beside;
      value -= (a.transpose ? at(known, row) : at(row, known)) * x[known * a.incx];
    }
    x[row * a.incx] = a.unit_diagonal ? value : value / at(row, row);
  }
}

template <class T>
void Ger<T>::footprint(const Pointers<4>& p, const Args& a, Footprint& out) {
  touch_vector<T>(out, p[0], a.m, a.incx, TouchKind::read);
  touch_vector<T>(out, p[1], a.n, a.incy, TouchKind::read);
  touch_scalar<T>(out, p[3]);
  touch_matrix<T>(out, p[2], a.m, a.n, a.lda, TouchKind::read_write);
  out.kind = "gemm";
  out.flops = 2 * static_cast<double>(a.m * a.n);
  out.bytes = sizeof(T) * static_cast<double>(2 * a.m * a.n + a.m + a.n);
}

template <class T>
void Ger<T>::run(const Pointers<4>& p, const Args& a) {
  const T* x = start<const T>(p[0], a.m, a.incx);
  const T* y = start<const T>(p[1], a.n, a.incy);
  const T alpha = a.alpha.get(p[3]);
  for (std::int64_t column = 0; column < a.n; ++column) {
    T* to = device_memory<T>(p[2]) + column * a.lda;
    const T factor = alpha * y[column * a.incy];
    for (std::int64_t row = 0; row < a.m; ++row) to[row] += x[row * a.incx] * factor;
  }
}

template struct Gemm<float>;
template struct Gemm<double>;
template struct GemmBatched<float>;
template struct GemmBatched<double>;
template struct Gemv<float>;
template struct Gemv<double>;
template struct Ger<float>;
template struct Ger<double>;
template struct Geam<float>;
template struct Geam<double>;
template struct Dgmm<float>;
template struct Dgmm<double>;
template struct Tbsv<float>;
template struct Tbsv<double>;

}  // namespace softgpu::cublas
