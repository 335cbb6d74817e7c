// The session's mutex as a type, and turns that threads take with it.
#include "runtime/memory/held.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <type_traits>

namespace pooch::runtime {
namespace {

template <class Mutex>
concept Lockable = requires(Mutex mutex) {
  mutex.lock();
};
static_assert(Lockable<std::mutex> && !Lockable<SessionMutex>, "only Held locks the session's mutex");
static_assert(!std::is_copy_constructible_v<Held> && !std::is_move_constructible_v<Held>);
static_assert(!std::is_copy_constructible_v<Turn::Taken> && !std::is_move_constructible_v<Turn::Taken>);

// Could another thread have the mutex now?
bool is_free(SessionMutex& mutex) {
  bool free = false;
  std::thread([&] { free = Held(mutex, std::try_to_lock).holds(); }).join();
  return free;
}

TEST(Held, KeepsOthersOutToTheEndOfTheScope) {
  SessionMutex mutex;
  {
    const Held held(mutex);
    EXPECT_TRUE(held.holds());
    EXPECT_FALSE(is_free(mutex));
  }
  EXPECT_TRUE(is_free(mutex));
}

TEST(Held, LetsOthersInWhileItIsReleasedAndCountsThat) {
  SessionMutex mutex;
  Held held(mutex);
  EXPECT_EQ(held.releases(), 0u);
  EXPECT_EQ(held.released([&] { return is_free(mutex) && !held.holds() ? 7 : 0; }), 7);
  EXPECT_TRUE(held.holds());
  EXPECT_FALSE(is_free(mutex));
  EXPECT_EQ(held.releases(), 1u);
  held.pause(std::chrono::milliseconds(0));
  EXPECT_EQ(held.releases(), 2u);
}

TEST(Held, HasTheMutexBackWhenWhatRanWithoutItThrows) {
  SessionMutex mutex;
  Held held(mutex);
  EXPECT_THROW(held.released([]() -> int { throw std::runtime_error("no"); }), std::runtime_error);
  EXPECT_TRUE(held.holds());
  EXPECT_FALSE(is_free(mutex));
}

TEST(Held, GivenUpIsFreeBeforeTheEndOfTheScope) {
  SessionMutex mutex;
  Held held(mutex);
  held.give_up();
  EXPECT_FALSE(held.holds());
  EXPECT_TRUE(is_free(mutex));
}

TEST(Turn, KeepsAnotherThreadWaitingWhileTheMutexIsReleased) {
  SessionMutex mutex;
  Turn turn;
  std::atomic<bool> begun = false, ended = false, second_was_early = false;
  std::thread first([&] {
    Held held(mutex);
    const Turn::Taken mine = turn.take(held);
    held.released([&] {
      begun = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
    });
    ended = true;
  });
  std::thread second([&] {
    while (!begun) std::this_thread::yield();
    Held held(mutex);
    EXPECT_TRUE(turn.taken());
    const Turn::Taken mine = turn.take(held);
    second_was_early = !ended;
    EXPECT_GE(held.releases(), 1u) << "to wait is to release";
  });
  first.join();
  second.join();
  EXPECT_FALSE(second_was_early);
  EXPECT_FALSE(turn.taken());
}

TEST(Turn, ReleasesNothingWhereNobodyHasIt) {
  SessionMutex mutex;
  Held held(mutex);
  Turn turn;
  turn.await(held);
  { const Turn::Taken mine = turn.take(held); }
  EXPECT_EQ(held.releases(), 0u);
}

TEST(Turn, ThatSeveralJoinEndsWithTheLastOfThem) {
  SessionMutex mutex;
  Held held(mutex);
  Turn turn;
  {
    const Turn::Taken one = turn.join();
    { const Turn::Taken another = turn.join(); }
    EXPECT_TRUE(turn.taken());
  }
  EXPECT_FALSE(turn.taken());
}

}  // namespace
}  // namespace pooch::runtime
