#include "runtime/memory/held.h"

#include <thread>

namespace pooch::runtime {

void Held::pause(std::chrono::milliseconds time) {
  released([time] { std::this_thread::sleep_for(time); });
}

void Turn::await(Held& held) {
  if (inside_ == 0) return;
  ++held.releases_;
  left_.wait(held.lock_, [this] { return inside_ == 0; });
}

}  // namespace pooch::runtime
