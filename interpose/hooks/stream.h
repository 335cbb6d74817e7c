// Streams as the program names them.
#pragma once

#include <cstdint>

#include "core/ids.h"

namespace pooch::interpose {

// StreamHandle::legacy or per_thread stand for a zero handle, by the ABI it was given to.
inline StreamHandle stream_of(const void* stream, StreamHandle for_zero = StreamHandle::legacy) {
  return stream == nullptr ? for_zero : StreamHandle{reinterpret_cast<std::uintptr_t>(stream)};
}

}  // namespace pooch::interpose
