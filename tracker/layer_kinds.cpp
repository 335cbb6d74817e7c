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
    case OpKind::pooling_forward:
      if (op.mode == "average") return covers_everything(op) ? "global_average" : "average_pooling";
      break;
    case OpKind::activation_forward:
      if (!op.mode.empty()) return op.mode;
      break;
    case OpKind::elementwise:
      if (!op.mode.empty() && op.mode != "add") return op.mode;
      break;
    default:
      break;
  }
  return std::string(facts(op.kind).layer);
}

std::uint64_t shape_bytes(const Shape& shape, std::uint64_t span) {
  if (shape.rank == 0 || shape.element_bytes == 0) return span;
  std::uint64_t bytes = shape.element_bytes;
  for (int i = 0; i < shape.rank; ++i) bytes *= static_cast<std::uint64_t>(shape.sizes[i]);
  return bytes;
}

}  // namespace pooch::tracker
