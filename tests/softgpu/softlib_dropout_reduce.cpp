// Dropout, reductions and layout changes of the software cuDNN.
#include <cmath>
#include <limits>

#include "tests/softgpu/softlib_support.h"

namespace softlib {
namespace {

class Dropout : public Library {
 protected:
  void SetUp() override {
    Library::SetUp();
    CUDNN_OK(cudnnCreateDropoutDescriptor(&dropout));
    CUDNN_OK(cudnnDropoutGetStatesSize(dnn, &state_bytes));
    CUDA_OK(cudaMalloc(&states, state_bytes));
    CUDNN_OK(cudnnDropoutGetReserveSpaceSize(desc, &reserve_bytes));
    CUDA_OK(cudaMalloc(&reserve, reserve_bytes));
  }
  void TearDown() override {
    CUDA_OK(cudaFree(states));
    CUDA_OK(cudaFree(reserve));
    CUDNN_OK(cudnnDestroyDropoutDescriptor(dropout));
    Library::TearDown();
  }
  Floats forward(const Floats& x) {
    Buffer x_device(x), y(desc.count());
    EXPECT_EQ(
        cudnnDropoutForward(dnn, dropout, desc, x_device.data(), desc, y.data(), reserve, reserve_bytes),
        CUDNN_STATUS_SUCCESS);
    return y.get();
  }

