#include "softgpu/cudnn/backend/backend_convolution.h"

#include <algorithm>

#include "softgpu/cudnn/backend/backend_descriptor.h"
#include "softgpu/cudnn/convolution/convolution_check.h"
#include "softgpu/cudnn/descriptors/launch.h"
#include "softgpu/cudnn/elements/element_types.h"

namespace softgpu::cudnn {
namespace {

// The attributes of the three operations lie in the same order.
struct ConvAttributes {
  cudnnBackendAttributeName_t alpha, beta, convolution, w, x, y;
};

ConvAttributes attributes_of(ConvDirection direction) {
  int base = CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA;
  if (direction == ConvDirection::backward_data) base = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA;
  if (direction == ConvDirection::backward_filter) base = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA;
  const auto at = [&](int offset) { return static_cast<cudnnBackendAttributeName_t>(base + offset); };
  return {at(0), at(1), at(2), at(3), at(4), at(5)};
}

cudnnDataType_t type_of(const BackendDescriptor& tensor) {
  return tensor.value(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_FLOAT);
}

std::int64_t uid_of(const BackendDescriptor& tensor) {
  return tensor.value<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID, -1);
}

// Alpha and beta may be floats or doubles.
float factor(const BackendDescriptor& operation, cudnnBackendAttributeName_t name, float otherwise) {
  const BackendAttribute* const a = operation.find(name);
  if (a && a->type == CUDNN_TYPE_DOUBLE) return static_cast<float>(operation.value<double>(name, otherwise));
  return operation.value<float>(name, otherwise);
}

cudnnTensorStruct float_tensor(const Layout& layout) {
  return {CUDNN_DATA_FLOAT, layout};
}

cudnnFilterStruct float_filter(const Layout& layout) {
  cudnnFilterStruct filter;
  filter.rank = layout.rank;
  for (int d = 0; d < layout.rank; ++d) filter.dims[d] = static_cast<int>(layout.dims[d]);
  return filter;
}

// Shape arithmetic is the same for all types, so it is checked as the legacy API checks floats.
cudnnConvolutionStruct float_convolution(const BackendDescriptor& from, const Layout& x, const Layout& w) {
  cudnnConvolutionStruct conv;
  const auto copy = [&](cudnnBackendAttributeName_t name, int* to) {
    const auto values = from.values<std::int64_t>(name);
    for (std::size_t d = 0; d < std::min<std::size_t>(values.size(), max_rank - 2); ++d)
      to[d] = static_cast<int>(values[d]);
  };
  copy(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, conv.padding);
  copy(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, conv.stride);
  copy(CUDNN_ATTR_CONVOLUTION_DILATIONS, conv.dilation);
  conv.rank = static_cast<int>(from.value<std::int64_t>(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 0));
  conv.mode = from.value(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION);
  conv.groups = static_cast<int>(x.dims[1] / std::max<std::int64_t>(w.dims[1], 1));
  return conv;
}

bool computable(const BackendDescriptor& convolution,
                std::initializer_list<const BackendDescriptor*> tensors) {
  const cudnnDataType_t type = type_of(**tensors.begin());
  if (!is_floating(type)) return false;
  for (const BackendDescriptor* t : tensors) {
    if (type_of(*t) != type || t->value<std::int64_t>(CUDNN_ATTR_TENSOR_VECTOR_COUNT, 1) != 1 ||
        t->value<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL, false) ||
        t->value<bool>(CUDNN_ATTR_TENSOR_IS_BY_VALUE, false)) {
      return false;
    }
  }
  return convolution.value(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT) == CUDNN_DATA_FLOAT &&
         convolution.values<std::int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS) ==
             convolution.values<std::int64_t>(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS);
}

}  // namespace

std::optional<ConvDirection> conv_direction(cudnnBackendDescriptorType_t type) {
  switch (type) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      return ConvDirection::forward;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      return ConvDirection::backward_data;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
      return ConvDirection::backward_filter;
    default:
      return std::nullopt;
  }
}

