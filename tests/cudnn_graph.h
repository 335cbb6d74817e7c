// Shorthands for programs that use cuDNN's backend (graph) API. All throw where cuDNN refuses.
#pragma once

#include <cudnn.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace cudnn_graph {

using Numbers = std::vector<std::int64_t>;

inline void check(cudnnStatus_t status, const char* what) {
  if (status != CUDNN_STATUS_SUCCESS)
    throw std::runtime_error(std::string(what) + ": " + cudnnGetErrorString(status));
}

template <class T>
constexpr cudnnBackendAttributeType_t attribute_type() {
  if constexpr (std::is_same_v<T, std::int64_t>) return CUDNN_TYPE_INT64;
  if constexpr (std::is_same_v<T, float>) return CUDNN_TYPE_FLOAT;
  if constexpr (std::is_same_v<T, cudnnDataType_t>) return CUDNN_TYPE_DATA_TYPE;
  if constexpr (std::is_same_v<T, cudnnConvolutionMode_t>) return CUDNN_TYPE_CONVOLUTION_MODE;
  if constexpr (std::is_same_v<T, cudnnBackendHeurMode_t>) return CUDNN_TYPE_HEUR_MODE;
  if constexpr (std::is_same_v<T, cudnnPointwiseMode_t>) return CUDNN_TYPE_POINTWISE_MODE;
  if constexpr (std::is_same_v<T, void*>) return CUDNN_TYPE_VOID_PTR;
  if constexpr (std::is_same_v<T, cudnnHandle_t>) return CUDNN_TYPE_HANDLE;
}

// A descriptor of its own.
class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type) {
    check(cudnnBackendCreateDescriptor(type, &raw_), "cudnnBackendCreateDescriptor");
  }
  Descriptor(Descriptor&& from) noexcept : raw_(std::exchange(from.raw_, nullptr)) {}
  Descriptor& operator=(Descriptor&& from) noexcept {
    std::swap(raw_, from.raw_);
    return *this;
  }
  ~Descriptor() {
    if (raw_) cudnnBackendDestroyDescriptor(raw_);
  }
  cudnnBackendDescriptor_t raw() const { return raw_; }

  template <class T>
  Descriptor& set(cudnnBackendAttributeName_t name, const std::vector<T>& values) {
    check(cudnnBackendSetAttribute(raw_, name, attribute_type<T>(), static_cast<std::int64_t>(values.size()),
                                   values.data()),
          "cudnnBackendSetAttribute");
    return *this;
  }
  template <class T>
  Descriptor& set(cudnnBackendAttributeName_t name, T value) {
    return set(name, std::vector<T>{value});
  }
  Descriptor& part(cudnnBackendAttributeName_t name, const Descriptor& value) {
    check(cudnnBackendSetAttribute(raw_, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value.raw_),
          "cudnnBackendSetAttribute");
    return *this;
  }
  Descriptor& finalize() {
    check(cudnnBackendFinalize(raw_), "cudnnBackendFinalize");
    return *this;
  }
  std::int64_t number(cudnnBackendAttributeName_t name) const {
    std::int64_t value = 0;
    check(cudnnBackendGetAttribute(raw_, name, CUDNN_TYPE_INT64, 1, nullptr, &value),
          "cudnnBackendGetAttribute");
    return value;
  }

 private:
  cudnnBackendDescriptor_t raw_ = nullptr;
};

inline Numbers packed_strides(const Numbers& dims) {
  Numbers strides(dims.size(), 1);
  for (std::size_t d = dims.size(); d-- > 1;) strides[d - 1] = strides[d] * dims[d];
  return strides;
}
inline Numbers channels_last_strides(const Numbers& dims) {
  return {dims[1] * dims[2] * dims[3], 1, dims[3] * dims[1], dims[1]};
}

inline Descriptor tensor(std::int64_t uid, const Numbers& dims, const Numbers& strides,
                         cudnnDataType_t type = CUDNN_DATA_FLOAT) {
  Descriptor d(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  d.set(CUDNN_ATTR_TENSOR_DATA_TYPE, type).set(CUDNN_ATTR_TENSOR_DIMENSIONS, dims);
  d.set(CUDNN_ATTR_TENSOR_STRIDES, strides).set(CUDNN_ATTR_TENSOR_UNIQUE_ID, uid);
  d.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, std::int64_t{16});
  return std::move(d.finalize());
}

inline Descriptor convolution(const Numbers& padding, const Numbers& stride, const Numbers& dilation) {
  Descriptor d(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  d.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  d.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION);
  d.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, static_cast<std::int64_t>(padding.size()));
  d.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, padding).set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, padding);
  d.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, stride).set(CUDNN_ATTR_CONVOLUTION_DILATIONS, dilation);
  return std::move(d.finalize());
}

// The attributes of one direction's operation.
struct Direction {
  cudnnBackendDescriptorType_t operation;
  cudnnBackendAttributeName_t alpha, beta, convolution, w, x, y;
};
inline constexpr Direction forward{CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                                   CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                                   CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
                                   CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                                   CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                                   CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                                   CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y};
inline constexpr Direction backward_data{CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                                         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                                         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
                                         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                                         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                                         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                                         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY};
inline constexpr Direction backward_filter{CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
                                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY};

inline Descriptor graph_of(const Descriptor& operation) {
  Descriptor d(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  return std::move(d.part(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation).finalize());
}

inline Descriptor operation(const Direction& direction, const Descriptor& x, const Descriptor& w,
                            const Descriptor& y, const Descriptor& conv, float alpha = 1, float beta = 0) {
  Descriptor d(direction.operation);
  d.part(direction.x, x).part(direction.w, w).part(direction.y, y).part(direction.convolution, conv);
  return std::move(d.set(direction.alpha, alpha).set(direction.beta, beta).finalize());
}

// As the heuristics give them.
inline std::vector<Descriptor> configurations(const Descriptor& graph,
                                              cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_INSTANT) {
  Descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.part(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph)
      .set(CUDNN_ATTR_ENGINEHEUR_MODE, mode)
      .finalize();
  std::int64_t count = 0;
  check(cudnnBackendGetAttribute(heuristics.raw(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr),
        "cudnnBackendGetAttribute");
  std::vector<Descriptor> result;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (std::int64_t i = 0; i < count; ++i) {
    raw.push_back(result.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).raw());
  }
  check(cudnnBackendGetAttribute(heuristics.raw(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &count, raw.data()),
        "cudnnBackendGetAttribute");
  result.erase(result.begin() + count, result.end());
  return result;
}

inline Descriptor plan_of(const Descriptor& configuration) {
  Descriptor d(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  return std::move(d.part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration).finalize());
}
inline std::int64_t workspace_of(const Descriptor& plan) {
  return plan.number(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
}

inline Descriptor pack_of(const Numbers& uids, const std::vector<void*>& pointers, void* workspace) {
  Descriptor d(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  d.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, uids).set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, pointers);
  return std::move(d.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, workspace).finalize());
}

}  // namespace cudnn_graph
