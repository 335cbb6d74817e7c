// cudnnReduceTensor and its descriptor.
#include "softgpu/cudnn/ops/reduce.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "softgpu/cudnn/descriptors/launch.h"
#include "softgpu/cudnn/elements/two_threads.h"

namespace softgpu::cudnn {
namespace {

// a's dimensions over which one element of c is made, with their strides in a.
Layout reduced_part(const Layout& a, const Layout& c) {
  Layout part{};
  for (int d = 0; d < a.rank; ++d) {
    if (c.dims[d] != 1 || a.dims[d] == 1) continue;
    part.dims[part.rank] = a.dims[d];
    part.strides[part.rank++] = a.strides[d];
  }
  return part;
}

// a with only those dimensions that c keeps.
Layout kept_part(const Layout& a, const Layout& c) {
  Layout part = c;
  std::copy(a.strides, a.strides + a.rank, part.strides);
  return part;
}

bool finds_extreme(cudnnReduceTensorOp_t op) {
  return op == CUDNN_REDUCE_TENSOR_MIN || op == CUDNN_REDUCE_TENSOR_MAX || op == CUDNN_REDUCE_TENSOR_AMAX;
}

struct Result {
  double value;
  std::uint32_t index;  // of an extreme, among the reduced elements
};

// f(number, value) over the elements of one reduction, in order.
template <class F>
void each_element(const float* a, const MergedLayouts<1>& part, F f) {
  const std::int64_t rows = part.rows();
  for (std::int64_t r = 0; r < rows; ++r) {
    const Row<1> row = part.row(r);
    const float* from = a + row.offsets[0];
    for (std::int64_t i = 0; i < row.length; ++i) f(r * row.length + i, from[i * row.strides[0]]);
  }
}

// The first one wins. NaN wins where it is to be propagated, else it never does.
Result extreme(const float* a, const MergedLayouts<1>& part, cudnnReduceTensorOp_t op, bool propagate_nan) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  Result best{op == CUDNN_REDUCE_TENSOR_MIN ? infinity : -infinity, 0};
  bool found = false;
  each_element(a, part, [&](std::int64_t i, float value) {
    if (op == CUDNN_REDUCE_TENSOR_AMAX) value = std::fabs(value);
    if (std::isnan(best.value)) return;
    const bool better = op == CUDNN_REDUCE_TENSOR_MIN ? value < best.value : value > best.value;
    if (std::isnan(value) ? !propagate_nan : found && !better) return;
    best = {value, static_cast<std::uint32_t>(i)};
    found = true;
  });
  return best;
}

template <class F>
double sum(const float* a, const MergedLayouts<1>& part, F f) {
  double result = 0;
  each_element(a, part, [&](std::int64_t, float v) { result += f(static_cast<double>(v)); });
  return result;
}

Result reduced(const float* a, const MergedLayouts<1>& part, double count, const ReduceTensor::Args& args) {
  double product = 1;
  switch (args.op) {
    case CUDNN_REDUCE_TENSOR_ADD:
      return {sum(a, part, [](double v) { return v; }), 0};
    case CUDNN_REDUCE_TENSOR_AVG:
      return {sum(a, part, [](double v) { return v; }) / count, 0};
    case CUDNN_REDUCE_TENSOR_NORM1:
      return {sum(a, part, [](double v) { return std::fabs(v); }), 0};
    case CUDNN_REDUCE_TENSOR_NORM2:
      return {std::sqrt(sum(a, part, [](double v) { return v * v; })), 0};
    case CUDNN_REDUCE_TENSOR_MUL:
      each_element(a, part, [&](std::int64_t, float v) { product *= static_cast<double>(v); });
      return {product, 0};
    case CUDNN_REDUCE_TENSOR_MUL_NO_ZEROS:
      each_element(a, part,
                   [&](std::int64_t, float v) { product *= v == 0.0F ? 1.0 : static_cast<double>(v); });
      return {product, 0};
    default:
      return extreme(a, part, args.op, args.propagate_nan != 0);
  }
}

// Large reductions go in two steps: partial results of 4096 elements, at most 64 per result.
std::size_t workspace_bytes(const Layout& a, const Layout& c) {
  constexpr std::int64_t piece = 4096;
  constexpr std::int64_t most_pieces = 64;
  const std::int64_t pieces = std::min(element_count(a) / element_count(c) / piece, most_pieces);
  return pieces < 2 ? 0 : static_cast<std::size_t>(pieces * element_count(c)) * sizeof(float);
}

std::size_t indices_bytes(const cudnnReduceTensorStruct& reduce, const Layout& c) {
  if (reduce.indices == CUDNN_REDUCE_TENSOR_NO_INDICES || !finds_extreme(reduce.op)) return 0;
  return static_cast<std::size_t>(element_count(c)) * sizeof(std::uint32_t);
}

cudnnStatus_t check_reduction(const char* function, const cudnnReduceTensorStruct* reduce,
                              const cudnnTensorStruct* a, const cudnnTensorStruct* c) {
  if (!reduce) return null_argument(function);
  if (!reduce->set) return fail(function, CUDNN_STATUS_BAD_PARAM, "the reduction's descriptor is not set");
  if (reduce->compute_type != CUDNN_DATA_FLOAT) return not_float(function);
  if (reduce->indices_type != CUDNN_32BIT_INDICES) {
    return fail(function, CUDNN_STATUS_NOT_SUPPORTED, "only CUDNN_32BIT_INDICES");
  }
  if (auto status = check_tensors(function, {a, c}); status != CUDNN_STATUS_SUCCESS) return status;
  if (!broadcastable(c->layout, a->layout)) {
    return fail(function, CUDNN_STATUS_BAD_PARAM, "C's dimensions are neither A's nor 1");
  }
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

void ReduceTensor::footprint(const Pointers<4>& p, const Args& a, Footprint& out) {
  const auto from = static_cast<double>(element_count(a.a));
  const auto to = static_cast<double>(element_count(a.c));
  add_touches(out, p[0], a.a, TouchKind::read);
  add_touches(out, p[1], a.c, written(a.beta));
  add_touch(out, p[2], 4 * static_cast<std::uint64_t>(element_count(a.c)), TouchKind::write);
  add_touch(out, p[3], a.workspace_bytes, TouchKind::write);
  out.kind = "reduce";
  out.flops = from;
  out.bytes = 4 * (from + to * (a.beta == 0.0F ? 1 : 2) + (p[2] ? to : 0)) +
              2 * static_cast<double>(a.workspace_bytes);
}

void ReduceTensor::run(const Pointers<4>& p, const Args& a) {
  const MergedLayouts<2> results({a.c, kept_part(a.a, a.c)});
  const MergedLayouts<1> part({reduced_part(a.a, a.c)});
  const std::int64_t length = results.dims[results.rank - 1];
  const double count = static_cast<double>(element_count(a.a)) / static_cast<double>(element_count(a.c));
  in_two(element_count(a.c), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const Row<2> row = results.row(i / length);
      float& c = device_memory(p[1])[row.offsets[0] + i % length * row.strides[0]];
      const float* from = device_memory<const float>(p[0]) + row.offsets[1] + i % length * row.strides[1];
      const Result result = reduced(from, part, count, a);
      const float value = a.alpha * static_cast<float>(result.value);
      c = a.beta == 0.0F ? value : value + a.beta * c;
      if (p[2]) device_memory<std::uint32_t>(p[2])[i] = result.index;
    }
  });
}

}  // namespace softgpu::cudnn

