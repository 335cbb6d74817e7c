// A plain program that calls many functions of cuDNN and cuBLAS on 40 tensors of 4 MiB, some of them over and
// over so that they come and go under a cap. Prints one line for each result: its name and a hash of its
// bytes.
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "ok.h"

namespace {

constexpr int images = 16, channels = 64, side = 32;
constexpr std::size_t count = std::size_t{images} * channels * side * side;  // 4 MiB of floats
constexpr int tensors = 40;
constexpr float one = 1, zero = 0, half = 0.5F;

cudnnHandle_t dnn;
cublasHandle_t blas;
std::array<float*, tensors> t;
cudnnTensorDescriptor_t full, per_channel, per_image;

void* allocate(std::size_t bytes) {
  void* memory = nullptr;
  if (bytes != 0) OK(cudaMalloc(&memory, bytes));
  return memory;
}

cudnnTensorDescriptor_t describe(int n, int c, int h, int w) {
  cudnnTensorDescriptor_t tensor;
  OK(cudnnCreateTensorDescriptor(&tensor));
  OK(cudnnSetTensor4dDescriptor(tensor, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, n, c, h, w));
  return tensor;
}

// Numbers in [-1, 1).
void fill(float* to, std::size_t floats, std::uint32_t seed) {
  std::vector<float> host(floats);
  for (float& value : host) {
    seed = seed * 1664525U + 1013904223U;
    value = static_cast<float>(static_cast<std::int32_t>(seed) >> 8) / static_cast<float>(1 << 23);
  }
  OK(cudaMemcpy(to, host.data(), floats * sizeof(float), cudaMemcpyHostToDevice));
}

void print(const char* name, const void* from, std::size_t bytes) {
  std::vector<unsigned char> host(bytes);
  OK(cudaMemcpy(host.data(), from, bytes, cudaMemcpyDeviceToHost));
  std::uint64_t hash = 14695981039346656037U;
  for (const unsigned char byte : host) hash = (hash ^ byte) * 1099511628211U;
  std::printf("%s %016llx\n", name, static_cast<unsigned long long>(hash));
}
void print(const char* name, const float* from) {
  print(name, from, count * sizeof(float));
}

// Each function reads t[0] to t[9], which keep what was filled in, and results of the ones before it.

void response_normalisation() {
  cudnnLRNDescriptor_t norm;
  OK(cudnnCreateLRNDescriptor(&norm));
  OK(cudnnSetLRNDescriptor(norm, 5, 1e-2, 0.75, 2.0));
  OK(cudnnLRNCrossChannelForward(dnn, norm, CUDNN_LRN_CROSS_CHANNEL_DIM1, &one, full, t[0], &zero, full,
                                 t[10]));
  OK(cudnnLRNCrossChannelBackward(dnn, norm, CUDNN_LRN_CROSS_CHANNEL_DIM1, &one, full, t[10], full, t[1],
                                  full, t[0], &zero, full, t[11]));
  OK(cudnnDestroyLRNDescriptor(norm));
  print("lrn", t[10]);
  print("lrn_backward", t[11]);
}

// The states of a dropout advance with each call: a second one drops others.
void dropout() {
  static cudnnDropoutDescriptor_t dropout;
  static void *states, *reserve;
  static std::size_t state_bytes, reserve_bytes;
  if (dropout == nullptr) {
    OK(cudnnCreateDropoutDescriptor(&dropout));
    OK(cudnnDropoutGetStatesSize(dnn, &state_bytes));
    OK(cudnnDropoutGetReserveSpaceSize(full, &reserve_bytes));
    states = allocate(state_bytes), reserve = allocate(reserve_bytes);
    OK(cudnnSetDropoutDescriptor(dropout, dnn, 0.3F, states, state_bytes, 7));
  }
  OK(cudnnDropoutForward(dnn, dropout, full, t[2], full, t[12], reserve, reserve_bytes));
  OK(cudnnDropoutBackward(dnn, dropout, full, t[1], full, t[13], reserve, reserve_bytes));
  print("dropout", t[12]);
  print("dropout_backward", t[13]);
}

void softmax() {
  OK(cudnnSoftmaxForward(dnn, CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_CHANNEL, &one, full, t[3], &zero,
                         full, t[14]));
  OK(cudnnSoftmaxBackward(dnn, CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_CHANNEL, &one, full, t[14], full,
                          t[1], &zero, full, t[15]));
  // Blended into what is there.
  OK(cudnnSoftmaxBackward(dnn, CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_CHANNEL, &one, full, t[14], full,
                          t[2], &half, full, t[16]));
  print("softmax", t[14]);
  print("softmax_backward", t[15]);
  print("softmax_backward_blended", t[16]);
}

void pointwise() {
  cudnnOpTensorDescriptor_t operation;
  OK(cudnnCreateOpTensorDescriptor(&operation));
  OK(cudnnSetOpTensorDescriptor(operation, CUDNN_OP_TENSOR_ADD, CUDNN_DATA_FLOAT, CUDNN_NOT_PROPAGATE_NAN));
  OK(cudnnOpTensor(dnn, operation, &one, full, t[10], &half, full, t[12], &zero, full, t[17]));
  OK(cudnnSetOpTensorDescriptor(operation, CUDNN_OP_TENSOR_MUL, CUDNN_DATA_FLOAT, CUDNN_NOT_PROPAGATE_NAN));
  OK(cudnnOpTensor(dnn, operation, &one, full, t[4], &one, full, t[5], &half, full, t[18]));
  OK(cudnnDestroyOpTensorDescriptor(operation));
  OK(cudnnAddTensor(dnn, &one, per_channel, t[6], &one, full, t[19]));
  OK(cudnnAddTensor(dnn, &half, full, t[7], &half, full, t[20]));
  OK(cudnnScaleTensor(dnn, full, t[21], &half));
  print("op_add", t[17]);
  print("op_multiply_blended", t[18]);
  print("add_bias", t[19]);
  print("add_blended", t[20]);
  print("scale", t[21]);
}

void reduce(const char* name, cudnnReduceTensorOp_t operation, cudnnTensorDescriptor_t to, std::size_t floats,
            float* result, cudnnReduceTensorIndices_t with_indices) {
  cudnnReduceTensorDescriptor_t reduction;
  OK(cudnnCreateReduceTensorDescriptor(&reduction));
  OK(cudnnSetReduceTensorDescriptor(reduction, operation, CUDNN_DATA_FLOAT, CUDNN_NOT_PROPAGATE_NAN,
                                    with_indices, CUDNN_32BIT_INDICES));
  std::size_t workspace_bytes = 0, index_bytes = 0;
  OK(cudnnGetReductionWorkspaceSize(dnn, reduction, full, to, &workspace_bytes));
  OK(cudnnGetReductionIndicesSize(dnn, reduction, full, to, &index_bytes));
  void *const workspace = allocate(workspace_bytes), *const indices = allocate(index_bytes);
  OK(cudnnReduceTensor(dnn, reduction, indices, index_bytes, workspace, workspace_bytes, &one, full, t[11],
                       &zero, to, result));
  print(name, result, floats * sizeof(float));
  if (index_bytes != 0) print("indices", indices, index_bytes);
  OK(cudaFree(workspace));
  OK(cudaFree(indices));
  OK(cudnnDestroyReduceTensorDescriptor(reduction));
}

void reductions() {
  reduce("sum_per_channel", CUDNN_REDUCE_TENSOR_ADD, per_channel, channels, t[22],
         CUDNN_REDUCE_TENSOR_NO_INDICES);
  reduce("norm_per_image", CUDNN_REDUCE_TENSOR_NORM2, per_image, images, t[23],
         CUDNN_REDUCE_TENSOR_NO_INDICES);
  reduce("largest_per_channel", CUDNN_REDUCE_TENSOR_MAX, per_channel, channels, t[24],
         CUDNN_REDUCE_TENSOR_FLATTENED_INDICES);
}

// Fused with an addition and an activation; the parameters lie in tensors of which they are a small part.
void batch_norm() {
  constexpr auto mode = CUDNN_BATCHNORM_SPATIAL;
  constexpr auto fused = CUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION;
  cudnnActivationDescriptor_t relu;
  OK(cudnnCreateActivationDescriptor(&relu));
  OK(cudnnSetActivationDescriptor(relu, CUDNN_ACTIVATION_RELU, CUDNN_NOT_PROPAGATE_NAN, 0));
  std::size_t forward_bytes = 0, backward_bytes = 0, reserve_bytes = 0;
  OK(cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(dnn, mode, fused, full, full, full, per_channel,
                                                              relu, &forward_bytes));
  OK(cudnnGetBatchNormalizationBackwardExWorkspaceSize(dnn, mode, fused, full, full, full, full, full,
                                                       per_channel, relu, &backward_bytes));
  OK(cudnnGetBatchNormalizationTrainingExReserveSpaceSize(dnn, mode, fused, relu, full, &reserve_bytes));
  void *const forward = allocate(forward_bytes), *const backward = allocate(backward_bytes);
  void* const reserve = allocate(reserve_bytes);
  float *const scale = t[6], *const bias = t[6] + channels;
  float *const running_mean = t[25], *const running_variance = t[25] + channels;
  float *const mean = t[26], *const inverse = t[26] + channels;
  OK(cudnnBatchNormalizationForwardTrainingEx(dnn, mode, fused, &one, &zero, full, t[8], full, t[9], full,
                                              t[27], per_channel, scale, bias, 0.1, running_mean,
                                              running_variance, 1e-5, mean, inverse, relu, forward,
                                              forward_bytes, reserve, reserve_bytes));
  OK(cudnnBatchNormalizationBackwardEx(dnn, mode, fused, &one, &zero, &one, &zero, full, t[8], full, t[27],
                                       full, t[1], full, t[28], full, t[29], per_channel, scale, bias, t[30],
                                       t[30] + channels, 1e-5, mean, inverse, relu, backward, backward_bytes,
                                       reserve, reserve_bytes));
  print("batch_norm", t[27]);
  print("running_statistics", t[25], 2 * channels * sizeof(float));
  print("batch_norm_backward", t[29]);
  print("batch_norm_backward_added", t[28]);
  print("batch_norm_gradients", t[30], 2 * channels * sizeof(float));
  for (void* const memory : {forward, backward, reserve}) OK(cudaFree(memory));
  OK(cudnnDestroyActivationDescriptor(relu));
}

void products() {
  constexpr int n = 1024, small = 256, batch = 16;
  const auto gemm = [&](float* to, const float* beta) {
    OK(cublasGemmEx(blas, CUBLAS_OP_N, CUBLAS_OP_T, n, n, n, &one, t[0], CUDA_R_32F, n, t[2], CUDA_R_32F, n,
                    beta, to, CUDA_R_32F, n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
  };
  gemm(t[31], &zero);
  gemm(t[32], &half);
  OK(cublasSgemmStridedBatched(blas, CUBLAS_OP_N, CUBLAS_OP_N, small, small, small, &one, t[3], small,
                               small * small, t[4], small, small * small, &zero, t[33], small, small * small,
                               batch));
  // All products with one and the same matrix, blended in.
  OK(cublasSgemmStridedBatched(blas, CUBLAS_OP_T, CUBLAS_OP_N, small, small, small, &half, t[5], small, 0,
                               t[7], small, small * small, &one, t[34], small, small * small, batch));
  print("gemm", t[31]);
  print("gemm_blended", t[32]);
  print("gemm_batched", t[33]);
  print("gemm_batched_blended", t[34]);
}

}  // namespace

int main() {
  OK(cudnnCreate(&dnn));
  OK(cublasCreate(&blas));
  full = describe(images, channels, side, side);
  per_channel = describe(1, channels, 1, 1);
  per_image = describe(images, 1, 1, 1);
  for (int i = 0; i < tensors; ++i) {
    t[i] = static_cast<float*>(allocate(count * sizeof(float)));
    fill(t[i], count, static_cast<std::uint32_t>(i + 1));
  }
  // What a round leaves in its blended results goes into the next one.
  for (int round = 0; round < 2; ++round) {
    response_normalisation();
    dropout();
    softmax();
    pointwise();
    reductions();
    batch_norm();
    products();
  }
  // Never touched since they were filled.
  for (int i = 35; i < tensors; ++i) print("untouched", t[i]);
  return 0;
}
