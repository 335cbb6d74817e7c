// What graphs that the software cuDNN has no engine for mean, from the attributes that a program would set.
#include <gtest/gtest.h>

#include "interpose/cudnn/backend_graph.h"

namespace pooch::interpose {
namespace {

// A descriptor that nobody but the shadows knows.
class Named {
 public:
  explicit Named(cudnnBackendDescriptorType_t type) { shadow_created(raw(), type); }
  ~Named() { (void)shadow_destroyed(raw()); }
  Named(const Named&) = delete;
  Named& operator=(const Named&) = delete;
  cudnnBackendDescriptor_t raw() const { return const_cast<char*>(&place_); }

  template <class T>
  Named& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
             const std::vector<T>& values) {
    shadow_set(raw(), name, type, static_cast<std::int64_t>(values.size()), values.data());
    return *this;
  }
  Named& part(cudnnBackendAttributeName_t name, const Named& value) {
    return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::vector{value.raw()});
  }

 private:
  char place_ = 0;
};

struct Floats : Named {
  Floats(std::int64_t uid, const std::vector<std::int64_t>& dims, const std::vector<std::int64_t>& strides)
      : Named(CUDNN_BACKEND_TENSOR_DESCRIPTOR) {
    set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, std::vector{CUDNN_DATA_FLOAT});
    set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, dims);
    set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, strides);
    set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, std::vector{uid});
  }
  explicit Floats(std::int64_t uid) : Floats(uid, {2, 3, 4}, {12, 4, 1}) {}
  Floats& flag(cudnnBackendAttributeName_t name) {
    shadow_set(raw(), name, CUDNN_TYPE_BOOLEAN, 1, "\1");
    return *this;
  }
};

BackendGraph described(const std::vector<const Named*>& operations) {
  std::vector<cudnnBackendDescriptor_t> raw;
  for (const Named* operation : operations) raw.push_back(operation->raw());
  Named graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, raw);
  return describe_graph(shadow_of(graph.raw()));
}

const BackendTensor* find(const BackendGraph& graph, std::int64_t uid) {
  for (const BackendTensor& tensor : graph.tensors)
    if (tensor.uid == uid) return &tensor;
  return nullptr;
}

Effect effect(const BackendGraph& graph, std::int64_t uid) {
  const BackendTensor* const tensor = find(graph, uid);
  EXPECT_NE(tensor, nullptr) << uid;
  return tensor == nullptr ? Effect::scratch : tensor->effect;
}

