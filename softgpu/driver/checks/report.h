// What a run did, for SOFTGPU_REPORT, and what it did wrong.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "softgpu/driver/terms/clock.h"

namespace softgpu {

// One side of a violation: an operation and what it did to the bytes.
struct Deed {
  Access by;
  const char* verb = "";  // "reads", "writes", "frees", …
};

struct Violation {
  const char* kind;  // unmapped, freed, out-of-bounds, unwritten, race, double-free, invalid-free
  Deed a;
  Deed b;  // without `by` where there is no second operation
  std::uint64_t begin = 0, end = 0;
  const char* space = "device";  // whose addresses these are: device or host
};

struct Statistics {
  std::uint64_t api_calls = 0, kernels = 0, vmm_calls = 0;
  std::unordered_map<const char*, std::uint64_t> calls;  // by function; one name may be there twice
  std::uint64_t indirect_touches =
      0;  // ranges that kernels touched without a parameter that points into them
  std::uint64_t copies_in = 0, bytes_in = 0;    // host to device
  std::uint64_t copies_out = 0, bytes_out = 0;  // device to host
  std::uint64_t copies_device = 0, bytes_device = 0;
};

class Violations {
 public:
  // Prints one line to stderr and keeps it. `fatal`: every later call fails.
  void add(const Violation& violation, bool fatal);
  bool sticky() const { return sticky_; }
  // Every later call fails, though nothing was done wrong.
  void stick() { sticky_ = true; }
  const std::vector<Violation>& all() const { return all_; }

 private:
  std::vector<Violation> all_;
  bool sticky_ = false;
};

// "conv_fwd, stream 3, call 120"
std::string describe(const Access& access);

}  // namespace softgpu
