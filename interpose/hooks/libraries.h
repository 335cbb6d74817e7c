// The vendor libraries behind the wrappers, and their real functions.
#pragma once

#include <atomic>
#include <cstdint>

#include "interpose/hooks/scope.h"

namespace pooch::interpose {

enum class Library : std::uint8_t { cuda, cudnn, cublas, cublaslt, nccl };

// The function that the library itself exports under this name: from the loaded library of the expected
// SONAME, else the next one in search order. nullptr, after one line in the log, where there is none.
void* resolve(Library library, const char* name);
// The same without a line in the log.
void* find_real(Library library, const char* name);

// A vendor function, looked up at its first call. Constant-initialised, since hooks may be called before this
// library's initialisers ran.
template <class Function>
class Real {
 public:
  constexpr Real(Library library, const char* name) : name_(name), library_(library) {}

  // nullptr where the library or the function is missing. The scope proves that re-entry is counted.
  Function* get(const Scope&) {
    if (void* known = cached_.load(std::memory_order_acquire)) return reinterpret_cast<Function*>(known);
    void* found = resolve(library_, name_);
    if (found != nullptr) cached_.store(found, std::memory_order_release);
    return reinterpret_cast<Function*>(found);
  }
  // For optional functions: no line in the log.
  Function* get_if_present(const Scope&) {
    if (void* known = cached_.load(std::memory_order_acquire)) return reinterpret_cast<Function*>(known);
    void* found = find_real(library_, name_);
    if (found != nullptr) cached_.store(found, std::memory_order_release);
    return reinterpret_cast<Function*>(found);
  }

  // What an earlier call found; nullptr before. For calls from within a Scope that is already open.
  Function* known() const { return reinterpret_cast<Function*>(cached_.load(std::memory_order_acquire)); }

 private:
  const char* name_;
  std::atomic<void*> cached_{nullptr};
  Library library_;
};

// A slot for the real function of this exact name.
#define POOCH_REAL(library, function)                                        \
  constinit ::pooch::interpose::Real<decltype(::function)> real_##function { \
    ::pooch::interpose::Library::library, #function                          \
  }

}  // namespace pooch::interpose

#define POOCH_EXPORT extern "C" __attribute__((visibility("default")))
// What programs that are bound by their launches call most is kept together, as are the functions below it
// that are [[gnu::hot]]: each page of code that a call touches costs such a program time.
#define POOCH_HOT_EXPORT extern "C" __attribute__((visibility("default"), hot))

// An exported function: the last argument decides what happens around `launch()`, the real call, within
// `scope`.
#define POOCH_HOOK(library, result, missing, function, parameters, arguments, ...) \
  namespace {                                                                      \
  POOCH_REAL(library, function);                                                   \
  }                                                                                \
  POOCH_EXPORT result function parameters {                                        \
    const Scope scope;                                                             \
    auto* const real = real_##function.get(scope);                                 \
    if (real == nullptr) return missing;                                           \
    const auto launch = [&] { return real arguments; };                            \
    __VA_ARGS__                                                                    \
  }
// With its second name.
#define POOCH_NCCL_HOOKS(function, parameters, arguments, ...)                                  \
  POOCH_HOOK(nccl, ncclResult_t, ncclSystemError, function, parameters, arguments, __VA_ARGS__) \
  POOCH_HOOK(nccl, ncclResult_t, ncclSystemError, p##function, parameters, arguments, __VA_ARGS__)
