// Errors are values: nothing of pooch throws across a hook into the user's program.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>

namespace pooch {

enum class ErrorCode : std::uint8_t {
  invalid_argument,  // the caller asked for something that makes no sense
  out_of_memory,     // device cap and host budget together cannot hold it
  not_supported,     // understood, but cannot be done here
  device,            // the driver refused; `Error::vendor_status` says how
  internal,          // a defect of pooch
};

struct Error {
  ErrorCode code = ErrorCode::internal;
  std::string message;    // one line, without a trailing newline
  int vendor_status = 0;  // CUresult where code is `device`
};

// A value or an Error. Check with `if (result)` before `*result`.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}      // NOLINT: implicit by design
  Result(Error error) : state_(std::move(error)) {}  // NOLINT: implicit by design

  explicit operator bool() const { return state_.index() == 0; }
  T& operator*() { return std::get<0>(state_); }
  const T& operator*() const { return std::get<0>(state_); }
  T* operator->() { return &std::get<0>(state_); }
  const T* operator->() const { return &std::get<0>(state_); }
  const Error& error() const { return std::get<1>(state_); }

 private:
  std::variant<T, Error> state_;
};

struct Done {};
// Success without a value: `return Done{};`.
using Status = Result<Done>;

}  // namespace pooch
