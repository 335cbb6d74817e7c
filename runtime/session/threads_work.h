// What a thread's submit works on. The session's other calls find it from inside of the real call.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <vector>

#include "core/per_thread.h"
#include "runtime/memory/held.h"
#include "runtime/memory/residency.h"
#include "tracker/tracker.h"

namespace pooch::runtime {

// What one submit works on, kept per thread so that a call in steady state allocates nothing.
struct Work {
  tracker::Op op;
  std::vector<ChunkUse> uses;
  const void* session = nullptr;  // whose submit it is
  // During the real call: the session's mutex, held or not.
  Held* launch = nullptr;
  bool ran_dry = false;                // the device had nothing left to do while memory was moved for the op
  std::optional<StreamIndex> entered;  // by an unforeseen op: runtime/memory/landing.h
};

// The calling thread's, for one submit: a call with operands on two devices is one inside the other.
class ThreadsWork {
 public:
  explicit ThreadsWork(const void* session = nullptr) {
    if (stack().depth == stack().all.size()) stack().all.emplace_back();
    Work& work = stack().all[stack().depth++];
    work.session = session;
    work.uses.clear();
    work.entered.reset();
    work.ran_dry = false;
  }
  ~ThreadsWork() { --stack().depth; }
  ThreadsWork(const ThreadsWork&) = delete;
  ThreadsWork& operator=(const ThreadsWork&) = delete;
  Work& operator*() const { return stack().all[stack().depth - 1]; }
  static bool inside_any() { return stack().depth > 0; }
  // The session's submit that the thread is in; nullptr: none.
  static Work* inside(const void* session) {
    for (std::size_t i = stack().depth; i > 0; --i)
      if (stack().all[i - 1].session == session) return &stack().all[i - 1];
    return nullptr;
  }

 private:
  struct Stack {
    std::deque<Work> all;  // in place while others come and go
    std::size_t depth = 0;
  };
  static Stack& stack() { return per_thread<Stack>(); }
};

}  // namespace pooch::runtime
