// cuBLASLt: handles, descriptors and their attributes. An attribute that is not listed is not supported: the
// program is told so when it sets it.
#include <algorithm>
#include <cstring>
#include <new>

#include "softgpu/cublas/handle.h"
#include "softgpu/cublas/lt.h"

using namespace softgpu::cublas;

namespace {

// Where an attribute lies in its descriptor.
struct Place {
  void* at = nullptr;
  std::size_t bytes = 0;
};

template <class Field>
Place place(Field& field) {
  return {&field, sizeof field};
}

Place find(Layout& of, cublasLtMatrixLayoutAttribute_t attribute) {
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_TYPE:
      return place(of.type);
    case CUBLASLT_MATRIX_LAYOUT_ORDER:
      return place(of.order);
    case CUBLASLT_MATRIX_LAYOUT_ROWS:
      return place(of.rows);
    case CUBLASLT_MATRIX_LAYOUT_COLS:
      return place(of.columns);
    case CUBLASLT_MATRIX_LAYOUT_LD:
      return place(of.leading);
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      return place(of.batch_count);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return place(of.batch_stride);
    case CUBLASLT_MATRIX_LAYOUT_PLANE_OFFSET:
      return place(of.plane_offset);
    default:
      return {};
  }
}

Place find(MatmulDescriptor& of, cublasLtMatmulDescAttributes_t attribute) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_COMPUTE_TYPE:
      return place(of.compute_type);
    case CUBLASLT_MATMUL_DESC_SCALE_TYPE:
      return place(of.scale_type);
    case CUBLASLT_MATMUL_DESC_POINTER_MODE:
      return place(of.pointer_mode);
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return place(of.transpose_a);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return place(of.transpose_b);
    case CUBLASLT_MATMUL_DESC_TRANSC:
      return place(of.transpose_c);
    case CUBLASLT_MATMUL_DESC_FILL_MODE:
      return place(of.fill);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return place(of.epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return place(of.bias);
    case CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE:
      return place(of.bias_stride);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return place(of.bias_type);
    case CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET:
      return place(of.multiprocessors);
    case CUBLASLT_MATMUL_DESC_FAST_ACCUM:
      return place(of.fast_accumulation);
    default:
      return {};
  }
}

// Alignments and the number of waves are asked for in preferences, too: they rule nothing out here.
Place find(Preference& of, cublasLtMatmulPreferenceAttributes_t attribute) {
  return attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES ? place(of.workspace_bytes) : Place{};
}

