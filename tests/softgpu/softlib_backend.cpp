// The software cuDNN's backend (graph) API. What it answers to odd questions was seen at cuDNN 9.19.
#include <dlfcn.h>

#include <cstring>

#include "tests/cudnn_graph.h"
#include "tests/softgpu/softlib_support.h"

namespace softlib {
namespace {

using namespace cudnn_graph;

// 3 x 4 x 6 x 5, 3 x 3 filters, stride 1, so that every method of the library takes part.
struct Sizes {
  Numbers x{3, 4, 6, 5}, w{6, 4, 3, 3}, y{3, 6, 6, 5};
  Descriptor conv = convolution({1, 1}, {1, 1}, {1, 1});
};

std::size_t count(const Numbers& dims) {
  std::size_t result = 1;
  for (std::int64_t d : dims) result *= static_cast<std::size_t>(d);
  return result;
}

Descriptor packed(std::int64_t uid, const Numbers& dims) {
  return tensor(uid, dims, packed_strides(dims));
}

Descriptor graph(const Direction& direction, const Sizes& s, float alpha = 1, float beta = 0) {
  return graph_of(
      operation(direction, packed('x', s.x), packed('w', s.w), packed('y', s.y), s.conv, alpha, beta));
}

std::int64_t engine_of(const Descriptor& configuration) {
  Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t raw = engine.raw();
  check(cudnnBackendGetAttribute(configuration.raw(), CUDNN_ATTR_ENGINECFG_ENGINE,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, nullptr, &raw),
        "cudnnBackendGetAttribute");
  return engine.number(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
}

class Backend : public Library {
 protected:
  void SetUp() override {
    Library::SetUp();
    CUDNN_OK(cudnnCreateConvolutionDescriptor(&conv));
    CUDNN_OK(cudnnCreateFilterDescriptor(&filter));
    CUDNN_OK(
        cudnnSetConvolution2dDescriptor(conv, 1, 1, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
    CUDNN_OK(cudnnSetFilter4dDescriptor(filter, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, 6, 4, 3, 3));
  }
  void TearDown() override {
    cudnnDestroyConvolutionDescriptor(conv);
    cudnnDestroyFilterDescriptor(filter);
    Library::TearDown();
  }

  // Executes on `x`, `w`, `y` and returns the result of the direction.
  Floats run(const Direction& direction, const Descriptor& plan, const Floats& x, const Floats& w,
             const Floats& y) {
    Buffer x_device(x);
    Buffer w_device(w);
    Buffer y_device(y);
    Buffer workspace(static_cast<std::size_t>(workspace_of(plan)) / 4 + 1);
    const Descriptor pack =
        pack_of({'w', 'x', 'y'}, {w_device.data(), x_device.data(), y_device.data()}, workspace.data());
    EXPECT_EQ(cudnnBackendExecute(dnn, plan.raw(), pack.raw()), CUDNN_STATUS_SUCCESS);
    if (&direction == &forward) return y_device.get();
    return &direction == &backward_data ? x_device.get() : w_device.get();
  }

  // The same by the legacy API.
  Floats legacy(const Direction& direction, int algorithm, float alpha, float beta, const Floats& x,
                const Floats& w, const Floats& y) {
    Tensor x_desc(3, 4, 6, 5);
    Tensor y_desc(3, 6, 6, 5);
    Buffer a(x);
    Buffer b(w);
    Buffer c(y);
    Buffer workspace(1 << 20);
    const std::size_t bytes = 4 << 20;
    if (&direction == &forward) {
      EXPECT_EQ(cudnnConvolutionForward(dnn, &alpha, x_desc, a.data(), filter, b.data(), conv,
                                        static_cast<cudnnConvolutionFwdAlgo_t>(algorithm), workspace.data(),
                                        bytes, &beta, y_desc, c.data()),
                CUDNN_STATUS_SUCCESS);
      return c.get();
    }
    if (&direction == &backward_data) {
      EXPECT_EQ(cudnnConvolutionBackwardData(dnn, &alpha, filter, b.data(), y_desc, c.data(), conv,
                                             static_cast<cudnnConvolutionBwdDataAlgo_t>(algorithm),
                                             workspace.data(), bytes, &beta, x_desc, a.data()),
                CUDNN_STATUS_SUCCESS);
      return a.get();
    }
    EXPECT_EQ(cudnnConvolutionBackwardFilter(dnn, &alpha, x_desc, a.data(), y_desc, c.data(), conv,
                                             static_cast<cudnnConvolutionBwdFilterAlgo_t>(algorithm),
                                             workspace.data(), bytes, &beta, filter, b.data()),
              CUDNN_STATUS_SUCCESS);
    return b.get();
  }

  cudnnConvolutionDescriptor_t conv = nullptr;
  cudnnFilterDescriptor_t filter = nullptr;
};

TEST_F(Backend, EveryEngineGivesTheBitsOfTheAlgorithmOfItsNumber) {
  const Sizes s;
  const Floats x = values(count(s.x), 1);
  const Floats w = values(count(s.w), 2);
  const Floats y = values(count(s.y), 3);
  for (const Direction* direction : {&forward, &backward_data, &backward_filter}) {
    for (auto [alpha, beta] : {std::pair{1.0F, 0.0F}, std::pair{0.5F, 2.0F}}) {
      const auto configs = configurations(graph(*direction, s, alpha, beta));
      EXPECT_GE(configs.size(), 4U);
      for (const Descriptor& config : configs) {
        EXPECT_EQ(run(*direction, plan_of(config), x, w, y),
                  legacy(*direction, static_cast<int>(engine_of(config)), alpha, beta, x, w, y));
      }
    }
  }
}

TEST_F(Backend, EnginesDifferInTheirWorkspacesAndNotes) {
  const Descriptor g = graph(backward_filter, Sizes());
  std::vector<std::int64_t> workspaces;
  int nondeterministic = 0;
  for (const Descriptor& config : configurations(g)) {
    workspaces.push_back(workspace_of(plan_of(config)));
    Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    engine.part(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, g);
    engine.set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, engine_of(config)).finalize();
    std::vector<cudnnBackendNumericalNote_t> notes(CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
    std::int64_t found = -1;
    CUDNN_OK(cudnnBackendGetAttribute(engine.raw(), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                      CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &found,
                                      notes.data()));
    notes.resize(static_cast<std::size_t>(found));
    nondeterministic +=
        static_cast<int>(std::count(notes.begin(), notes.end(), CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC));
  }
  EXPECT_EQ(nondeterministic, 2);
  EXPECT_EQ(*std::min_element(workspaces.begin(), workspaces.end()), 0);
  EXPECT_GT(*std::max_element(workspaces.begin(), workspaces.end()), 10000);
  EXPECT_EQ(configurations(g, CUDNN_HEUR_MODE_FALLBACK).size(), 2U);
}

TEST_F(Backend, APlanOutlivesAllThatItWasMadeOf) {
  const Sizes s;
  const Floats x = values(count(s.x), 1);
  const Floats w = values(count(s.w), 2);
  const Descriptor plan = plan_of(configurations(graph(forward, Sizes())).front());
  const Floats y(count(s.y));
  expect_close(run(forward, plan, x, w, y), legacy(forward, 0, 1, 0, x, w, y));
}

TEST_F(Backend, AGraphThatNoEngineDoesFindsNone) {
  Descriptor relu(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  relu.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_POINTWISE_RELU_FWD);
  relu.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT).finalize();
  Descriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.part(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, relu);
  operation.part(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, packed(1, {2, 3, 4}));
  operation.part(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, packed(2, {2, 3, 4})).finalize();
  const Descriptor g = graph_of(operation);
  EXPECT_EQ(g.number(CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT), 0);
  EXPECT_TRUE(configurations(g).empty());
  Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  engine.part(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, g).set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, std::int64_t{0});
  EXPECT_EQ(cudnnBackendFinalize(engine.raw()), CUDNN_STATUS_NOT_SUPPORTED);
}

// a * b = c, c + d = e, where c is nowhere.
TEST_F(Backend, AProductInAGraphHasOneEngineThatIsNotComputed) {
  const Numbers dims{2, 8, 8};
  const char yes = 1;
  Descriptor c(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  c.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_FLOAT).set(CUDNN_ATTR_TENSOR_DIMENSIONS, dims);
  c.set(CUDNN_ATTR_TENSOR_STRIDES, packed_strides(dims));
  c.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, std::int64_t{'c'});
  CUDNN_OK(cudnnBackendSetAttribute(c.raw(), CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &yes));
  c.finalize();
  Descriptor float_product(CUDNN_BACKEND_MATMUL_DESCRIPTOR), add(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  float_product.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT).finalize();
  add.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_POINTWISE_ADD);
  add.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT).finalize();
  Descriptor product(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  product.part(CUDNN_ATTR_OPERATION_MATMUL_DESC, float_product);
  product.part(CUDNN_ATTR_OPERATION_MATMUL_ADESC, packed('a', dims));
  product.part(CUDNN_ATTR_OPERATION_MATMUL_BDESC, packed('b', dims));
  product.part(CUDNN_ATTR_OPERATION_MATMUL_CDESC, c).finalize();
  Descriptor sum(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  sum.part(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, add);
  sum.part(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, c);
  sum.part(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, packed('d', dims));
  sum.part(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, packed('e', dims)).finalize();
  Descriptor g(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  const cudnnBackendDescriptor_t operations[] = {product.raw(), sum.raw()};
  CUDNN_OK(cudnnBackendSetAttribute(g.raw(), CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 2,
                                    operations));
  g.finalize();
  EXPECT_EQ(g.number(CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT), 1);
  const auto found = configurations(g);
  ASSERT_EQ(found.size(), 1U);
  const Descriptor plan = plan_of(found.front());
  EXPECT_EQ(workspace_of(plan), 0);
  Buffer memory(4 * count(dims));
  std::vector<void*> places;
  for (int i = 0; i < 4; ++i) places.push_back(static_cast<float*>(memory.data()) + i * count(dims));
  const Descriptor without_e = pack_of({'a', 'b', 'd'}, {places[0], places[1], places[2]}, nullptr);
  EXPECT_EQ(cudnnBackendExecute(dnn, plan.raw(), without_e.raw()), CUDNN_STATUS_BAD_PARAM);
  const Descriptor pack = pack_of({'a', 'b', 'd', 'e'}, places, nullptr);
  EXPECT_EQ(cudnnBackendExecute(dnn, plan.raw(), pack.raw()), CUDNN_STATUS_EXECUTION_FAILED)
      << "compute mode";
}

TEST_F(Backend, AttentionInOneOperationHasAnEngineForSequencesOfAnyLength) {
  for (const std::int64_t length : {1, 7, 129}) {
    const Numbers dims{2, 3, length, 8}, sums{2, 3, length, 1};
    Descriptor attention(CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR);
    attention.part(CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC, packed('q', dims));
    attention.part(CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC, packed('k', dims));
    attention.part(CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC, packed('v', dims));
    attention.part(CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC, packed('o', dims));
    attention.part(CUDNN_ATTR_OPERATION_SDPA_FWD_STATSDESC, packed('s', sums)).finalize();
    const auto found = configurations(graph_of(attention));
    ASSERT_EQ(found.size(), 1U) << length;
    const Descriptor plan = plan_of(found.front());
    EXPECT_EQ(workspace_of(plan), 0);
    Buffer memory(4 * count(dims) + count(sums));
    std::vector<void*> places;
    for (int i = 0; i < 5; ++i) places.push_back(static_cast<float*>(memory.data()) + i * count(dims));
    const Descriptor without_sums =
        pack_of({'q', 'k', 'v', 'o'}, {places.begin(), places.end() - 1}, nullptr);
    EXPECT_EQ(cudnnBackendExecute(dnn, plan.raw(), without_sums.raw()), CUDNN_STATUS_BAD_PARAM);
    const Descriptor pack = pack_of({'q', 'k', 'v', 'o', 's'}, places, nullptr);
    EXPECT_EQ(cudnnBackendExecute(dnn, plan.raw(), pack.raw()), CUDNN_STATUS_EXECUTION_FAILED)
        << "compute mode";
  }
}

TEST_F(Backend, ThirtyTwoBitIntegersFindNoEngine) {
  const Sizes s;
  const auto of_type = [](std::int64_t uid, const Numbers& dims) {
    return tensor(uid, dims, packed_strides(dims), CUDNN_DATA_INT32);
  };
  EXPECT_TRUE(configurations(graph_of(operation(forward, of_type('x', s.x), of_type('w', s.w),
                                                of_type('y', s.y), s.conv)))
                  .empty());
}

TEST_F(Backend, DescriptorsAnswerAsCudnnsDo) {
  Descriptor t(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  t.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_FLOAT).set(CUDNN_ATTR_TENSOR_DIMENSIONS, Numbers{2, 3, 4, 5});
  t.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, std::int64_t{7});
  const std::int64_t number = 1;
  std::int64_t numbers[8] = {};
  std::int64_t found = 0;
  const auto get = [&](cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                       std::int64_t most) {
    return cudnnBackendGetAttribute(t.raw(), name, type, most, &found, numbers);
  };
  const auto set = [&](cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                       std::int64_t elements) {
    return cudnnBackendSetAttribute(t.raw(), name, type, elements, &number);
  };
  EXPECT_EQ(get(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 8), CUDNN_STATUS_NOT_INITIALIZED);
  EXPECT_EQ(cudnnBackendFinalize(t.raw()), CUDNN_STATUS_BAD_PARAM) << "no strides";
  t.set(CUDNN_ATTR_TENSOR_STRIDES, packed_strides({2, 3, 4, 5}));
  EXPECT_EQ(set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_FLOAT, 1), CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
  EXPECT_EQ(set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 2), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1), CUDNN_STATUS_BAD_PARAM);
  t.finalize();
  EXPECT_EQ(cudnnBackendFinalize(t.raw()), CUDNN_STATUS_BAD_PARAM) << "a second time";
  EXPECT_EQ(set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(get(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 2), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(found, 2);
  EXPECT_EQ(numbers[2], 0);
  EXPECT_EQ(
      cudnnBackendGetAttribute(t.raw(), CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 0, &found, nullptr),
      CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(found, 4);
  EXPECT_EQ(get(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_DOUBLE, 8), CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
  EXPECT_EQ(cudnnBackendFinalize(nullptr), CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
  EXPECT_EQ(cudnnBackendDestroyDescriptor(nullptr), CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
}

TEST_F(Backend, PointersOperationsAndIdsCannotBeReadBack) {
  const Sizes s;
  const Descriptor pack = pack_of({1}, {&dnn}, nullptr);
  void* pointer = nullptr;
  EXPECT_EQ(cudnnBackendGetAttribute(pack.raw(), CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
                                     1, nullptr, &pointer),
            CUDNN_STATUS_NOT_SUPPORTED);
  const Descriptor op = operation(forward, packed('x', s.x), packed('w', s.w), packed('y', s.y), s.conv);
  Descriptor copy(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  cudnnBackendDescriptor_t raw = copy.raw();
  CUDNN_OK(cudnnBackendGetAttribute(op.raw(), CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                                    CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, nullptr, &raw));
  EXPECT_EQ(copy.number(CUDNN_ATTR_TENSOR_UNIQUE_ID), -1);
  EXPECT_EQ(cudnnBackendGetAttribute(graph_of(op).raw(), CUDNN_ATTR_OPERATIONGRAPH_OPS,
                                     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, nullptr, &raw),
            CUDNN_STATUS_NOT_SUPPORTED);
}

TEST_F(Backend, AnIncompletePackIsRefused) {
  const Sizes s;
  Descriptor plan = plan_of(configurations(graph(forward, s)).front());
  ASSERT_GT(workspace_of(plan), 0);
  Buffer memory(1 << 16);
  void* const p = memory.data();
  const Descriptor without_y = pack_of({'x', 'w'}, {p, p}, p);
  const Descriptor without_workspace = pack_of({'x', 'w', 'y'}, {p, p, p}, nullptr);
  EXPECT_EQ(cudnnBackendExecute(dnn, plan.raw(), without_y.raw()), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(cudnnBackendExecute(dnn, plan.raw(), without_workspace.raw()), CUDNN_STATUS_BAD_PARAM);
  Descriptor uneven(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  uneven.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, Numbers{1, 2});
  uneven.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, std::vector<void*>{p});
  EXPECT_EQ(cudnnBackendFinalize(uneven.raw()), CUDNN_STATUS_BAD_PARAM);
}

// Small multiples of 1/8, exact in both types; their sums are exact in float.
Floats eighths(std::size_t size, std::uint32_t seed) {
  Floats result = values(size, seed);
  for (float& v : result) v = std::round(v * 8) / 8;
  return result;
}

// To bits of bfloat16 or half and back, for numbers that both hold exactly.
std::uint16_t narrow(float value, cudnnDataType_t type) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, 4);
  if (type == CUDNN_DATA_BFLOAT16) return static_cast<std::uint16_t>(bits >> 16);
  if (value == 0) return 0;
  return static_cast<std::uint16_t>((bits >> 16 & 0x8000) | (((bits >> 23 & 255) - 112) << 10) |
                                    (bits >> 13 & 1023));
}

// Where element i of a packed tensor lies with the given strides.
std::size_t place(std::size_t i, const Numbers& dims, const Numbers& strides) {
  std::size_t result = 0;
  for (std::size_t d = dims.size(); d-- > 0;) {
    result += i % static_cast<std::size_t>(dims[d]) * static_cast<std::size_t>(strides[d]);
    i /= static_cast<std::size_t>(dims[d]);
  }
  return result;
}

TEST_F(Backend, NarrowTypesInChannelsLastOrder) {
  const Sizes s;
  const Floats x = eighths(count(s.x), 1);
  const Floats w = eighths(count(s.w), 2);
  const Floats expected = legacy(forward, 1, 1, 0, x, w, Floats(count(s.y)));
  for (cudnnDataType_t type : {CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16}) {
    const auto described = [&](std::int64_t uid, const Numbers& dims) {
      return tensor(uid, dims, channels_last_strides(dims), type);
    };
    const auto brought = [&](const Floats& from, const Numbers& dims, void* to) {
      std::vector<std::uint16_t> bits(from.size());
      for (std::size_t i = 0; i < from.size(); ++i)
        bits[place(i, dims, channels_last_strides(dims))] = narrow(from[i], type);
      EXPECT_EQ(cudaMemcpy(to, bits.data(), 2 * bits.size(), cudaMemcpyHostToDevice), cudaSuccess);
    };
    Buffer x_device(x.size());
    Buffer w_device(w.size());
    Buffer y_device(expected.size());
    brought(x, s.x, x_device.data());
    brought(w, s.w, w_device.data());
    const auto configs = configurations(
        graph_of(operation(forward, described('x', s.x), described('w', s.w), described('y', s.y), s.conv)));
    ASSERT_FALSE(configs.empty());
    const Descriptor plan = plan_of(configs.back());
    Buffer workspace(static_cast<std::size_t>(workspace_of(plan)) / 4 + 1);
    const Descriptor pack =
        pack_of({'x', 'w', 'y'}, {x_device.data(), w_device.data(), y_device.data()}, workspace.data());
    CUDNN_OK(cudnnBackendExecute(dnn, plan.raw(), pack.raw()));
    std::vector<std::uint16_t> y(expected.size());
    CUDA_OK(cudaMemcpy(y.data(), y_device.data(), 2 * y.size(), cudaMemcpyDeviceToHost));
    for (std::size_t i = 0; i < y.size(); ++i) {
      const std::uint16_t got = y[place(i, s.y, channels_last_strides(s.y))];
      const std::uint16_t exact = narrow(expected[i], type);  // cut off, so at most one step below
      EXPECT_LE(std::abs(static_cast<int>(got) - static_cast<int>(exact)), 1) << expected[i];
    }
  }
}

TEST(Absent, WhatNoLibraryHasIsRefusedInTheWordsOfItsLibrary) {
  void* absent = dlopen("libsoftgpu_absent.so.1", RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(absent, nullptr) << dlerror();
  const auto call = [&](const char* name) { return reinterpret_cast<int (*)()>(dlsym(absent, name))(); };
  EXPECT_EQ(call("cudnnCreateRNNDescriptor"), CUDNN_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(call("cudaGraphDebugDotPrint"), cudaErrorNotSupported);
}

}  // namespace
}  // namespace softlib
