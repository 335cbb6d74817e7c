// Calls of cuDNN, kept and made again: see replay_test::again.
#include "tests/unit/interpose/replay_support.h"

namespace replay_test {
namespace {

constexpr int n = 2, c = 6, h = 9, w = 7, k = 4;
constexpr std::size_t whole = std::size_t{n} * c * h * w;
const std::vector<int> x_sizes = {n, c, h, w}, per_channel = {1, c, 1, 1};

struct Conv2d {
  Dnn dnn;
  Convolution convolution;
  Tensor x, y;
  Filter filter;
  Factor<float> one{1}, zero{0}, part{0.25F};
  // Two groups, and padding, stride and dilation that differ from axis to axis.
  Conv2d() : x(x_sizes), y({n, k, 6, 4}), filter({k, c / 2, 3, 2}) {
    EXPECT_EQ(cudnnSetConvolution2dDescriptor(convolution, 2, 1, 2, 2, 1, 2, CUDNN_CROSS_CORRELATION,
                                              CUDNN_DATA_FLOAT),
              CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudnnSetConvolutionGroupCount(convolution, 2), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudnnSetConvolutionMathType(convolution, CUDNN_FMA_MATH), CUDNN_STATUS_SUCCESS);
    int sizes[4];
    EXPECT_EQ(cudnnGetConvolution2dForwardOutputDim(convolution, x, filter, &sizes[0], &sizes[1], &sizes[2],
                                                    &sizes[3]),
              CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudnnSetTensor4dDescriptor(y, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, sizes[0], sizes[1], sizes[2],
                                         sizes[3]),
              CUDNN_STATUS_SUCCESS);
  }
  std::size_t y_bytes() const {
    std::size_t bytes = 0;
    EXPECT_EQ(cudnnGetTensorSizeInBytes(y, &bytes), CUDNN_STATUS_SUCCESS);
    return bytes;
  }
};

void convolve(cudnnConvolutionFwdAlgo_t algorithm, bool blended) {
  Memory memory;
  again("cudnnConvolutionForward", [&] {
    Conv2d conv;
    std::size_t workspace = 0;
    ASSERT_EQ(cudnnGetConvolutionForwardWorkspaceSize(conv.dnn, conv.x, conv.filter, conv.convolution, conv.y,
                                                      algorithm, &workspace),
              CUDNN_STATUS_SUCCESS);
    ASSERT_EQ(cudnnConvolutionForward(conv.dnn, &conv.one, conv.x, memory.floats(whole), conv.filter,
                                      memory.floats(k * c / 2 * 6), conv.convolution, algorithm,
                                      memory.bytes(workspace), workspace, blended ? &conv.part : &conv.zero,
                                      conv.y, memory.floats(conv.y_bytes() / 4)),
              CUDNN_STATUS_SUCCESS);
  });
}

TEST(ReplayCudnn, Convolution) {
  convolve(CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, /*blended=*/false);
  convolve(CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, /*blended=*/false);
  convolve(CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, /*blended=*/true);
}

TEST(ReplayCudnn, ConvolutionInThreeDimensions) {
  Memory memory;
  again("cudnnConvolutionForward", [&] {
    Dnn dnn;
    Convolution convolution;
    const Tensor x({1, 2, 5, 6, 7}), y({1, 3, 5, 6, 7});
    const Filter filter({3, 2, 3, 3, 3});
    const Factor<float> one(1), zero(0);
    const std::array<int, 3> ones = {1, 1, 1};
    ASSERT_EQ(cudnnSetConvolutionNdDescriptor(convolution, 3, ones.data(), ones.data(), ones.data(),
                                              CUDNN_CONVOLUTION, CUDNN_DATA_FLOAT),
              CUDNN_STATUS_SUCCESS);
    ASSERT_EQ(cudnnConvolutionForward(dnn, &one, x, memory.floats(2 * 210), filter, memory.floats(6 * 27),
                                      convolution, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, nullptr, 0,
                                      &zero, y, memory.floats(3 * 210)),
              CUDNN_STATUS_SUCCESS);
  });
}

TEST(ReplayCudnn, ConvolutionWithBiasAndActivation) {
  Memory memory;
  again("cudnnConvolutionBiasActivationForward", [&] {
    Conv2d conv;
    Activation relu;
    const Tensor bias({1, k, 1, 1});
    ASSERT_EQ(cudnnSetActivationDescriptor(relu, CUDNN_ACTIVATION_RELU, CUDNN_NOT_PROPAGATE_NAN, 0),
              CUDNN_STATUS_SUCCESS);
    ASSERT_EQ(cudnnConvolutionBiasActivationForward(
                  conv.dnn, &conv.one, conv.x, memory.floats(whole), conv.filter,
                  memory.floats(k * c / 2 * 6), conv.convolution, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM,
                  nullptr, 0, &conv.part, conv.y, memory.floats(conv.y_bytes() / 4), bias, memory.floats(k),
                  relu, conv.y, memory.floats(conv.y_bytes() / 4)),
              CUDNN_STATUS_SUCCESS);
  });
}

struct Norm {
  Dnn dnn;
  Activation relu;
  Tensor full{x_sizes}, parameters{per_channel};
  Factor<float> one{1}, zero{0}, part{0.5F};
  Norm() {
    EXPECT_EQ(cudnnSetActivationDescriptor(relu, CUDNN_ACTIVATION_RELU, CUDNN_NOT_PROPAGATE_NAN, 0),
              CUDNN_STATUS_SUCCESS);
  }
};

TEST(ReplayCudnn, BatchNormLeavesTheRunningStatisticsAlone) {
  Memory memory;
  float *const mean = memory.floats(c), *const variance = memory.floats(c);
  for (const double factor : {0.1, 1.0}) {
    again("cudnnBatchNormalizationForwardTraining",
          [&] {
            Norm norm;
            ASSERT_EQ(
                cudnnBatchNormalizationForwardTraining(
                    norm.dnn, CUDNN_BATCHNORM_SPATIAL, &norm.one, &norm.zero, norm.full, memory.floats(whole),
                    norm.full, memory.floats(whole), norm.parameters, memory.floats(c), memory.floats(c),
                    factor, mean, variance, 1e-5, memory.floats(c), memory.floats(c)),
                CUDNN_STATUS_SUCCESS);
          },
          {mean, variance});
  }
}

TEST(ReplayCudnn, BatchNormWithoutStatisticsAndBlended) {
  Memory memory;
  again("cudnnBatchNormalizationForwardTraining", [&] {
    Norm norm;
    ASSERT_EQ(cudnnBatchNormalizationForwardTraining(
                  norm.dnn, CUDNN_BATCHNORM_SPATIAL, &norm.one, &norm.part, norm.full, memory.floats(whole),
                  norm.full, memory.floats(whole), norm.parameters, memory.floats(c), memory.floats(c), 0.1,
                  nullptr, nullptr, 1e-5, nullptr, nullptr),
              CUDNN_STATUS_SUCCESS);
  });
}

TEST(ReplayCudnn, BatchNormInference) {
  Memory memory;
  again("cudnnBatchNormalizationForwardInference", [&] {
    Norm norm;
    const std::vector<float> positive(c, 0.5F);
    float* const variance = memory.floats(c);
    ASSERT_EQ(cudaMemcpy(variance, positive.data(), c * sizeof(float), cudaMemcpyHostToDevice), cudaSuccess);
    ASSERT_EQ(cudnnBatchNormalizationForwardInference(norm.dnn, CUDNN_BATCHNORM_SPATIAL, &norm.one,
                                                      &norm.zero, norm.full, memory.floats(whole), norm.full,
                                                      memory.floats(whole), norm.parameters, memory.floats(c),
                                                      memory.floats(c), memory.floats(c), variance, 1e-5),
              CUDNN_STATUS_SUCCESS);
  });
}

TEST(ReplayCudnn, BatchNormWithReserveSpace) {
  for (const auto fused : {CUDNN_BATCHNORM_OPS_BN, CUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION}) {
    Memory memory;
    float *const mean = memory.floats(c), *const variance = memory.floats(c);
    const bool with_z = fused == CUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION;
    again("cudnnBatchNormalizationForwardTrainingEx",
          [&] {
            Norm norm;
            const cudnnTensorDescriptor_t z = with_z ? norm.full.it : nullptr;
            const cudnnActivationDescriptor_t relu = with_z ? norm.relu.it : nullptr;
            std::size_t workspace = 0, reserve = 0;
            ASSERT_EQ(cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(
                          norm.dnn, CUDNN_BATCHNORM_SPATIAL_PERSISTENT, fused, norm.full, z, norm.full,
                          norm.parameters, relu, &workspace),
                      CUDNN_STATUS_SUCCESS);
            ASSERT_EQ(cudnnGetBatchNormalizationTrainingExReserveSpaceSize(
                          norm.dnn, CUDNN_BATCHNORM_SPATIAL_PERSISTENT, fused, relu, norm.full, &reserve),
                      CUDNN_STATUS_SUCCESS);
            ASSERT_EQ(cudnnBatchNormalizationForwardTrainingEx(
                          norm.dnn, CUDNN_BATCHNORM_SPATIAL_PERSISTENT, fused, &norm.one, &norm.zero,
                          norm.full, memory.floats(whole), z, with_z ? memory.floats(whole) : nullptr,
                          norm.full, memory.floats(whole), norm.parameters, memory.floats(c),
                          memory.floats(c), 0.1, mean, variance, 1e-5, memory.floats(c), memory.floats(c),
                          relu, memory.bytes(workspace), workspace, memory.bytes(reserve), reserve),
                      CUDNN_STATUS_SUCCESS);
          },
          {mean, variance});
  }
}

TEST(ReplayCudnn, NormalizationTraining) {
  Memory memory;
  float *const mean = memory.floats(c), *const variance = memory.floats(c);
  again("cudnnNormalizationForwardTraining",
        [&] {
          Norm norm;
          std::size_t workspace = 0, reserve = 0;
          ASSERT_EQ(
              cudnnGetNormalizationForwardTrainingWorkspaceSize(
                  norm.dnn, CUDNN_NORM_PER_CHANNEL, CUDNN_NORM_OPS_NORM, CUDNN_NORM_ALGO_STANDARD, norm.full,
                  nullptr, norm.full, norm.parameters, nullptr, norm.parameters, &workspace, 1),
              CUDNN_STATUS_SUCCESS);
          ASSERT_EQ(cudnnGetNormalizationTrainingReserveSpaceSize(
                        norm.dnn, CUDNN_NORM_PER_CHANNEL, CUDNN_NORM_OPS_NORM, CUDNN_NORM_ALGO_STANDARD,
                        nullptr, norm.full, &reserve, 1),
                    CUDNN_STATUS_SUCCESS);
          ASSERT_EQ(
              cudnnNormalizationForwardTraining(
                  norm.dnn, CUDNN_NORM_PER_CHANNEL, CUDNN_NORM_OPS_NORM, CUDNN_NORM_ALGO_STANDARD, &norm.one,
                  &norm.zero, norm.full, memory.floats(whole), norm.parameters, memory.floats(c),
                  memory.floats(c), 0.1, norm.parameters, mean, variance, 1e-5, memory.floats(c),
                  memory.floats(c), nullptr, nullptr, nullptr, norm.full, memory.floats(whole),
                  memory.bytes(workspace), workspace, memory.bytes(reserve), reserve, 1),
              CUDNN_STATUS_SUCCESS);
        },
        {mean, variance});
}

TEST(ReplayCudnn, NormalizationInference) {
  Memory memory;
  again("cudnnNormalizationForwardInference", [&] {
    Norm norm;
    const std::vector<float> positive(c, 0.5F);
    float* const variance = memory.floats(c);
    ASSERT_EQ(cudaMemcpy(variance, positive.data(), c * sizeof(float), cudaMemcpyHostToDevice), cudaSuccess);
    ASSERT_EQ(cudnnNormalizationForwardInference(
                  norm.dnn, CUDNN_NORM_PER_CHANNEL, CUDNN_NORM_OPS_NORM, CUDNN_NORM_ALGO_STANDARD, &norm.one,
                  &norm.zero, norm.full, memory.floats(whole), norm.parameters, memory.floats(c),
                  memory.floats(c), norm.parameters, memory.floats(c), variance, nullptr, nullptr, nullptr,
                  norm.full, memory.floats(whole), 1e-5, 1),
              CUDNN_STATUS_SUCCESS);
  });
}

void activate(cudnnActivationMode_t mode, double coefficient, bool in_place) {
  Memory memory;
  again("cudnnActivationForward", [&] {
    Dnn dnn;
    Activation activation;
    const Tensor full(x_sizes);
    const Factor<float> one(1), zero(0);
    ASSERT_EQ(cudnnSetActivationDescriptor(activation, mode, CUDNN_NOT_PROPAGATE_NAN, coefficient),
              CUDNN_STATUS_SUCCESS);
    float* const x = memory.floats(whole);
    ASSERT_EQ(cudnnActivationForward(dnn, activation, &one, full, x, &zero, full,
                                     in_place ? x : memory.floats(whole)),
              CUDNN_STATUS_SUCCESS);
  });
}

TEST(ReplayCudnn, Activation) {
  activate(CUDNN_ACTIVATION_RELU, 0, /*in_place=*/false);
  activate(CUDNN_ACTIVATION_RELU, 0, /*in_place=*/true);
  activate(CUDNN_ACTIVATION_CLIPPED_RELU, 0.25, /*in_place=*/false);
  activate(CUDNN_ACTIVATION_TANH, 0, /*in_place=*/false);
}

// Factors of doubles are doubles.
TEST(ReplayCudnn, DivisiveNormalisation) {
  Memory memory;
  again("cudnnDivisiveNormalizationForward", [&] {
    Dnn dnn;
    Lrn norm;
    const Tensor full(x_sizes, CUDNN_DATA_DOUBLE);
    const Factor<double> third(1.0 / 3), small(1e-9);
    ASSERT_EQ(cudnnSetLRNDescriptor(norm, 3, 0.5, 0.75, 1.5), CUDNN_STATUS_SUCCESS);
    ASSERT_EQ(
        cudnnDivisiveNormalizationForward(dnn, norm, CUDNN_DIVNORM_PRECOMPUTED_MEANS, &third, full,
                                          memory.doubles(whole), memory.doubles(whole), memory.doubles(whole),
                                          memory.doubles(whole), &small, full, memory.doubles(whole)),
        CUDNN_STATUS_SUCCESS);
  });
}

void pool(cudnnPoolingMode_t mode, int rank) {
  Memory memory;
  again("cudnnPoolingForward", [&] {
    Dnn dnn;
    Pooling pooling;
    const Factor<float> one(1), zero(0);
    const std::vector<int> window = {3, 2, 2}, padding = {1, 0, 1}, stride = {2, 1, 2};
    ASSERT_EQ(cudnnSetPoolingNdDescriptor(pooling, mode, CUDNN_NOT_PROPAGATE_NAN, rank, window.data(),
                                          padding.data(), stride.data()),
              CUDNN_STATUS_SUCCESS);
    std::vector<int> sizes = {n, c, h, w, 8}, result(5);
    sizes.resize(static_cast<std::size_t>(rank) + 2);
    const Tensor x(sizes);
    ASSERT_EQ(cudnnGetPoolingNdForwardOutputDim(pooling, x, rank + 2, result.data()), CUDNN_STATUS_SUCCESS);
    result.resize(sizes.size());
    const Tensor y(result);
    ASSERT_EQ(cudnnPoolingForward(dnn, pooling, &one, x, memory.floats(whole * 8), &zero, y,
                                  memory.floats(whole * 8)),
              CUDNN_STATUS_SUCCESS);
  });
}

TEST(ReplayCudnn, Pooling) {
  pool(CUDNN_POOLING_MAX, 2);
  pool(CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING, 2);
  pool(CUDNN_POOLING_MAX_DETERMINISTIC, 3);
}

TEST(ReplayCudnn, Softmax) {
  Memory memory;
  again("cudnnSoftmaxForward", [&] {
    Dnn dnn;
    const Tensor full(x_sizes);
    const Factor<float> one(1), zero(0);
    ASSERT_EQ(cudnnSoftmaxForward(dnn, CUDNN_SOFTMAX_LOG, CUDNN_SOFTMAX_MODE_CHANNEL, &one, full,
                                  memory.floats(whole), &zero, full, memory.floats(whole)),
              CUDNN_STATUS_SUCCESS);
  });
}

TEST(ReplayCudnn, ResponseNormalisation) {
  Memory memory;
  again("cudnnLRNCrossChannelForward", [&] {
    Dnn dnn;
    Lrn norm;
    const Tensor full(x_sizes);
    const Factor<float> one(1), zero(0);
    ASSERT_EQ(cudnnSetLRNDescriptor(norm, 3, 0.5, 0.75, 1.5), CUDNN_STATUS_SUCCESS);
    ASSERT_EQ(cudnnLRNCrossChannelForward(dnn, norm, CUDNN_LRN_CROSS_CHANNEL_DIM1, &one, full,
                                          memory.floats(whole), &zero, full, memory.floats(whole)),
              CUDNN_STATUS_SUCCESS);
  });
}

TEST(ReplayCudnn, Elementwise) {
  Memory memory;
  again("cudnnOpTensor", [&] {
    Dnn dnn;
    OpTensor operation;
    const Tensor full(x_sizes), channel(per_channel);
    const Factor<float> one(1), part(0.3F), zero(0);
    ASSERT_EQ(
        cudnnSetOpTensorDescriptor(operation, CUDNN_OP_TENSOR_MUL, CUDNN_DATA_FLOAT, CUDNN_NOT_PROPAGATE_NAN),
        CUDNN_STATUS_SUCCESS);
    ASSERT_EQ(cudnnOpTensor(dnn, operation, &one, full, memory.floats(whole), &part, channel,
                            memory.floats(c), &zero, full, memory.floats(whole)),
              CUDNN_STATUS_SUCCESS);
  });
  again("cudnnAddTensor", [&] {
    Dnn dnn;
    const Tensor full(x_sizes), channel(per_channel);
    const Factor<float> part(0.7F), one(1);
    ASSERT_EQ(cudnnAddTensor(dnn, &part, channel, memory.floats(c), &one, full, memory.floats(whole)),
              CUDNN_STATUS_SUCCESS);
  });
  again("cudnnScaleTensor", [&] {
    Dnn dnn;
    const Tensor full(x_sizes);
    const Factor<float> part(0.7F);
    ASSERT_EQ(cudnnScaleTensor(dnn, full, memory.floats(whole), &part), CUDNN_STATUS_SUCCESS);
  });
  again("cudnnSetTensor", [&] {
    Dnn dnn;
    const Tensor full(x_sizes);
    const Factor<float> value(-3.5F);
    ASSERT_EQ(cudnnSetTensor(dnn, full, memory.floats(whole), &value), CUDNN_STATUS_SUCCESS);
  });
}

// Strides that are not packed: the gaps keep their bytes.
TEST(ReplayCudnn, TransformIntoAStridedTensor) {
  Memory memory;
  again("cudnnTransformTensor", [&] {
    Dnn dnn;
    const Tensor x(x_sizes), y(x_sizes, {h * w * c + 5, 1, w * c, c});
    const Factor<float> one(1), zero(0);
    ASSERT_EQ(cudnnTransformTensor(dnn, &one, x, memory.floats(whole), &zero, y, memory.floats(whole + 5)),
              CUDNN_STATUS_SUCCESS);
  });
}

TEST(ReplayCudnn, TransformByADescriptor) {
  Memory memory;
  again("cudnnTransformTensorEx", [&] {
    Dnn dnn;
    Owned<cudnnTensorTransformDescriptor_t, cudnnCreateTensorTransformDescriptor,
          cudnnDestroyTensorTransformDescriptor>
        transform;
    const Tensor full(x_sizes);
    const Factor<float> one(1), part(0.5F);
    const std::array<std::int32_t, 4> before = {1, 2, 3, 4}, after = {5, 6, 7, 8};
    const std::array<std::uint32_t, 4> fold = {0, 0, 2, 3};
    ASSERT_EQ(cudnnSetTensorTransformDescriptor(transform, 4, CUDNN_TENSOR_NHWC, before.data(), after.data(),
                                                fold.data(), CUDNN_TRANSFORM_UNFOLD),
              CUDNN_STATUS_SUCCESS);
    ASSERT_EQ(cudnnTransformTensorEx(dnn, transform, &one, full, memory.floats(whole), &part, full,
                                     memory.floats(whole)),
              CUDNN_STATUS_SUCCESS);
  });
}

void reduce(cudnnReduceTensorOp_t operation, cudnnReduceTensorIndices_t with_indices) {
  Memory memory;
  again("cudnnReduceTensor", [&] {
    Dnn dnn;
    ReduceTensor reduction;
    const Tensor full(x_sizes), channel(per_channel);
    const Factor<float> one(1), zero(0);
    ASSERT_EQ(cudnnSetReduceTensorDescriptor(reduction, operation, CUDNN_DATA_FLOAT, CUDNN_NOT_PROPAGATE_NAN,
                                             with_indices, CUDNN_32BIT_INDICES),
              CUDNN_STATUS_SUCCESS);
    std::size_t workspace = 0, indices = 0;
    ASSERT_EQ(cudnnGetReductionWorkspaceSize(dnn, reduction, full, channel, &workspace),
              CUDNN_STATUS_SUCCESS);
    ASSERT_EQ(cudnnGetReductionIndicesSize(dnn, reduction, full, channel, &indices), CUDNN_STATUS_SUCCESS);
    ASSERT_EQ(
        cudnnReduceTensor(dnn, reduction, memory.bytes(indices), indices, memory.bytes(workspace), workspace,
                          &one, full, memory.floats(whole), &zero, channel, memory.floats(c)),
        CUDNN_STATUS_SUCCESS);
  });
}

TEST(ReplayCudnn, Reduction) {
  reduce(CUDNN_REDUCE_TENSOR_ADD, CUDNN_REDUCE_TENSOR_NO_INDICES);
  reduce(CUDNN_REDUCE_TENSOR_MAX, CUDNN_REDUCE_TENSOR_FLATTENED_INDICES);
}

// --- those that must not be made again
TEST(ReplayCudnn, DropoutHasNoRecipe) {
  Memory memory;
  Dnn dnn;
  Owned<cudnnDropoutDescriptor_t, cudnnCreateDropoutDescriptor, cudnnDestroyDropoutDescriptor> dropout;
  const Tensor full(x_sizes);
  std::size_t states = 0, reserve = 0;
  ASSERT_EQ(cudnnDropoutGetStatesSize(dnn, &states), CUDNN_STATUS_SUCCESS);
  ASSERT_EQ(cudnnDropoutGetReserveSpaceSize(full, &reserve), CUDNN_STATUS_SUCCESS);
  never_again("cudnnSetDropoutDescriptor", [&] {
    ASSERT_EQ(cudnnSetDropoutDescriptor(dropout, dnn, 0.5F, memory.bytes(states), states, 3),
              CUDNN_STATUS_SUCCESS);
  });
  never_again("cudnnDropoutForward", [&] {
    ASSERT_EQ(cudnnDropoutForward(dnn, dropout, full, memory.floats(whole), full, memory.floats(whole),
                                  memory.bytes(reserve), reserve),
              CUDNN_STATUS_SUCCESS);
  });
}

TEST(ReplayCudnn, TrialsAndBackwardCallsHaveNoRecipe) {
  Memory memory;
  Conv2d conv;
  float *const x = memory.floats(whole), *const filter = memory.floats(k * c / 2 * 6);
  float* const y = memory.floats(conv.y_bytes() / 4);
  never_again("cudnnFindConvolutionForwardAlgorithmEx", [&] {
    int found = 0;
    std::array<cudnnConvolutionFwdAlgoPerf_t, 8> results;
    ASSERT_EQ(
        cudnnFindConvolutionForwardAlgorithmEx(conv.dnn, conv.x, x, conv.filter, filter, conv.convolution,
                                               conv.y, y, 8, &found, results.data(), nullptr, 0),
        CUDNN_STATUS_SUCCESS);
  });
  never_again("cudnnConvolutionBackwardData", [&] {
    std::size_t workspace = 0;
    ASSERT_EQ(
        cudnnGetConvolutionBackwardDataWorkspaceSize(conv.dnn, conv.filter, conv.y, conv.convolution, conv.x,
                                                     CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, &workspace),
        CUDNN_STATUS_SUCCESS);
    ASSERT_EQ(cudnnConvolutionBackwardData(conv.dnn, &conv.one, conv.filter, filter, conv.y, y,
                                           conv.convolution, CUDNN_CONVOLUTION_BWD_DATA_ALGO_1,
                                           memory.bytes(workspace), workspace, &conv.zero, conv.x, x),
              CUDNN_STATUS_SUCCESS);
  });
}

}  // namespace
}  // namespace replay_test
