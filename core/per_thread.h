// One object per thread that also serves calls which come after the thread's own objects are gone: exit
// handlers and destructors of a program call CUDA, and a thread_local with a destructor is dead by then.
#pragma once

namespace pooch {

// The calling thread's T, made at first use. It goes with the thread; a later call makes another, which
// stays. `Tag` tells objects of one type apart.
template <class T, class Tag = T>
T& per_thread() {
  [[gnu::tls_model("initial-exec")]] static thread_local constinit T* object = nullptr;
  struct Janitor {
    ~Janitor() {
      delete object;
      object = nullptr;
    }
  };
  if (object == nullptr) {
    object = new T;
    static thread_local const Janitor janitor;
    (void)janitor;
  }
  return *object;
}

}  // namespace pooch
