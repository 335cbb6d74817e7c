// PyTorch's own caching allocator hides when a tensor's life ends; its stream-ordered backend says so, with
// exact sizes. PyTorch reads its choice while libc10_cuda is loaded, so it is made when this library is, and
// only where the user has made none.
#include "interpose/driver/torch_allocator.h"

#include <link.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>

#include "core/log.h"

namespace pooch::interpose {
namespace {

// PyTorch takes the first that is set. Ours is the last, so that a program's later word goes first in either.
constexpr const char* first_variable = "PYTORCH_CUDA_ALLOC_CONF";
constexpr const char* last_variable = "PYTORCH_ALLOC_CONF";
constexpr const char* choice = "backend:cudaMallocAsync";

constinit bool chosen = false;
// What speaks of graphs that PyTorch is to make by itself: their pools, which go back to an earlier state,
// are the caching allocator's alone. That is all that can be known so early: a program that shares CUDA
// tensors with other processes, or takes snapshots of memory, says so in no variable.
constexpr const char* graphs_variable = "TORCHINDUCTOR_CUDAGRAPHS";
// The mode of torch.compile that makes them, as an argument of the program.
constexpr std::string_view graphs_mode = "reduce-overhead";
constinit const char* graphs_wanted = nullptr;  // by what; null: nobody says so

std::string_view file_name(const char* path) {
  const std::string_view whole(path);
  return whole.substr(whole.rfind('/') + 1);
}

// Whether PyTorch could be loaded here: in Python, or where the program is linked with either.
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

const char* who_wants_graphs() {
  const char* const wanted = std::getenv(graphs_variable);
  if (wanted != nullptr && std::string_view(wanted) == "1") return graphs_variable;
  std::ifstream arguments("/proc/self/cmdline", std::ios::binary);
  for (std::string one; std::getline(arguments, one, '\0');)
    if (one == graphs_mode || one.ends_with("=" + std::string(graphs_mode))) return graphs_mode.data();
  return nullptr;
}

[[gnu::constructor]] void choose_torch_allocator() {
  if (std::getenv(first_variable) != nullptr || std::getenv(last_variable) != nullptr || !may_load_torch())
    return;
  graphs_wanted = who_wants_graphs();
  if (graphs_wanted != nullptr) return;
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

void warn_of_torch_settings() {
  static constinit std::atomic<bool> warned{false};
  if (warned.load(std::memory_order_relaxed) || !torch_is_loaded() || warned.exchange(true)) return;
  const char* const first = std::getenv(first_variable);
  const char* const variable = first != nullptr ? first_variable : last_variable;
  const char* const value = std::getenv(variable);
  const std::string_view text = value == nullptr ? "" : value;
  if (text.find("cudaMallocAsync") != text.npos) return;
  if (text.find("expandable_segments:True") != text.npos) {
    log::warn(
        "{}={}: PyTorch maps its memory itself, so none of it can leave the device; unset {}, and pooch "
        "chooses {}",
        variable, value, variable, choice);
  } else if (value != nullptr) {
    log::warn(
        "{}={}: PyTorch's caching allocator hides when tensors end, so dead memory is moved and plans are "
        "few; unset {}, and pooch chooses {}",
        variable, value, variable, choice);
  } else if (graphs_wanted != nullptr) {
    log::warn(
        "{}: PyTorch keeps its caching allocator, which its graphs need and which hides when tensors end, so "
        "dead memory is moved and plans are few; without graphs, set {}={}",
        graphs_wanted, last_variable, choice);
  }
}

}  // namespace pooch::interpose
