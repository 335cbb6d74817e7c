// The guard against re-entry: a library that the program called may call exported functions again, and those
// calls belong to the outer one. A Scope is a required argument of everything a wrapper needs, so that a
// wrapper without one does not compile.
#pragma once

namespace pooch::interpose {

class Scope {
 public:
  Scope() { ++depth_; }
  ~Scope() { --depth_; }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  // The program's own call, not one that a wrapped call makes inside.
  bool outermost() const { return depth_ == 1; }
  int depth() const { return depth_; }

 private:
  // Initial-exec: a preload is loaded at start, so access needs no call into the dynamic linker.
  [[gnu::tls_model("initial-exec")]] static inline thread_local int depth_ = 0;
};

}  // namespace pooch::interpose
