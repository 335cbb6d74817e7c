// Functions that the software GPU's libraries do not have, so that their recipes can be run: cuBLASLt's
// products, some of cuDNN, a copy of the driver. They compute on the host, on the software GPU's memory.
// Their results depend on everything that a descriptor says, so a copy that differs is seen.
#include <cublasLt.h>
#include <cuda.h>
#include <cudnn.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <map>
#include <string>
#include <vector>

#define EXTRA extern "C" __attribute__((visibility("default")))

namespace {

// --- descriptors: attributes by name
using Attributes = std::map<int, std::string>;

template <class Descriptor>
Attributes& attributes_of(Descriptor* descriptor) {
  return *reinterpret_cast<Attributes*>(descriptor);
}
template <class Value>
std::string bytes_of(Value value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}
template <class Value>
Value value_of(const Attributes& attributes, int name) {
  Value value;
  std::memcpy(&value, attributes.at(name).data(), sizeof value);
  return value;
}
cublasStatus_t set(Attributes& attributes, int name, const void* from, size_t bytes) {
  const auto found = attributes.find(name);
  if (found == attributes.end() || found->second.size() != bytes) return CUBLAS_STATUS_INVALID_VALUE;
  found->second.assign(static_cast<const char*>(from), bytes);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t get(const Attributes& attributes, int name, void* to, size_t bytes, size_t* written) {
  const auto found = attributes.find(name);
  if (found == attributes.end() || found->second.size() != bytes) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(to, found->second.data(), bytes);
  *written = bytes;
  return CUBLAS_STATUS_SUCCESS;
}

constexpr int pointers[] = {
    CUBLASLT_MATMUL_DESC_BIAS_POINTER,
    CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER,
    CUBLASLT_MATMUL_DESC_A_SCALE_POINTER,
    CUBLASLT_MATMUL_DESC_B_SCALE_POINTER,
    CUBLASLT_MATMUL_DESC_C_SCALE_POINTER,
    CUBLASLT_MATMUL_DESC_D_SCALE_POINTER,
    CUBLASLT_MATMUL_DESC_AMAX_D_POINTER,
    CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_SCALE_POINTER,
    CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_AMAX_POINTER,
    CUBLASLT_MATMUL_DESC_D_OUT_SCALE_POINTER,
};

// A small number that differs where one of the attributes does; addresses move.
float fingerprint(Attributes attributes) {
  for (const int pointer : pointers) attributes.erase(pointer);
  std::uint32_t hash = 2166136261U;
  for (const auto& [name, bytes] : attributes) {
    for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 16777619U + name;
  }
  return static_cast<float>(hash) / static_cast<float>(1ULL << 32);
}

int handle;  // its address serves as every handle

}  // namespace

EXTRA cublasStatus_t cublasLtCreate(cublasLtHandle_t* made) {
  *made = reinterpret_cast<cublasLtHandle_t>(&handle);
  return CUBLAS_STATUS_SUCCESS;
}
EXTRA cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                                uint64_t rows, uint64_t cols, int64_t ld) {
  *layout = reinterpret_cast<cublasLtMatrixLayout_t>(
      new Attributes{{CUBLASLT_MATRIX_LAYOUT_TYPE, bytes_of(uint32_t{type})},
                     {CUBLASLT_MATRIX_LAYOUT_ORDER, bytes_of(int32_t{CUBLASLT_ORDER_COL})},
                     {CUBLASLT_MATRIX_LAYOUT_ROWS, bytes_of(rows)},
                     {CUBLASLT_MATRIX_LAYOUT_COLS, bytes_of(cols)},
                     {CUBLASLT_MATRIX_LAYOUT_LD, bytes_of(ld)},
                     {CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, bytes_of(int32_t{1})},
                     {CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, bytes_of(int64_t{0})},
                     {CUBLASLT_MATRIX_LAYOUT_PLANE_OFFSET, bytes_of(int64_t{0})},
                     {CUBLASLT_MATRIX_LAYOUT_BATCH_MODE, bytes_of(uint32_t{0})}});
  return CUBLAS_STATUS_SUCCESS;
}
EXTRA cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete &attributes_of(layout);
  return CUBLAS_STATUS_SUCCESS;
}
EXTRA cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                      cublasLtMatrixLayoutAttribute_t name, const void* from,
                                                      size_t bytes) {
  return set(attributes_of(layout), name, from, bytes);
}
EXTRA cublasStatus_t cublasLtMatrixLayoutGetAttribute(cublasLtMatrixLayout_t layout,
                                                      cublasLtMatrixLayoutAttribute_t name, void* to,
                                                      size_t bytes, size_t* written) {
  return get(attributes_of(layout), name, to, bytes, written);
}

