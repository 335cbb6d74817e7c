// A call that fails because a test wants it to, by SOFTGPU_FAIL=FUNCTION:N[+][=CODE]: the N-th call of a
// driver function, or of all functions together where FUNCTION is *, does nothing and returns an error; with
// + so do all calls of it that follow.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace softgpu {

class Failure {
 public:
  Failure() = default;  // none
  // Empty where the text cannot be understood.
  static std::optional<Failure> parse(std::string_view text);
  static const char* accepted() { return "FUNCTION:N[+][=UNKNOWN|OUT_OF_MEMORY|ILLEGAL_ADDRESS], N from 1"; }
  // A call of this function has begun, the `number`-th of all. Whether it fails.
  bool strikes(const char* function, std::uint64_t number) {
    return left_ != 0 && counts_down(function, number);
  }
  // CUDA_ERROR_ILLEGAL_ADDRESS stays as it does on silicon: every later call fails with it.
  CUresult code() const { return code_; }

  // The call that fails breaks the context, which it does not need itself: it succeeds.
  void succeeds() { first_.told = false; }

  // The first call that failed so, and who made it: return addresses, the innermost first.
  struct Struck {
    const char* function = nullptr;  // null: none did
    std::uint64_t call = 0;
    bool told = true;  // the call itself returned the error
    std::vector<void*> stack;
  };
  const Struck& first() const { return first_; }
  std::uint64_t times() const { return times_; }

 private:
  bool counts_down(const char* function, std::uint64_t number);

  std::string function_;    // * for all
  std::uint64_t left_ = 0;  // calls until it fails, this one included
  bool stays_ = false;
  CUresult code_ = CUDA_ERROR_UNKNOWN;
  Struck first_;
  std::uint64_t times_ = 0;
};

}  // namespace softgpu
