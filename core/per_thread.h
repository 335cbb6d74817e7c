// One object per thread that also serves calls after the thread's own objects are destroyed: a program's exit
// handlers and destructors call CUDA, and a thread_local with a destructor is dead by then.
#pragma once

namespace pooch {

// The calling thread's T, created at first use and destroyed with the thread. A call after that creates
// another, which is never destroyed. `Tag` distinguishes objects of one type.
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