EXTRA cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* matmul, cublasComputeType_t compute,
                                              cudaDataType_t scale) {
  auto* const made =
      new Attributes{{CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, bytes_of(int32_t{compute})},
                     {CUBLASLT_MATMUL_DESC_SCALE_TYPE, bytes_of(int32_t{scale})},
                     {CUBLASLT_MATMUL_DESC_FILL_MODE, bytes_of(int32_t{CUBLAS_FILL_MODE_FULL})},
                     {CUBLASLT_MATMUL_DESC_EPILOGUE, bytes_of(uint32_t{1})},
                     {CUBLASLT_MATMUL_DESC_FAST_ACCUM, bytes_of(int8_t{0})}};
  for (const int name : {CUBLASLT_MATMUL_DESC_POINTER_MODE, CUBLASLT_MATMUL_DESC_TRANSA,
                         CUBLASLT_MATMUL_DESC_TRANSB, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET})
    (*made)[name] = bytes_of(int32_t{0});
  for (const int name : {CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD})
    (*made)[name] = bytes_of(int64_t{0});
  for (const int name : pointers) (*made)[name] = bytes_of(static_cast<void*>(nullptr));
  (*made)[CUBLASLT_MATMUL_DESC_EMULATION_DESCRIPTOR] = bytes_of(static_cast<void*>(nullptr));
  *matmul = reinterpret_cast<cublasLtMatmulDesc_t>(made);
  return CUBLAS_STATUS_SUCCESS;
}
EXTRA cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t matmul) {
  delete &attributes_of(matmul);
  return CUBLAS_STATUS_SUCCESS;
}
EXTRA cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t matmul,
                                                    cublasLtMatmulDescAttributes_t name, const void* from,
                                                    size_t bytes) {
  return set(attributes_of(matmul), name, from, bytes);
}
EXTRA cublasStatus_t cublasLtMatmulDescGetAttribute(cublasLtMatmulDesc_t matmul,
                                                    cublasLtMatmulDescAttributes_t name, void* to,
                                                    size_t bytes, size_t* written) {
  return get(attributes_of(matmul), name, to, bytes, written);
}

// D = alpha · A · B + beta · C + bias in floats by columns, then scaled as the descriptor says; the largest
// value beside it.
EXTRA cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t matmul, const void* alpha,
                                    const void* A, cublasLtMatrixLayout_t Adesc, const void* B,
                                    cublasLtMatrixLayout_t Bdesc, const void* beta, const void* C,
                                    cublasLtMatrixLayout_t Cdesc, void* D, cublasLtMatrixLayout_t Ddesc,
                                    const cublasLtMatmulAlgo_t* algo, void* workspace, size_t bytes,
                                    cudaStream_t) {
  const auto number = [](cublasLtMatrixLayout_t layout, int name) {
    return value_of<std::int64_t>(attributes_of(layout), name);
  };
  const Attributes& product = attributes_of(matmul);
  const auto floats = [&](int name) { return value_of<float*>(product, name); };
  const auto *const a = static_cast<const float*>(A), *const b = static_cast<const float*>(B);
  const auto* const c = static_cast<const float*>(C);
  auto* const d = static_cast<float*>(D);
  const float one = *static_cast<const float*>(alpha), other = *static_cast<const float*>(beta);
  const float* const bias = floats(CUBLASLT_MATMUL_DESC_BIAS_POINTER);
  const float* const scale = floats(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER);
  float* const largest = floats(CUBLASLT_MATMUL_DESC_AMAX_D_POINTER);
  float marks = fingerprint(product);
  for (const auto layout : {Adesc, Bdesc, Cdesc, Ddesc}) marks += fingerprint(attributes_of(layout));
  if (algo != nullptr) marks += static_cast<float>(algo->data[7]);
  std::memset(workspace, 1, bytes);
  if (largest != nullptr) *largest = -1;
  for (std::int64_t j = 0; j < number(Ddesc, CUBLASLT_MATRIX_LAYOUT_COLS); ++j) {
    for (std::int64_t i = 0; i < number(Ddesc, CUBLASLT_MATRIX_LAYOUT_ROWS); ++i) {
      float sum = 0;
      for (std::int64_t l = 0; l < number(Adesc, CUBLASLT_MATRIX_LAYOUT_COLS); ++l)
        sum += a[l * number(Adesc, CUBLASLT_MATRIX_LAYOUT_LD) + i] *
               b[j * number(Bdesc, CUBLASLT_MATRIX_LAYOUT_LD) + l];
      sum = one * sum + marks + (bias != nullptr ? bias[i] : 0);
      if (other != 0) sum += other * c[j * number(Cdesc, CUBLASLT_MATRIX_LAYOUT_LD) + i];
      if (scale != nullptr) sum *= *scale;
      if (largest != nullptr && sum > *largest) *largest = sum;
      d[j * number(Ddesc, CUBLASLT_MATRIX_LAYOUT_LD) + i] = sum;
    }
  }
  return CUBLAS_STATUS_SUCCESS;
}

