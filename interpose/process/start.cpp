#include "interpose/process/start.h"

#include <dlfcn.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/exit_order.h"
#include "core/log.h"
#include "interpose/driver/torch_allocator.h"
#include "interpose/hooks/libraries.h"
#include "interpose/process/keeper.h"
#include "interpose/process/report.h"
#include "interpose/sessions/configuration.h"
#include "interpose/sessions/inside.h"
#include "interpose/sessions/served.h"
#include "interpose/sessions/sessions.h"

namespace pooch::interpose {
namespace {

POOCH_REAL(cuda, cuCtxSetCurrent);

// Programs that this one starts from now on do not load this library.
void leave_environment() {
  Dl_info self;
  const char* const preload = std::getenv("LD_PRELOAD");
  if (preload == nullptr || dladdr(reinterpret_cast<void*>(&leave_environment), &self) == 0) return;
  std::error_code error;
  const auto own = std::filesystem::weakly_canonical(self.dli_fname, error);
  std::string others;
  for (std::string_view rest(preload); !rest.empty();) {
    const std::string_view one = rest.substr(0, rest.find_first_of(" :"));
    rest.remove_prefix(std::min(one.size() + 1, rest.size()));
    if (one.empty() || std::filesystem::weakly_canonical(one, error) == own) continue;
    others += others.empty() ? "" : ":";
    others += one;
  }
  (void)setenv("LD_PRELOAD", others.c_str(), 1);
}

void in_forked_child() {
  stand_down();
  first_watch.store(nullptr);
}

void at_exit() {
  static constinit std::atomic<bool> done{false};
  if (stood_down() || done.exchange(true)) return;
  stop_keeping();
  // The exiting thread may be any, and its own context may be gone already.
  const Scope scope;
  auto* const set_current = real_cuCtxSetCurrent.get(scope);
  for (const Served* const one : served()) {
    if (set_current != nullptr) (void)set_current(one->context);
    try {
      report(*one);
    } catch (const std::bad_alloc&) {
      // There is no memory for it, and a line about that is out already.
    }
  }
  if (const std::uint64_t calls = foreign_calls())
    log::info("{} calls in other contexts passed through", calls);
}

}  // namespace

void before_driver_init(const Scope&) {
  static constinit std::once_flag once;
  std::call_once(once, [] {
    auto read = read_config([](const char* name) -> const char* { return std::getenv(name); });
    if (!read) end_with_usage_error(read.error().message);
    const auto* const owned = new Config(std::move(*read));
    log::configure(owned->log_level, owned->log_file);
    if (const auto unknown = mistyped_variable(environ)) log::warn("{}", *unknown);
    pthread_atfork(nullptr, nullptr, in_forked_child);
    say_torch_allocator();
    if (!owned->children) leave_environment();
    when_first_opened(begin_report);
    configure(owned);
  });
}

void after_driver_init(const Scope&) {
  // Registered after the driver's own initialisation, so that it runs before the driver's teardown.
  static constinit std::once_flag once;
  std::call_once(once, [] { register_exit(at_exit); });
}

}  // namespace pooch::interpose
