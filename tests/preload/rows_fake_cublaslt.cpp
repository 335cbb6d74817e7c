// Enough of a cuBLASLt for tests of its rows: descriptors that remember attributes by their size, as the real
// ones do, and products that launch one kernel and compute nothing.
#include <cublasLt.h>
#include <cuda.h>
#include <dlfcn.h>

#include <cstring>
#include <initializer_list>
#include <map>
#include <string>

#define FAKE extern "C" __attribute__((visibility("default")))

namespace {

using Attributes = std::map<int, std::string>;

template <class Value>
std::string bytes_of(Value value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

template <class Descriptor>
Attributes& attributes_of(Descriptor* descriptor) {
  return *reinterpret_cast<Attributes*>(descriptor);
}

template <class Descriptor>
cublasStatus_t create(Descriptor** descriptor, const Attributes& defaults) {
  *descriptor = reinterpret_cast<Descriptor*>(new Attributes(defaults));
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t set(Attributes& attributes, int attribute, const void* from, size_t bytes) {
  const auto found = attributes.find(attribute);
  if (found == attributes.end() || found->second.size() != bytes) return CUBLAS_STATUS_INVALID_VALUE;
  found->second.assign(static_cast<const char*>(from), bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t get(const Attributes& attributes, int attribute, void* to, size_t bytes, size_t* written) {
  const auto found = attributes.find(attribute);
  if (found == attributes.end() || found->second.size() != bytes) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(to, found->second.data(), bytes);
  if (written != nullptr) *written = bytes;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t launch() {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  static const auto kernel = reinterpret_cast<decltype(&cuLaunchKernel)>(dlsym(library, "cuLaunchKernel"));
  const CUresult status = kernel(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr);
  return status == CUDA_SUCCESS ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // namespace

FAKE cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                               uint64_t rows, uint64_t cols, int64_t ld) {
  return create(layout, {{CUBLASLT_MATRIX_LAYOUT_TYPE, bytes_of(uint32_t{type})},
                         {CUBLASLT_MATRIX_LAYOUT_ORDER, bytes_of(int32_t{CUBLASLT_ORDER_COL})},
                         {CUBLASLT_MATRIX_LAYOUT_ROWS, bytes_of(rows)},
                         {CUBLASLT_MATRIX_LAYOUT_COLS, bytes_of(cols)},
                         {CUBLASLT_MATRIX_LAYOUT_LD, bytes_of(ld)},
                         {CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, bytes_of(int32_t{1})},
                         {CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, bytes_of(int64_t{0})},
                         {CUBLASLT_MATRIX_LAYOUT_PLANE_OFFSET, bytes_of(int64_t{0})},
                         {CUBLASLT_MATRIX_LAYOUT_BATCH_MODE, bytes_of(uint32_t{0})}});
}
FAKE cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                     cublasLtMatrixLayoutAttribute_t attribute,
                                                     const void* from, size_t bytes) {
  return set(attributes_of(layout), attribute, from, bytes);
}
FAKE cublasStatus_t cublasLtMatrixLayoutGetAttribute(cublasLtMatrixLayout_t layout,
                                                     cublasLtMatrixLayoutAttribute_t attribute, void* to,
                                                     size_t bytes, size_t* written) {
  return get(attributes_of(layout), attribute, to, bytes, written);
}

FAKE cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* matmul, cublasComputeType_t compute,
                                             cudaDataType_t scale) {
  Attributes defaults = {{CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, bytes_of(int32_t{compute})},
                         {CUBLASLT_MATMUL_DESC_SCALE_TYPE, bytes_of(int32_t{scale})},
                         {CUBLASLT_MATMUL_DESC_POINTER_MODE, bytes_of(int32_t{CUBLASLT_POINTER_MODE_HOST})},
                         {CUBLASLT_MATMUL_DESC_FILL_MODE, bytes_of(int32_t{CUBLAS_FILL_MODE_FULL})},
                         {CUBLASLT_MATMUL_DESC_EPILOGUE, bytes_of(uint32_t{CUBLASLT_EPILOGUE_DEFAULT})}};
  for (const auto pointer :
       {CUBLASLT_MATMUL_DESC_BIAS_POINTER, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER,
        CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER,
        CUBLASLT_MATMUL_DESC_C_SCALE_POINTER, CUBLASLT_MATMUL_DESC_D_SCALE_POINTER,
        CUBLASLT_MATMUL_DESC_AMAX_D_POINTER, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_SCALE_POINTER,
        CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_AMAX_POINTER, CUBLASLT_MATMUL_DESC_D_OUT_SCALE_POINTER})
    defaults[pointer] = bytes_of(static_cast<void*>(nullptr));
  return create(matmul, defaults);
}
FAKE cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t matmul,
                                                   cublasLtMatmulDescAttributes_t attribute, const void* from,
                                                   size_t bytes) {
  return set(attributes_of(matmul), attribute, from, bytes);
}
FAKE cublasStatus_t cublasLtMatmulDescGetAttribute(cublasLtMatmulDesc_t matmul,
                                                   cublasLtMatmulDescAttributes_t attribute, void* to,
                                                   size_t bytes, size_t* written) {
  return get(attributes_of(matmul), attribute, to, bytes, written);
}
FAKE cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t, const void*, const void*,
                                   cublasLtMatrixLayout_t, const void*, cublasLtMatrixLayout_t, const void*,
                                   const void*, cublasLtMatrixLayout_t, void*, cublasLtMatrixLayout_t,
                                   const cublasLtMatmulAlgo_t*, void*, size_t, cudaStream_t) {
  return launch();
}

FAKE cublasStatus_t cublasLtMatrixTransformDescCreate(cublasLtMatrixTransformDesc_t* transform,
                                                      cudaDataType scale) {
  return create(transform, {{CUBLASLT_MATRIX_TRANSFORM_DESC_SCALE_TYPE, bytes_of(int32_t{scale})},
                            {CUBLASLT_MATRIX_TRANSFORM_DESC_POINTER_MODE, bytes_of(int32_t{0})}});
}
FAKE cublasStatus_t cublasLtMatrixTransformDescGetAttribute(cublasLtMatrixTransformDesc_t transform,
                                                            cublasLtMatrixTransformDescAttributes_t attribute,
                                                            void* to, size_t bytes, size_t* written) {
  return get(attributes_of(transform), attribute, to, bytes, written);
}
FAKE cublasStatus_t cublasLtMatrixTransform(cublasLtHandle_t, cublasLtMatrixTransformDesc_t, const void*,
                                            const void*, cublasLtMatrixLayout_t, const void*, const void*,
                                            cublasLtMatrixLayout_t, void*, cublasLtMatrixLayout_t,
                                            cudaStream_t) {
  return launch();
}
