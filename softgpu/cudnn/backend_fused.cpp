#include "softgpu/cudnn/backend_fused.h"

#include <algorithm>

#include "softgpu/cudnn/backend_descriptor.h"
#include "softgpu/cudnn/kernels.h"

namespace softgpu::cudnn {
namespace {

// What an operation writes; all else that it names it reads.
struct Operation {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t result;
};
constexpr Operation operations[] = {
    {CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, CUDNN_ATTR_OPERATION_MATMUL_CDESC},
    {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_YDESC},
    {CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, CUDNN_ATTR_OPERATION_REDUCTION_YDESC},
    {CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, CUDNN_ATTR_OPERATION_RESHAPE_YDESC},
    {CUDNN_BACKEND_OPERATION_RNG_DESCRIPTOR, CUDNN_ATTR_OPERATION_RNG_YDESC},
};

bool add_tensor(FusedPlan& plan, const BackendDescriptor& tensor, TouchKind kind) {
  if (tensor.value<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL, false) ||
      tensor.value<bool>(CUDNN_ATTR_TENSOR_IS_BY_VALUE, false))
    return true;
  const auto uid = tensor.value<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID, -1);
  auto* const end = plan.uids.begin() + plan.tensors;
  auto* const found = std::find(plan.uids.begin(), end, uid);
  FusedGraph::Tensor* const same = &plan.args.tensors[static_cast<std::size_t>(found - plan.uids.begin())];
  if (found != end) {
    // What one operation of a graph makes, another takes: nothing that was there before is read.
    if (kind == TouchKind::write) same->kind = kind;
    return true;
  }
  if (plan.tensors == FusedGraph::pointers) return false;
  *found = uid;
  ++plan.tensors;
  same->layout = layout_of(tensor);
  same->element_bytes =
      static_cast<std::uint32_t>(element_bytes(tensor.value(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_FLOAT)));
  same->kind = kind;
  return true;
}

// 2 b m n k.
double flops_of(const BackendDescriptor& product) {
  const BackendDescriptor* const a = product.part(CUDNN_ATTR_OPERATION_MATMUL_ADESC);
  const BackendDescriptor* const c = product.part(CUDNN_ATTR_OPERATION_MATMUL_CDESC);
  if (!a || !c) return 0;
  const Layout of_a = layout_of(*a);
  return 2.0 * static_cast<double>(element_count(layout_of(*c))) *
         static_cast<double>(of_a.dims[of_a.rank - 1]);
}

bool add_operation(FusedPlan& plan, const BackendDescriptor& operation) {
  const auto* const known = std::ranges::find(operations, operation.type, &Operation::type);
  if (known == std::end(operations)) return false;
  if (known->type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) plan.args.flops += flops_of(operation);
  return std::ranges::all_of(operation.attributes, [&](const BackendAttribute& attribute) {
    const TouchKind kind = attribute.name == known->result ? TouchKind::write : TouchKind::read;
    return std::ranges::all_of(attribute.descriptors, [&](const auto& part) {
      return !part || part->type != CUDNN_BACKEND_TENSOR_DESCRIPTOR || add_tensor(plan, *part, kind);
    });
  });
}

}  // namespace

void FusedGraph::footprint(const Pointers<pointers>& p, const Args& a, Footprint& out) {
  for (std::size_t i = 0; i < pointers && p[i] != 0; ++i) {
    const Tensor& tensor = a.tensors[i];
    add_touches(out, p[i], tensor.layout, tensor.kind, tensor.element_bytes);
    out.bytes += static_cast<double>(element_count(tensor.layout)) * tensor.element_bytes;
  }
  out.kind = "gemm";
  out.flops = a.flops;
}

std::optional<FusedPlan> fused_graph(const BackendDescriptor& graph) {
  const BackendAttribute* const ops = graph.find(CUDNN_ATTR_OPERATIONGRAPH_OPS);
  FusedPlan plan;
  if (!ops ||
      !std::ranges::all_of(ops->descriptors, [&](const auto& op) { return add_operation(plan, *op); }) ||
      plan.args.flops == 0)
    return std::nullopt;
  return plan;
}

cudnnStatus_t execute(const char* function, cudnnHandle_t handle, const FusedPlan& plan,
                      const BackendDescriptor& pack) {
  Pointers<FusedGraph::pointers> pointers{};
  for (std::size_t i = 0; i < plan.tensors; ++i) {
    pointers[i] = pointer_of(pack, plan.uids[i]);
    if (pointers[i] == 0)
      return fail(function, CUDNN_STATUS_BAD_PARAM, "the variant pack has no pointer for one of the tensors");
  }
  return launch<FusedGraph>(function, handle, element_count(plan.args.tensors[0].layout), pointers,
                            plan.args);
}

}  // namespace softgpu::cudnn
