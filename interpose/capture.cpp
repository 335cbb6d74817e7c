#include "interpose/capture.h"

#include <atomic>

namespace pooch::interpose {
namespace {

constinit std::atomic<std::size_t> captures{0};

}  // namespace

bool any_capture() {
  return captures.load(std::memory_order_relaxed) != 0;
}

void set_captures(std::size_t count) {
  captures.store(count);
}

}  // namespace pooch::interpose
