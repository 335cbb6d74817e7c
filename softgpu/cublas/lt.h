// cuBLASLt's descriptors. Each is an opaque struct of fixed size that the program may also keep on its own
// stack.
#pragma once

#include <cublasLt.h>

#include <cstdint>

namespace softgpu::cublas {

struct Layout {
  std::uint32_t type = CUDA_R_32F;
  std::int32_t order = CUBLASLT_ORDER_COL;
  std::uint64_t rows = 0, columns = 0;
  std::int64_t leading = 0;
  std::int32_t batch_count = 1;
  std::int64_t batch_stride = 0, plane_offset = 0;
};

struct MatmulDescriptor {
  std::int32_t compute_type = CUBLAS_COMPUTE_32F, scale_type = CUDA_R_32F;
  std::int32_t pointer_mode = CUBLASLT_POINTER_MODE_HOST;
  std::int32_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N, transpose_c = CUBLAS_OP_N;
  std::int32_t fill = CUBLAS_FILL_MODE_FULL;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  std::int64_t bias_stride = 0;
  std::int32_t bias_type = -1;  // that of D
  std::int32_t multiprocessors = 0;
  std::int8_t fast_accumulation = 0;
};

struct Preference {
  std::uint64_t workspace_bytes = 0;
};

static_assert(sizeof(Layout) <= sizeof(cublasLtMatrixLayoutOpaque_t));
static_assert(sizeof(MatmulDescriptor) <= sizeof(cublasLtMatmulDescOpaque_t));
static_assert(sizeof(Preference) <= sizeof(cublasLtMatmulPreferenceOpaque_t));

// A handle's descriptor; null for a null handle.
template <class Descriptor, class Opaque>
Descriptor* behind(Opaque* handle) {
  return reinterpret_cast<Descriptor*>(handle);
}
template <class Descriptor, class Opaque>
const Descriptor* behind(const Opaque* handle) {
  return reinterpret_cast<const Descriptor*>(handle);
}

}  // namespace softgpu::cublas
