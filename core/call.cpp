#include "core/call.h"

#include <algorithm>
#include <iterator>

namespace pooch {
namespace {

struct Entry {
  std::string_view name;
  Direction direction;
};

// By enumerator.
constexpr Entry entries[] = {
    {"conv_forward", Direction::forward},
    {"conv_backward_data", Direction::backward},
    {"conv_backward_filter", Direction::backward},
    {"conv_backward_bias", Direction::backward},
    {"batch_norm_forward", Direction::forward},
    {"batch_norm_backward", Direction::backward},
    {"activation_forward", Direction::forward},
    {"activation_backward", Direction::backward},
    {"pooling_forward", Direction::forward},
    {"pooling_backward", Direction::backward},
    {"softmax_forward", Direction::forward},
    {"softmax_backward", Direction::backward},
    {"response_norm_forward", Direction::forward},
    {"response_norm_backward", Direction::backward},
    {"dropout_forward", Direction::forward},
    {"dropout_backward", Direction::backward},
    {"elementwise", Direction::either},
    {"gemm", Direction::either},
    {"blas", Direction::either},
    {"copy_in", Direction::either},
    {"copy_out", Direction::either},
    {"copy_device", Direction::either},
    {"set", Direction::either},
    {"bare_launch", Direction::either},
    {"launch_forward", Direction::forward},
    {"launch_backward", Direction::backward},
    {"collective", Direction::either},
    {"kernel", Direction::either},
    {"kernel_forward", Direction::forward},
    {"kernel_backward", Direction::backward},
};
static_assert(std::size(entries) == static_cast<std::size_t>(last_op_kind) + 1);

}  // namespace

std::string_view name(OpKind kind) {
  return entries[static_cast<std::size_t>(kind)].name;
}

std::optional<OpKind> parse_op_kind(std::string_view text) {
  const auto found =
      std::find_if(std::begin(entries), std::end(entries), [&](const Entry& e) { return e.name == text; });
  if (found == std::end(entries)) return std::nullopt;
  return static_cast<OpKind>(found - std::begin(entries));
}

Direction direction(OpKind kind) {
  return entries[static_cast<std::size_t>(kind)].direction;
}

}  // namespace pooch
