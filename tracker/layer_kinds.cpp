#include "tracker/layer_kinds.h"

namespace pooch::tracker {
namespace {

// Down to one position per channel.
bool covers_everything(const ProfileOp& pooling) {
  if (pooling.shape.rank < 3) return false;
  for (int i = 2; i < pooling.shape.rank; ++i)
    if (pooling.shape.sizes[i] != 1) return false;
  return true;
}

}  // namespace

std::string layer_kind(const ProfileOp& op) {
  switch (op.kind) {
    case OpKind::conv_forward:
      return "convolution";
    case OpKind::batch_norm_forward:
      return "batch_norm";
    case OpKind::activation_forward:
      return op.mode.empty() ? "activation" : op.mode;
    case OpKind::pooling_forward:
      if (op.mode == "average") return covers_everything(op) ? "global_average" : "average_pooling";
      return "max_pooling";
    case OpKind::softmax_forward:
      return "softmax";
    case OpKind::response_norm_forward:
      return "response_norm";
    case OpKind::dropout_forward:
      return "dropout";
    case OpKind::gemm:
      return "linear";
    case OpKind::elementwise:
      return op.mode.empty() || op.mode == "add" ? "addition" : op.mode;
    default:
      return std::string(name(op.kind));
  }
}

bool works_in_place(OpKind kind) {
  return kind != OpKind::conv_forward && kind != OpKind::pooling_forward && kind != OpKind::gemm &&
         kind != OpKind::response_norm_forward;
}

bool takes_data(OpKind kind) {
  return has_parameters(kind);
}

bool has_parameters(OpKind kind) {
  return kind == OpKind::conv_forward || kind == OpKind::gemm;
}

bool is_backward_of(const ProfileOp& op, const ProfileOp& forward) {
  switch (op.kind) {
    case OpKind::conv_backward_data:
    case OpKind::conv_backward_filter:
      return forward.kind == OpKind::conv_forward;
    case OpKind::batch_norm_backward:
      return forward.kind == OpKind::batch_norm_forward;
    case OpKind::activation_backward:
      return forward.kind == OpKind::activation_forward;
    case OpKind::pooling_backward:
      return forward.kind == OpKind::pooling_forward;
    case OpKind::softmax_backward:
    case OpKind::blas:  // the gradient of a cross entropy, made from the softmax by a difference
      return forward.kind == OpKind::softmax_forward;
    case OpKind::response_norm_backward:
      return forward.kind == OpKind::response_norm_forward;
    case OpKind::dropout_backward:
      return forward.kind == OpKind::dropout_forward;
    case OpKind::gemm:
      return forward.kind == OpKind::gemm;
    case OpKind::elementwise:
    case OpKind::bare_launch:
    case OpKind::kernel:
      return forward.kind == op.kind;
    case OpKind::launch_backward:
    case OpKind::kernel_backward:
      return forward.kind == OpKind::launch_forward || forward.kind == OpKind::kernel_forward;
    default:
      return false;
  }
}

std::uint64_t shape_bytes(const Shape& shape, std::uint64_t span) {
  if (shape.rank == 0 || shape.element_bytes == 0) return span;
  std::uint64_t bytes = shape.element_bytes;
  for (int i = 0; i < shape.rank; ++i) bytes *= static_cast<std::uint64_t>(shape.sizes[i]);
  return bytes;
}

}  // namespace pooch::tracker
