// PyTorch's own caching allocator hides when a tensor's life ends; its stream-ordered backend says so, with
// exact sizes. PyTorch reads its choice while libc10_cuda is loaded, so it is made when this library is, and
// only where the user has made none.
#include "interpose/torch_allocator.h"

#include <link.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "core/log.h"

namespace pooch::interpose {
namespace {

// PyTorch takes the first that is set. Ours is the last, so that a program's later word goes first in either.
constexpr const char* first_variable = "PYTORCH_CUDA_ALLOC_CONF";
constexpr const char* last_variable = "PYTORCH_ALLOC_CONF";
constexpr const char* choice = "backend:cudaMallocAsync";

constinit bool chosen = false;

std::string_view file_name(const char* path) {
  const std::string_view whole(path);
  return whole.substr(whole.rfind('/') + 1);
}

// Could PyTorch be loaded here? In Python, or where the program is linked with either.
bool may_load_torch() {
  char program[PATH_MAX + 1] = {};
  if (readlink("/proc/self/exe", program, PATH_MAX) > 0 && file_name(program).starts_with("python"))
    return true;
  const auto visit = [](dl_phdr_info* object, std::size_t, void*) -> int {
    const std::string_view name = file_name(object->dlpi_name);
    return name.starts_with("libpython") || name.starts_with("libc10") || name.starts_with("libtorch");
  };
  return dl_iterate_phdr(visit, nullptr) != 0;
}

[[gnu::constructor]] void choose_torch_allocator() {
  if (std::getenv(first_variable) != nullptr || std::getenv(last_variable) != nullptr || !may_load_torch())
    return;
  chosen = setenv(last_variable, choice, /*overwrite=*/0) == 0;
}

bool torch_is_loaded() {
  const auto visit = [](dl_phdr_info* object, std::size_t, void*) -> int {
    return file_name(object->dlpi_name).starts_with("libc10_cuda");
  };
  return dl_iterate_phdr(visit, nullptr) != 0;
}

}  // namespace

void say_torch_allocator() {
  if (!chosen || !torch_is_loaded()) return;
  const char* const first = std::getenv(first_variable);
  const char* const last = std::getenv(last_variable);
  if (first != nullptr || last == nullptr || std::strcmp(last, choice) != 0) return;
  log::info("PyTorch allocates by cudaMallocAsync: {}={} (set it, or {}, to choose otherwise)", last_variable,
            choice, first_variable);
}

}  // namespace pooch::interpose
