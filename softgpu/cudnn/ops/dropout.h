// Dropout. The generator is counter-based: element i of the call that begins at counter c is decided by
// (seed, c + i) alone. The states hold seed and counter, once per thread of a GPU, as the real library's do;
// each forward call advances them.
#pragma once

#include "softgpu/cudart/kernel_library.h"
#include "softgpu/cudnn/elements/layout.h"

namespace softgpu::cudnn {

struct DropoutState {
  std::uint64_t seed, counter, reserved[2];
};

// Pointers: states.
struct DropoutInitialise {
  static constexpr const char* name = "dropout_initialise";
  static constexpr std::size_t pointers = 1;
  struct Args {
    std::int64_t states;
    std::uint64_t seed;
  };
  static void footprint(const Pointers<1>& p, const Args& a, Footprint& out);
  static void run(const Pointers<1>& p, const Args& a);
};

// y = x / (1 - probability) where the mask says so, else 0. Pointers: states, x, y, mask.
struct DropoutForward {
  static constexpr const char* name = "dropout_forward";
  static constexpr std::size_t pointers = 4;
  struct Args {
    Layout x, y;
    std::int64_t states;
    float probability;
  };
  static void footprint(const Pointers<4>& p, const Args& a, Footprint& out);
  static void run(const Pointers<4>& p, const Args& a);
};

// Pointers: dy, dx, mask.
struct DropoutBackward {
  static constexpr const char* name = "dropout_backward";
  static constexpr std::size_t pointers = 3;
  struct Args {
    Layout dy, dx;
    float probability;
  };
  static void footprint(const Pointers<3>& p, const Args& a, Footprint& out);
  static void run(const Pointers<3>& p, const Args& a);
};

}  // namespace softgpu::cudnn
