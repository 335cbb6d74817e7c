// What has to be asked of cuBLASLt about a call. Only the generated wrappers of that library use this; they
// include its header, cublasLt.h, before.
#pragma once

#include <cstdint>

#include "interpose/calls/extent.h"
#include "interpose/cublas/facts.h"
#include "interpose/hooks/libraries.h"

namespace pooch::interpose {
namespace lt {

inline constinit Real<decltype(::cublasLtMatrixLayoutGetAttribute)> of_layout{
    Library::cublaslt, "cublasLtMatrixLayoutGetAttribute"};
inline constinit Real<decltype(::cublasLtMatmulDescGetAttribute)> of_matmul{Library::cublaslt,
                                                                            "cublasLtMatmulDescGetAttribute"};
inline constinit Real<decltype(::cublasLtMatrixTransformDescGetAttribute)> of_transform{
    Library::cublaslt, "cublasLtMatrixTransformDescGetAttribute"};

// False where there is no descriptor or it has no such attribute; `value` stays as it is then.
template <class Get, class Descriptor, class Attribute, class Value>
bool ask(const Scope& scope, Real<Get>& real, Descriptor descriptor, Attribute attribute, Value& value) {
  auto* const get = real.get_if_present(scope);
  std::size_t written = 0;
  return descriptor != nullptr && get != nullptr &&
         get(descriptor, attribute, &value, sizeof value, &written) == CUBLAS_STATUS_SUCCESS;
}

struct Layout {
  std::uint32_t type = 0;
  std::int32_t order = CUBLASLT_ORDER_COL;
  std::uint64_t rows = 0, columns = 0;
  std::int64_t leading = 0;
  std::int32_t batch_count = 1;
  std::int64_t batch_stride = 0, plane_offset = 0;
  std::uint32_t batch_mode = CUBLASLT_BATCH_MODE_STRIDED;
};

inline bool read_layout(const Scope& scope, cublasLtMatrixLayout_t from, Layout& to) {
  // Newer than the rest; a library without it knows strides only.
  ask(scope, of_layout, from, CUBLASLT_MATRIX_LAYOUT_BATCH_MODE, to.batch_mode);
  return ask(scope, of_layout, from, CUBLASLT_MATRIX_LAYOUT_TYPE, to.type) &&
         ask(scope, of_layout, from, CUBLASLT_MATRIX_LAYOUT_ORDER, to.order) &&
         ask(scope, of_layout, from, CUBLASLT_MATRIX_LAYOUT_ROWS, to.rows) &&
         ask(scope, of_layout, from, CUBLASLT_MATRIX_LAYOUT_COLS, to.columns) &&
         ask(scope, of_layout, from, CUBLASLT_MATRIX_LAYOUT_LD, to.leading) &&
         ask(scope, of_layout, from, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, to.batch_count) &&
         ask(scope, of_layout, from, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, to.batch_stride) &&
         ask(scope, of_layout, from, CUBLASLT_MATRIX_LAYOUT_PLANE_OFFSET, to.plane_offset);
}

// Groups of 32 columns that start `leading` elements apart, made of tiles of `tile_rows` rows.
inline Extent tiled(const Layout& of, std::int64_t tile_rows) {
  const auto rows = static_cast<std::int64_t>(of.rows), columns = static_cast<std::int64_t>(of.columns);
  const std::int64_t stored_rows = (rows + tile_rows - 1) / tile_rows * tile_rows;
  Extent groups =
      typed_matrix(stored_rows * 32, (columns + 31) / 32, of.leading, static_cast<cudaDataType>(of.type));
  // Nobody promises what becomes of the elements that fill up a tile.
  groups.dense = groups.dense && stored_rows == rows && columns % 32 == 0;
  return groups;
}

inline Extent one_matrix(const Layout& of) {
  const auto type = static_cast<cudaDataType>(of.type);
  const auto rows = static_cast<std::int64_t>(of.rows), columns = static_cast<std::int64_t>(of.columns);
  if (of.leading < 0 || of.plane_offset != 0) return Extent::unknown();
  switch (of.order) {
    case CUBLASLT_ORDER_COL:
      return typed_matrix(rows, columns, of.leading, type);
    case CUBLASLT_ORDER_ROW:
      return typed_matrix(columns, rows, of.leading, type);
    case CUBLASLT_ORDER_COL32:
      return tiled(of, 1);
    case CUBLASLT_ORDER_COL4_4R2_8C:
      return tiled(of, 8);
    case CUBLASLT_ORDER_COL32_2R_4R4:
      return tiled(of, 32);
    default:
      return Extent::unknown();
  }
}

// How scalars are given, and of what type they are.
struct Scalars {
  std::int32_t mode = CUBLASLT_POINTER_MODE_HOST;
  std::int32_t type = -1;
  bool known = false;

