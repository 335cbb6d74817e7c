#include "interpose/sessions/configuration.h"

#include <fmt/core.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>

#include "core/files.h"
#include "core/log.h"

namespace pooch::interpose {
namespace {

// Constant-initialised and never destroyed: hooks run before this library's initialisers and after its
// destructors.
constinit std::atomic<bool> inert{false};
constinit std::atomic<const Config*> configured{nullptr};

}  // namespace

void configure(const Config* config) {
  configured.store(config, std::memory_order_release);
}

[[gnu::hot]] const Config* configuration() {
  return inert.load() ? nullptr : configured.load(std::memory_order_acquire);
}

void stand_down() {
  inert.store(true);
}

[[gnu::hot]] bool stood_down() {
  return inert.load(std::memory_order_relaxed);
}

void end_with_usage_error(const std::string& message) {
  std::fflush(nullptr);
  (void)write_all(STDERR_FILENO, fmt::format("pooch: error: {}\n", log::printable(message)));
  _exit(2);
}

}  // namespace pooch::interpose
