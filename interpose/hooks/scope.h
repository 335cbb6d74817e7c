// The guard against re-entry: a library that the program called may call exported functions again, and those
// calls belong to the outer one. A Scope is a required argument of everything a wrapper needs, so that a
// wrapper without one does not compile.
#pragma once

#include <cstdint>

namespace pooch::interpose {

class Scope {
 public:
  Scope() {
    if (++depth_ == 1) ++call_;
  }
  ~Scope() { --depth_; }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  // Whether the thread is in any.
  static bool inside() { return depth_ > 0; }
  // The program's own call, not one that a wrapped call makes inside.
  bool outermost() const { return depth_ == 1; }
  int depth() const { return depth_; }
  // Tells the thread's outermost calls apart, for what is remembered no longer than one.
  std::uint64_t call() const { return call_; }

 private:
  // Initial-exec: a preload is loaded at start, so access needs no call into the dynamic linker.
  [[gnu::tls_model("initial-exec")]] static inline thread_local int depth_ = 0;
  [[gnu::tls_model("initial-exec")]] static inline thread_local std::uint64_t call_ = 0;
};

}  // namespace pooch::interpose
