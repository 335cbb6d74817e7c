// Loops on several threads, in a way that a race detector follows.
//
// libtbb is built without ThreadSanitizer, so how it hands work from thread to thread looks like races to it.
// `parallel.cpp`, which alone includes TBB, is therefore left uninstrumented, and the order that TBB promises
// is said again here by two atomics: what came before the loop comes before every body, every body comes
// before what follows the loop. Bodies stay unordered among each other: races between them are found.
#pragma once

#include <atomic>
#include <cstddef>

namespace pooch::policy {
namespace detail {
// call(work, i) for every i below n.
void run_all(std::size_t n, void (*call)(void* work, std::size_t i), void* work);
}  // namespace detail

// body(i) for every i below n, in any order; returns when all have. `body` must not throw.
template <class Body>
void parallel_for(std::size_t n, const Body& body) {
  struct Work {
    std::atomic<const Body*> body;
    std::atomic<std::size_t> done{0};
  } work;
  work.body.store(&body, std::memory_order_release);
  detail::run_all(
      n,
      [](void* at, std::size_t i) {
        Work& shared = *static_cast<Work*>(at);
        (*shared.body.load(std::memory_order_acquire))(i);
        shared.done.fetch_add(1, std::memory_order_release);
      },
      &work);
  work.done.load(std::memory_order_acquire);
}

}  // namespace pooch::policy