using namespace softgpu::cudnn;

SOFTGPU_CUDNN cudnnStatus_t cudnnCreateReduceTensorDescriptor(cudnnReduceTensorDescriptor_t* reduce) {
  return create_descriptor(__func__, reduce);
}
SOFTGPU_CUDNN cudnnStatus_t cudnnDestroyReduceTensorDescriptor(cudnnReduceTensorDescriptor_t reduce) {
  delete reduce;
  return CUDNN_STATUS_SUCCESS;
}

SOFTGPU_CUDNN cudnnStatus_t cudnnSetReduceTensorDescriptor(
    cudnnReduceTensorDescriptor_t reduce, cudnnReduceTensorOp_t op, cudnnDataType_t compute_type,
    cudnnNanPropagation_t nan, cudnnReduceTensorIndices_t indices, cudnnIndicesType_t indices_type) {
  if (!reduce) return null_argument(__func__);
  if (op < CUDNN_REDUCE_TENSOR_ADD || op > CUDNN_REDUCE_TENSOR_MUL_NO_ZEROS) {
    return fail(__func__, CUDNN_STATUS_BAD_PARAM, "unknown operation");
  }
  *reduce = {true, op, compute_type, nan, indices, indices_type};
  return CUDNN_STATUS_SUCCESS;
}

