// Keeps on disk what is known so far: every 10 s, and when SIGINT or SIGTERM is about to end the process.
//
//   10 s ────────────────▶ keeper: writes, and sleeps again
//   signal ──▶ handler ─┬▶ keeper: writes, then the signal's default action
//                       └▶ guard: the same action 2 s later, whatever holds up the keeper
//
// What writes must not call CUDA. It may find a lock held for good, by the thread that the signal has stopped
// or by one that a device keeps waiting; the guard takes none, so the process ends all the same. Handlers are
// set only where the program has none, and it may replace them. A forked child has neither thread, and dies
// of the signal at once.
#pragma once

#include <chrono>

namespace pooch::interpose {

// Once per process. `write` is called by one thread at a time, over and over, with at least `interval`
// between, and at least 20 times as long as it took.
void start_keeping(void (*write)(), std::chrono::milliseconds interval = std::chrono::seconds(10));
// Whether what there is so far is still to be written. False once the end has come: then `write` leaves off.
bool keeping();
// The process ends by itself, and its own thread writes from here on. Waits for a `write` that is under way,
// 2 s at most; where a signal has come before, for the process's end by it.
void stop_keeping();

}  // namespace pooch::interpose
