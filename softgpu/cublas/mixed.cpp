#include "softgpu/cublas/mixed.h"

#include <cblas.h>

#include <numbers>
#include <vector>

#include "softgpu/bfloat.h"

namespace softgpu::cublas {
namespace {

// Calls visit with a null pointer of the type; false where the type is not known.
template <class Visit>
bool with_type(std::int32_t type, Visit visit) {
  switch (type) {
    case CUDA_R_16F:
      visit(static_cast<_Float16*>(nullptr));
      return true;
    case CUDA_R_16BF:
      visit(static_cast<Bfloat*>(nullptr));
      return true;
    case CUDA_R_32F:
      visit(static_cast<float*>(nullptr));
      return true;
    case CUDA_R_64F:
      visit(static_cast<double*>(nullptr));
      return true;
    default:
      return false;
  }
}

std::uint64_t element(std::uint64_t at, std::int32_t type, std::int64_t index) {
  return at + static_cast<std::uint64_t>(element_bytes(type) * index);
}

double load(std::uint64_t at, std::int32_t type) {
  double value = 0;
  with_type(type, [&](auto* of) {
    value = static_cast<double>(*device_memory<std::remove_pointer_t<decltype(of)>>(at));
  });
  return value;
}

std::vector<double> read(std::uint64_t at, const MixedGemm::Matrix& matrix, std::int64_t rows,
                         std::int64_t columns) {
  std::vector<double> values(static_cast<std::size_t>(rows * columns));
  with_type(matrix.type, [&](auto* of) {
    const auto* from = device_memory<const std::remove_pointer_t<decltype(of)>>(at);
    for (std::int64_t c = 0; c < columns; ++c) {
      for (std::int64_t r = 0; r < rows; ++r)
        values[static_cast<std::size_t>(c * rows + r)] = static_cast<double>(from[c * matrix.leading + r]);
    }
  });
  return values;
}

void write(std::uint64_t at, const MixedGemm::Matrix& matrix, std::int64_t rows, std::int64_t columns,
           const std::vector<double>& values) {
  with_type(matrix.type, [&](auto* of) {
    using Type = std::remove_pointer_t<decltype(of)>;
    auto* to = device_memory<Type>(at);
    for (std::int64_t c = 0; c < columns; ++c) {
      for (std::int64_t r = 0; r < rows; ++r)
        to[c * matrix.leading + r] = static_cast<Type>(values[static_cast<std::size_t>(c * rows + r)]);
    }
  });
}

double activate(Activation activation, double x) {
  switch (activation) {
    case Activation::relu:
      return x > 0 ? x : 0;
    case Activation::gelu:  // cuBLASLt's: by tanh
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case Activation::none:
      break;
  }
  return x;
}

void touch_rows(Footprint& out, std::uint64_t at, const MixedGemm::Matrix& matrix, std::int64_t rows,
                std::int64_t columns, TouchKind kind) {
  const std::int64_t bytes = element_bytes(matrix.type);
  touch_matrix<char>(out, at, rows * bytes, columns, matrix.leading * bytes, kind);
  out.bytes += static_cast<double>(bytes * rows * columns);
}

struct Factors {
  double alpha, beta;
};

// One of the batch.
void multiply(const Pointers<7>& p, const MixedGemm::Args& a, const Factors& by, std::int64_t i) {
  std::vector<double> result(static_cast<std::size_t>(a.m * a.n));
  if (by.beta != 0) result = read(element(p[2], a.c.type, i * a.c.stride), a.c, a.m, a.n);
  if (by.alpha != 0 && a.k > 0) {
    const std::int64_t a_rows = a.transpose_a ? a.k : a.m, b_rows = a.transpose_b ? a.n : a.k;
    const auto left = read(element(p[0], a.a.type, i * a.a.stride), a.a, a_rows, a.transpose_a ? a.m : a.k);
    const auto right = read(element(p[1], a.b.type, i * a.b.stride), a.b, b_rows, a.transpose_b ? a.k : a.n);
    cblas_dgemm(CblasColMajor, a.transpose_a ? CblasTrans : CblasNoTrans,
                a.transpose_b ? CblasTrans : CblasNoTrans, static_cast<blasint>(a.m),
                static_cast<blasint>(a.n), static_cast<blasint>(a.k), by.alpha, left.data(),
                static_cast<blasint>(a_rows), right.data(), static_cast<blasint>(b_rows), by.beta,
                result.data(), static_cast<blasint>(a.m));
  } else {
    for (double& value : result) value *= by.beta;
  }
  for (std::int64_t row = 0; row < a.m; ++row) {
    const double bias =
        p[4] == 0 ? 0 : load(element(p[4], a.bias_type, i * a.bias_stride + row), a.bias_type);
    for (std::int64_t column = 0; column < a.n; ++column) {
      double& value = result[static_cast<std::size_t>(column * a.m + row)];
      value = activate(a.activation, value + bias);
    }
  }
  write(element(p[3], a.d.type, i * a.d.stride), a.d, a.m, a.n, result);
}

}  // namespace

std::int64_t element_bytes(std::int32_t type) {
  std::int64_t bytes = 0;
  with_type(type, [&](auto* of) { bytes = sizeof *of; });
  return bytes;
}

double host_scalar(const void* at, std::int32_t type) {
  return load(address(at), type);
}

void MixedGemm::footprint(const Pointers<7>& p, const Args& a, Footprint& out) {
  for (std::int64_t i = 0; i < a.batch; ++i) {
    if (a.reads_inputs()) {
      touch_rows(out, element(p[0], a.a.type, i * a.a.stride), a.a, a.transpose_a ? a.k : a.m,
                 a.transpose_a ? a.m : a.k, TouchKind::read);
      touch_rows(out, element(p[1], a.b.type, i * a.b.stride), a.b, a.transpose_b ? a.n : a.k,
                 a.transpose_b ? a.k : a.n, TouchKind::read);
    }
    if (a.reads_c()) touch_rows(out, element(p[2], a.c.type, i * a.c.stride), a.c, a.m, a.n, TouchKind::read);
    if (p[4] != 0) {
      touch<char>(out, element(p[4], a.bias_type, i * a.bias_stride), a.m * element_bytes(a.bias_type),
                  TouchKind::read);
    }
    touch_rows(out, element(p[3], a.d.type, i * a.d.stride), a.d, a.m, a.n, TouchKind::write);
  }
  for (const std::size_t scalar : {5, 6})
    touch<char>(out, p[scalar], element_bytes(a.scalar_type), TouchKind::read);
  out.kind = "gemm";
  out.flops = a.reads_inputs() ? 2 * static_cast<double>(a.batch) * static_cast<double>(a.m) *
                                     static_cast<double>(a.n) * static_cast<double>(a.k)
                               : 0;
}

void MixedGemm::run(const Pointers<7>& p, const Args& a) {
  // One thread: the order of sums is then a matter of the shapes alone.
  if (openblas_get_num_threads() != 1) openblas_set_num_threads(1);
  Factors by{a.alpha, a.beta};
  if (a.scalars_on_device) by = {load(p[5], a.scalar_type), load(p[6], a.scalar_type)};
  for (std::int64_t i = 0; i < a.batch; ++i) multiply(p, a, by, i);
}

}  // namespace softgpu::cublas
