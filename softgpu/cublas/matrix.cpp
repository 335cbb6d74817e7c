#include "softgpu/cublas/matrix.h"

#include <cblas.h>

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

void touch_operand(Footprint& out, std::uint64_t at, bool transposed, std::int64_t rows, std::int64_t columns,
                   std::int64_t leading) {
  if (transposed) {
    touch_matrix(out, at, columns, rows, leading, TouchKind::read);
  } else {
    touch_matrix(out, at, rows, columns, leading, TouchKind::read);
  }
}

std::uint64_t offset(std::uint64_t at, std::int64_t floats) {
  return at + 4 * static_cast<std::uint64_t>(floats);
}

}  // namespace

void Gemm::footprint(const Pointers<5>& p, const Args& a, Footprint& out) {
  for (std::int64_t i = 0; i < a.batch; ++i) {
    if (!a.reads_inputs()) break;
    touch_operand(out, offset(p[0], i * a.stride_a), a.transpose_a, a.m, a.k, a.lda);
    touch_operand(out, offset(p[1], i * a.stride_b), a.transpose_b, a.k, a.n, a.ldb);
  }
  touch_scalar(out, p[3]);
  touch_scalar(out, p[4]);
  for (std::int64_t i = 0; i < a.batch; ++i) {
    touch_matrix(out, offset(p[2], i * a.stride_c), a.m, a.n, a.ldc, written(a.beta));
  }
  const double batch = static_cast<double>(a.batch);
  const double m = static_cast<double>(a.m);
  const double n = static_cast<double>(a.n);
  const double k = a.reads_inputs() ? static_cast<double>(a.k) : 0;
  out.kind = "gemm";
  out.flops = 2 * batch * m * n * k;
  out.bytes = 4 * batch * (m * k + k * n + m * n * (a.beta.zero() ? 1 : 2));
}

void Gemm::run(const Pointers<5>& p, const Args& a) {
  use_one_thread();
  for (std::int64_t i = 0; i < a.batch; ++i) {
    cblas_sgemm(CblasColMajor, cblas(a.transpose_a), cblas(a.transpose_b), narrow(a.m), narrow(a.n),
                narrow(a.k), a.alpha.get(p[3]), device_memory<const float>(p[0]) + i * a.stride_a,
                narrow(a.lda), device_memory<const float>(p[1]) + i * a.stride_b, narrow(a.ldb),
                a.beta.get(p[4]), device_memory(p[2]) + i * a.stride_c, narrow(a.ldc));
  }
}

void Gemv::footprint(const Pointers<5>& p, const Args& a, Footprint& out) {
  if (!a.alpha.zero()) {
    touch_matrix(out, p[0], a.m, a.n, a.lda, TouchKind::read);
    touch_vector(out, p[1], a.x_count(), a.incx, TouchKind::read);
  }
  touch_scalar(out, p[3]);
  touch_scalar(out, p[4]);
  touch_vector(out, p[2], a.y_count(), a.incy, written(a.beta));
  out.kind = "gemm";
  out.flops = 2 * static_cast<double>(a.m * a.n);
  out.bytes = 4 * static_cast<double>(a.m * a.n + a.m + a.n);
}

void Gemv::run(const Pointers<5>& p, const Args& a) {
  use_one_thread();
  const float beta = a.beta.get(p[4]);
  float* y = device_memory(p[2]);
  if (beta == 0.0F) {  // what was there may be no number
    const std::int64_t step = a.incy < 0 ? -a.incy : a.incy;
    for (std::int64_t i = 0; i < a.y_count(); ++i) y[i * step] = 0.0F;
  }
  cblas_sgemv(CblasColMajor, cblas(a.transpose), narrow(a.m), narrow(a.n), a.alpha.get(p[3]),
              device_memory<const float>(p[0]), narrow(a.lda), device_memory<const float>(p[1]),
              narrow(a.incx), beta, y, narrow(a.incy));
}

void Geam::footprint(const Pointers<5>& p, const Args& a, Footprint& out) {
  const double count = static_cast<double>(a.m * a.n);
  out.kind = "blas1";
  out.bytes = 4 * count;
  if (!a.alpha.zero()) {
    touch_operand(out, p[0], a.transpose_a, a.m, a.n, a.lda);
    out.bytes += 4 * count;
  }
  if (!a.beta.zero()) {
    touch_operand(out, p[1], a.transpose_b, a.m, a.n, a.ldb);
    out.bytes += 4 * count;
  }
  touch_scalar(out, p[3]);
  touch_scalar(out, p[4]);
  touch_matrix(out, p[2], a.m, a.n, a.ldc, TouchKind::write);
  out.flops = 3 * count;
}

void Geam::run(const Pointers<5>& p, const Args& a) {
  const float alpha = a.alpha.get(p[3]);
  const float beta = a.beta.get(p[4]);
  const auto* from_a = device_memory<const float>(p[0]);
  const auto* from_b = device_memory<const float>(p[1]);
  const std::int64_t a_row = a.transpose_a ? a.lda : 1;
  const std::int64_t a_column = a.transpose_a ? 1 : a.lda;
  const std::int64_t b_row = a.transpose_b ? a.ldb : 1;
  const std::int64_t b_column = a.transpose_b ? 1 : a.ldb;
  for (std::int64_t column = 0; column < a.n; ++column) {
    float* to = device_memory(p[2]) + column * a.ldc;
    for (std::int64_t row = 0; row < a.m; ++row) {
      float value = 0.0F;
      if (alpha != 0.0F) value = alpha * from_a[row * a_row + column * a_column];
      if (beta != 0.0F) value += beta * from_b[row * b_row + column * b_column];
      to[row] = value;
    }
  }
}

void Dgmm::footprint(const Pointers<3>& p, const Args& a, Footprint& out) {
  touch_matrix(out, p[0], a.m, a.n, a.lda, TouchKind::read);
  touch_vector(out, p[1], a.left ? a.m : a.n, a.incx, TouchKind::read);
  touch_matrix(out, p[2], a.m, a.n, a.ldc, TouchKind::write);
  out.kind = "blas1";
  out.flops = static_cast<double>(a.m * a.n);
  out.bytes = 8 * static_cast<double>(a.m * a.n);
}

void Dgmm::run(const Pointers<3>& p, const Args& a) {
  const std::int64_t count = a.left ? a.m : a.n;
  // A negative increment runs through the vector backwards.
  const float* x = device_memory<const float>(p[1]) + (a.incx < 0 ? (1 - count) * a.incx : 0);
  for (std::int64_t column = 0; column < a.n; ++column) {
    const float* from = device_memory<const float>(p[0]) + column * a.lda;
    float* to = device_memory(p[2]) + column * a.ldc;
    for (std::int64_t row = 0; row < a.m; ++row) to[row] = from[row] * x[(a.left ? row : column) * a.incx];
  }
}

}  // namespace softgpu::cublas