// --- cuDNN
namespace {
struct Transform {
  std::uint32_t rank;
  cudnnTensorFormat_t format;
  std::vector<std::int32_t> before, after;
  std::vector<std::uint32_t> fold;
  cudnnFoldingDirection_t direction;
};
Transform& transform_of(cudnnTensorTransformDescriptor_t descriptor) {
  return *reinterpret_cast<Transform*>(descriptor);
}
template <class Number>
void copy_numbers(const std::vector<Number>& from, std::uint32_t count, Number* to) {
  std::copy_n(from.begin(), count, to);
}
std::size_t elements(cudnnTensorDescriptor_t tensor, cudnnDataType_t& type) {
  int rank = 0, sizes[CUDNN_DIM_MAX], strides[CUDNN_DIM_MAX];
  if (cudnnGetTensorNdDescriptor(tensor, CUDNN_DIM_MAX, &type, &rank, sizes, strides) != CUDNN_STATUS_SUCCESS)
    return 0;
  std::size_t count = 1;
  for (int i = 0; i < rank; ++i) count *= static_cast<std::size_t>(sizes[i]);
  return count;
}
}  // namespace

EXTRA cudnnStatus_t cudnnCreateTensorTransformDescriptor(cudnnTensorTransformDescriptor_t* made) {
  *made = reinterpret_cast<cudnnTensorTransformDescriptor_t>(new Transform{});
  return CUDNN_STATUS_SUCCESS;
}
EXTRA cudnnStatus_t cudnnDestroyTensorTransformDescriptor(cudnnTensorTransformDescriptor_t descriptor) {
  delete &transform_of(descriptor);
  return CUDNN_STATUS_SUCCESS;
}
EXTRA cudnnStatus_t cudnnSetTensorTransformDescriptor(cudnnTensorTransformDescriptor_t descriptor,
                                                      const uint32_t rank, const cudnnTensorFormat_t format,
                                                      const int32_t before[], const int32_t after[],
                                                      const uint32_t fold[],
                                                      const cudnnFoldingDirection_t direction) {
  transform_of(descriptor) = {
      rank, format, {before, before + rank}, {after, after + rank}, {fold, fold + rank}, direction};
  return CUDNN_STATUS_SUCCESS;
}
EXTRA cudnnStatus_t cudnnGetTensorTransformDescriptor(cudnnTensorTransformDescriptor_t descriptor,
                                                      uint32_t rank, cudnnTensorFormat_t* format,
                                                      int32_t before[], int32_t after[], uint32_t fold[],
                                                      cudnnFoldingDirection_t* direction) {
  const Transform& from = transform_of(descriptor);
  if (rank > from.rank) return CUDNN_STATUS_BAD_PARAM;
  *format = from.format, *direction = from.direction;
  copy_numbers(from.before, rank, before);
  copy_numbers(from.after, rank, after);
  copy_numbers(from.fold, rank, fold);
  return CUDNN_STATUS_SUCCESS;
}
// dest = alpha · src + beta · dest, shifted by what the descriptor says.
EXTRA cudnnStatus_t cudnnTransformTensorEx(cudnnHandle_t, const cudnnTensorTransformDescriptor_t descriptor,
                                           const void* alpha, const cudnnTensorDescriptor_t srcDesc,
                                           const void* srcData, const void* beta,
                                           const cudnnTensorDescriptor_t, void* destData) {
  const Transform& by = transform_of(descriptor);
  float marks = static_cast<float>(by.rank) + 10.0F * static_cast<float>(by.format) +
                100.0F * static_cast<float>(by.direction);
  for (std::uint32_t i = 0; i < by.rank; ++i)
    marks += static_cast<float>(by.before[i] + 3 * by.after[i]) + 7.0F * static_cast<float>(by.fold[i]);
  cudnnDataType_t type;
  const auto* const from = static_cast<const float*>(srcData);
  auto* const to = static_cast<float*>(destData);
  const float one = *static_cast<const float*>(alpha), other = *static_cast<const float*>(beta);
  for (std::size_t i = 0; i < elements(srcDesc, type); ++i)
    to[i] = one * from[i] + marks + (other != 0 ? other * to[i] : 0);
  return CUDNN_STATUS_SUCCESS;
}

