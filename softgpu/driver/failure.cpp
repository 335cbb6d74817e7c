#include "softgpu/driver/failure.h"

#include <charconv>

namespace softgpu {

std::optional<Failure> Failure::parse(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos || !text.starts_with("cu")) return std::nullopt;
  Failure failure;
  failure.function_ = text.substr(0, colon);
  std::string_view number = text.substr(colon + 1);
  failure.stays_ = number.ends_with('+');
  if (failure.stays_) number.remove_suffix(1);
  const char* const end = number.data() + number.size();
  const auto [stop, error] = std::from_chars(number.data(), end, failure.left_);
  if (error != std::errc{} || stop != end || failure.left_ == 0) return std::nullopt;
  return failure;
}

bool Failure::strikes(std::string_view function) {
  if (left_ == 0 || function != function_ || --left_ > 0) return false;
  if (stays_) left_ = 1;
  return true;
}

}  // namespace softgpu
