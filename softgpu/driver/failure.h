// A call that fails because a test wants it to: SOFTGPU_FAIL=FUNCTION:N, the N-th call of a driver function,
// or FUNCTION:N+, that one and all after it. The call does nothing and returns CUDA_ERROR_UNKNOWN.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace softgpu {

class Failure {
 public:
  Failure() = default;  // none
  // Empty where the text cannot be understood.
  static std::optional<Failure> parse(std::string_view text);
  // A call of this function has begun: does it fail?
  bool strikes(std::string_view function);

 private:
  std::string function_;
  std::uint64_t left_ = 0;  // calls until it fails, this one included
  bool stays_ = false;
};

}  // namespace softgpu
