// What the keeper does for a process, seen by its parent: each test is a process of its own.
#include "interpose/process/keeper.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <mutex>
#include <new>
#include <string>
#include <thread>

#include "interpose/hooks/scope.h"

namespace pooch::interpose {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// What both processes see.
struct Seen {
  std::atomic<int> writes{0}, begun{0};
  std::atomic<bool> ready{false}, went_on{false};
};
Seen* seen = nullptr;
std::mutex lock;  // which a thread may hold when the signal comes

void count_write() {
  ++seen->writes;
}
void hang() {
  ++seen->begun;
  while (true) pause();
}
void write_under_the_lock() {
  const std::lock_guard held(lock);
  ++seen->writes;
}

[[noreturn]] void sleep_long() {
  seen->ready = true;
  std::this_thread::sleep_for(60s);
  _exit(0);
}

class Keeper : public ::testing::Test {
 protected:
  void SetUp() override {
    void* const shared =
        mmap(nullptr, sizeof(Seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(shared, MAP_FAILED);
    seen = new (shared) Seen;
  }
  void TearDown() override { munmap(seen, sizeof(Seen)); }

  void start(const std::function<void()>& body) {
    child_ = fork();
    ASSERT_GE(child_, 0);
    if (child_ != 0) return;
    for (const int signal : {SIGINT, SIGTERM}) ::signal(signal, SIG_DFL);
    body();
    _exit(0);
  }
  // Once it is ready, and asleep: ThreadSanitizer loses what comes to a forked child between two calls.
  void send(int signal) {
    while (!seen->ready || !asleep()) std::this_thread::sleep_for(1ms);
    sent_ = Clock::now();
    kill(child_, signal);
  }
  // The signal that it died of, or less than 0: its status, negated, less 1.
  int end() {
    int status = 0;
    EXPECT_EQ(waitpid(child_, &status, 0), child_);
    took = Clock::now() - sent_;
    return WIFSIGNALED(status) ? WTERMSIG(status) : -1 - WEXITSTATUS(status);
  }
  static constexpr int exited(int status) { return -1 - status; }

  Clock::duration took{};  // from the signal to the end

 private:
  bool asleep() const {
    std::ifstream status("/proc/" + std::to_string(child_) + "/status");
    for (std::string line; std::getline(status, line);)
      if (line.starts_with("State:"))
        return line.find_first_of("SZ", sizeof("State:") - 1) != std::string::npos;
    return true;
  }

  pid_t child_ = -1;
  Clock::time_point sent_ = Clock::now();
};

TEST_F(Keeper, WritesTimeAndAgain) {
  start([] {
    start_keeping(count_write, 5ms);
    while (seen->writes < 5) std::this_thread::sleep_for(1ms);
  });
  EXPECT_EQ(end(), exited(0));
}

TEST_F(Keeper, WritesOnceMoreAndTheProcessDiesOfTheSignal) {
  for (const int signal : {SIGINT, SIGTERM}) {
    seen->ready = false;
    seen->writes = 0;
    start([] {
      start_keeping(count_write);
      sleep_long();
    });
    send(signal);
    EXPECT_EQ(end(), signal);
    EXPECT_EQ(seen->writes, 1);
  }
}

// A sleep that a signal interrupts returns: the program would run to its end, with status 0.
TEST_F(Keeper, TheInterruptedProgramGoesNoFurther) {
  start([] {
    start_keeping([] {
      std::this_thread::sleep_for(200ms);
      ++seen->writes;
    });
    seen->ready = true;
    pause();
    seen->went_on = true;
  });
  send(SIGTERM);
  EXPECT_EQ(end(), SIGTERM);
  EXPECT_EQ(seen->writes, 1);
  EXPECT_FALSE(seen->went_on);
}

TEST_F(Keeper, AThreadInPoochGoesOnSoThatItsLocksComeFree) {
  start([] {
    start_keeping(write_under_the_lock);
    {
      const Scope scope;
      const std::lock_guard held(lock);
      seen->ready = true;
      std::this_thread::sleep_for(300ms);  // all of it, whatever interrupts it
    }
    std::this_thread::sleep_for(60s);
  });
  send(SIGTERM);
  EXPECT_EQ(end(), SIGTERM);
  EXPECT_EQ(seen->writes, 1);
}

TEST_F(Keeper, ALockThatIsHeldForGoodKeepsTheProcessTwoSeconds) {
  start([] {
    start_keeping(write_under_the_lock);
    const std::lock_guard held(lock);
    sleep_long();
  });
  send(SIGINT);
  EXPECT_EQ(end(), SIGINT);
  EXPECT_EQ(seen->writes, 0);
  EXPECT_LT(took, 10s);
}

TEST_F(Keeper, ASecondSignalDoesNotCutTheWriteShort) {
  start([] {
    start_keeping([] {
      seen->begun = 1;
      std::this_thread::sleep_for(300ms);
      ++seen->writes;
    });
    sleep_long();
  });
  send(SIGTERM);
  while (seen->begun == 0) std::this_thread::sleep_for(1ms);
  send(SIGTERM);
  send(SIGINT);
  EXPECT_EQ(end(), SIGTERM);
  EXPECT_EQ(seen->writes, 1);
}

TEST_F(Keeper, WhatTheProgramIgnoresOrHandlesIsItsOwn) {
  for (const bool before : {true, false}) {
    seen->ready = false;
    start([before] {
      const auto handle = [] {
        ::signal(SIGINT, SIG_IGN);
        ::signal(SIGTERM, [](int) { _exit(7); });
      };
      if (before) handle();
      start_keeping(count_write);
      if (!before) handle();
      raise(SIGINT);
      sleep_long();
    });
    send(SIGTERM);
    EXPECT_EQ(end(), exited(7));
    EXPECT_EQ(seen->writes, 0);
  }
}

TEST_F(Keeper, AForkedChildDiesAtOnceAndWritesNothing) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "a child forked beside threads gets no signals under ThreadSanitizer";
#endif
  start([] {
    start_keeping(count_write);
    const pid_t child = fork();
    if (child == 0) {
      if (keeping()) seen->went_on = true;
      sleep_long();
    }
    while (!seen->ready) std::this_thread::sleep_for(1ms);
    kill(child, SIGTERM);
    int status = 0;
    waitpid(child, &status, 0);
    _exit(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM ? 3 : 4);
  });
  EXPECT_EQ(end(), exited(3));
  EXPECT_EQ(seen->writes, 0);
  EXPECT_FALSE(seen->went_on);
}

TEST_F(Keeper, OnceItIsStoppedNothingIsWrittenAndSignalsActAtOnce) {
  start([] {
    start_keeping(count_write, 1ms);
    while (seen->writes == 0) std::this_thread::sleep_for(1ms);
    stop_keeping();
    seen->writes = 0;
    std::this_thread::sleep_for(50ms);
    sleep_long();
  });
  send(SIGTERM);
  EXPECT_EQ(end(), SIGTERM);
  EXPECT_EQ(seen->writes, 0);
}

TEST_F(Keeper, AWriteThatHangsDoesNotKeepTheProcessFromEnding) {
  start([] {
    start_keeping(hang, 1ms);
    while (seen->begun == 0) std::this_thread::sleep_for(1ms);
    stop_keeping();
  });
  EXPECT_EQ(end(), exited(0));
  EXPECT_LT(took, 10s);
}

TEST_F(Keeper, AProcessThatEndsWhileASignalIsActedOnDiesOfIt) {
  start([] {
    start_keeping([] { std::this_thread::sleep_for(200ms); });
    std::thread([] { sleep_long(); }).detach();
    while (!seen->ready) std::this_thread::sleep_for(1ms);
    {
      const Scope scope;  // so that this thread goes on
      raise(SIGTERM);
    }
    stop_keeping();
  });
  EXPECT_EQ(end(), SIGTERM);
}

TEST_F(Keeper, WritingTakesLessThanATwentiethOfTheTime) {
  start([] {
    start_keeping(
        [] {
          ++seen->writes;
          std::this_thread::sleep_for(20ms);
        },
        1ms);
    std::this_thread::sleep_for(900ms);
  });
  EXPECT_EQ(end(), exited(0));
  EXPECT_GE(seen->writes, 1);
  EXPECT_LE(seen->writes.load() * 420ms, took + 420ms);
}

}  // namespace
}  // namespace pooch::interpose