cudnnStatus_t read_convolution(const BackendDescriptor& operation, GraphConv& result) {
  constexpr const char* function = "cudnnBackendFinalize";
  const ConvDirection direction = *conv_direction(operation.type);
  const ConvAttributes names = attributes_of(direction);
  const BackendDescriptor* const convolution = operation.part(names.convolution);
  const BackendDescriptor* const x = operation.part(names.x);
  const BackendDescriptor* const w = operation.part(names.w);
  const BackendDescriptor* const y = operation.part(names.y);
  if (!convolution || !x || !w || !y) {
    return fail(function, CUDNN_STATUS_BAD_PARAM, "a part of the convolution is missing or not finalized");
  }
  GraphConv found{direction, {}, uid_of(*x), uid_of(*w), uid_of(*y)};
  ConvArgs& args = found.args;
  args.x = layout_of(*x);
  args.w = layout_of(*w);
  args.y = layout_of(*y);
  args.type = type_of(*x);
  args.alpha = factor(operation, names.alpha, 1.0F);
  args.beta = factor(operation, names.beta, 0.0F);
  const cudnnTensorStruct x_desc = float_tensor(args.x);
  const cudnnTensorStruct y_desc = float_tensor(args.y);
  const cudnnFilterStruct w_desc = float_filter(args.w);
  const cudnnConvolutionStruct conv_desc = float_convolution(*convolution, args.x, args.w);
  if (auto status = check_convolution(function, &x_desc, &w_desc, &conv_desc, &y_desc, args.shape);
      status != CUDNN_STATUS_SUCCESS) {
    return status;
  }
  if (!computable(*convolution, {x, w, y})) {
    return fail(function, CUDNN_STATUS_NOT_SUPPORTED,
                "types, paddings or tensors of a kind that no engine has");
  }
  result = found;
  return CUDNN_STATUS_SUCCESS;
}

std::optional<GraphConv> graph_convolution(const BackendDescriptor& graph) {
  const BackendAttribute* const ops = graph.find(CUDNN_ATTR_OPERATIONGRAPH_OPS);
  if (!ops || ops->descriptors.size() != 1 || !conv_direction(ops->descriptors.front()->type)) {
    return std::nullopt;
  }
  GraphConv result{};
  return read_convolution(*ops->descriptors.front(), result) == CUDNN_STATUS_SUCCESS ? std::optional(result)
                                                                                     : std::nullopt;
}

// The fallback engines are the two that do every convolution.
std::vector<std::int64_t> proposed_engines(const GraphConv& conv, cudnnBackendHeurMode_t mode) {
  std::vector<std::int64_t> result;
  for (int engine : ranked_algorithms(conv.direction, conv.args.shape)) {
    if (!describe_algorithm(conv.direction, engine, conv.args.shape).supported) continue;
    if (mode == CUDNN_HEUR_MODE_FALLBACK && engine > 1) continue;
    result.push_back(engine);
  }
  return result;
}

std::vector<cudnnBackendNumericalNote_t> numerical_notes(const GraphConv& conv, int engine) {
  struct Methods {
    int fft, fft_tiling, winograd, nonfused;  // -1: the direction has none
  };
  constexpr Methods forward{CUDNN_CONVOLUTION_FWD_ALGO_FFT, CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING,
                            CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD,
                            CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED};
  constexpr Methods data{CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT, CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT_TILING,
                         CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD,
                         CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED};
  constexpr Methods filter{CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT,
                           CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT_TILING, -1,
                           CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED};
  const Methods& m = conv.direction == ConvDirection::forward         ? forward
                     : conv.direction == ConvDirection::backward_data ? data
                                                                      : filter;
  std::vector<cudnnBackendNumericalNote_t> notes;
  if (engine == m.fft || engine == m.fft_tiling) notes.push_back(CUDNN_NUMERICAL_NOTE_FFT);
  if (engine == m.winograd || engine == m.nonfused) notes.push_back(CUDNN_NUMERICAL_NOTE_WINOGRAD);
  if (!describe_algorithm(conv.direction, engine, conv.args.shape).deterministic) {
    notes.push_back(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
  }
  return notes;
}

cudnnStatus_t execute(const char* function, cudnnHandle_t handle, const ConvPlan& plan,
                      const BackendDescriptor& pack) {
  const GraphConv& conv = plan.conv;
  const std::uint64_t x = pointer_of(pack, conv.x_uid);
  const std::uint64_t w = pointer_of(pack, conv.w_uid);
  const std::uint64_t y = pointer_of(pack, conv.y_uid);
  const auto workspace = pack.value<std::uint64_t>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, 0);
  if (x == 0 || w == 0 || y == 0) {
    return fail(function, CUDNN_STATUS_BAD_PARAM, "the variant pack has no pointer for one of the tensors");
  }
  if (conv.args.workspace_bytes > 0 && workspace == 0) {
    return fail(function, CUDNN_STATUS_BAD_PARAM, "the plan needs a workspace");
  }
  switch (conv.direction) {
    case ConvDirection::forward:
      return launch<ConvForward>(function, handle, element_count(conv.args.y), {x, w, y, workspace},
                                 conv.args);
    case ConvDirection::backward_data:
      return launch<ConvBackwardData>(function, handle, element_count(conv.args.x), {w, y, x, workspace},
                                      conv.args);
    case ConvDirection::backward_filter:
      break;
  }
  return launch<ConvBackwardFilter>(function, handle, element_count(conv.args.y), {x, y, w, workspace},
                                    conv.args);
}

}  // namespace softgpu::cudnn
