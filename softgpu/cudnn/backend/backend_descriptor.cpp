#include "softgpu/cudnn/backend/backend_descriptor.h"

#include <algorithm>
#include <iterator>

namespace softgpu::cudnn {
namespace {

constexpr int any_type = -1;
constexpr std::int64_t dimensions = 8;  // CUDNN_DIM_MAX
constexpr std::int64_t unlimited = 1 << 20;

// One row for consecutive attributes that are alike. Of operations that no engine here does, the owner alone
// is checked: they can be described, and find no engine.
struct Range {
  int first, last;
  AttributeRule rule;
};

constexpr auto settable = AttributeAccess::settable;
constexpr auto result = AttributeAccess::result;
constexpr auto hidden = AttributeAccess::hidden;

#define SOFTGPU_OWNER(name) CUDNN_BACKEND_##name##_DESCRIPTOR
#define SOFTGPU_ONE(name, owner, type, most, access) \
  {                                                  \
    CUDNN_ATTR_##name, CUDNN_ATTR_##name, {          \
      SOFTGPU_OWNER(owner), type, most, access       \
    }                                                \
  }
#define SOFTGPU_RANGE(first, last, owner)                 \
  {                                                       \
    first, last, {                                        \
      SOFTGPU_OWNER(owner), any_type, unlimited, settable \
    }                                                     \
  }

constexpr Range ranges[] = {
    // ascending
    SOFTGPU_RANGE(0, 9, POINTWISE),
    SOFTGPU_ONE(CONVOLUTION_COMP_TYPE, CONVOLUTION, CUDNN_TYPE_DATA_TYPE, 1, settable),
    SOFTGPU_ONE(CONVOLUTION_CONV_MODE, CONVOLUTION, CUDNN_TYPE_CONVOLUTION_MODE, 1, settable),
    SOFTGPU_ONE(CONVOLUTION_DILATIONS, CONVOLUTION, CUDNN_TYPE_INT64, dimensions, settable),
    SOFTGPU_ONE(CONVOLUTION_FILTER_STRIDES, CONVOLUTION, CUDNN_TYPE_INT64, dimensions, settable),
    SOFTGPU_ONE(CONVOLUTION_POST_PADDINGS, CONVOLUTION, CUDNN_TYPE_INT64, dimensions, settable),
    SOFTGPU_ONE(CONVOLUTION_PRE_PADDINGS, CONVOLUTION, CUDNN_TYPE_INT64, dimensions, settable),
    SOFTGPU_ONE(CONVOLUTION_SPATIAL_DIMS, CONVOLUTION, CUDNN_TYPE_INT64, 1, settable),
    SOFTGPU_ONE(ENGINEHEUR_MODE, ENGINEHEUR, CUDNN_TYPE_HEUR_MODE, 1, settable),
    SOFTGPU_ONE(ENGINEHEUR_OPERATION_GRAPH, ENGINEHEUR, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, settable),
    SOFTGPU_ONE(ENGINEHEUR_RESULTS, ENGINEHEUR, CUDNN_TYPE_BACKEND_DESCRIPTOR, unlimited, result),
    SOFTGPU_RANGE(203, 204, ENGINEHEUR),
    SOFTGPU_ONE(ENGINECFG_ENGINE, ENGINECFG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, settable),
    SOFTGPU_ONE(ENGINECFG_KNOB_CHOICES, ENGINECFG, CUDNN_TYPE_BACKEND_DESCRIPTOR, CUDNN_KNOB_TYPE_COUNTS,
                settable),
    SOFTGPU_ONE(ENGINECFG_WORKSPACE_SIZE, ENGINECFG, CUDNN_TYPE_INT64, 1, result),
    SOFTGPU_ONE(EXECUTION_PLAN_HANDLE, EXECUTION_PLAN, CUDNN_TYPE_HANDLE, 1, settable),
    SOFTGPU_ONE(EXECUTION_PLAN_ENGINE_CONFIG, EXECUTION_PLAN, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, settable),
    SOFTGPU_ONE(EXECUTION_PLAN_WORKSPACE_SIZE, EXECUTION_PLAN, CUDNN_TYPE_INT64, 1, result),
    SOFTGPU_RANGE(406, 407, EXECUTION_PLAN),
    SOFTGPU_RANGE(600, 601, KNOB_CHOICE),
    {700, 701, {SOFTGPU_OWNER(OPERATION_CONVOLUTION_FORWARD), CUDNN_TYPE_FLOAT, 1, settable}},
    {702, 705, {SOFTGPU_OWNER(OPERATION_CONVOLUTION_FORWARD), CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, settable}},
    {706, 707, {SOFTGPU_OWNER(OPERATION_CONVOLUTION_BACKWARD_DATA), CUDNN_TYPE_FLOAT, 1, settable}},
    {708,
     711,
     {SOFTGPU_OWNER(OPERATION_CONVOLUTION_BACKWARD_DATA), CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, settable}},
    {712, 713, {SOFTGPU_OWNER(OPERATION_CONVOLUTION_BACKWARD_FILTER), CUDNN_TYPE_FLOAT, 1, settable}},
    {714,
     717,
     {SOFTGPU_OWNER(OPERATION_CONVOLUTION_BACKWARD_FILTER), CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, settable}},
    SOFTGPU_RANGE(750, 758, OPERATION_POINTWISE),
    SOFTGPU_RANGE(770, 774, OPERATION_GEN_STATS),
    SOFTGPU_RANGE(780, 796, OPERATION_BN_FINALIZE_STATISTICS),
    SOFTGPU_ONE(OPERATIONGRAPH_HANDLE, OPERATIONGRAPH, CUDNN_TYPE_HANDLE, 1, settable),
    SOFTGPU_ONE(OPERATIONGRAPH_OPS, OPERATIONGRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, unlimited, hidden),
    SOFTGPU_ONE(OPERATIONGRAPH_ENGINE_GLOBAL_COUNT, OPERATIONGRAPH, CUDNN_TYPE_INT64, 1, result),
    SOFTGPU_RANGE(803, 804, OPERATIONGRAPH),
    SOFTGPU_ONE(TENSOR_BYTE_ALIGNMENT, TENSOR, CUDNN_TYPE_INT64, 1, settable),
    SOFTGPU_ONE(TENSOR_DATA_TYPE, TENSOR, CUDNN_TYPE_DATA_TYPE, 1, settable),
    SOFTGPU_ONE(TENSOR_DIMENSIONS, TENSOR, CUDNN_TYPE_INT64, dimensions, settable),
    SOFTGPU_ONE(TENSOR_STRIDES, TENSOR, CUDNN_TYPE_INT64, dimensions, settable),
    SOFTGPU_ONE(TENSOR_VECTOR_COUNT, TENSOR, CUDNN_TYPE_INT64, 1, settable),
    SOFTGPU_ONE(TENSOR_VECTORIZED_DIMENSION, TENSOR, CUDNN_TYPE_INT64, 1, settable),
    SOFTGPU_ONE(TENSOR_UNIQUE_ID, TENSOR, CUDNN_TYPE_INT64, 1, settable),
    SOFTGPU_ONE(TENSOR_IS_VIRTUAL, TENSOR, CUDNN_TYPE_BOOLEAN, 1, settable),
    SOFTGPU_ONE(TENSOR_IS_BY_VALUE, TENSOR, CUDNN_TYPE_BOOLEAN, 1, settable),
    SOFTGPU_RANGE(909, 913, TENSOR),
    SOFTGPU_ONE(VARIANT_PACK_UNIQUE_IDS, VARIANT_PACK, CUDNN_TYPE_INT64, unlimited, hidden),
    SOFTGPU_ONE(VARIANT_PACK_DATA_POINTERS, VARIANT_PACK, CUDNN_TYPE_VOID_PTR, unlimited, hidden),
    SOFTGPU_ONE(VARIANT_PACK_WORKSPACE, VARIANT_PACK, CUDNN_TYPE_VOID_PTR, 1, hidden),
    SOFTGPU_ONE(ENGINE_OPERATION_GRAPH, ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, settable),
    SOFTGPU_ONE(ENGINE_GLOBAL_INDEX, ENGINE, CUDNN_TYPE_INT64, 1, settable),
    SOFTGPU_ONE(ENGINE_KNOB_INFO, ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, CUDNN_KNOB_TYPE_COUNTS, result),
    SOFTGPU_ONE(ENGINE_NUMERICAL_NOTE, ENGINE, CUDNN_TYPE_NUMERICAL_NOTE, unlimited, result),
    SOFTGPU_ONE(ENGINE_BEHAVIOR_NOTE, ENGINE, CUDNN_TYPE_BEHAVIOR_NOTE, unlimited, result),
    SOFTGPU_RANGE(1306, 1308, ENGINE),
    SOFTGPU_RANGE(1500, 1503, MATMUL),
    SOFTGPU_RANGE(1520, 1527, OPERATION_MATMUL),
    SOFTGPU_RANGE(1600, 1602, REDUCTION),
    SOFTGPU_RANGE(1610, 1612, OPERATION_REDUCTION),
    SOFTGPU_RANGE(1620, 1630, OPERATION_BN_BWD_WEIGHTS),
    SOFTGPU_RANGE(1700, 1708, RESAMPLE),
    SOFTGPU_RANGE(1710, 1716, OPERATION_RESAMPLE_FWD),
    SOFTGPU_RANGE(1720, 1727, OPERATION_RESAMPLE_BWD),
    SOFTGPU_RANGE(1800, 1803, OPERATION_CONCAT),
    SOFTGPU_RANGE(1900, 1904, OPERATION_SIGNAL),
    SOFTGPU_RANGE(1950, 1953, OPERATION_PAGED_CACHE_LOAD),
    SOFTGPU_RANGE(2000, 2014, OPERATION_NORM_FORWARD),
    SOFTGPU_RANGE(2100, 2110, OPERATION_NORM_BACKWARD),
    SOFTGPU_RANGE(2200, 2201, OPERATION_RESHAPE),
    SOFTGPU_RANGE(2250, 2257, OPERATION_EXPAND_BAND_MATRIX),
    SOFTGPU_RANGE(2270, 2276, OPERATION_CONTRACT_BAND_MATRIX),
    SOFTGPU_RANGE(2300, 2305, RNG),
    SOFTGPU_RANGE(2310, 2313, OPERATION_RNG),
    SOFTGPU_RANGE(2400, 2402, KERNEL_CACHE),
    SOFTGPU_RANGE(2500, 2504, OPERATION_BLOCK_SCALE_QUANTIZE),
    SOFTGPU_RANGE(2600, 2605, OPERATION_BLOCK_SCALE_DEQUANTIZE),
    SOFTGPU_RANGE(2700, 2702, DEVICEPROP),
    SOFTGPU_RANGE(2800, 2810, OPERATION_SDPA_FWD),
    SOFTGPU_RANGE(2851, 2862, OPERATION_SDPA_BWD),
    SOFTGPU_RANGE(2900, 2908, OPERATION_MOE_GROUPED_MATMUL),
};

#undef SOFTGPU_RANGE
#undef SOFTGPU_ONE
#undef SOFTGPU_OWNER

}  // namespace

