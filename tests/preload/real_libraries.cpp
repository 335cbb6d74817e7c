// real_libraries LIBRARY FUNCTION: makes the first call into a vendor library, which starts its own runtime.
// Prints the status that comes back.
#include <dlfcn.h>

#include <cstdio>

int main(int count, char** arguments) {
  if (count != 3) return 2;
  void* const library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 3;
  }
  // Each of these functions takes the address of a handle, and answers with a status.
  void* const found = dlsym(library, arguments[2]);
  if (found == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 4;
  }
  void* handle = nullptr;
  std::printf("%d\n", reinterpret_cast<int (*)(void**)>(found)(&handle));
  return 0;
}
