// A call that the device has no memory for is made once more when pooch has given some of its own back.
//
// The driver needs memory that nobody asks for: for code that it loads at a kernel's first launch, for local
// memory, streams and graphs. Where a call of the driver's returns CUDA_ERROR_OUT_OF_MEMORY it has done
// nothing, so it may always be made again. That holds inside of a library's call too: the library never
// learns of it.
#pragma once

#include "interpose/hooks/driver_api.h"

#include <cstdint>

#include "core/function_ref.h"
#include "interpose/hooks/libraries.h"
#include "interpose/hooks/scope.h"

namespace pooch::runtime {
class Session;
}

namespace pooch::interpose {

// `real`, an allocation of `bytes`, has found no memory on the session's device: what it returns in the end.
CUresult ask_again(runtime::Session& session, std::uint64_t bytes, FunctionRef<CUresult()> real);
// The same for any call, in the current context.
CUresult ask_again(const Scope& scope, FunctionRef<CUresult()> real);

template <class RealCall>
CUresult with_memory(const Scope& scope, RealCall&& real) {
  const CUresult status = real();
  return status == CUDA_ERROR_OUT_OF_MEMORY ? ask_again(scope, real) : status;
}

}  // namespace pooch::interpose

// An exported function of the driver's: the last argument decides what happens around `launch()`.
#define POOCH_DRIVER_HOOK(function, parameters, arguments, ...)                      \
  namespace {                                                                        \
  POOCH_REAL(cuda, function);                                                        \
  }                                                                                  \
  POOCH_EXPORT CUresult function parameters {                                        \
    const ::pooch::interpose::Scope scope;                                           \
    auto* const real = real_##function.get(scope);                                   \
    if (real == nullptr) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;                \
    const auto launch = [&] {                                                        \
      return ::pooch::interpose::with_memory(scope, [&] { return real arguments; }); \
    };                                                                               \
    __VA_ARGS__                                                                      \
  }
