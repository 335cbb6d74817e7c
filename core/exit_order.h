// What pooch still has to do when the process ends. exit() runs handlers in the reverse order of their
// registration: ours runs before those of libraries loaded earlier, and after those of libraries loaded
// later.
#pragma once

#include <atomic>
#include <cstdlib>

namespace pooch {

inline std::atomic<void (*)()> exit_handler{nullptr};

// `handler` may be called several times; only its first call does the work.
inline void register_exit(void (*handler)()) {
  exit_handler = handler;
  (void)std::atexit(handler);
}

// A library loaded later is now in use and needed until exit: registers again.
inline void renew_exit() {
  if (auto* const handler = exit_handler.load()) (void)std::atexit(handler);
}

}  // namespace pooch
