// The session's mutex, as a type: a function that takes `Held&` may release it.
//
// What was looked at before such a call may have changed after it: chunks may have moved, allocations may be
// gone, another thread's op may have come in between. Functions without it keep the mutex throughout.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <utility>

namespace pooch::runtime {

// Nobody can lock it but `Held`.
class SessionMutex {
  friend class Held;
  std::mutex mutex_;
};

// This thread has the mutex from here to the end of the scope, except in `released` and while it waits for a
// turn.
class Held {
 public:
  explicit Held(SessionMutex& mutex) : lock_(mutex.mutex_) {}
  // Does not wait: `holds()` says whether it could be had.
  Held(SessionMutex& mutex, std::try_to_lock_t never_waits) : lock_(mutex.mutex_, never_waits) {}
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

  bool holds() const { return lock_.owns_lock(); }
  // How often others could come in: if it is equal before and after, nothing has changed in between.
  std::uint64_t releases() const { return releases_; }

  // Runs `work` without the mutex, so that other threads can come in while the host waits.
  template <class Work>
  auto released(Work&& work) {
    const Apart apart(*this);
    return std::forward<Work>(work)();
  }
  void pause(std::chrono::milliseconds time);
  // Unlocks before the scope ends.
  void give_up() { lock_.unlock(); }

 private:
  friend class Turn;
  // The mutex is back however `work` ends.
  struct Apart {
    explicit Apart(Held& held) : held_(held) {
      ++held_.releases_;
      held_.lock_.unlock();
    }
    ~Apart() { held_.lock_.lock(); }
    Apart(const Apart&) = delete;
    Apart& operator=(const Apart&) = delete;
    Held& held_;
  };

  std::unique_lock<std::mutex> lock_;
  std::uint64_t releases_ = 0;
};

// An activity that releases the mutex in between, and that others have to wait for. Guarded by the session's
// mutex.
class Turn {
 public:
  // As long as it lives, its thread is in the activity.
  class Taken {
   public:
    ~Taken() {
      --turn_.inside_;
      turn_.left_.notify_all();
    }
    Taken(const Taken&) = delete;
    Taken& operator=(const Taken&) = delete;

   private:
    friend class Turn;
    explicit Taken(Turn& turn) : turn_(turn) { ++turn_.inside_; }
    Turn& turn_;
  };

  // Waits until no thread is in it.
  void await(Held& held);
  // ... and begins.
  [[nodiscard]] Taken take(Held& held) {
    await(held);
    return Taken(*this);
  }
  // Enters beside others.
  [[nodiscard]] Taken join() { return Taken(*this); }
  bool taken() const { return inside_ > 0; }

 private:
  int inside_ = 0;  // threads
  std::condition_variable left_;
};

}  // namespace pooch::runtime
