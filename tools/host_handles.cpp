// What a process does that may not outlive it. The prototypes are written out because tools/ is built without
// CUDA's headers.
#include <dlfcn.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "doctor.h"
#include "run_command.h"
#include "text_file.h"

namespace pooch::tools {
namespace {

// Of cuda.h.
struct Location {
  enum Type : int { none = 0, device = 1, host_numa = 3 } type;
  int id;
};
struct Properties {
  int type = 1;  // pinned
  int requested_handle_types = 0;
  Location location = {};
  void* win32_meta_data = nullptr;
  unsigned char flags[8] = {};
};
struct Rights {
  Location location;
  int flags = 3;  // read and write
};
static_assert(sizeof(Properties) == 32 && sizeof(Rights) == 12);
constexpr int host_numa_id = 134;
constexpr int invalid_context = 201;

// At the end no handler of the driver's runs, which may be in any state.
[[noreturn]] void end(int code) {
  _exit(code);
}

[[noreturn]] void on_crash(int) {
  constexpr std::string_view line = "the driver crashes when it is asked for a handle of host memory\n";
  (void)!write(STDERR_FILENO, line.data(), line.size());
  end(exit_failed);
}

class Driver {
 public:
  Driver() : library_(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL)) {}

  // The function's status; ends the process where there is no such function.
  template <class... Args>
  int ask(const char* name, Args... args) const {
    using Function = int(Args...);
    auto* const function = library_ == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(library_, name));
    if (function != nullptr) return function(args...);
    refuse(fmt::format("the driver has no {}", name));
  }
  // Ends the process where the function fails.
  template <class... Args>
  void need(const char* name, Args... args) const {
    if (const int status = ask(name, args...); status != 0) fail(name, status);
  }
  [[noreturn]] static void fail(const char* name, int status) {
    refuse(fmt::format("{} fails with {}", name, status));
  }
  [[noreturn]] static void refuse(std::string_view why) {
    say("pooch: error: no handle of host memory: {}\n", why);
    end(exit_failed);
  }

 private:
  void* library_;
};

}  // namespace

void try_host_handles(const std::string& bus_id) {
  const Driver driver;
  int device = 0, node = 0;
  driver.need("cuInit", 0u);
  driver.need("cuDeviceGetByPCIBusId", &device, bus_id.c_str());
  (void)driver.ask("cuDeviceGetAttribute", &node, host_numa_id, device);  // who knows of no node has one
  const Properties properties{.location = {Location::host_numa, std::max(node, 0)}};
  std::size_t bytes = 0;
  std::uint64_t handle = 0, address = 0;
  driver.need("cuMemGetAllocationGranularity", &bytes, &properties, 0u);
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) std::signal(signal, on_crash);
  const auto create = [&] {
    return driver.ask("cuMemCreate", &handle, bytes, &properties, std::uint64_t{0});
  };
  int created = create();
  // A context takes some hundred MiB of device memory, which may be short: only where there must be one.
  if (created == invalid_context) {
    void* context = nullptr;
    driver.need("cuDevicePrimaryCtxRetain", &context, device);
    driver.need("cuCtxSetCurrent", context);
    created = create();
  }
  if (created != 0) Driver::fail("cuMemCreate", created);
  // Memory of the device's would leave it less room with everything that is evicted.
  Properties made;
  driver.need("cuMemGetAllocationPropertiesFromHandle", &made, handle);
  if (made.location.type != Location::host_numa)
    Driver::refuse("the driver takes the device's memory for it");
  const Rights rights[] = {{{Location::device, device}}, {properties.location}};
  driver.need("cuMemAddressReserve", &address, bytes, std::size_t{0}, std::uint64_t{0}, std::uint64_t{0});
  driver.need("cuMemMap", address, bytes, std::size_t{0}, handle, std::uint64_t{0});
  driver.need("cuMemSetAccess", address, bytes, &rights[0], std::size_t{2});
  say("host handles work\n");
  end(0);
}

}  // namespace pooch::tools
