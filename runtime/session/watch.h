// Whether the program's calls are watched. Until they are, a call goes straight to the driver and nobody
// knows what it did. Once begun, watching does not end.
//
//   a call:   lets_pass() -- true --> the driver --> passed()
//                         \_ false: it is watched
//   begin():  from now on none passes; when it returns, those that were on their way have passed
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

namespace pooch::runtime {

class Watch {
 public:
  explicit Watch(bool on) : on_(on) {}

  bool on() const { return on_.load(std::memory_order_relaxed); }

  bool lets_pass() {
    if (on()) return false;
    // Either begin() sees this call on its way, or the call sees that watching has begun.
    passing_.fetch_add(1, std::memory_order_seq_cst);
    if (!on_.load(std::memory_order_seq_cst)) {
      ++own_;
      return true;
    }
    passing_.fetch_sub(1, std::memory_order_release);
    return false;
  }
  void passed() {
    --own_;
    passing_.fetch_sub(1, std::memory_order_release);
  }

  // Whether a call of this thread is on its way.
  static bool thread_passes() { return own_ > 0; }

  void begin() {
    on_.store(true, std::memory_order_seq_cst);
    // A library's call may lead here from inside: it need not wait for itself.
    while (passing_.load(std::memory_order_seq_cst) > own_) std::this_thread::yield();
  }

 private:
  // The thread's calls that are on their way.
  [[gnu::tls_model("initial-exec")]] static inline thread_local std::uint32_t own_ = 0;

  std::atomic<bool> on_;
  std::atomic<std::uint32_t> passing_{0};
};

}  // namespace pooch::runtime
