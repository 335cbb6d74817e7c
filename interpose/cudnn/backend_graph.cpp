#include "interpose/cudnn/backend_graph.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "core/hash.h"
#include "interpose/cudnn/text.h"

namespace pooch::interpose {
namespace {

// Attributes of operations that are results; every other tensor is read. Of operations that cuDNN got later
// nothing is known, so all their tensors are read and written.
struct Results {
  int first, last;
  Effect effect;
};
constexpr Results results[] = {
    {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
     Effect::overwrite},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
     Effect::overwrite},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
     Effect::overwrite},
    {CUDNN_ATTR_OPERATION_POINTWISE_YDESC, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, Effect::overwrite},
    {CUDNN_ATTR_OPERATION_POINTWISE_DXDESC, CUDNN_ATTR_OPERATION_POINTWISE_DXDESC, Effect::overwrite},
    {CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC, CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC, Effect::overwrite},
    {CUDNN_ATTR_OPERATION_BN_FINALIZE_UPDATED_RUNNING_MEAN_DESC,
     CUDNN_ATTR_OPERATION_BN_FINALIZE_EQ_BIAS_DESC, Effect::overwrite},
    {CUDNN_ATTR_OPERATION_MATMUL_CDESC, CUDNN_ATTR_OPERATION_MATMUL_CDESC, Effect::overwrite},
    {CUDNN_ATTR_OPERATION_REDUCTION_YDESC, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, Effect::overwrite},
    {CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_SCALE_DESC, CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_BIAS,
     Effect::overwrite},
    {CUDNN_ATTR_OPERATION_RESAMPLE_FWD_YDESC, CUDNN_ATTR_OPERATION_RESAMPLE_FWD_IDXDESC, Effect::overwrite},
    {CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DXDESC, CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DXDESC, Effect::overwrite},
    // Slices that are in their place already are not written.
    {CUDNN_ATTR_OPERATION_CONCAT_OUTPUT_DESC, CUDNN_ATTR_OPERATION_CONCAT_OUTPUT_DESC, Effect::read_write},
    {CUDNN_ATTR_OPERATION_SIGNAL_FLAGDESC, CUDNN_ATTR_OPERATION_SIGNAL_FLAGDESC, Effect::read_write},
    {CUDNN_ATTR_OPERATION_SIGNAL_YDESC, CUDNN_ATTR_OPERATION_SIGNAL_YDESC, Effect::read_write},
    {CUDNN_ATTR_OPERATION_PAGED_CACHE_LOAD_YDESC, CUDNN_ATTR_OPERATION_PAGED_CACHE_LOAD_YDESC, Effect::write},
    // Read in inference.
    {CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC,
     Effect::overwrite},
    {CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC, CUDNN_ATTR_OPERATION_NORM_FWD_YDESC,
     Effect::overwrite},
    {CUDNN_ATTR_OPERATION_NORM_FWD_PEER_STAT_DESCS, CUDNN_ATTR_OPERATION_NORM_FWD_PEER_STAT_DESCS,
     Effect::read_write},
    {CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC, CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC, Effect::overwrite},
    {CUDNN_ATTR_OPERATION_NORM_BWD_PEER_STAT_DESCS, CUDNN_ATTR_OPERATION_NORM_BWD_PEER_STAT_DESCS,
     Effect::read_write},
    {CUDNN_ATTR_OPERATION_RESHAPE_YDESC, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, Effect::overwrite},
    {CUDNN_ATTR_OPERATION_EXPAND_BAND_MATRIX_YDESC, CUDNN_ATTR_OPERATION_EXPAND_BAND_MATRIX_YDESC,
     Effect::write},
    {CUDNN_ATTR_OPERATION_CONTRACT_BAND_MATRIX_YDESC, CUDNN_ATTR_OPERATION_CONTRACT_BAND_MATRIX_YDESC,
     Effect::write},
    {CUDNN_ATTR_OPERATION_RNG_YDESC, CUDNN_ATTR_OPERATION_RNG_YDESC, Effect::overwrite},
    {CUDNN_ATTR_OPERATION_BLOCK_SCALE_QUANTIZE_YDESC, CUDNN_ATTR_OPERATION_BLOCK_SCALE_QUANTIZE_SCALE_DESC,
     Effect::write},
    {CUDNN_ATTR_OPERATION_BLOCK_SCALE_DEQUANTIZE_YDESC, CUDNN_ATTR_OPERATION_BLOCK_SCALE_DEQUANTIZE_YDESC,
     Effect::write},
    {CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC, CUDNN_ATTR_OPERATION_SDPA_FWD_STATSDESC, Effect::write},
    {CUDNN_ATTR_OPERATION_SDPA_BWD_DQDESC, CUDNN_ATTR_OPERATION_SDPA_BWD_DVDESC, Effect::write},
    {CUDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_OUTPUT_DESC, CUDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_OUTPUT_DESC,
     Effect::write},
};