template <class Descriptor, class Handle, class Attribute>
cublasStatus_t set(Handle handle, Attribute attribute, const void* value, std::size_t bytes) {
  if (!handle || !value) return CUBLAS_STATUS_INVALID_VALUE;
  const Place to = find(*behind<Descriptor>(handle), attribute);
  if (!to.at) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (bytes != to.bytes) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(to.at, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

// `bytes` of 0: the caller asks how many there are.
template <class Descriptor, class Handle, class Attribute>
cublasStatus_t get(Handle handle, Attribute attribute, void* value, std::size_t bytes, std::size_t* written) {
  if (!handle || (bytes == 0 ? !written : !value)) return CUBLAS_STATUS_INVALID_VALUE;
  // Only looked at.
  const Place from = find(const_cast<Descriptor&>(*behind<Descriptor>(handle)), attribute);
  if (!from.at) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (written) *written = from.bytes;
  if (bytes == 0) return CUBLAS_STATUS_SUCCESS;
  if (bytes < from.bytes) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(value, from.at, from.bytes);
  return CUBLAS_STATUS_SUCCESS;
}

template <class Descriptor, class Opaque>
cublasStatus_t init(Opaque* handle, std::size_t bytes, const Descriptor& value) {
  if (!handle) return CUBLAS_STATUS_INVALID_VALUE;
  if (bytes < sizeof(Descriptor)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memset(static_cast<void*>(handle), 0, bytes);
  new (handle) Descriptor(value);
  return CUBLAS_STATUS_SUCCESS;
}

template <class Descriptor, class Opaque>
cublasStatus_t create(Opaque** handle, const Descriptor& value) {
  if (!handle) return CUBLAS_STATUS_INVALID_VALUE;
  *handle = new (std::nothrow) Opaque;
  return *handle ? init(*handle, sizeof **handle, value) : CUBLAS_STATUS_ALLOC_FAILED;
}

template <class Opaque>
cublasStatus_t destroy(Opaque* handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

Layout layout(cudaDataType type, std::uint64_t rows, std::uint64_t columns, std::int64_t leading) {
  return {.type = static_cast<std::uint32_t>(type), .rows = rows, .columns = columns, .leading = leading};
}

}  // namespace

struct cublasLtContext {};

SOFTGPU_CUBLAS cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  if (!handle) return CUBLAS_STATUS_INVALID_VALUE;
  *handle = new (std::nothrow) cublasLtContext;
  return *handle ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}
SOFTGPU_CUBLAS cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
SOFTGPU_CUBLAS std::size_t cublasLtGetVersion() {
  return CUBLAS_VERSION;
}
SOFTGPU_CUBLAS std::size_t cublasLtGetCudartVersion() {
  return CUDART_VERSION;
}

SOFTGPU_CUBLAS cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t handle,
                                                                std::size_t bytes, cudaDataType type,
                                                                std::uint64_t rows, std::uint64_t columns,
                                                                std::int64_t leading) {
  return init(handle, bytes, layout(type, rows, columns, leading));
}
SOFTGPU_CUBLAS cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* handle, cudaDataType type,
                                                         std::uint64_t rows, std::uint64_t columns,
                                                         std::int64_t leading) {
  return create(handle, layout(type, rows, columns, leading));
}
SOFTGPU_CUBLAS cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t handle) {
  return destroy(handle);
}
SOFTGPU_CUBLAS cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t handle,
                                                               cublasLtMatrixLayoutAttribute_t attribute,
                                                               const void* value, std::size_t bytes) {
  return set<Layout>(handle, attribute, value, bytes);
}
SOFTGPU_CUBLAS cublasStatus_t cublasLtMatrixLayoutGetAttribute(cublasLtMatrixLayout_t handle,
                                                               cublasLtMatrixLayoutAttribute_t attribute,
                                                               void* value, std::size_t bytes,
                                                               std::size_t* written) {
  return get<Layout>(handle, attribute, value, bytes, written);
}

SOFTGPU_CUBLAS cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t handle, std::size_t bytes,
                                                              cublasComputeType_t compute,
                                                              cudaDataType scale) {
  return init(handle, bytes, MatmulDescriptor{.compute_type = compute, .scale_type = scale});
}
SOFTGPU_CUBLAS cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* handle,
                                                       cublasComputeType_t compute, cudaDataType scale) {
  return create(handle, MatmulDescriptor{.compute_type = compute, .scale_type = scale});
}
SOFTGPU_CUBLAS cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t handle) {
  return destroy(handle);
}
SOFTGPU_CUBLAS cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t handle,
                                                             cublasLtMatmulDescAttributes_t attribute,
                                                             const void* value, std::size_t bytes) {
  return set<MatmulDescriptor>(handle, attribute, value, bytes);
}
SOFTGPU_CUBLAS cublasStatus_t cublasLtMatmulDescGetAttribute(cublasLtMatmulDesc_t handle,
                                                             cublasLtMatmulDescAttributes_t attribute,
                                                             void* value, std::size_t bytes,
                                                             std::size_t* written) {
  return get<MatmulDescriptor>(handle, attribute, value, bytes, written);
}

SOFTGPU_CUBLAS cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t handle,
                                                                    std::size_t bytes) {
  return init(handle, bytes, Preference{});
}
SOFTGPU_CUBLAS cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* handle) {
  return create(handle, Preference{});
}
SOFTGPU_CUBLAS cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t handle) {
  return destroy(handle);
}
SOFTGPU_CUBLAS cublasStatus_t cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t handle, cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
    std::size_t bytes) {
  const cublasStatus_t done = set<Preference>(handle, attribute, value, bytes);
  return done == CUBLAS_STATUS_NOT_SUPPORTED ? CUBLAS_STATUS_SUCCESS : done;
}
