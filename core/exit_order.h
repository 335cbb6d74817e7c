// What pooch has left to do when the process ends. Handlers of exit() run in the opposite order of their
// registration, so ours runs before those of libraries that were there already, and after those of libraries
// that came later.
#pragma once

#include <atomic>
#include <cstdlib>

namespace pooch {

inline std::atomic<void (*)()> exit_handler{nullptr};

// `handler` does its work the first time that it is called.
inline void register_exit(void (*handler)()) {
  exit_handler = handler;
  (void)std::atexit(handler);
}

// A library is in use now that came later, and is needed to the end.
inline void renew_exit() {
  if (auto* const handler = exit_handler.load()) (void)std::atexit(handler);
}

}  // namespace pooch
