// Every name for which a wrapper exists. The tables are generated and sorted by name.
#pragma once

#include <span>
#include <string_view>

#include "interpose/hooks/libraries.h"

namespace pooch::interpose {

struct Wrapper {
  const char* name;  // the exact exported name
  Library library;
  void* (*address)();  // of the wrapper
  // For the driver: what cuGetProcAddress calls this ABI. It means `name` for `base` in versions [from, to).
  const char* base;
  int from, to;
  bool per_thread;  // the ABI for the per-thread default stream
};

extern constinit const std::span<const Wrapper> cuda_wrappers, cudnn_wrappers, cublas_wrappers;

// A function's address as a constant-initialised table can name it.
template <auto Function>
void* address_of() {
  return reinterpret_cast<void*>(Function);
}

// nullptr where no wrapper has this name.
const Wrapper* find_wrapper(std::string_view name);

// The driver wrapper that a look-up through cuGetProcAddress means, going by the toolkit's headers; nullptr
// where that ABI has none.
const Wrapper* find_wrapper(std::string_view base, int version, bool per_thread);

}  // namespace pooch::interpose
