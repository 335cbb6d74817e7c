#include "softgpu/cupti/driver.h"

#include <dlfcn.h>

#include <atomic>
#include <csignal>
#include <cstdlib>

namespace softgpu::cupti {
namespace {

const ActivityTable* find() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) return nullptr;
  const auto get = reinterpret_cast<decltype(&cuGetExportTable)>(dlsym(library, "cuGetExportTable"));
  const void* table = nullptr;
  if (get == nullptr || get(&table, &activity_table_id) != CUDA_SUCCESS) return nullptr;
  const auto* const found = static_cast<const ActivityTable*>(table);
  return found->size >= sizeof *found ? found : nullptr;
}

std::atomic<bool> gone{false};

}  // namespace

void end_with_process() {
  static const int registered = std::atexit([] { gone = true; });
  (void)registered;
}

const ActivityTable* driver() {
  if (gone) std::raise(SIGSEGV);
  static const ActivityTable* const table = find();
  return table;
}

}  // namespace softgpu::cupti
