#include "interpose/sessions/sessions.h"

#include <fmt/core.h>

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "core/log.h"
#include "interpose/device/real_device.h"
#include "interpose/hooks/libraries.h"
#include "interpose/sessions/configuration.h"
#include "interpose/sessions/context.h"
#include "interpose/sessions/inside.h"
#include "interpose/sessions/served.h"

namespace pooch::interpose {
namespace {

POOCH_REAL(cuda, cuCtxSetCurrent);
POOCH_REAL(cuda, cuCtxGetDevice);
POOCH_REAL(cuda, cuCtxPushCurrent_v2);
POOCH_REAL(cuda, cuCtxPopCurrent_v2);

constinit std::atomic<CUcontext> last_foreign{nullptr};
constinit std::atomic<bool> foreign_reported{false};
constinit std::atomic<std::uint64_t> foreign{0};
using FirstOpened = void (*)(const Config&);
constinit FirstOpened first_opened = nullptr;
constinit std::mutex opening;
struct Guest {
  CUdevice device, peer;
};
constinit std::vector<Guest>* guests = nullptr;  // under `opening`; never destroyed, like all that hooks use

void pass_foreign_call() {
  foreign.fetch_add(1, std::memory_order_relaxed);
  if (!foreign_reported.exchange(true)) {
    log::warn("calls in another context pass through: pooch serves the first context of each device");
  }
}

// The program's settings, for its `number`-th device: what names a file names one for each.
Config config_of(std::size_t number, CUdevice device) {
  Config own = *configuration();
  if (number == 0) return own;
  own.watch_from_start = true;  // its calls may reach into the memory of others
  for (std::string* const file : {&own.record_file, &own.trace_file})
    if (!file->empty()) *file += fmt::format(".device-{}", device);
  return own;
}

void report_guest(const Guest& guest, const Status& let_in) {
  if (!let_in)
    log::warn("device {} does not get at what pooch manages on device {}: {}", guest.peer, guest.device,
              let_in.error().message);
}

runtime::Session* open_on(CUdevice device, CUcontext context) {
  const auto give_up = [](const Error& error) -> runtime::Session* {
    if (served().empty()) stand_down();
    log::error("{}; {} without pooch", error.message,
               served().empty() ? "this process runs" : "this device is used");
    return nullptr;
  };
  auto real = RealDevice::open();
  if (!real) return give_up(real.error());
  const std::size_t number = served().size();
  const Config own = config_of(number, device);
  auto opened = runtime::Session::open(own, **real);
  if (!opened) {
    if (opened.error().code == ErrorCode::invalid_argument) end_with_usage_error(opened.error().message);
    return give_up(opened.error());
  }
  // What the first session may take is what all of them share.
  if (number == 0)
    if (const auto info = (*real)->info())
      if (const auto limits = runtime::settle_limits(own, *info))
        RealDevice::share_host_memory(limits->host_budget);
  RealDevice* const port = (*real).release();  // both live as long as the process: calls may come after exit
  if (guests != nullptr)
    for (const Guest& guest : *guests)
      if (guest.device == device) report_guest(guest, port->let_in(guest.peer));
  if (number == 0 && first_opened != nullptr) first_opened(own);
  runtime::Session* const session = (*opened).release();
  session->begin_live(device);
  add_served(new Served{session, port, context, device});
  if (number == 0) first_watch.store(&session->passing(), std::memory_order_release);
  return session;
}

// Another device's calls may reach into the memory of those that are served.
void watch_others(const Scope& scope) {
  if (served().empty()) return;
  auto* const push = real_cuCtxPushCurrent_v2.get(scope);
  auto* const pop = real_cuCtxPopCurrent_v2.get(scope);
  CUcontext popped = nullptr;
  for (const Served* const one : served()) {
    if (push == nullptr || pop == nullptr || push(one->context) != CUDA_SUCCESS) continue;
    one->session->watch();
    (void)pop(&popped);
  }
}

runtime::Session* open_in(CUcontext context, const Scope& scope) {
  const std::lock_guard lock(opening);
  for (const Served* const one : served())
    if (one->context == context) return one->session;
  if (configuration() == nullptr) return nullptr;
  CUdevice device = 0;
  auto* const get_device = real_cuCtxGetDevice.get(scope);
  if (get_device == nullptr || get_device(&device) != CUDA_SUCCESS) return nullptr;
  runtime::Session* made = nullptr;
  if (session_on(device) == nullptr && served().size() < most_served) {
    watch_others(scope);
    made = open_on(device, context);
  }
  if (made == nullptr) last_foreign.store(context);
  return made;
}

[[gnu::hot]] runtime::Session* session_in(CUcontext context, const Scope& scope) {
  for (const Served* const one : served())
    if (one->context == context) return one->session;
  if (context != last_foreign.load(std::memory_order_relaxed))
    if (runtime::Session* const opened = open_in(context, scope)) return opened;
  if (!served().empty()) pass_foreign_call();
  return nullptr;
}

}  // namespace

[[gnu::hot]] runtime::Session* session_for_driver_call(const Scope& scope) {
  if (configuration() == nullptr) return nullptr;
  CUcontext const context = current_context(scope);
  return context == nullptr ? nullptr : session_in(context, scope);
}

runtime::Session* session_for_library_call(const Scope& scope) {
  if (configuration() == nullptr) return nullptr;
  CUcontext context = current_context(scope);
  if (context == nullptr) {
    context = served().empty() ? nullptr : served().front()->context;
    auto* const set_current = real_cuCtxSetCurrent.get(scope);
    if (context == nullptr || set_current == nullptr || set_current(context) != CUDA_SUCCESS) return nullptr;
    forget_context();
  }
  return session_in(context, scope);
}

void let_in(const Scope& scope, CUdevice device, CUdevice peer) {
  if (configuration() == nullptr || device == peer) return;
  const std::lock_guard lock(opening);
  if (guests == nullptr) guests = new std::vector<Guest>;
  guests->push_back({device, peer});
  for (const Served* const one : served()) {
    if (one->device != device) continue;
    const InContext there(scope, one->context);
    one->session->watch();  // calls of another device may have operands there
    report_guest(guests->back(), one->port->let_in(peer));
  }
}

void when_first_opened(void (*then)(const Config& config)) {
  first_opened = then;
}

std::uint64_t foreign_calls() {
  return foreign.load();
}

}  // namespace pooch::interpose