const BackendAttribute* BackendDescriptor::find(cudnnBackendAttributeName_t name) const {
  const auto found =
      std::find_if(attributes.begin(), attributes.end(), [&](const auto& a) { return a.name == name; });
  return found == attributes.end() ? nullptr : &*found;
}

void BackendDescriptor::set(BackendAttribute attribute) {
  const auto found = std::find_if(attributes.begin(), attributes.end(),
                                  [&](const auto& a) { return a.name == attribute.name; });
  if (found == attributes.end()) {
    attributes.push_back(std::move(attribute));
  } else {
    *found = std::move(attribute);
  }
}

const BackendDescriptor* BackendDescriptor::part(cudnnBackendAttributeName_t name) const {
  const BackendAttribute* const a = find(name);
  if (!a || a->descriptors.empty()) return nullptr;
  const BackendDescriptor* const first = a->descriptors.front().get();
  return first && first->finalized ? first : nullptr;
}

Layout layout_of(const BackendDescriptor& tensor) {
  const auto dims = tensor.values<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
  const auto strides = tensor.values<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
  Layout l{};
  l.rank = static_cast<std::int32_t>(dims.size());
  std::copy(dims.begin(), dims.end(), l.dims);
  std::copy(strides.begin(), strides.end(), l.strides);
  return l;
}

