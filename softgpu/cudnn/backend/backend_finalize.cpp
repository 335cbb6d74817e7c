#include "softgpu/cudnn/backend/backend_finalize.h"

#include <algorithm>

#include "softgpu/cudnn/backend/backend_descriptor.h"
#include "softgpu/cudnn/descriptors/descriptors.h"

namespace softgpu::cudnn {
namespace {

constexpr const char* function = "cudnnBackendFinalize";

cudnnStatus_t incomplete() {
  return fail(function, CUDNN_STATUS_BAD_PARAM, "an attribute is missing or not finalized");
}

bool all_at_least(const std::vector<std::int64_t>& values, std::int64_t least) {
  return std::all_of(values.begin(), values.end(), [&](std::int64_t v) { return v >= least; });
}

cudnnStatus_t finalize_tensor(const BackendDescriptor& d) {
  const auto dims = d.values<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
  const auto strides = d.values<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
  if (!d.find(CUDNN_ATTR_TENSOR_DATA_TYPE) || !d.find(CUDNN_ATTR_TENSOR_UNIQUE_ID) || dims.empty() ||
      dims.size() != strides.size()) {
    return incomplete();
  }
  if (!all_at_least(dims, 1) || !all_at_least(strides, 0)) {
    return fail(function, CUDNN_STATUS_BAD_PARAM, "a dimension is not positive, or a stride negative");
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t finalize_convolution(const BackendDescriptor& d) {
  const auto rank = d.value<std::int64_t>(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 0);
  const auto complete = [&](cudnnBackendAttributeName_t name, std::int64_t least) {
    const auto values = d.values<std::int64_t>(name);
    return static_cast<std::int64_t>(values.size()) == rank && all_at_least(values, least);
  };
  if (rank < 1 || rank > max_rank - 2 || !d.find(CUDNN_ATTR_CONVOLUTION_COMP_TYPE) ||
      !complete(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, 0) ||
      !complete(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, 0) || !complete(CUDNN_ATTR_CONVOLUTION_DILATIONS, 1) ||
      !complete(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, 1)) {
    return incomplete();
  }
  return CUDNN_STATUS_SUCCESS;
}

// What no kernel here does is a correct operation all the same, which then finds no engine.
cudnnStatus_t finalize_conv_operation(const BackendDescriptor& d) {
  GraphConv ignored{};
  const cudnnStatus_t status = read_convolution(d, ignored);
  return status == CUDNN_STATUS_NOT_SUPPORTED ? CUDNN_STATUS_SUCCESS : status;
}

// Numbers from 0 on.
std::int64_t engine_count(const BackendDescriptor& graph) {
  if (const auto conv = graph_convolution(graph)) return algorithm_count(conv->direction);
  return fused_graph(graph) ? 1 : 0;
}

cudnnStatus_t finalize_graph(BackendDescriptor& d) {
  const BackendAttribute* const ops = d.find(CUDNN_ATTR_OPERATIONGRAPH_OPS);
  if (!ops || ops->descriptors.empty()) return incomplete();
  for (const auto& op : ops->descriptors) {
    if (!op || !op->finalized) return incomplete();
  }
  const std::int64_t engines = engine_count(d);
  d.derive(CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT, CUDNN_TYPE_INT64, std::vector{engines});
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t finalize_engine(BackendDescriptor& d) {
  const BackendDescriptor* const graph = d.part(CUDNN_ATTR_ENGINE_OPERATION_GRAPH);
  if (!graph || !d.find(CUDNN_ATTR_ENGINE_GLOBAL_INDEX)) return incomplete();
  const auto index = d.value<std::int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, -1);
  if (index < 0 || index >= engine_count(*graph)) {
    return fail(function, CUDNN_STATUS_NOT_SUPPORTED, "the graph has no such engine");
  }
  std::vector<cudnnBackendNumericalNote_t> notes;
  if (const auto conv = graph_convolution(*graph)) notes = numerical_notes(*conv, static_cast<int>(index));
  d.derive(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, notes);
  d.set({CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE, 0, {}, {}});
  d.set({CUDNN_ATTR_ENGINE_KNOB_INFO, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, {}, {}});
  return CUDNN_STATUS_SUCCESS;
}

// The graph as an engine does it, and the workspace that this takes in bytes.
cudnnStatus_t plan_of(const BackendDescriptor& config, BackendPlan& plan, std::int64_t& workspace) {
  const BackendDescriptor* const engine = config.part(CUDNN_ATTR_ENGINECFG_ENGINE);
  if (!engine) return incomplete();
  const BackendDescriptor& graph = *engine->part(CUDNN_ATTR_ENGINE_OPERATION_GRAPH);
  const auto conv = graph_convolution(graph);
  if (!conv) {
    plan.graph = *fused_graph(graph);
    workspace = 0;
    return CUDNN_STATUS_SUCCESS;
  }
  const auto index = static_cast<int>(engine->value<std::int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, -1));
  const ConvAlgorithm algorithm = describe_algorithm(conv->direction, index, conv->args.shape);
  if (!algorithm.supported) {
    return fail(function, CUDNN_STATUS_NOT_SUPPORTED, "the engine cannot do this convolution");
  }
  ConvPlan made{*conv};
  made.conv.args.workspace_bytes = algorithm.workspace;
  made.conv.args.flops = algorithm.flops;
  plan.graph = made;
  workspace = static_cast<std::int64_t>(algorithm.workspace);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t finalize_config(BackendDescriptor& d) {
  if (const BackendAttribute* const knobs = d.find(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES);
      knobs && knobs->count > 0) {
    return fail(function, CUDNN_STATUS_NOT_SUPPORTED, "the engine has no such knob");
  }
  BackendPlan plan;
  std::int64_t workspace = 0;
  if (auto status = plan_of(d, plan, workspace); status != CUDNN_STATUS_SUCCESS) return status;
  d.set({CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, {}, {}});
  d.derive(CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, CUDNN_TYPE_INT64, std::vector{workspace});
  return CUDNN_STATUS_SUCCESS;
}

std::vector<std::int64_t> proposed_engines(const BackendDescriptor& graph, cudnnBackendHeurMode_t mode) {
  if (const auto conv = graph_convolution(graph)) return proposed_engines(*conv, mode);
  if (fused_graph(graph)) return {0};
  return {};
}

cudnnStatus_t finalize_heuristics(BackendDescriptor& d) {
  const auto* const graph = d.find(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  if (!d.part(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH) || !d.find(CUDNN_ATTR_ENGINEHEUR_MODE))
    return incomplete();
  const auto mode = d.value(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_HEUR_MODE_INSTANT);
  BackendAttribute results{CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, {}, {}};
  for (const std::int64_t index : proposed_engines(*graph->descriptors.front(), mode)) {
    auto engine = std::make_shared<BackendDescriptor>();
    engine->type = CUDNN_BACKEND_ENGINE_DESCRIPTOR;
    engine->set(
        {CUDNN_ATTR_ENGINE_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, {}, graph->descriptors});
    engine->derive(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, std::vector{index});
    auto config = std::make_shared<BackendDescriptor>();
    config->type = CUDNN_BACKEND_ENGINECFG_DESCRIPTOR;
    if (finalize(*engine) != CUDNN_STATUS_SUCCESS) continue;
    config->set({CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, {}, {engine}});
    if (finalize(*config) == CUDNN_STATUS_SUCCESS) results.descriptors.push_back(config);
  }
  results.count = static_cast<std::int64_t>(results.descriptors.size());
  d.set(std::move(results));
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t finalize_plan(BackendDescriptor& d) {
  const BackendDescriptor* const config = d.part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  if (!config)
    return fail(function, CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "the plan has no engine configuration");
  auto plan = std::make_shared<BackendPlan>();
  std::int64_t workspace = 0;
  if (auto status = plan_of(*config, *plan, workspace); status != CUDNN_STATUS_SUCCESS) return status;
  d.derive(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, std::vector{workspace});
  d.plan = std::move(plan);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t finalize_pack(const BackendDescriptor& d) {
  if (d.values<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS).size() !=
      d.values<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS).size()) {
    return fail(function, CUDNN_STATUS_BAD_PARAM, "as many pointers as unique ids are needed");
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t complete(BackendDescriptor& d) {
  switch (d.type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
      return finalize_tensor(d);
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
      return finalize_convolution(d);
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
      return finalize_conv_operation(d);
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
      return finalize_graph(d);
    case CUDNN_BACKEND_ENGINE_DESCRIPTOR:
      return finalize_engine(d);
    case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR:
      return finalize_config(d);
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
      return finalize_heuristics(d);
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
      return finalize_plan(d);
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
      return finalize_pack(d);
    default:
      return CUDNN_STATUS_SUCCESS;
  }
}

}  // namespace

cudnnStatus_t finalize(BackendDescriptor& descriptor) {
  if (descriptor.finalized) return fail(function, CUDNN_STATUS_BAD_PARAM, "the descriptor is final already");
  const cudnnStatus_t status = complete(descriptor);
  descriptor.finalized = status == CUDNN_STATUS_SUCCESS;
  return status;
}

}  // namespace softgpu::cudnn