  bool on_host(bool beta) const {
    return mode == CUBLASLT_POINTER_MODE_HOST ||
           (beta && mode == CUBLASLT_POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_HOST);
  }
  bool without_beta() const { return mode == CUBLASLT_POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_ZERO; }
};

inline Scalars scalars_of(const Scope& scope, cublasLtMatmulDesc_t matmul) {
  Scalars scalars;
  scalars.known = ask(scope, of_matmul, matmul, CUBLASLT_MATMUL_DESC_POINTER_MODE, scalars.mode) &&
                  ask(scope, of_matmul, matmul, CUBLASLT_MATMUL_DESC_SCALE_TYPE, scalars.type);
  return scalars;
}
inline Scalars scalars_of(const Scope& scope, cublasLtMatrixTransformDesc_t transform) {
  Scalars scalars;
  scalars.known =
      ask(scope, of_transform, transform, CUBLASLT_MATRIX_TRANSFORM_DESC_POINTER_MODE, scalars.mode) &&
      ask(scope, of_transform, transform, CUBLASLT_MATRIX_TRANSFORM_DESC_SCALE_TYPE, scalars.type);
  return scalars;
}

// What an epilogue does with its bias and with its auxiliary matrix.
struct Use {
  bool read, written;
};

constexpr Use use_of_bias(std::uint32_t epilogue) {
  constexpr std::uint32_t gradients = (CUBLASLT_EPILOGUE_DRELU_BGRAD & ~CUBLASLT_EPILOGUE_DRELU) |
                                      CUBLASLT_EPILOGUE_BGRADA | CUBLASLT_EPILOGUE_BGRADB;
  return {(epilogue & CUBLASLT_EPILOGUE_BIAS) != 0, (epilogue & gradients) != 0};
}
constexpr Use use_of_auxiliary(std::uint32_t epilogue) {
  constexpr std::uint32_t uses = CUBLASLT_EPILOGUE_RELU_AUX & ~CUBLASLT_EPILOGUE_RELU;
  constexpr std::uint32_t backward = (CUBLASLT_EPILOGUE_DRELU | CUBLASLT_EPILOGUE_DGELU) & ~uses;
  if ((epilogue & uses) == 0) return {false, false};
  return {(epilogue & backward) != 0, (epilogue & backward) == 0};
}
static_assert(use_of_bias(CUBLASLT_EPILOGUE_GELU_AUX_BIAS).read &&
              use_of_bias(CUBLASLT_EPILOGUE_BGRADB).written);
static_assert(!use_of_bias(CUBLASLT_EPILOGUE_RELU_AUX).read && !use_of_bias(CUBLASLT_EPILOGUE_DGELU).written);
static_assert(use_of_auxiliary(CUBLASLT_EPILOGUE_RELU_AUX_BIAS).written);
static_assert(use_of_auxiliary(CUBLASLT_EPILOGUE_DRELU_BGRAD).read);
static_assert(!use_of_auxiliary(CUBLASLT_EPILOGUE_GELU_BIAS).written);

// Epilogues that came later may do anything.
constexpr std::uint32_t known_epilogues = CUBLASLT_EPILOGUE_DEFAULT | CUBLASLT_EPILOGUE_RELU_AUX_BIAS |
                                          CUBLASLT_EPILOGUE_DRELU_BGRAD | CUBLASLT_EPILOGUE_GELU_AUX_BIAS |
                                          CUBLASLT_EPILOGUE_DGELU_BGRAD | CUBLASLT_EPILOGUE_BGRADA |
                                          CUBLASLT_EPILOGUE_BGRADB;

inline Use use_by_epilogue(const Scope& scope, cublasLtMatmulDesc_t matmul,
                           cublasLtMatmulDescAttributes_t what) {
  std::uint32_t epilogue = 0;
  if (!ask(scope, of_matmul, matmul, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue) ||
      (epilogue & ~known_epilogues) != 0)
    return {true, true};
  return what == CUBLASLT_MATMUL_DESC_BIAS_POINTER ? use_of_bias(epilogue) : use_of_auxiliary(epilogue);
}

}  // namespace lt

// A matrix, or a batch of them, from the first to the last element.
inline Extent lt_matrix(const Scope& scope, cublasLtMatrixLayout_t layout) {
  lt::Layout read;
  if (!lt::read_layout(scope, layout, read)) return Extent::unknown();
  if (read.batch_mode != CUBLASLT_BATCH_MODE_STRIDED) return anywhere();
  return typed_batched(lt::one_matrix(read), read.batch_stride, read.batch_count,
                       static_cast<cudaDataType>(read.type));
}

// The matrix that a product fills, perhaps a triangle only.
inline Extent lt_result(const Scope& scope, cublasLtMatmulDesc_t matmul, cublasLtMatrixLayout_t layout) {
  Extent extent = lt_matrix(scope, layout);
  std::int32_t fill = -1;
  const bool full = lt::ask(scope, lt::of_matmul, matmul, CUBLASLT_MATMUL_DESC_FILL_MODE, fill) &&
                    fill == CUBLAS_FILL_MODE_FULL;
  extent.dense = extent.dense && full;
  return extent;
}

// The matrix that is blended in; nothing where the factor is zero.
template <class Descriptor>
Extent lt_blended(const Scope& scope, Descriptor operation, const void* beta, cublasLtMatrixLayout_t layout) {
  const lt::Scalars scalars = lt::scalars_of(scope, operation);
  if (scalars.known) {
    if (scalars.without_beta()) return {};
    if (scalars.on_host(/*beta=*/true) &&
        !host_scalar_not_zero(beta, typed(static_cast<cudaDataType>(scalars.type))))
      return {};
  }
  return lt_matrix(scope, layout);
}

// A factor as an operand; nothing where it lies on the host. Vectors have as many elements as somebody knows.
template <class Descriptor>
Extent lt_factor(const Scope& scope, Descriptor operation, bool beta) {
  const lt::Scalars scalars = lt::scalars_of(scope, operation);
  if (!scalars.known) return Extent::unknown();
  if (scalars.on_host(beta) || (beta && scalars.without_beta())) return {};
  return scalars.mode == CUBLASLT_POINTER_MODE_DEVICE ? typed(static_cast<cudaDataType>(scalars.type))
                                                      : Extent::unknown();
}
template <class Descriptor>
Extent lt_alpha(const Scope& scope, Descriptor operation) {
  return lt_factor(scope, operation, /*beta=*/false);
}
template <class Descriptor>
Extent lt_beta(const Scope& scope, Descriptor operation) {
  return lt_factor(scope, operation, /*beta=*/true);
}

// An address that the operation's descriptor holds; null where there is none.
inline const void* lt_pointer(const Scope& scope, cublasLtMatmulDesc_t matmul,
                              cublasLtMatmulDescAttributes_t what) {
  const void* pointer = nullptr;
  return lt::ask(scope, lt::of_matmul, matmul, what, pointer) ? pointer : nullptr;
}
// The same for bias and auxiliary matrix: null where the epilogue does not do that with it.
inline const void* lt_read_by_epilogue(const Scope& scope, cublasLtMatmulDesc_t matmul,
                                       cublasLtMatmulDescAttributes_t what) {
  return lt::use_by_epilogue(scope, matmul, what).read ? lt_pointer(scope, matmul, what) : nullptr;
}
inline const void* lt_written_by_epilogue(const Scope& scope, cublasLtMatmulDesc_t matmul,
                                          cublasLtMatmulDescAttributes_t what) {
  return lt::use_by_epilogue(scope, matmul, what).written ? lt_pointer(scope, matmul, what) : nullptr;
}

}  // namespace pooch::interpose
