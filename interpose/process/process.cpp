#include "interpose/process/process.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <mutex>
#include <system_error>
#include <vector>

#include "core/exit_order.h"
#include "core/files.h"
#include "core/log.h"
#include "core/per_thread.h"
#include "core/summary.h"
#include "interpose/callsites/callsites.h"
#include "interpose/sessions/context.h"
#include "interpose/hooks/driver_api.h"
#include "interpose/process/keeper.h"
#include "interpose/kernels/known_kernels.h"
#include "interpose/hooks/libraries.h"
#include "interpose/driver/outside.h"
#include "interpose/device/real_device.h"
#include "interpose/driver/torch_allocator.h"
#include "interpose/cudnn/trials.h"

namespace pooch::interpose {

constinit std::atomic<runtime::Watch*> first_watch{nullptr};

namespace {

POOCH_REAL(cuda, cuCtxSetCurrent);
POOCH_REAL(cuda, cuCtxGetCurrent);
POOCH_REAL(cuda, cuCtxGetDevice);
POOCH_REAL(cuda, cuCtxPushCurrent_v2);
POOCH_REAL(cuda, cuCtxPopCurrent_v2);
POOCH_REAL(cuda, cuCtxSynchronize);
POOCH_REAL(cuda, cuStreamSynchronize);

// All of this is constant-initialised and never destroyed: hooks run before this library's initialisers and
// after its destructors.
constinit std::atomic<bool> inert{false};
constinit std::atomic<const Config*> config{nullptr};
// A device that is served. Never taken back.
struct Served {
  runtime::Session* session;
  RealDevice* port;
  CUcontext context;
  CUdevice device;
  std::filesystem::path report;  // empty: none is written
};
constexpr std::size_t most_served = 64;
constinit std::array<const Served*, most_served>
    all_served{};  // in order of opening; valid below served_count
constinit std::atomic<std::size_t> served_count{0};
constinit std::atomic<CUcontext> last_foreign{nullptr};

std::span<const Served* const> served() {
  return {all_served.data(), served_count.load(std::memory_order_acquire)};
}
constinit std::atomic<bool> foreign_reported{false};
constinit std::atomic<std::uint64_t> foreign_calls{0};
constinit std::atomic<bool> write_failed{false};
constinit std::mutex opening;
struct Guest {
  CUdevice device, peer;
};
constinit std::vector<Guest>* guests = nullptr;                  // under `opening`
constinit const std::filesystem::path* report_folder = nullptr;  // the process's; empty: no report is written

[[noreturn]] void end_with_usage_error(const std::string& message) {
  std::fflush(nullptr);
  (void)write_all(STDERR_FILENO, fmt::format("pooch: error: {}\n", log::printable(message)));
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
  first_watch.store(nullptr);
}

void write_file(const char* what, const std::filesystem::path& to, const std::string& text,
                const OutputOptions& options) {
  std::error_code error;
  std::filesystem::create_directories(to.parent_path(), error);
  const Status written = write_whole(to, text, options);
  if (written || written.error().code == ErrorCode::not_supported) return;
  if (!write_failed.exchange(true))
    log::error("{}: cannot write {}: {}", what, to.string(), written.error().message);
}

// Where this process leaves its report. Processes that share a folder have one of their own in it: ranks by
// their number, of others all but the first by their process id.
std::filesystem::path own_report_folder(const Config& from) {
  std::filesystem::path folder(from.report_folder.empty() ? from.summary_folder : from.report_folder);
  if (folder.empty()) return {};
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

Summary summary_of(const Served& one) {
  Summary summary = one.session->summary();
  if (&one != served().front()) return summary;
  describe_outside(summary);
  summary.unforeseen_kernels = unforeseen_kernels();
  return summary;
}

void write_report(const Served& one, const Summary& summary, const OutputOptions& options = {}) {
  if (one.report.empty()) return;
  write_file("the summary", one.report / "summary.json", to_json(summary), options);
  if (config.load()->report_folder.empty()) return;
  Profile profile = one.session->profile();
  describe_sites(profile);
  describe_trials(profile);
  write_file("POOCH_REPORT", one.report / "profile.json", to_json(profile), options);
}

// By a thread that must not call CUDA: times that a device still has are not in it.
void write_so_far() {
  for (const Served* const one : served()) {
    if (keeping()) write_report(*one, summary_of(*one), {.again = true});
    if (keeping()) one->session->write_trace_so_far([] { return keeping(); });
  }
}

// Where memory was short such launches cost time: what is evicted waits for them.
void say_unforeseen(const Summary& summary) {
  constexpr std::size_t most_named = 3, longest_name = 120;
  if (summary.unforeseen_kernels.empty() || summary.evictions == 0) return;
  std::string names;
  for (const UnforeseenKernel& one : summary.unforeseen_kernels) {
    if (&one - summary.unforeseen_kernels.data() == most_named) break;
    const std::string name =
        one.name.size() <= longest_name ? one.name : one.name.substr(0, longest_name) + "…";
    names += fmt::format("{}{} ({} launches{}{})", names.empty() ? "" : ", ", name, one.launches,
                         one.why.empty() ? "" : ": ", one.why);
  }
  const std::size_t all = summary.unforeseen_kernels.size();
  log::warn("{} of {} ops may have touched any memory, and what was evicted waited for them: {}{}",
            summary.unforeseen_ops, summary.ops, names,
            all > most_named ? fmt::format(" and {} more kernels", all - most_named) : "");
}

void report(const Served& one) {
  const Summary summary = summary_of(one);  // before the link is measured by copies of our own
  one.session->finish_profile();
  log::info("{} ops, peak {} of {} device bytes, {} evictions, {} bytes out, {} bytes in, need {} bytes",
            summary.ops, summary.peak_device_bytes, summary.cap_bytes, summary.evictions, summary.bytes_out,
            summary.bytes_in, summary.need_bytes);
  if (summary.ops > 0 && !summary.iterations)
    log::info("the program's calls do not repeat themselves: no iterations, no profile");
  say_unforeseen(summary);
  write_report(one, summary);
}

void at_exit() {
  static constinit std::atomic<bool> done{false};
  if (inert.load() || done.exchange(true)) return;
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
  if (const std::uint64_t calls = foreign_calls.load())
    log::info("{} calls in other contexts passed through", calls);
}

void pass_foreign_call() {
  foreign_calls.fetch_add(1, std::memory_order_relaxed);
  if (!foreign_reported.exchange(true)) {
    log::warn("calls in another context pass through: pooch serves the first context of each device");
  }
}

// The program's settings, for its `number`-th device: what names a file names one for each.
Config config_of(std::size_t number, CUdevice device) {
  Config own = *config.load();
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
    if (served().empty()) inert.store(true);
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
  if (number == 0) {
    report_folder = new std::filesystem::path(own_report_folder(own));
    // What the first session may take is what all of them share.
    if (const auto info = (*real)->info())
      if (const auto limits = runtime::settle_limits(own, *info))
        RealDevice::share_host_memory(limits->host_budget);
  }
  const bool shared = number > 0 && !report_folder->empty();
  RealDevice* const port = (*real).release();  // both live as long as the process: calls may come after exit
  if (guests != nullptr)
    for (const Guest& guest : *guests)
      if (guest.device == device) report_guest(guest, port->let_in(guest.peer));
  all_served[number] =
      new Served{(*opened).release(), port, context, device,
                 shared ? *report_folder / fmt::format("device-{}", device) : *report_folder};
  served_count.store(number + 1, std::memory_order_release);
  if (number == 0 && (!report_folder->empty() || !own.trace_file.empty())) start_keeping(write_so_far);
  if (number == 0) first_watch.store(&all_served[0]->session->passing(), std::memory_order_release);
  return all_served[number]->session;
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
  if (inert.load()) return nullptr;
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

// What happened inside of a submit on this thread, in order.
struct Noted {
  Address address;
  std::uint64_t bytes;
  bool allocated;
  PoolAccount* pool;
};
std::vector<Noted>& noted() {
  return per_thread<std::vector<Noted>>();
}
void note_inside(const Noted& what) {
  noted().push_back(what);
  inside.noted = true;
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
  std::call_once(once, [] { register_exit(at_exit); });
}

[[gnu::hot]] const Config* configuration() {
  return inert.load() ? nullptr : config.load(std::memory_order_acquire);
}

CUcontext context_of(const runtime::Session& session) {
  for (const Served* const one : served())
    if (one->session == &session) return one->context;
  return nullptr;
}

CUdevice device_of(const runtime::Session& session) {
  for (const Served* const one : served())
    if (one->session == &session) return one->device;
  return 0;
}

[[gnu::hot]] std::optional<CUdevice> device_served_in(CUcontext context) {
  for (const Served* const one : served())
    if (one->context == context) return one->device;
  return std::nullopt;
}

[[gnu::hot]] runtime::Session* open_session() {
  return inert.load(std::memory_order_relaxed) || served().empty() ? nullptr : served().front()->session;
}

[[gnu::hot]] runtime::Session* session_owning(Address address) {
  if (inert.load(std::memory_order_relaxed)) return nullptr;
  for (const Served* const one : served())
    if (one->session->owns(address)) return one->session;
  return nullptr;
}

runtime::Session* session_on(CUdevice device) {
  for (const Served* const one : served())
    if (one->device == device) return one->session;
  return nullptr;
}

[[gnu::hot]] void each_session(const Scope& scope, FunctionRef<void(runtime::Session&)> visit) {
  if (inert.load(std::memory_order_relaxed)) return;
  for (const Served* const one : served()) {
    const InContext there(scope, *one->session);
    visit(*one->session);
  }
}

// With one device nobody need look: what is done in its name is done in its context.
InContext::InContext(const Scope& scope, const runtime::Session& session)
    : InContext(scope, served().size() < 2 ? nullptr : context_of(session)) {}

InContext::InContext(const Scope& scope, CUcontext wanted) : scope_(scope) {
  if (wanted == nullptr || served().size() < 2) return;
  auto* const get_current = real_cuCtxGetCurrent.get(scope);
  auto* const push = real_cuCtxPushCurrent_v2.get(scope);
  CUcontext current = nullptr;
  if (get_current == nullptr || push == nullptr || get_current(&current) != CUDA_SUCCESS || current == wanted)
    return;
  pushed_ = push(wanted) == CUDA_SUCCESS;
}

InContext::~InContext() {
  CUcontext popped = nullptr;
  if (!pushed_) return;
  if (auto* const pop = real_cuCtxPopCurrent_v2.get(scope_)) (void)pop(&popped);
}

runtime::Session* other_owner(const runtime::Session& own, std::span<const Access> accesses) {
  if (served().size() < 2) return nullptr;
  for (const Access& access : accesses)
    if (runtime::Session* const owner = session_owning(access.address); owner != nullptr && owner != &own)
      return owner;
  return nullptr;
}

int submit_across(const Scope& scope, const runtime::Session& own, runtime::Session& other, const Call& call,
                  FunctionRef<int()> launch, runtime::Refusal refusal) {
  std::vector<Access> there;
  for (const Access& access : call.accesses)
    if (other.owns(access.address)) there.push_back(access);
  Call part{call.function, call.kind, StreamHandle::legacy, there};
  part.blocks = true;  // the other session's mutex is free meanwhile: two such calls may meet
  part.traits = call.traits;
  const InContext other_context(scope, other);
  return other.submit(
      part,
      [&]() -> int {
        auto* const synchronize = real_cuCtxSynchronize.get(scope);
        auto* const wait = real_cuStreamSynchronize.get(scope);
        if (synchronize == nullptr || wait == nullptr) return refusal.failed;
        if (const CUresult arrived = synchronize(); arrived != CUDA_SUCCESS) return refusal.failed;
        const InContext own_context(scope, own);
        const int status = launch();
        // A work's own error shows in the program's next call.
        if (status == 0) (void)wait(reinterpret_cast<CUstream>(call.stream));
        return status;
      },
      refusal);
}

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
  if (guests == nullptr) guests = new std::vector<Guest>;  // never destroyed, like all that hooks use
  guests->push_back({device, peer});
  for (const Served* const one : served()) {
    if (one->device != device) continue;
    const InContext there(scope, one->context);
    one->session->watch();  // calls of another device may have operands there
    report_guest(guests->back(), one->port->let_in(peer));
  }
}

void note_allocated_inside(Address address, std::uint64_t bytes, PoolAccount* pool) {
  charge(pool, bytes, ServedBy::driver);
  note_inside({address, bytes, true, pool});
}
void note_freed_inside(Address address) {
  note_inside({address, 0, false, nullptr});
}

std::optional<runtime::Extent> find_allocation(const runtime::Session& in, Address address) {
  if (inside.depth == 0 || inside.operands.empty()) return in.find(address);
  for (const Access& operand : inside.operands) {
    if (address >= operand.address && address - operand.address < operand.bytes) {
      return runtime::Extent{operand.address, operand.bytes};
    }
  }
  return std::nullopt;
}

SubmitGuard::SubmitGuard(const Scope& scope, runtime::Session& in, std::span<const Access> operands)
    : session_(in) {
  inside = {scope.depth(), false, operands};
}

SubmitGuard::~SubmitGuard() {
  inside.depth = 0;
  inside.operands = {};
  if (inside.noted) account_for_noted(session_);
}

void account_for_noted(runtime::Session& session) {
  inside.noted = false;
  for (const Noted& one : noted()) {
    if (!one.allocated) {
      // What a library allocates for itself is no operand of a replay.
      if (const auto gone = session.pass_through_freed(one.address); gone && *gone)
        if (const auto* const origin = static_cast<const Origin*>((*gone)->origin))
          discharge(origin->account, (*gone)->bytes, ServedBy::driver);
      continue;
    }
    // The memory is there already; admitting it makes the rest move over.
    if (!session.admit_pass_through(one.bytes)) {
      log::warn("a library took {} bytes of device memory inside a call, which the cap has no room for",
                one.bytes);
      discharge(one.pool, one.bytes, ServedBy::driver);
      continue;
    }
    session.passed_through(one.address, one.bytes, /*by_program=*/false, origin_of(one.pool));
  }
  noted().clear();
}

}  // namespace pooch::interpose
