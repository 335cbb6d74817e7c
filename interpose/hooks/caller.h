// Which loaded object an address belongs to.
#pragma once

#include <cstdint>

namespace pooch::interpose {

enum class Object : std::uint8_t { other, driver, cudnn, cublas, nccl };

// By the object's file name. Takes the dynamic linker's lock: never call it with the session's mutex held.
Object object_of(const void* address);

// Whether this return address lies in cuDNN, cuBLAS or NCCL (each carries its own runtime). Cached per
// thread; libraries of this kind stay loaded, so an entry does not go stale in practice.
bool called_from_library(const void* return_address);

}  // namespace pooch::interpose
