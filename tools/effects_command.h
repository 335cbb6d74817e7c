// `pooch effects`: what kernels touch, read from their machine code.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "effects_server.h"

namespace pooch::tools {

struct EffectsOptions {
  std::vector<std::string> files;
  std::string kernel;      // part of the names
  std::string nvdisasm;    // empty: looked for
  unsigned arch = 0;       // 0: all
  std::size_t sample = 0;  // 0: all
  std::uint64_t seed = 1;
  bool json = false;
  EffectsServerOptions server;
};

// Returns the exit code.
int effects_command(const EffectsOptions& options);

}  // namespace pooch::tools