namespace {
template <class Real>
void divide(std::size_t count, const Real* factors[2], const double norm[3], const void* x, const void* means,
            void* temp, void* temp2, void* y) {
  for (std::size_t i = 0; i < count; ++i) {
    const Real centred = static_cast<const Real*>(x)[i] - static_cast<const Real*>(means)[i];
    static_cast<Real*>(temp)[i] = centred, static_cast<Real*>(temp2)[i] = centred * centred;
    Real& to = static_cast<Real*>(y)[i];
    const Real old = *factors[1] != 0 ? *factors[1] * to : 0;
    to = *factors[0] * centred / static_cast<Real>(norm[2] + norm[0] * centred * centred + norm[1]) + old;
  }
}
}  // namespace

// Of floats or doubles, as the real one.
EXTRA cudnnStatus_t cudnnDivisiveNormalizationForward(cudnnHandle_t, cudnnLRNDescriptor_t norm,
                                                      cudnnDivNormMode_t, const void* alpha,
                                                      const cudnnTensorDescriptor_t xDesc, const void* x,
                                                      const void* means, void* temp, void* temp2,
                                                      const void* beta, const cudnnTensorDescriptor_t,
                                                      void* y) {
  cudnnDataType_t type;
  const std::size_t count = elements(xDesc, type);
  unsigned window;
  double numbers[3];
  if (cudnnGetLRNDescriptor(norm, &window, &numbers[0], &numbers[1], &numbers[2]) != CUDNN_STATUS_SUCCESS)
    return CUDNN_STATUS_BAD_PARAM;
  if (type == CUDNN_DATA_DOUBLE) {
    const double* factors[2] = {static_cast<const double*>(alpha), static_cast<const double*>(beta)};
    divide(count, factors, numbers, x, means, temp, temp2, y);
  } else {
    const float* factors[2] = {static_cast<const float*>(alpha), static_cast<const float*>(beta)};
    divide(count, factors, numbers, x, means, temp, temp2, y);
  }
  return CUDNN_STATUS_SUCCESS;
}

// --- the driver: from device memory to device memory
EXTRA CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* c, CUstream) {
  for (std::size_t z = 0; z < c->Depth; ++z) {
    for (std::size_t y = 0; y < c->Height; ++y) {
      const auto at = [&](CUdeviceptr base, std::size_t pitch, std::size_t rows, std::size_t x0,
                          std::size_t y0, std::size_t z0) {
        return reinterpret_cast<unsigned char*>(base) + ((z0 + z) * rows + y0 + y) * pitch + x0;
      };
      std::memcpy(at(c->dstDevice, c->dstPitch, c->dstHeight, c->dstXInBytes, c->dstY, c->dstZ),
                  at(c->srcDevice, c->srcPitch, c->srcHeight, c->srcXInBytes, c->srcY, c->srcZ),
                  c->WidthInBytes);
    }
  }
  return CUDA_SUCCESS;
}