TEST(BackendGraph, VirtualTensorsAreNoOperandsAndAResultThatIsReadAgainIsBoth) {
  const Floats x(1), y(3), bias(4);
  Floats between(2);
  between.flag(CUDNN_ATTR_TENSOR_IS_VIRTUAL);
  Named matmul(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR), add(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  matmul.part(CUDNN_ATTR_OPERATION_MATMUL_ADESC, x).part(CUDNN_ATTR_OPERATION_MATMUL_BDESC, y);
  matmul.part(CUDNN_ATTR_OPERATION_MATMUL_CDESC, between);
  add.part(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, between).part(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, bias);
  add.part(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  const BackendGraph graph = described({&matmul, &add});
  EXPECT_TRUE(graph.known && graph.replayable);
  EXPECT_EQ(graph.kind, OpKind::gemm);
  EXPECT_EQ(graph.tensors.size(), 3U);
  EXPECT_EQ(find(graph, 2), nullptr);
  EXPECT_EQ(effect(graph, 1), Effect::read);
  EXPECT_EQ(effect(graph, 4), Effect::read);
  EXPECT_EQ(effect(graph, 3), Effect::read_write);
}

TEST(BackendGraph, AttentionCanBeMadeAgainAndItsGradientsCannot) {
  const Floats query(1), key(2), value(3), result(4), statistics(5);
  Floats scores(6), most(7);
  scores.flag(CUDNN_ATTR_TENSOR_IS_VIRTUAL);
  most.flag(CUDNN_ATTR_TENSOR_IS_VIRTUAL);
  const auto product = [](Named& matmul, const Named& a, const Named& b, const Named& c) {
    matmul.part(CUDNN_ATTR_OPERATION_MATMUL_ADESC, a).part(CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    matmul.part(CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
  };
  Named first(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR), second(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR),
      third(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR), reduce(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  product(first, query, key, scores);
  reduce.part(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, scores);
  reduce.part(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, statistics);
  product(second, scores, value, result);
  product(third, scores, key, most);
  const BackendGraph forward = described({&first, &reduce, &second});
  EXPECT_TRUE(forward.known && forward.replayable);
  EXPECT_EQ(forward.kind, OpKind::gemm);
  EXPECT_EQ(effect(forward, 5), Effect::overwrite);
  EXPECT_EQ(effect(forward, 2), Effect::read);
  EXPECT_FALSE(described({&first, &reduce, &second, &third}).replayable);
}

TEST(BackendGraph, ANormWritesItsStatisticsInTrainingAndReadsThemInInference) {
  for (const auto phase : {CUDNN_NORM_FWD_TRAINING, CUDNN_NORM_FWD_INFERENCE}) {
    const Floats x(1), mean(2), y(3), running(4);
    Floats epsilon(5, {1}, {1});
    epsilon.flag(CUDNN_ATTR_TENSOR_IS_BY_VALUE);
    Named norm(CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR);
    norm.set(CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, CUDNN_TYPE_NORM_FWD_PHASE, std::vector{phase});
    norm.part(CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, x).part(CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, mean);
    norm.part(CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, y)
        .part(CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC, epsilon);
    norm.part(CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC, running);
    const BackendGraph graph = described({&norm});
    EXPECT_EQ(graph.kind, OpKind::batch_norm_forward);
    EXPECT_FALSE(graph.replayable) << "it moves running statistics along";
    EXPECT_EQ(effect(graph, 2), phase == CUDNN_NORM_FWD_TRAINING ? Effect::overwrite : Effect::read);
    EXPECT_EQ(effect(graph, 4), Effect::overwrite);
    EXPECT_EQ(find(graph, 5)->value_bytes, 4U);
    EXPECT_EQ(find(graph, 1)->value_bytes, 0U);
  }
}

TEST(BackendGraph, AllTensorsOfAnOperationThatCameLaterAreReadAndWritten) {
  const Floats x(1), y(2);
  Named later(static_cast<cudnnBackendDescriptorType_t>(CUDNN_BACKEND_OPERATION_SDPA_BWD_DESCRIPTOR + 7));
  later.part(static_cast<cudnnBackendAttributeName_t>(9001), x);
  later.part(static_cast<cudnnBackendAttributeName_t>(9002), y);
  const BackendGraph graph = described({&later});
  EXPECT_TRUE(graph.known);
  EXPECT_FALSE(graph.replayable);
  EXPECT_EQ(graph.kind, OpKind::bare_launch);
  EXPECT_EQ(effect(graph, 1), Effect::read_write);
  EXPECT_EQ(effect(graph, 2), Effect::read_write);
}

TEST(BackendGraph, WhatIsNotAllKnownIsNotKnownAtAll) {
  Named operation(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  const Floats x(1);
  operation.part(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
  int nobody_knows = 0;
  cudnnBackendDescriptor_t stranger = &nobody_knows;
  shadow_set(operation.raw(), CUDNN_ATTR_OPERATION_RESHAPE_YDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
             &stranger);
  EXPECT_FALSE(described({&operation}).known);
  EXPECT_FALSE(describe_graph(nullptr).known);
}

TEST(BackendGraph, ExtentsHaveGapsTypesAndRaggedEnds) {
  const Floats dense(1), gaps(2, {2, 3, 4}, {24, 8, 2});
  Floats ragged(3);
  ragged.part(CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC, dense);
  Named vectors(CUDNN_BACKEND_TENSOR_DESCRIPTOR), operation(CUDNN_BACKEND_OPERATION_CONCAT_DESCRIPTOR);
  vectors.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, std::vector<std::int64_t>{4});
  vectors.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, std::vector{CUDNN_DATA_INT8x4});
  operation.set(CUDNN_ATTR_OPERATION_CONCAT_INPUT_DESCS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                std::vector{dense.raw(), gaps.raw(), ragged.raw()});
  operation.part(CUDNN_ATTR_OPERATION_CONCAT_OUTPUT_DESC, vectors);
  const BackendGraph graph = described({&operation});
  EXPECT_EQ(find(graph, 1)->extent.bytes, 96U);
  EXPECT_TRUE(find(graph, 1)->extent.dense);
  EXPECT_EQ(find(graph, 2)->extent.bytes, 188U);
  EXPECT_FALSE(find(graph, 2)->extent.dense);
  EXPECT_FALSE(find(graph, 3)->extent.dense);
  EXPECT_FALSE(find(graph, 4)->extent.known);
}

TEST(BackendGraph, APartIsAsItWasWhenItWasSet) {
  Floats y(1), x(2);
  Named operation(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  operation.part(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x).part(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
  x.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, std::vector<std::int64_t>{7});
  EXPECT_NE(find(described({&operation}), 2), nullptr);
}

TEST(BackendGraph, APackUnderASecondPlanForTheSameGraphIsATrial) {
  const Named pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  constexpr std::uint64_t graph = 11, other_graph = 12;
  EXPECT_FALSE(shadow_tried(pack.raw(), graph, 1));
  EXPECT_FALSE(shadow_tried(pack.raw(), graph, 1)) << "as programs do that keep their packs";
  EXPECT_FALSE(shadow_tried(pack.raw(), other_graph, 2)) << "a pack for all of a program's tensors";
  EXPECT_TRUE(shadow_tried(pack.raw(), graph, 3));
  EXPECT_FALSE(shadow_tried(pack.raw(), graph, 1));
}

}  // namespace
}  // namespace pooch::interpose
