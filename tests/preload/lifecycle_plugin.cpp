// lifecycle_plugin SCENARIO: opens the CUDA part with RTLD_LOCAL, from beside itself, as plugins are; the
// program is linked with nothing of CUDA.
#include <dlfcn.h>

#include <cstdio>
#include <filesystem>

int main(int count, char** arguments) {
  if (count != 2) return 2;
  const auto part = std::filesystem::read_symlink("/proc/self/exe").replace_filename("liblifecycle_part.so");
  void* const library = dlopen(part.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* const run = library != nullptr ? dlsym(library, "run_scenario") : nullptr;
  if (run == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 3;
  }
  return reinterpret_cast<int (*)(const char*)>(run)(arguments[1]);
}
