#include "interpose/process.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <system_error>
#include <vector>

#include "core/log.h"
#include "core/per_thread.h"
#include "core/summary.h"
#include "interpose/callsites.h"
#include "interpose/context.h"
#include "interpose/driver_api.h"
#include "interpose/libraries.h"
#include "interpose/real_device.h"
#include "interpose/torch_allocator.h"

namespace pooch::interpose {
namespace {

POOCH_REAL(cuda, cuCtxSetCurrent);
POOCH_REAL(cuda, cuCtxGetDevice);

// All of this is constant-initialised and never destroyed: hooks run before this library's initialisers and
// after its destructors.
constinit std::atomic<bool> inert{false};
constinit std::atomic<const Config*> config{nullptr};
constinit std::atomic<runtime::Session*> session{nullptr};
constinit std::atomic<CUcontext> session_context{nullptr};
constinit std::atomic<CUdevice> session_device{0};
constinit std::atomic<bool> foreign_reported{false};
constinit std::atomic<std::uint64_t> foreign_calls{0};
constinit std::mutex opening;
constinit RealDevice* device = nullptr;
constinit const std::filesystem::path* report_folder = nullptr;  // empty: no report is written

[[noreturn]] void end_with_usage_error(const std::string& message) {
  std::fflush(nullptr);
  std::fprintf(stderr, "pooch: error: %s\n", message.c_str());
  std::fflush(stderr);
  _exit(2);
}

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
  inert.store(true);
}

Status write_file(const std::filesystem::path& to, const std::string& text) {
  std::error_code error;
  if (to.has_parent_path()) std::filesystem::create_directories(to.parent_path(), error);
  const std::filesystem::path draft = to.string() + "." + std::to_string(getpid());
  {
    std::ofstream out(draft, std::ios::binary);
    out << text;
    out.flush();
    if (!out) return Error{ErrorCode::invalid_argument, fmt::format("cannot write {}", draft.string())};
  }
  std::filesystem::rename(draft, to, error);
  if (error) {
    return Error{ErrorCode::invalid_argument,
                 fmt::format("cannot write {}: {}", to.string(), error.message())};
  }
  return Done{};
}

// Where this process leaves its report. Processes that share a folder have one of their own in it: ranks by
// their number, of others all but the first by their process id.
std::filesystem::path own_report_folder(const Config& from) {
  if (from.report_folder.empty()) return {};
  std::filesystem::path folder(from.report_folder);
  if (from.local_rank && from.local_rank->count > 1)
    folder /= fmt::format("rank-{}", from.local_rank->world_rank);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  // Held as long as the process lives. Where it cannot be had for another reason, writing will say so.
  const int lock = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock < 0 || flock(lock, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return folder;
  close(lock);
  return folder / fmt::format("process-{}", getpid());
}

void at_exit() {
  if (inert.load()) return;
  runtime::Session* const open = session.load();
  if (open == nullptr) return;
  // The exiting thread may be any, and its own context may be gone already.
  const Scope scope;
  if (auto* const set_current = real_cuCtxSetCurrent.get(scope)) (void)set_current(session_context.load());
  const Summary summary = open->summary();  // before the link is measured by copies of our own
  open->finish_profile();
  log::info("{} ops, peak {} of {} device bytes, {} evictions, {} bytes out, {} bytes in, need {} bytes",
            summary.ops, summary.peak_device_bytes, summary.cap_bytes, summary.evictions, summary.bytes_out,
            summary.bytes_in, summary.need_bytes);
  if (const std::uint64_t calls = foreign_calls.load())
    log::info("{} calls in other contexts passed through", calls);
  if (summary.ops > 0 && !summary.iterations)
    log::info("the program's calls do not repeat themselves: no iterations, no profile");
  const std::filesystem::path& to = *report_folder;
  if (to.empty()) return;
  Profile profile = open->profile();
  describe_sites(profile);
  for (const Status& written :
       {write_file(to / "profile.json", to_json(profile)), write_file(to / "summary.json", to_json(summary))})
    if (!written) log::error("POOCH_REPORT: {}", written.error().message);
}

void pass_foreign_call() {
  foreign_calls.fetch_add(1, std::memory_order_relaxed);
  if (!foreign_reported.exchange(true)) {
    log::warn(
        "calls for another device or context pass through: pooch serves the first context of a process");
  }
}

runtime::Session* open_in(CUcontext context, const Scope& scope) {
  const std::lock_guard lock(opening);
  if (runtime::Session* const open = session.load())
    return session_context.load() == context ? open : nullptr;
  if (inert.load()) return nullptr;
  const auto give_up = [](const Error& error) -> runtime::Session* {
    inert.store(true);
    log::error("{}; this process runs without pooch", error.message);
    return nullptr;
  };
  if (device == nullptr) {
    auto opened = RealDevice::open();
    if (!opened) return give_up(opened.error());
    device = (*opened).release();
  }
  auto opened = runtime::Session::open(*config.load(), *device);
  if (!opened) {
    if (opened.error().code == ErrorCode::invalid_argument) end_with_usage_error(opened.error().message);
    return give_up(opened.error());
  }
  CUdevice ordinal = 0;
  if (auto* const get_device = real_cuCtxGetDevice.get(scope)) (void)get_device(&ordinal);
  session_device.store(ordinal);
  report_folder = new std::filesystem::path(own_report_folder(*config.load()));
  session_context.store(context);
  session.store((*opened).release());  // lives as long as the process: calls may come after exit handlers
  return session.load();
}

runtime::Session* session_in(CUcontext context, const Scope& scope) {
  if (runtime::Session* const open = session.load(std::memory_order_acquire)) {
    if (context == session_context.load(std::memory_order_relaxed)) return open;
    pass_foreign_call();
    return nullptr;
  }
  return open_in(context, scope);
}

// What happened inside of a submit on this thread, in order.
struct Noted {
  Address address;
  std::uint64_t bytes;
  bool allocated;
};
[[gnu::tls_model("initial-exec")]] thread_local int submit_depth = 0;  // 0: not inside a submit
[[gnu::tls_model("initial-exec")]] thread_local std::span<const Access> submit_operands;
std::vector<Noted>& noted() {
  return per_thread<std::vector<Noted>>();
}

}  // namespace

void before_driver_init(const Scope&) {
  static constinit std::once_flag once;
  std::call_once(once, [] {
    auto read = read_config([](const char* name) -> const char* { return std::getenv(name); });
    if (!read) end_with_usage_error(read.error().message);
    const auto* const owned = new Config(std::move(*read));
    log::configure(owned->log_level, owned->log_file);
    pthread_atfork(nullptr, nullptr, in_forked_child);
    say_torch_allocator();
    if (!owned->children) leave_environment();
    config.store(owned, std::memory_order_release);
  });
}

void after_driver_init(const Scope&) {
  // Registered after the driver's own initialisation, so that it runs before the driver's teardown.
  static constinit std::once_flag once;
  std::call_once(once, [] { std::atexit(at_exit); });
}

const Config* configuration() {
  return inert.load() ? nullptr : config.load(std::memory_order_acquire);
}

CUcontext context_of_session() {
  return session_context.load(std::memory_order_acquire);
}

CUdevice device_of_session() {
  return session_device.load(std::memory_order_acquire);
}

runtime::Session* open_session() {
  return inert.load(std::memory_order_relaxed) ? nullptr : session.load(std::memory_order_acquire);
}

runtime::Session* session_for_driver_call(const Scope& scope) {
  if (configuration() == nullptr) return nullptr;
  CUcontext const context = current_context(scope);
  return context == nullptr ? nullptr : session_in(context, scope);
}

runtime::Session* session_for_library_call(const Scope& scope) {
  if (configuration() == nullptr) return nullptr;
  CUcontext context = current_context(scope);
  if (context == nullptr) {
    context = session_context.load();
    auto* const set_current = real_cuCtxSetCurrent.get(scope);
    if (context == nullptr || set_current == nullptr || set_current(context) != CUDA_SUCCESS) return nullptr;
    forget_context();
  }
  return session_in(context, scope);
}

bool directly_inside_submit(const Scope& scope) {
  return submit_depth != 0 && scope.depth() == submit_depth + 1;
}

void note_allocated_inside(Address address, std::uint64_t bytes) {
  noted().push_back({address, bytes, true});
}
void note_freed_inside(Address address) {
  noted().push_back({address, 0, false});
}

bool inside_submit() {
  return submit_depth != 0;
}

std::optional<runtime::Extent> find_allocation(const runtime::Session& in, Address address) {
  if (submit_depth == 0) return in.find(address);
  for (const Access& operand : submit_operands) {
    if (address >= operand.address && address - operand.address < operand.bytes) {
      return runtime::Extent{operand.address, operand.bytes};
    }
  }
  return std::nullopt;
}

SubmitGuard::SubmitGuard(const Scope& scope, runtime::Session& in, std::span<const Access> operands)
    : session_(in) {
  submit_depth = scope.depth();
  submit_operands = operands;
}

SubmitGuard::~SubmitGuard() {
  submit_depth = 0;
  submit_operands = {};
  if (noted().empty()) return;
  for (const Noted& one : noted()) {
    if (!one.allocated) {
      session_.pass_through_freed(one.address);
      continue;
    }
    // The memory is there already; admitting it makes the rest move over.
    if (!session_.admit_pass_through(one.bytes)) {
      log::warn("a library took {} bytes of device memory inside a call, which the cap has no room for",
                one.bytes);
      continue;
    }
    session_.passed_through(one.address, one.bytes, /*by_program=*/false);
  }
  noted().clear();
}

CUresult to_cuda(const Error& error) {
  switch (error.code) {
    case ErrorCode::invalid_argument:
      return CUDA_ERROR_INVALID_VALUE;
    case ErrorCode::out_of_memory:
      return CUDA_ERROR_OUT_OF_MEMORY;
    case ErrorCode::not_supported:
      return CUDA_ERROR_NOT_SUPPORTED;
    case ErrorCode::device:
      return static_cast<CUresult>(error.vendor_status != 0 ? error.vendor_status : CUDA_ERROR_UNKNOWN);
    case ErrorCode::internal:
      break;
  }
  return CUDA_ERROR_UNKNOWN;
}

}  // namespace pooch::interpose
