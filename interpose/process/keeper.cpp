#include "interpose/process/keeper.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <system_error>
#include <thread>

#include "core/host_heap.h"
#include "core/log.h"
#include "interpose/hooks/scope.h"

namespace pooch::interpose {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int pause_per_write = 20;  // the share of the time that goes into writing is less than its inverse
constexpr std::chrono::seconds patience(2);

// Never destroyed: both threads end with the process.
using Write = void (*)();
constinit Write writer = nullptr;
constinit std::chrono::milliseconds interval{};
constinit std::atomic<pid_t> process{0};  // whose keeper it is; 0: nobody's
constinit std::atomic<int> ending{0};     // the signal that is to end the process
constinit std::atomic<bool> writing{false};
sem_t keeper_wakes, guard_wakes;

// --- what a signal handler may call: async-signal-safe functions, and atomics without locks

static_assert(std::atomic<pid_t>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

// Returns only if somebody has just set another action.
void die_of(int signal) {
  struct sigaction by_default {};
  by_default.sa_handler = SIG_DFL;
  sigaction(signal, &by_default, nullptr);
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, signal);
  pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
  kill(getpid(), signal);
}

[[noreturn]] void await_end() {
  while (true) pause();
}

void on_signal(int signal) {
  const int reason = errno;
  if (process.load() != getpid()) return die_of(signal);
  int none = 0;
  if (ending.compare_exchange_strong(none, signal)) {
    sem_post(&keeper_wakes);
    sem_post(&guard_wakes);
  }
  // The program goes no further: what it did next, it would not have done. In pooch the thread may have what
  // the keeper waits for.
  if (!Scope::inside()) await_end();
  errno = reason;
}

// --- the two threads

void write_once() {
  writing.store(true);
  try {
    if (keeping()) writer();
  } catch (...) {
    // There is no memory for it, and none for a word about it. The end writes too.
  }
  writing.store(false);
}

void sleep_until(Clock::time_point then) {
  const auto left = then.time_since_epoch();
  const auto whole = std::chrono::duration_cast<std::chrono::seconds>(left);
  const timespec until{whole.count(), std::chrono::nanoseconds(left - whole).count()};
  (void)sem_clockwait(&keeper_wakes, CLOCK_MONOTONIC, &until);
}

void keep() {
  without_heap_reserve = true;
  for (auto next = Clock::now() + interval;;) {
    sleep_until(next);
    const int signal = ending.load();
    const auto begun = Clock::now();
    if (signal == 0 && begun < next) continue;
    write_once();
    if (signal != 0) return die_of(signal);
    const auto ended = Clock::now();
    next = ended + std::max<Clock::duration>(interval, pause_per_write * (ended - begun));
  }
}

void guard() {
  while (sem_wait(&guard_wakes) != 0) continue;
  std::this_thread::sleep_for(patience);
  die_of(ending.load());
}

void take_signal(int signal) {
  struct sigaction action {};
  if (sigaction(signal, nullptr, &action) != 0) return;
  if ((action.sa_flags & SA_SIGINFO) != 0 || action.sa_handler != SIG_DFL) return;
  action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  sigaction(signal, &action, nullptr);
}

}  // namespace

void start_keeping(void (*write)(), std::chrono::milliseconds between) {
  if (process.load() != 0 || sem_init(&keeper_wakes, 0, 0) != 0 || sem_init(&guard_wakes, 0, 0) != 0) return;
  writer = write;
  interval = between;
  process.store(getpid());
  // The program's signals are for the program's threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread(keep).detach();
    std::thread(guard).detach();
    // The kernel spares the first process of a container whatever it does not handle.
    if (getpid() != 1)
      for (const int signal : {SIGINT, SIGTERM}) take_signal(signal);
  } catch (const std::system_error& error) {
    log::info("reports may be written at the end alone: {}", error.what());
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

bool keeping() {
  return process.load() == getpid();
}

void stop_keeping() {
  if (!keeping()) return;
  if (ending.load() != 0) await_end();
  process.store(0);
  const auto until = Clock::now() + patience;
  while (writing.load() && Clock::now() < until) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace pooch::interpose