// What is known of an operation as a whole.
struct Meaning {
  cudnnBackendDescriptorType_t operation;
  OpKind kind;
  bool replayable;
};
constexpr Meaning meanings[] = {
    // in the order in which they decide the kind of a graph
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, OpKind::conv_forward, true},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, OpKind::conv_backward_data, false},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, OpKind::conv_backward_filter, false},
    {CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, OpKind::gemm, true},
    {CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR, OpKind::batch_norm_forward, false},
    {CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR, OpKind::batch_norm_backward, false},
    {CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR, OpKind::pooling_forward, true},
    {CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR, OpKind::pooling_backward, false},
    {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, OpKind::elementwise, true},
    {CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, OpKind::elementwise, true},
};
// Attention makes its result of two products, and its gradients of five, of which some are summed up in
// whatever order.
constexpr std::ptrdiff_t most_products = 2;

constexpr auto last_known_operation = CUDNN_BACKEND_OPERATION_SDPA_BWD_DESCRIPTOR;

Effect effect_in(const BackendShadow& operation, cudnnBackendAttributeName_t name) {
  if (operation.type > last_known_operation) return Effect::read_write;
  const auto found = std::find_if(std::begin(results), std::end(results),
                                  [&](const Results& r) { return name >= r.first && name <= r.last; });
  if (found == std::end(results)) return Effect::read;
  if (found->first == CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC &&
      operation.value(CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, CUDNN_NORM_FWD_TRAINING) ==
          CUDNN_NORM_FWD_INFERENCE)
    return Effect::read;
  return found->effect;
}

// Only convolutions blend, and only they have this attribute.
double factor(const BackendShadow& operation, int name, double otherwise) {
  const BackendAttribute* const found = operation.find(static_cast<cudnnBackendAttributeName_t>(name));
  if (found == nullptr) return otherwise;
  if (found->type == CUDNN_TYPE_DOUBLE) return operation.value<double>(found->name, otherwise);
  return operation.value<float>(found->name, static_cast<float>(otherwise));
}

// The attributes of the three convolutions lie in the same order.
struct ConvolutionNames {
  int alpha, beta, convolution, w, x, y;
};
std::optional<ConvolutionNames> convolution_names(cudnnBackendDescriptorType_t operation) {
  int first = 0;
  switch (operation) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      first = CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA;
      break;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      first = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA;
      break;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
      first = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA;
      break;
    default:
      return std::nullopt;
  }
  return ConvolutionNames{first, first + 1, first + 2, first + 3, first + 4, first + 5};
}

std::uint64_t count_of(const std::vector<std::int64_t>& dimensions) {
  std::uint64_t count = 1;
  for (const std::int64_t dimension : dimensions) count *= static_cast<std::uint64_t>(dimension);
  return count;
}

Extent extent_of(const BackendShadow& tensor) {
  const auto type = tensor.value(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_FLOAT);
  const auto dimensions = tensor.values<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
  const auto strides = tensor.values<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
  const std::uint64_t element = element_bytes(type);
  const bool plain = tensor.value<std::int64_t>(CUDNN_ATTR_TENSOR_VECTOR_COUNT, 1) == 1 &&
                     tensor.value(CUDNN_ATTR_TENSOR_REORDERING_MODE, CUDNN_TENSOR_REORDERING_NONE) ==
                         CUDNN_TENSOR_REORDERING_NONE;
  if (element == 0 || !plain || dimensions.empty() || dimensions.size() != strides.size() ||
      std::ranges::any_of(strides, [](std::int64_t s) { return s < 0; }))
    return Extent::unknown();
  std::uint64_t span = 1;
  for (std::size_t i = 0; i < dimensions.size(); ++i)
    span += static_cast<std::uint64_t>((dimensions[i] - 1) * strides[i]);
  const bool ragged = tensor.find(CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC) != nullptr;
  Extent extent(span * element, !ragged && count_of(dimensions) == span);
  extent.shape.rank = static_cast<std::uint8_t>(std::min<std::size_t>(dimensions.size(), max_rank));
  extent.shape.element_bytes = static_cast<std::uint8_t>(element);
  extent.traits = mix(extent.traits, static_cast<std::uint64_t>(type));
  for (std::size_t i = 0; i < dimensions.size(); ++i) {
    if (i < max_rank) extent.shape.sizes[i] = static_cast<std::int32_t>(dimensions[i]);
    extent.traits = mix(mix(extent.traits, static_cast<std::uint64_t>(dimensions[i])),
                        static_cast<std::uint64_t>(strides[i]));
  }
  return extent;
}

