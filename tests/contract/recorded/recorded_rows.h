// The functions that recorded_rows.cpp can call: the list is generated from their prototypes.
#pragma once

#define __CUDA_API_VERSION_INTERNAL 1
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda.h>
#include <cudnn.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

namespace recorded_rows {

using Words = std::vector<std::uint64_t>;
struct Function {
  const char* name;
  std::size_t arguments;
  int (*call)(const Words& words);
};
std::span<const Function> functions();

template <class Type>
Type as(std::uint64_t word) {
  if constexpr (std::is_pointer_v<Type>)
    return reinterpret_cast<Type>(word);
  else
    return static_cast<Type>(word);
}

}  // namespace recorded_rows
