// `pooch effects --serve`: what kernels touch, for a library that asks as kernels are launched.
#pragma once

#include <string>

namespace pooch::tools {

struct EffectsServerOptions {
  bool serve = false;
  std::string cache;     // folder for what was found out; empty: nothing is kept
  std::string packages;  // folder of Python's packages, where Triton may lie; empty: none
  std::string nvdisasm;  // empty: looked for
};

// Answers questions from the socket that is open as file 3 until nobody asks any more. One packet each:
//
//   {"ticket":3,"name":"_Z…","architecture":90,"file":"…","offset":4096}   the code lies there, or in the
//   open
//                                                                         file that comes along
//   {"ticket":3,"kernel":{…}}   as in `pooch effects --json`
//   {"ticket":3,"error":"…"}    its code cannot be read
//   {"error":"…"}               no kernel's code can be read
//
// Returns the exit code.
int serve_effects(const EffectsServerOptions& options);

}  // namespace pooch::tools
