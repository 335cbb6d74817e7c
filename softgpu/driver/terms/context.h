// A context: what streams, events and allocations belong to.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <map>

#include "softgpu/driver/terms/stream.h"

namespace softgpu {

struct Context {
  int device = 0;
  unsigned flags = 0;
  bool primary = false;
  bool alive = true;
  unsigned retained = 0;  // primary: cuDevicePrimaryCtxRetain less Release
  std::uint64_t id = 0;
  StreamPtr legacy;
  std::map<CUlimit, std::size_t> limits;  // those that were set
};

}  // namespace softgpu
