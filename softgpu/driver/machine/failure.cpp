#include "softgpu/driver/machine/failure.h"

#include <charconv>

#include "softgpu/driver/machine/call_paths.h"

namespace softgpu {
namespace {

std::optional<CUresult> code_named(std::string_view name) {
  if (name == "UNKNOWN") return CUDA_ERROR_UNKNOWN;
  if (name == "OUT_OF_MEMORY") return CUDA_ERROR_OUT_OF_MEMORY;
  if (name == "ILLEGAL_ADDRESS") return CUDA_ERROR_ILLEGAL_ADDRESS;
  return std::nullopt;
}

}  // namespace

std::optional<Failure> Failure::parse(std::string_view text) {
  Failure failure;
  if (const std::size_t equals = text.find('='); equals != std::string_view::npos) {
    const auto code = code_named(text.substr(equals + 1));
    if (!code) return std::nullopt;
    failure.code_ = *code;
    text = text.substr(0, equals);
  }
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  failure.function_ = text.substr(0, colon);
  if (failure.function_ != "*" && !failure.function_.starts_with("cu")) return std::nullopt;
  std::string_view number = text.substr(colon + 1);
  failure.stays_ = number.ends_with('+');
  if (failure.stays_) number.remove_suffix(1);
  const char* const end = number.data() + number.size();
  const auto [stop, error] = std::from_chars(number.data(), end, failure.left_);
  if (error != std::errc{} || stop != end || failure.left_ == 0) return std::nullopt;
  return failure;
}

bool Failure::counts_down(const char* function, std::uint64_t number) {
  if ((function_ != "*" && function_ != function) || --left_ > 0) return false;
  if (stays_) left_ = 1;
  if (++times_ > 1) return true;
  first_ = {function, number, true, return_addresses()};
  return true;
}

}  // namespace softgpu