  Tensor desc{4, 10, 25, 40};
  cudnnDropoutDescriptor_t dropout = nullptr;
  std::size_t state_bytes = 0, reserve_bytes = 0;
  void *states = nullptr, *reserve = nullptr;
};

TEST_F(Dropout, DropsTheAskedShareAndScalesTheRest) {
  const float probability = 0.3F;
  CUDNN_OK(cudnnSetDropoutDescriptor(dropout, dnn, probability, states, state_bytes, 7));
  const Floats x = values(desc.count(), 1);
  const Floats y = forward(x);
  const Floats dy = values(desc.count(), 2);
  Buffer dx(dy);  // in place
  CUDNN_OK(cudnnDropoutBackward(dnn, dropout, desc, dx.data(), desc, dx.data(), reserve, reserve_bytes));
  const Floats gradient = dx.get();
  std::size_t dropped = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const bool kept = y[i] != 0;
    dropped += kept ? 0 : 1;
    ASSERT_FLOAT_EQ(y[i], kept ? x[i] / (1 - probability) : 0) << "at " << i;
    ASSERT_FLOAT_EQ(gradient[i], kept ? dy[i] / (1 - probability) : 0) << "at " << i;
  }
  EXPECT_NEAR(static_cast<double>(dropped) / static_cast<double>(x.size()), probability, 0.01);
}

TEST_F(Dropout, StatesAdvanceAndCanBeRestored) {
  const Floats x = values(desc.count(), 1);
  CUDNN_OK(cudnnSetDropoutDescriptor(dropout, dnn, 0.5F, states, state_bytes, 7));
  const Floats first = forward(x);
  std::vector<char> saved(state_bytes);
  CUDA_OK(cudaMemcpy(saved.data(), states, state_bytes, cudaMemcpyDeviceToHost));
  const Floats second = forward(x);
  EXPECT_NE(first, second);
  CUDA_OK(cudaMemcpy(states, saved.data(), state_bytes, cudaMemcpyHostToDevice));
  CUDNN_OK(cudnnRestoreDropoutDescriptor(dropout, dnn, 0.5F, states, state_bytes, 7));
  EXPECT_EQ(forward(x), second);
  CUDNN_OK(cudnnSetDropoutDescriptor(dropout, dnn, 0.5F, states, state_bytes, 7));
  EXPECT_EQ(forward(x), first);
  CUDNN_OK(cudnnSetDropoutDescriptor(dropout, dnn, 0.5F, states, state_bytes, 8));
  EXPECT_NE(forward(x), first);
}

TEST_F(Dropout, TellsWhatItWasGivenAndRefusesBadSizes) {
  CUDNN_OK(cudnnSetDropoutDescriptor(dropout, dnn, 0.25F, states, state_bytes, 9));
  float probability = 0;
  void* given = nullptr;
  unsigned long long seed = 0;
  CUDNN_OK(cudnnGetDropoutDescriptor(dropout, dnn, &probability, &given, &seed));
  EXPECT_EQ(probability, 0.25F);
  EXPECT_EQ(given, states);
  EXPECT_EQ(seed, 9U);
  EXPECT_EQ(cudnnSetDropoutDescriptor(dropout, dnn, 0.25F, states, state_bytes - 1, 9),
            CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(cudnnSetDropoutDescriptor(dropout, dnn, 1.5F, states, state_bytes, 9), CUDNN_STATUS_BAD_PARAM);
  Buffer x(values(desc.count(), 1));
  EXPECT_EQ(cudnnDropoutForward(dnn, dropout, desc, x.data(), desc, x.data(), reserve, reserve_bytes - 1),
            CUDNN_STATUS_BAD_PARAM);
}

class Reduction : public Library {
 protected:
  void SetUp() override {
    Library::SetUp();
    CUDNN_OK(cudnnCreateReduceTensorDescriptor(&reduce));
  }
  void TearDown() override {
    CUDNN_OK(cudnnDestroyReduceTensorDescriptor(reduce));
    Library::TearDown();
  }
  void set(cudnnReduceTensorOp_t op, cudnnReduceTensorIndices_t indices = CUDNN_REDUCE_TENSOR_NO_INDICES,
           cudnnNanPropagation_t nan = CUDNN_NOT_PROPAGATE_NAN) {
    CUDNN_OK(cudnnSetReduceTensorDescriptor(reduce, op, CUDNN_DATA_FLOAT, nan, indices, CUDNN_32BIT_INDICES));
  }
  cudnnReduceTensorDescriptor_t reduce = nullptr;
};

struct Folded {
  double value;
  std::uint32_t index;
};

Folded fold(cudnnReduceTensorOp_t op, const std::vector<double>& all) {
  Folded best{all[0], 0};
  double sum = 0, absolutes = 0, squares = 0, product = 1, without_zeros = 1, largest = -1;
  std::uint32_t largest_at = 0;
  for (std::uint32_t i = 0; i < all.size(); ++i) {
    const double v = all[i];
    sum += v;
    absolutes += std::abs(v);
    squares += v * v;
    product *= v;
    if (v != 0) without_zeros *= v;
    if (op == CUDNN_REDUCE_TENSOR_MIN ? v < best.value : v > best.value) best = {v, i};
    if (std::abs(v) > largest) largest = std::abs(v), largest_at = i;
  }
  switch (op) {
    case CUDNN_REDUCE_TENSOR_ADD:
      return {sum, 0};
    case CUDNN_REDUCE_TENSOR_AVG:
      return {sum / static_cast<double>(all.size()), 0};
    case CUDNN_REDUCE_TENSOR_NORM1:
      return {absolutes, 0};
    case CUDNN_REDUCE_TENSOR_NORM2:
      return {std::sqrt(squares), 0};
    case CUDNN_REDUCE_TENSOR_MUL:
      return {product, 0};
    case CUDNN_REDUCE_TENSOR_MUL_NO_ZEROS:
      return {without_zeros, 0};
    case CUDNN_REDUCE_TENSOR_AMAX:
      return {largest, largest_at};
    default:
      return best;
  }
}

TEST_F(Reduction, AllOperationsOverAnyDimensions) {
  constexpr int dims[4] = {3, 4, 5, 2};
  Tensor a_desc(3, 4, 5, 2);
  Floats a = values(a_desc.count(), 1);
  a[5] = a[77] = 0;
  Buffer a_device(a);
  const float alpha = 2;
  const float beta = 0.5;
  for (int mask = 0; mask < 16; ++mask) {  // bit d: dimension d is reduced
    int out[4];
    for (int d = 0; d < 4; ++d) out[d] = (mask >> d & 1) != 0 ? 1 : dims[d];
    Tensor c_desc(out[0], out[1], out[2], out[3]);
    std::vector<std::vector<double>> groups(c_desc.count());
    for (int i = 0; i < static_cast<int>(a.size()); ++i) {
      const int at[4] = {i / 40, i / 10 % 4, i / 2 % 5, i % 2};
      std::size_t to = 0;
      for (int d = 0; d < 4; ++d)
        to = to * static_cast<std::size_t>(out[d]) + static_cast<std::size_t>(out[d] == 1 ? 0 : at[d]);
      groups[to].push_back(a[static_cast<std::size_t>(i)]);
    }
    const Floats old = values(c_desc.count(), 2);
    for (int op = CUDNN_REDUCE_TENSOR_ADD; op <= CUDNN_REDUCE_TENSOR_MUL_NO_ZEROS; ++op) {
      set(static_cast<cudnnReduceTensorOp_t>(op), CUDNN_REDUCE_TENSOR_FLATTENED_INDICES);
      std::size_t indices_bytes = 0;
      CUDNN_OK(cudnnGetReductionIndicesSize(dnn, reduce, a_desc, c_desc, &indices_bytes));
      Floats expected(c_desc.count());
      std::vector<std::uint32_t> where(c_desc.count());
      for (std::size_t i = 0; i < expected.size(); ++i) {
        const Folded folded = fold(static_cast<cudnnReduceTensorOp_t>(op), groups[i]);
        expected[i] = static_cast<float>(alpha * folded.value + beta * old[i]);
        where[i] = folded.index;
      }
      Buffer c(old), indices(c_desc.count());
      CUDNN_OK(cudnnReduceTensor(dnn, reduce, indices.data(), indices_bytes, nullptr, 0, &alpha, a_desc,
                                 a_device.data(), &beta, c_desc, c.data()));
      expect_close(c.get(), expected);
      if (indices_bytes == 0) continue;
      ASSERT_EQ(indices_bytes, 4 * c_desc.count());
      std::vector<std::uint32_t> found(c_desc.count());
      CUDA_OK(cudaMemcpy(found.data(), indices.data(), indices_bytes, cudaMemcpyDeviceToHost));
      EXPECT_EQ(found, where) << "operation " << op << ", dimensions " << mask;
    }
  }
}

TEST_F(Reduction, LargeOnesAskForAWorkspace) {
  Tensor a_desc(8, 4, 100, 100);
  Tensor c_desc(1, 4, 1, 1);
  set(CUDNN_REDUCE_TENSOR_ADD);
  std::size_t bytes = 0;
  CUDNN_OK(cudnnGetReductionWorkspaceSize(dnn, reduce, a_desc, c_desc, &bytes));
  ASSERT_GT(bytes, 0U);
  const Floats a = values(a_desc.count(), 1);
  Floats expected(4);
  std::vector<double> sums(4);
  for (std::size_t i = 0; i < a.size(); ++i) sums[i / 10000 % 4] += a[i];
  for (std::size_t i = 0; i < 4; ++i) expected[i] = static_cast<float>(sums[i]);
  Buffer a_device(a), c(4), workspace(bytes / 4);
  EXPECT_EQ(cudnnReduceTensor(dnn, reduce, nullptr, 0, nullptr, 0, &one, a_desc, a_device.data(), &zero,
                              c_desc, c.data()),
            CUDNN_STATUS_BAD_PARAM);
  CUDNN_OK(cudnnReduceTensor(dnn, reduce, nullptr, 0, workspace.data(), bytes, &one, a_desc, a_device.data(),
                             &zero, c_desc, c.data()));
  expect_close(c.get(), expected);
}

TEST_F(Reduction, NaNWinsOnlyWhereAskedTo) {
  Tensor a_desc(1, 1, 1, 4);
  Tensor c_desc(1, 1, 1, 1);
  Buffer a(Floats{1, std::numeric_limits<float>::quiet_NaN(), 3, 2}), c(1);
  for (auto nan : {CUDNN_NOT_PROPAGATE_NAN, CUDNN_PROPAGATE_NAN}) {
    set(CUDNN_REDUCE_TENSOR_MAX, CUDNN_REDUCE_TENSOR_NO_INDICES, nan);
    CUDNN_OK(cudnnReduceTensor(dnn, reduce, nullptr, 0, nullptr, 0, &one, a_desc, a.data(), &zero, c_desc,
                               c.data()));
    const float result = c.get()[0];
    EXPECT_TRUE(nan == CUDNN_PROPAGATE_NAN ? std::isnan(result) : result == 3.0F) << result;
  }
}

TEST_F(Reduction, TransformTensorChangesTheLayout) {
  constexpr int N = 2, C = 3, H = 4, W = 5;
  Tensor from(N, C, H, W);
  Tensor to(N, C, H, W);
  CUDNN_OK(cudnnSetTensor4dDescriptor(to, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, N, C, H, W));
  const Floats x = values(from.count(), 1);
  const Floats old = values(from.count(), 2);
  const float alpha = 3;
  const float beta = 0.5;
  Floats expected = old;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t n = i / (C * H * W);
    const std::size_t c = i / (H * W) % C;
    float& y = expected[(n * H * W + i % (H * W)) * C + c];
    y = alpha * x[i] + beta * y;
  }
  Buffer x_device(x), y_device(old);
  CUDNN_OK(cudnnTransformTensor(dnn, &alpha, from, x_device.data(), &beta, to, y_device.data()));
  expect_close(y_device.get(), expected);
}

}  // namespace
}  // namespace softlib
