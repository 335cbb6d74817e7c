#include "softgpu/cudnn/backend/backend_fused.h"

#include <algorithm>

#include "softgpu/cudnn/backend/backend_descriptor.h"
#include "softgpu/cudnn/descriptors/launch.h"

namespace softgpu::cudnn {
namespace {

// 2 b m n k.
double product_flops(const BackendDescriptor& product) {
  const BackendDescriptor* const a = product.part(CUDNN_ATTR_OPERATION_MATMUL_ADESC);
  const BackendDescriptor* const c = product.part(CUDNN_ATTR_OPERATION_MATMUL_CDESC);
  if (!a || !c) return 0;
  const Layout of_a = layout_of(*a);
  return 2.0 * static_cast<double>(element_count(layout_of(*c))) *
         static_cast<double>(of_a.dims[of_a.rank - 1]);
}

// Of attention in one operation: `wide` products of queries with as many columns as a query has, and `narrow`
// with as many as a value, each for all queries and keys. Tensors are [sequences, heads, rows, columns].
double attention_flops(const BackendDescriptor* q, const BackendDescriptor* v, double wide, double narrow) {
  if (!q || !v) return 0;
  const Layout queries = layout_of(*q), values = layout_of(*v);
  if (queries.rank != 4 || values.rank != 4) return 0;
  const auto rows = static_cast<double>(element_count(queries)) / static_cast<double>(queries.dims[3]);
  return 2 * rows * static_cast<double>(values.dims[2]) *
         (wide * static_cast<double>(queries.dims[3]) + narrow * static_cast<double>(values.dims[3]));
}

double attention_forward_flops(const BackendDescriptor& op) {
  return attention_flops(op.part(CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC),
                         op.part(CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC), 1, 1);
}
double attention_backward_flops(const BackendDescriptor& op) {
  return attention_flops(op.part(CUDNN_ATTR_OPERATION_SDPA_BWD_QDESC),
                         op.part(CUDNN_ATTR_OPERATION_SDPA_BWD_VDESC), 3, 2);
}

double no_flops(const BackendDescriptor&) {
  return 0;
}

// What an operation writes, 0 behind the last, which is no attribute of operations; all else that it names it
// reads. And the matrix products in it.
struct Operation {
  cudnnBackendDescriptorType_t type;
  std::array<cudnnBackendAttributeName_t, 3> results;
  double (*flops)(const BackendDescriptor&);
};
constexpr Operation operations[] = {
    {CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, {CUDNN_ATTR_OPERATION_MATMUL_CDESC}, &product_flops},
    {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, {CUDNN_ATTR_OPERATION_POINTWISE_YDESC}, &no_flops},
    {CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, {CUDNN_ATTR_OPERATION_REDUCTION_YDESC}, &no_flops},
    {CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, {CUDNN_ATTR_OPERATION_RESHAPE_YDESC}, &no_flops},
    {CUDNN_BACKEND_OPERATION_RNG_DESCRIPTOR, {CUDNN_ATTR_OPERATION_RNG_YDESC}, &no_flops},
    {CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR,
     {CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC, CUDNN_ATTR_OPERATION_SDPA_FWD_STATSDESC},
     &attention_forward_flops},
    {CUDNN_BACKEND_OPERATION_SDPA_BWD_DESCRIPTOR,
     {CUDNN_ATTR_OPERATION_SDPA_BWD_DQDESC, CUDNN_ATTR_OPERATION_SDPA_BWD_DKDESC,
      CUDNN_ATTR_OPERATION_SDPA_BWD_DVDESC},
     &attention_backward_flops},
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

bool add_operation(FusedPlan& plan, const BackendDescriptor& operation) {
  const auto* const known = std::ranges::find(operations, operation.type, &Operation::type);
  if (known == std::end(operations)) return false;
  plan.args.flops += known->flops(operation);
  return std::ranges::all_of(operation.attributes, [&](const BackendAttribute& attribute) {
    const bool written = std::ranges::count(known->results, attribute.name) > 0;
    const TouchKind kind = written ? TouchKind::write : TouchKind::read;
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
