// Descriptors kept for a replay, with the vendor's own libraries: they need no device.
//
// usage: replay_real_test INCLUDE_FOLDER...; the libraries are looked for in lib64/ and lib/ beside each.
// Exit 77 where there is none.
#include <cublasLt.h>
#include <cudnn.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <tuple>
#include <vector>

#include "interpose/cublas/lt_replay.h"
#include "interpose/cudnn/backend_graph.h"
#include "interpose/cudnn/replay.h"
#include "tests/cudnn_graph.h"

// For tests/cudnn_graph.h; all else that it calls are pooch's wrappers.
extern "C" const char* cudnnGetErrorString(cudnnStatus_t) {
  return "refused";
}

namespace {

using namespace pooch;
using namespace pooch::interpose;

// The library's functions by its handle: nothing here is linked with it.
void* cudnn_library;
void* cublaslt_library;
#define CUDNN(function) reinterpret_cast<decltype(&::function)>(dlsym(cudnn_library, #function))
#define LT(function) reinterpret_cast<decltype(&::function)>(dlsym(cublaslt_library, #function))
#define OK(call) ASSERT_EQ(call, CUDNN_STATUS_SUCCESS)
#define LT_OK(call) ASSERT_EQ(call, CUBLAS_STATUS_SUCCESS)

const Run nowhere{{}, StreamHandle::legacy};

struct Kept {
  Scope scope;
  Keeping keeping{scope, {}};
};

struct Shape {
  cudnnDataType_t type{};
  int rank = 0;
  std::array<int, CUDNN_DIM_MAX> sizes{}, strides{};
  std::size_t bytes = 0;
  auto operator<=>(const Shape&) const = default;
};
Shape shape_of(cudnnTensorDescriptor_t tensor) {
  Shape shape;
  EXPECT_EQ(CUDNN(cudnnGetTensorNdDescriptor)(tensor, CUDNN_DIM_MAX, &shape.type, &shape.rank,
                                              shape.sizes.data(), shape.strides.data()),
            CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(CUDNN(cudnnGetTensorSizeInBytes)(tensor, &shape.bytes), CUDNN_STATUS_SUCCESS);
  return shape;
}

// By pooch's own wrappers, which are linked into this program.
TEST(ReplayReal, AGraphIsKnownFromWhatWasSetWhenItsPartsAreGone) {
  using namespace cudnn_graph;
  const auto made = [] {
    const Numbers x{2, 6, 9, 7}, w{4, 3, 3, 2}, y{2, 4, 6, 4};
    return graph_of(operation(backward_data, tensor('x', x, channels_last_strides(x)),
                              tensor('w', w, packed_strides(w)), tensor('y', y, packed_strides(y)),
                              convolution({2, 1}, {2, 2}, {1, 2}), 1, 2));
  };
  const Descriptor graph = made();
  EXPECT_GT(graph.number(CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT), 20) << "it is the vendor's";
  const BackendGraph known = describe_graph(shadow_of(graph.raw()));
  EXPECT_TRUE(known.known);
  EXPECT_EQ(known.kind, OpKind::conv_backward_data);
  EXPECT_EQ(known.window.groups, 2);
  EXPECT_EQ(known.window.dilation[1], 2);
  ASSERT_EQ(known.tensors.size(), 3U);
  for (const BackendTensor& tensor : known.tensors) {
    EXPECT_EQ(tensor.effect, tensor.uid == 'x' ? Effect::read_write : Effect::read);
    EXPECT_EQ(tensor.extent.filter, tensor.uid == 'w');
    EXPECT_TRUE(tensor.extent.known && tensor.extent.dense);
  }
}

TEST(ReplayReal, Tensors) {
  const Kept with;
  const auto check = [&](const char* what, auto&& set) {
    cudnnTensorDescriptor_t tensor = nullptr;
    OK(CUDNN(cudnnCreateTensorDescriptor)(&tensor));
    OK(set(tensor)) << what;
    const Shape before = shape_of(tensor);
    auto kept = keep_descriptor(with.keeping, tensor);
    ASSERT_TRUE(kept.kept()) << what;
    OK(CUDNN(cudnnDestroyTensorDescriptor)(tensor));
    EXPECT_TRUE(shape_of(kept.in(nowhere)) == before) << what;
  };
  const auto four = CUDNN(cudnnSetTensor4dDescriptor);
  const auto many = CUDNN(cudnnSetTensorNdDescriptor);
  check("nchw", [&](auto t) { return four(t, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 2, 3, 5, 7); });
  check("nhwc", [&](auto t) { return four(t, CUDNN_TENSOR_NHWC, CUDNN_DATA_HALF, 2, 8, 5, 7); });
  check("double", [&](auto t) { return four(t, CUDNN_TENSOR_NCHW, CUDNN_DATA_DOUBLE, 1, 3, 1, 1); });
  check("three", [&](auto t) {
    const std::array<int, 3> sizes = {4, 5, 6}, strides = {30, 6, 1};
    return many(t, CUDNN_DATA_BFLOAT16, 3, sizes.data(), strides.data());
  });
  check("five, with gaps", [&](auto t) {
    const std::array<int, 5> sizes = {2, 3, 4, 5, 6}, strides = {1000, 300, 70, 12, 2};
    return many(t, CUDNN_DATA_FLOAT, 5, sizes.data(), strides.data());
  });
}

TEST(ReplayReal, PackedVectorsHaveNoRecipe) {
  const Kept with;
  cudnnTensorDescriptor_t tensor = nullptr;
  OK(CUDNN(cudnnCreateTensorDescriptor)(&tensor));
  OK(CUDNN(cudnnSetTensor4dDescriptor)(tensor, CUDNN_TENSOR_NCHW_VECT_C, CUDNN_DATA_INT8x4, 2, 8, 5, 7));
  EXPECT_FALSE(keep_descriptor(with.keeping, tensor).kept());
  OK(CUDNN(cudnnDestroyTensorDescriptor)(tensor));
}

TEST(ReplayReal, Filters) {
  const Kept with;
  for (const auto format : {CUDNN_TENSOR_NCHW, CUDNN_TENSOR_NHWC}) {
    cudnnFilterDescriptor_t filter = nullptr;
    const std::array<int, 5> sizes = {8, 4, 3, 2, 1};
    OK(CUDNN(cudnnCreateFilterDescriptor)(&filter));
    OK(CUDNN(cudnnSetFilterNdDescriptor)(filter, CUDNN_DATA_HALF, format, 5, sizes.data()));
    auto kept = keep_descriptor(with.keeping, filter);
    ASSERT_TRUE(kept.kept());
    OK(CUDNN(cudnnDestroyFilterDescriptor)(filter));
    cudnnDataType_t type;
    cudnnTensorFormat_t kept_format;
    int rank = 0;
    std::array<int, CUDNN_DIM_MAX> kept_sizes{};
    OK(CUDNN(cudnnGetFilterNdDescriptor)(kept.in(nowhere), CUDNN_DIM_MAX, &type, &kept_format, &rank,
                                         kept_sizes.data()));
    EXPECT_TRUE(type == CUDNN_DATA_HALF && kept_format == format && rank == 5);
    EXPECT_TRUE(std::equal(sizes.begin(), sizes.end(), kept_sizes.begin()));
  }
}

TEST(ReplayReal, Convolutions) {
  const Kept with;
  for (const int rank : {2, 3}) {
    cudnnConvolutionDescriptor_t convolution = nullptr;
    const std::array<int, 3> padding = {1, 2, 3}, stride = {4, 5, 6}, dilation = {7, 8, 9};
    OK(CUDNN(cudnnCreateConvolutionDescriptor)(&convolution));
    OK(CUDNN(cudnnSetConvolutionNdDescriptor)(convolution, rank, padding.data(), stride.data(),
                                              dilation.data(), CUDNN_CONVOLUTION, CUDNN_DATA_FLOAT));
    OK(CUDNN(cudnnSetConvolutionGroupCount)(convolution, 4));
    OK(CUDNN(cudnnSetConvolutionMathType)(convolution, CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION));
    OK(CUDNN(cudnnSetConvolutionReorderType)(convolution, CUDNN_NO_REORDER));
    auto kept = keep_descriptor(with.keeping, convolution);
    ASSERT_TRUE(kept.kept());
    OK(CUDNN(cudnnDestroyConvolutionDescriptor)(convolution));
    int kept_rank = 0, groups = 0;
    std::array<int, 6> p{}, s{}, d{};
    cudnnConvolutionMode_t mode;
    cudnnDataType_t type;
    cudnnMathType_t math;
    cudnnReorderType_t reorder;
    OK(CUDNN(cudnnGetConvolutionNdDescriptor)(kept.in(nowhere), 3, &kept_rank, p.data(), s.data(), d.data(),
                                              &mode, &type));
    OK(CUDNN(cudnnGetConvolutionGroupCount)(kept.in(nowhere), &groups));
    OK(CUDNN(cudnnGetConvolutionMathType)(kept.in(nowhere), &math));
    OK(CUDNN(cudnnGetConvolutionReorderType)(kept.in(nowhere), &reorder));
    EXPECT_EQ(std::tuple(kept_rank, groups, mode, type),
              std::tuple(rank, 4, CUDNN_CONVOLUTION, CUDNN_DATA_FLOAT));
    EXPECT_EQ(math, CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION);
    EXPECT_EQ(reorder, CUDNN_NO_REORDER);
    for (int i = 0; i < rank; ++i)
      EXPECT_EQ(std::tuple(p[i], s[i], d[i]), std::tuple(padding[i], stride[i], dilation[i]));
  }
}

TEST(ReplayReal, Poolings) {
  const Kept with;
  for (const int rank : {2, 3}) {
    cudnnPoolingDescriptor_t pooling = nullptr;
    const std::array<int, 3> window = {3, 4, 5}, padding = {1, 2, 0}, stride = {2, 1, 3};
    OK(CUDNN(cudnnCreatePoolingDescriptor)(&pooling));
    OK(CUDNN(cudnnSetPoolingNdDescriptor)(pooling, CUDNN_POOLING_MAX_DETERMINISTIC, CUDNN_PROPAGATE_NAN, rank,
                                          window.data(), padding.data(), stride.data()));
    auto kept = keep_descriptor(with.keeping, pooling);
    ASSERT_TRUE(kept.kept());
    OK(CUDNN(cudnnDestroyPoolingDescriptor)(pooling));
    int kept_rank = 0;
    std::array<int, 6> w{}, p{}, s{};
    cudnnPoolingMode_t mode;
    cudnnNanPropagation_t nan;
    OK(CUDNN(cudnnGetPoolingNdDescriptor)(kept.in(nowhere), 3, &mode, &nan, &kept_rank, w.data(), p.data(),
                                          s.data()));
    EXPECT_EQ(std::tuple(kept_rank, mode, nan),
              std::tuple(rank, CUDNN_POOLING_MAX_DETERMINISTIC, CUDNN_PROPAGATE_NAN));
    for (int i = 0; i < rank; ++i)
      EXPECT_EQ(std::tuple(w[i], p[i], s[i]), std::tuple(window[i], padding[i], stride[i]));
  }
}

TEST(ReplayReal, OperationsWithAFewNumbers) {
  const Kept with;
  cudnnActivationDescriptor_t swish = nullptr;
  OK(CUDNN(cudnnCreateActivationDescriptor)(&swish));
  OK(CUDNN(cudnnSetActivationDescriptor)(swish, CUDNN_ACTIVATION_SWISH, CUDNN_PROPAGATE_NAN, 0.5));
  OK(CUDNN(cudnnSetActivationDescriptorSwishBeta)(swish, 1.75));
  auto kept_swish = keep_descriptor(with.keeping, swish);
  OK(CUDNN(cudnnDestroyActivationDescriptor)(swish));
  ASSERT_TRUE(kept_swish.kept());
  cudnnActivationMode_t mode;
  cudnnNanPropagation_t nan;
  double limit = 0, beta = 0;
  OK(CUDNN(cudnnGetActivationDescriptor)(kept_swish.in(nowhere), &mode, &nan, &limit));
  OK(CUDNN(cudnnGetActivationDescriptorSwishBeta)(kept_swish.in(nowhere), &beta));
  EXPECT_EQ(std::tuple(mode, nan, limit, beta),
            std::tuple(CUDNN_ACTIVATION_SWISH, CUDNN_PROPAGATE_NAN, 0.5, 1.75));

  cudnnOpTensorDescriptor_t operation = nullptr;
  OK(CUDNN(cudnnCreateOpTensorDescriptor)(&operation));
  OK(CUDNN(cudnnSetOpTensorDescriptor)(operation, CUDNN_OP_TENSOR_MAX, CUDNN_DATA_DOUBLE,
                                       CUDNN_PROPAGATE_NAN));
  auto kept_operation = keep_descriptor(with.keeping, operation);
  OK(CUDNN(cudnnDestroyOpTensorDescriptor)(operation));
  ASSERT_TRUE(kept_operation.kept());
  cudnnOpTensorOp_t op;
  cudnnDataType_t type;
  OK(CUDNN(cudnnGetOpTensorDescriptor)(kept_operation.in(nowhere), &op, &type, &nan));
  EXPECT_EQ(std::tuple(op, type, nan),
            std::tuple(CUDNN_OP_TENSOR_MAX, CUDNN_DATA_DOUBLE, CUDNN_PROPAGATE_NAN));

  cudnnReduceTensorDescriptor_t reduction = nullptr;
  OK(CUDNN(cudnnCreateReduceTensorDescriptor)(&reduction));
  OK(CUDNN(cudnnSetReduceTensorDescriptor)(reduction, CUDNN_REDUCE_TENSOR_AMAX, CUDNN_DATA_FLOAT,
                                           CUDNN_PROPAGATE_NAN, CUDNN_REDUCE_TENSOR_FLATTENED_INDICES,
                                           CUDNN_32BIT_INDICES));
  auto kept_reduction = keep_descriptor(with.keeping, reduction);
  OK(CUDNN(cudnnDestroyReduceTensorDescriptor)(reduction));
  ASSERT_TRUE(kept_reduction.kept());
  cudnnReduceTensorOp_t reduce;
  cudnnReduceTensorIndices_t indices;
  cudnnIndicesType_t index_type;
  OK(CUDNN(cudnnGetReduceTensorDescriptor)(kept_reduction.in(nowhere), &reduce, &type, &nan, &indices,
                                           &index_type));
  EXPECT_EQ(std::tuple(reduce, type, indices, index_type),
            std::tuple(CUDNN_REDUCE_TENSOR_AMAX, CUDNN_DATA_FLOAT, CUDNN_REDUCE_TENSOR_FLATTENED_INDICES,
                       CUDNN_32BIT_INDICES));

  cudnnLRNDescriptor_t norm = nullptr;
  OK(CUDNN(cudnnCreateLRNDescriptor)(&norm));
  OK(CUDNN(cudnnSetLRNDescriptor)(norm, 7, 1e-3, 0.5, 2.5));
  auto kept_norm = keep_descriptor(with.keeping, norm);
  OK(CUDNN(cudnnDestroyLRNDescriptor)(norm));
  ASSERT_TRUE(kept_norm.kept());
  unsigned channels = 0;
  double alpha = 0, k = 0;
  OK(CUDNN(cudnnGetLRNDescriptor)(kept_norm.in(nowhere), &channels, &alpha, &beta, &k));
  EXPECT_EQ(std::tuple(channels, alpha, beta, k), std::tuple(7U, 1e-3, 0.5, 2.5));
}

TEST(ReplayReal, Transforms) {
  const Kept with;
  cudnnTensorDescriptor_t tensor = nullptr;
  cudnnTensorTransformDescriptor_t transform = nullptr;
  const std::array<std::int32_t, 4> before = {0, 1, 2, 3}, after = {0, 3, 2, 1};
  const std::array<std::uint32_t, 2> fold = {2, 2};
  OK(CUDNN(cudnnCreateTensorDescriptor)(&tensor));
  OK(CUDNN(cudnnSetTensor4dDescriptor)(tensor, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 2, 4, 6, 8));
  OK(CUDNN(cudnnCreateTensorTransformDescriptor)(&transform));
  OK(CUDNN(cudnnSetTensorTransformDescriptor)(transform, 4, CUDNN_TENSOR_NHWC, before.data(), after.data(),
                                              fold.data(), CUDNN_TRANSFORM_FOLD));
  auto kept = keep_transform(with.keeping, transform, tensor);
  ASSERT_TRUE(kept.kept());
  OK(CUDNN(cudnnDestroyTensorTransformDescriptor)(transform));
  OK(CUDNN(cudnnDestroyTensorDescriptor)(tensor));
  cudnnTensorFormat_t format;
  std::array<std::int32_t, 8> b{}, a{};
  std::array<std::uint32_t, 8> f{};
  cudnnFoldingDirection_t direction;
  OK(CUDNN(cudnnGetTensorTransformDescriptor)(kept.in(nowhere), 4, &format, b.data(), a.data(), f.data(),
                                              &direction));
  EXPECT_EQ(std::tuple(format, direction), std::tuple(CUDNN_TENSOR_NHWC, CUDNN_TRANSFORM_FOLD));
  EXPECT_TRUE(std::equal(before.begin(), before.end(), b.begin()) &&
              std::equal(after.begin(), after.end(), a.begin()) && f[0] == 2 && f[1] == 2);
}

// Every attribute has the size that cublas/lt_replay.h gives it.
TEST(ReplayReal, ProductsOfCublasLt) {
  const Kept with;
  if (cublaslt_library == nullptr) GTEST_SKIP() << "no cuBLASLt";
  cublasLtMatmulDesc_t product = nullptr;
  LT_OK(LT(cublasLtMatmulDescCreate)(&product, CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_32F));
  const auto get = LT(cublasLtMatmulDescGetAttribute);
  const auto set = LT(cublasLtMatmulDescSetAttribute);
  for (const lt::MatmulAttribute& attribute : lt::plain_attributes) {
    std::size_t wanted = 0;
    LT_OK(get(product, attribute.name, nullptr, 0, &wanted)) << attribute.name;
    EXPECT_EQ(wanted, attribute.bytes) << attribute.name;
  }
  const auto give = [&](cublasLtMatmulDescAttributes_t name, auto value) {
    LT_OK(set(product, name, &value, sizeof value)) << name;
  };
  give(CUBLASLT_MATMUL_DESC_TRANSA, std::int32_t{CUBLAS_OP_T});
  give(CUBLASLT_MATMUL_DESC_EPILOGUE, std::uint32_t{CUBLASLT_EPILOGUE_GELU_AUX_BIAS});
  give(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, std::int64_t{136});
  give(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, std::int32_t{64});
  give(CUBLASLT_MATMUL_DESC_FAST_ACCUM, std::int8_t{1});
  give(CUBLASLT_MATMUL_DESC_BIAS_POINTER, reinterpret_cast<void*>(0x7000));
  const std::array<float, 1> factor = {1.5F};
  EXPECT_TRUE(keep_factor(with.keeping, factor.data(), product).kept());
  auto kept = keep_descriptor(with.keeping, product);
  ASSERT_TRUE(kept.kept());
  ASSERT_EQ(kept.prepare(nowhere), 0);
  for (const lt::MatmulAttribute& attribute : lt::plain_attributes) {
    std::array<std::byte, 8> first{}, second{};
    std::size_t written = 0;
    LT_OK(get(product, attribute.name, first.data(), attribute.bytes, &written));
    LT_OK(get(kept.in(nowhere), attribute.name, second.data(), attribute.bytes, &written));
    EXPECT_EQ(first, second) << attribute.name;
  }
  EXPECT_EQ(lt_pointer(with.scope, kept.in(nowhere), CUBLASLT_MATMUL_DESC_BIAS_POINTER),
            reinterpret_cast<void*>(0x7000));
  LT_OK(LT(cublasLtMatmulDescDestroy)(product));
}

TEST(ReplayReal, LayoutsOfCublasLt) {
  const Kept with;
  if (cublaslt_library == nullptr) GTEST_SKIP() << "no cuBLASLt";
  cublasLtMatrixLayout_t layout = nullptr;
  LT_OK(LT(cublasLtMatrixLayoutCreate)(&layout, CUDA_R_16F, 30, 20, 40));
  const auto give = [&](cublasLtMatrixLayoutAttribute_t name, auto value) {
    LT_OK(LT(cublasLtMatrixLayoutSetAttribute)(layout, name, &value, sizeof value)) << name;
  };
  give(CUBLASLT_MATRIX_LAYOUT_ORDER, std::int32_t{CUBLASLT_ORDER_ROW});
  give(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, std::int32_t{5});
  give(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, std::int64_t{4096});
  auto kept = keep_descriptor(with.keeping, layout);
  ASSERT_TRUE(kept.kept());
  LT_OK(LT(cublasLtMatrixLayoutDestroy)(layout));
  lt::Layout read;
  ASSERT_TRUE(lt::read_layout(with.scope, kept.in(nowhere), read));
  EXPECT_EQ(std::tuple(read.type, read.order, read.rows, read.columns, read.leading, read.batch_count),
            std::tuple(std::uint32_t{CUDA_R_16F}, std::int32_t{CUBLASLT_ORDER_ROW}, 30U, 20U, 40, 5));
  EXPECT_EQ(read.batch_stride, 4096);
}

// By its path: the software GPU's libraries have the same names.
void* open(const std::string& include_folder, const char* soname) {
  for (const char* folder : {"/../lib64/", "/../lib/"}) {
    if (void* const found = dlopen((include_folder + folder + soname).c_str(), RTLD_NOW | RTLD_GLOBAL))
      return found;
  }
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    if (cudnn_library == nullptr) cudnn_library = open(argv[i], "libcudnn.so.9");
    if (cublaslt_library == nullptr) cublaslt_library = open(argv[i], "libcublasLt.so.13");
  }
  if (cudnn_library == nullptr) {
    std::printf("no libcudnn.so.9 beside the vendor's headers: nothing to compare with\n");
    return 77;
  }
  return RUN_ALL_TESTS();
}
