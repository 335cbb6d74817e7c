// Ranges and markers of NVTX v3 in the domain `pooch`, for Nsight Systems and whatever else listens. Without
// a listener each costs a branch.
#pragma once

#include <cstdint>
#include <string_view>

namespace pooch::runtime::nvtx {

// Categories of the domain, by these names.
enum class Category : std::uint8_t { iteration, evict, prefetch, replay };

namespace detail {
extern bool attached;
void push(Category category, std::string_view name);
void pop();
std::uint64_t start(Category category, std::string_view name);
void end(std::uint64_t range);
void mark(std::string_view name);
}  // namespace detail

// Looks for a listener, and loads the one that NVTX_INJECTION64_PATH names: once, before other threads use
// what is below, and without a lock that the listener's own CUDA calls need.
void open();
inline bool attached() {
  return detail::attached;
}

// Around the submission of one action, on this thread: the listener finds the device's work inside.
class Range {
 public:
  Range(Category category, std::string_view name) : on_(attached()) {
    if (on_) detail::push(category, name);
  }
  ~Range() {
    if (on_) detail::pop();
  }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

 private:
  const bool on_;
};

// A range that may begin and end on different threads: one at a time, each start ends the one before.
class Iterations {
 public:
  void begin(std::string_view phase) {
    if (!attached()) return;
    end();
    range_ = detail::start(Category::iteration, phase);
  }
  void end() {
    if (range_ != 0) detail::end(range_);
    range_ = 0;
  }

 private:
  std::uint64_t range_ = 0;  // 0: none
};

inline void mark(std::string_view name) {
  if (attached()) detail::mark(name);
}

}  // namespace pooch::runtime::nvtx