std::uint64_t pointer_of(const BackendDescriptor& pack, std::int64_t uid) {
  const auto uids = pack.values<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto pointers = pack.values<std::uint64_t>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  const auto found = std::find(uids.begin(), uids.end(), uid);
  return found == uids.end() ? 0 : pointers[static_cast<std::size_t>(found - uids.begin())];
}

std::size_t attribute_bytes(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR:
      return 1;
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
      return 8;
    case CUDNN_TYPE_FRACTION:
      return sizeof(cudnnFraction_t);
    default:  // numbers of 32 bits and enumerators
      return type >= 0 && type <= CUDNN_TYPE_MOE_GROUPED_MATMUL_MODE ? 4 : 0;
  }
}

const AttributeRule* attribute_rule(cudnnBackendAttributeName_t name) {
  const auto found = std::find_if(std::begin(ranges), std::end(ranges),
                                  [&](const Range& r) { return name >= r.first && name <= r.last; });
  return found == std::end(ranges) ? nullptr : &found->rule;
}

bool known_descriptor_type(cudnnBackendDescriptorType_t type) {
  return type >= CUDNN_BACKEND_POINTWISE_DESCRIPTOR && type <= CUDNN_BACKEND_OPERATION_SDPA_BWD_DESCRIPTOR &&
         type != CUDNN_BACKEND_INTERMEDIATE_INFO_DESCRIPTOR;
}

}  // namespace softgpu::cudnn
