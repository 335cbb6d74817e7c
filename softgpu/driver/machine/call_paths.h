// Which ways through a program's and its libraries' code lead to driver calls, where SOFTGPU_CALL_PATHS is
// set: for whoever wants to fail one call of each.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace softgpu {

class CallPaths {
 public:
  // The function's name, which is compared by address, and return addresses, the innermost first.
  using Path = std::pair<const char*, std::vector<void*>>;

  void enable() { enabled_ = true; }
  bool enabled() const { return enabled_; }
  // A call of this function has begun, the `number`-th of all.
  void note(const char* function, std::uint64_t number) {
    if (enabled_) add(function, number);
  }
  const std::map<Path, std::vector<std::uint64_t>>& all() const { return all_; }

 private:
  void add(const char* function, std::uint64_t number);

  bool enabled_ = false;
  std::map<Path, std::vector<std::uint64_t>> all_;
};

// Return addresses of the calling thread, the innermost first, 64 at most.
std::vector<void*> return_addresses();

}  // namespace softgpu