SOFTGPU_CUDNN cudnnStatus_t cudnnGetReduceTensorDescriptor(
    const cudnnReduceTensorDescriptor_t reduce, cudnnReduceTensorOp_t* op, cudnnDataType_t* compute_type,
    cudnnNanPropagation_t* nan, cudnnReduceTensorIndices_t* indices, cudnnIndicesType_t* indices_type) {
  if (any_null(reduce, op, compute_type, nan, indices, indices_type)) return null_argument(__func__);
  *op = reduce->op;
  *compute_type = reduce->compute_type;
  *nan = reduce->nan;
  *indices = reduce->indices;
  *indices_type = reduce->indices_type;
  return CUDNN_STATUS_SUCCESS;
}

SOFTGPU_CUDNN cudnnStatus_t cudnnGetReductionIndicesSize(cudnnHandle_t handle,
                                                         const cudnnReduceTensorDescriptor_t reduce,
                                                         const cudnnTensorDescriptor_t a_desc,
                                                         const cudnnTensorDescriptor_t c_desc,
                                                         std::size_t* bytes) {
  if (any_null(handle, bytes)) return null_argument(__func__);
  auto status = check_reduction(__func__, reduce, a_desc, c_desc);
  if (status == CUDNN_STATUS_SUCCESS) *bytes = indices_bytes(*reduce, c_desc->layout);
  return status;
}

SOFTGPU_CUDNN cudnnStatus_t cudnnGetReductionWorkspaceSize(cudnnHandle_t handle,
                                                           const cudnnReduceTensorDescriptor_t reduce,
                                                           const cudnnTensorDescriptor_t a_desc,
                                                           const cudnnTensorDescriptor_t c_desc,
                                                           std::size_t* bytes) {
  if (any_null(handle, bytes)) return null_argument(__func__);
  auto status = check_reduction(__func__, reduce, a_desc, c_desc);
  if (status == CUDNN_STATUS_SUCCESS) *bytes = workspace_bytes(a_desc->layout, c_desc->layout);
  return status;
}

SOFTGPU_CUDNN cudnnStatus_t cudnnReduceTensor(
    cudnnHandle_t handle, const cudnnReduceTensorDescriptor_t reduce, void* indices, std::size_t indices_size,
    void* workspace, std::size_t workspace_size, const void* alpha, const cudnnTensorDescriptor_t a_desc,
    const void* a, const void* beta, const cudnnTensorDescriptor_t c_desc, void* c) {
  if (any_null(handle, alpha, a, beta, c)) return null_argument(__func__);
  if (auto status = check_reduction(__func__, reduce, a_desc, c_desc); status != CUDNN_STATUS_SUCCESS) {
    return status;
  }
  const std::size_t needed = workspace_bytes(a_desc->layout, c_desc->layout);
  const std::size_t indices_needed = indices_bytes(*reduce, c_desc->layout);
  if (needed > workspace_size || (needed > 0 && !workspace) || indices_needed > indices_size ||
      (indices_needed > 0 && !indices)) {
    return fail(__func__, CUDNN_STATUS_BAD_PARAM, "the workspace or the indices' memory is too small");
  }
  if (a == c) return fail(__func__, CUDNN_STATUS_BAD_PARAM, "A and C may not be the same memory");
  const ReduceTensor::Args args{
      a_desc->layout, c_desc->layout, reduce->op,  reduce->nan == CUDNN_PROPAGATE_NAN ? 1 : 0,
      needed,         scalar(alpha),  scalar(beta)};
  return launch<ReduceTensor>(
      __func__, handle, element_count(args.a),
      {address(a), address(c), indices_needed > 0 ? address(indices) : 0, address(workspace)}, args);
}
