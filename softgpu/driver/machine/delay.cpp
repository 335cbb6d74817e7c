#include "softgpu/driver/machine/delay.h"

#include <atomic>
#include <chrono>
#include <random>
#include <thread>

namespace softgpu {
namespace {

std::atomic<bool> wanted{false};
std::atomic<std::uint64_t> next_seed{0};

bool may_wait(std::string_view function) {
  return function.find("Synchronize") != std::string_view::npos || function.starts_with("cuMemcpy");
}

}  // namespace

void delay_waits(std::uint64_t seed) {
  next_seed = seed * 1000;
  wanted = true;
}

void delay(std::string_view function) {
  if (!wanted.load(std::memory_order_relaxed) || !may_wait(function)) return;
  thread_local std::minstd_rand random(static_cast<unsigned>(next_seed++));
  const auto dice = random();
  if (dice % 4 == 0)
    std::this_thread::sleep_for(std::chrono::microseconds(dice / 4 % 200));
  else
    std::this_thread::yield();
}

}  // namespace softgpu
