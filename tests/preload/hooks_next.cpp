// Built twice. With HOOKS_FIRST it wraps `answer` of the other by RTLD_NEXT, which finds the right one only
// if the exported dlsym leaves no trace between this call and the real dlsym.
#ifdef HOOKS_FIRST
#include <dlfcn.h>

extern "C" int answer() {
  static int depth = 0;
  if (++depth > 1) return -1;
  const auto next = reinterpret_cast<int (*)()>(dlsym(RTLD_NEXT, "answer"));
  return next != nullptr ? 1 + next() : -2;
}
#else
extern "C" int answer() {
  return 41;
}
#endif