void add_tensor(BackendGraph& graph, const BackendShadow& tensor, Effect effect, bool filter) {
  if (tensor.value(CUDNN_ATTR_TENSOR_IS_VIRTUAL, false)) return;
  BackendTensor made{tensor.value<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID, -1), extent_of(tensor), effect,
                     0};
  made.extent.filter = filter && made.extent.known;
  if (tensor.value(CUDNN_ATTR_TENSOR_IS_BY_VALUE, false)) {
    made.value_bytes = made.extent.bytes;
    if (!made.extent.known) graph.replayable = false;
  }
  for (const std::uint64_t value :
       {static_cast<std::uint64_t>(made.uid), static_cast<std::uint64_t>(effect), made.extent.traits})
    graph.traits = mix(graph.traits, value);
  const auto same = std::ranges::find(graph.tensors, made.uid, &BackendTensor::uid);
  if (same == graph.tensors.end()) {
    graph.tensors.push_back(made);
  } else {
    same->effect = join(same->effect, effect);
  }
}

void add_window(BackendGraph& graph, const BackendShadow& operation, const ConvolutionNames& names) {
  const auto part = [&](int name) { return operation.part(static_cast<cudnnBackendAttributeName_t>(name)); };
  const BackendPart convolution = part(names.convolution), x = part(names.x), w = part(names.w);
  if (convolution == nullptr || x == nullptr || w == nullptr) return;
  Window& window = graph.window;
  const auto copy = [&](cudnnBackendAttributeName_t name, std::array<std::int32_t, 3>& to) {
    const auto from = convolution->values<std::int64_t>(name);
    for (std::size_t i = 0; i < std::min(from.size(), to.size()); ++i) {
      to[i] = static_cast<std::int32_t>(from[i]);
      graph.traits = mix(graph.traits, static_cast<std::uint64_t>(from[i]));
    }
  };
  window.rank = static_cast<std::uint8_t>(
      std::min<std::int64_t>(convolution->value<std::int64_t>(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 0), 3));
  copy(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, window.padding);
  copy(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, window.stride);
  copy(CUDNN_ATTR_CONVOLUTION_DILATIONS, window.dilation);
  const auto channels = x->values<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
  const auto per_group = w->values<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
  if (channels.size() > 1 && per_group.size() > 1 && per_group[1] > 0)
    window.groups = static_cast<std::int32_t>(channels[1] / per_group[1]);
  for (const auto name : {CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_ATTR_CONVOLUTION_COMP_TYPE})
    graph.traits = mix(graph.traits, convolution->value<std::uint32_t>(name, 0));
  for (const double value : {factor(operation, names.alpha, 1), factor(operation, names.beta, 0)})
    graph.traits = mix(graph.traits, value == 0 ? 0 : value == 1 ? 1 : 2);
}

// False where a part of it is not known.
bool add_operation(BackendGraph& graph, const BackendShadow& operation) {
  const auto names = convolution_names(operation.type);
  graph.traits = mix(graph.traits, static_cast<std::uint64_t>(operation.type));
  for (const BackendAttribute& attribute : operation.attributes) {
    if (attribute.type != CUDNN_TYPE_BACKEND_DESCRIPTOR) continue;
    Effect effect = effect_in(operation, attribute.name);
    if (names && effect == Effect::overwrite && factor(operation, names->beta, 0) != 0)
      effect = Effect::read_write;
    for (const BackendPart& part : attribute.parts) {
      if (part == nullptr) return false;
      if (part->type == CUDNN_BACKEND_TENSOR_DESCRIPTOR)
        add_tensor(graph, *part, effect, names && attribute.name == names->w);
      else if (part->type == CUDNN_BACKEND_POINTWISE_DESCRIPTOR)
        graph.traits = mix(graph.traits, part->value<std::uint32_t>(CUDNN_ATTR_POINTWISE_MODE, 0));
      else if (part->type == CUDNN_BACKEND_REDUCTION_DESCRIPTOR)
        graph.traits = mix(graph.traits, part->value<std::uint32_t>(CUDNN_ATTR_REDUCTION_OPERATOR, 0));
    }
  }
  if (names) add_window(graph, operation, *names);
  return true;
}

}  // namespace

BackendGraph describe_graph(const BackendPart& from) {
  BackendGraph graph;
  const BackendAttribute* const operations =
      from == nullptr ? nullptr : from->find(CUDNN_ATTR_OPERATIONGRAPH_OPS);
  if (operations == nullptr || operations->parts.empty()) return graph;
  std::size_t kind = std::size(meanings);
  graph.replayable = true;
  for (const BackendPart& operation : operations->parts) {
    if (operation == nullptr || !add_operation(graph, *operation)) return {};
    const auto* const meaning = std::ranges::find(meanings, operation->type, &Meaning::operation);
    kind = std::min(kind, static_cast<std::size_t>(meaning - std::begin(meanings)));
    if (meaning == std::end(meanings) || !meaning->replayable) graph.replayable = false;
  }
  if (std::ranges::count(operations->parts, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR,
                         [](const BackendPart& part) { return part->type; }) > most_products)
    graph.replayable = false;
  graph.known = true;
  if (kind < std::size(meanings)) graph.kind = meanings[kind].kind;
  return graph;
}

}  // namespace pooch::interpose
