#include "softgpu/driver/machine/call_paths.h"

#include <execinfo.h>

namespace softgpu {

std::vector<void*> return_addresses() {
  void* frames[64];
  const int depth = backtrace(frames, 64);
  return std::vector<void*>(frames, frames + depth);  // braces would make a vector of these two
}

void CallPaths::add(const char* function, std::uint64_t number) {
  all_[{function, return_addresses()}].push_back(number);
}

}  // namespace softgpu
