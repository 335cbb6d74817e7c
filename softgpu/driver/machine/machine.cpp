#include "softgpu/driver/machine/machine.h"
#include "softgpu/driver/machine/delay.h"
#include "softgpu/per_thread.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <pthread.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <system_error>

namespace softgpu {
namespace {

constexpr std::uint64_t first_of_host_handles = std::uint64_t{1} << 62;

std::atomic<Machine*> the_machine{nullptr};
std::mutex starting;

// A child has no device: its threads, and the memory it would share with us, are ours.
void in_child() {
  the_machine = nullptr;
}

// False where the variable is set and no number.
bool seed_from_environment(const char* variable, std::optional<std::uint64_t>& seed) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return true;
  char* end = nullptr;
  seed = std::strtoull(text, &end, 10);
  return *text >= '0' && *text <= '9' && *end == '\0';
}

void at_exit() {
  Machine* const m = machine();
  if (m == nullptr) return;
  Lock lock(m->scheduler.mutex);
  m->exited = true;
  m->scheduler.stop(lock);
  const char* path = std::getenv("SOFTGPU_REPORT");
  if (path == nullptr || *path == '\0') return;
  std::ofstream file(path);
  file << report_json(*m);
  file.flush();
  if (!file) fmt::print(stderr, "softgpu: SOFTGPU_REPORT='{}': cannot be written\n", path);
}

// The program's own code touches what a copy still uses.
bool on_own_access(HostGuard& guard, std::uint64_t address, bool write) {
  HostGuard::Guarded found{};
  Machine* const m = machine();
  if (m == nullptr) return guard.take(address, found);  // a forked child with its copy of the buffers
  const Lock lock(m->scheduler.mutex);
  if (!guard.take(address, found)) return false;
  const Access program = m->scheduler.host_access("the program's own code", m->statistics.api_calls);
  m->violations.add(
      Violation{"race", Deed{program, write ? "writes" : "reads"},
                Deed{found.by, found.written ? "writes" : "reads"}, address, address + 1, "host"},
      /*fatal=*/true);
  return true;
}

// One per thread and context: what 0 means in the per-thread variants.
std::map<Context*, StreamPtr>& thread_streams() {
  return per_thread<std::map<Context*, StreamPtr>>();
}

}  // namespace

Machine::Machine(const Choice& chosen, std::optional<std::uint64_t> seed)
    : choice(chosen),
      cost(choice.model),
      addresses(chosen.options.high_addresses),
      host(choice.model.host_bytes),
      guard(host, on_own_access),
      physical(choice.model.memory_bytes, chosen.options.devices, !chosen.options.timing),
      host_handles(choice.model.host_handles ? choice.model.host_bytes : 0, 1,
                   !chosen.options.timing && choice.model.host_handles, first_of_host_handles),
      provenance(chosen.options.timing ? std::make_optional<Provenance>(addresses, host) : std::nullopt),
      checker(addresses, host, physical, host_handles, violations, provenance ? &*provenance : nullptr),
      scheduler(choice.model, {chosen.options.noise_percent, chosen.options.noise_seed}, checker,
                provenance ? &*provenance : nullptr, guard, violations, seed),
      overheads(choice, physical, scheduler),
      memory(addresses, physical, host_handles, host, checker, scheduler, overheads, violations,
             chosen.options.devices),
      primaries(static_cast<std::size_t>(chosen.options.devices)) {}

StreamPtr Machine::stream(CUstream handle, bool per_thread, Context* context) {
  if (handle == CU_STREAM_LEGACY || (handle == nullptr && !per_thread))
    return context ? context->legacy : nullptr;
  if (handle == CU_STREAM_PER_THREAD || handle == nullptr) {
    if (context == nullptr) return nullptr;
    StreamPtr& stream = thread_streams()[context];
    if (!stream) stream = scheduler.add_stream(context, CU_STREAM_DEFAULT, 0);
    return stream;
  }
  const auto found = streams.find(handle);
  return found == streams.end() ? nullptr : found->second;
}

Context* Machine::create_context(int device, unsigned flags, bool is_primary) {
  auto made = std::make_unique<Context>();
  Context* const context = made.get();
  context->device = device;
  context->flags = flags;
  context->primary = is_primary;
  context->id = contexts.size() + 1;
  context->legacy = scheduler.add_stream(context, CU_STREAM_DEFAULT, 0);
  context->legacy->legacy = true;
  contexts.emplace(context, std::move(made));
  return context;
}

void Machine::destroy_context(Lock& lock, Context* context, const char* name, std::uint64_t call) {
  scheduler.wait_context(lock, context);
  memory.free_all({name, call, context, context->device});
  for (auto i = streams.begin(); i != streams.end();) {
    i = i->second->context == context ? streams.erase(i) : std::next(i);
  }
  for (auto i = events.begin(); i != events.end();) {
    i = i->second->context == context ? events.erase(i) : std::next(i);
  }
  for (const StreamPtr& stream : scheduler.streams_of(context)) scheduler.retire(stream);
  context->alive = false;
  Context*& primary = primaries[static_cast<std::size_t>(context->device)].context;
  if (primary == context) primary = nullptr;
}

void Machine::break_down(Lock& lock) {
  violations.stick();
  scheduler.settle(lock);
}

Machine* machine() {
  return the_machine;
}

CUresult start_machine() {
  const std::lock_guard<std::mutex> lock(starting);
  if (machine() != nullptr) return CUDA_SUCCESS;
  const char* value = std::getenv("SOFTGPU_DEVICE");
  Choice choice;
  std::string error;
  std::optional<std::uint64_t> seed, delays;
  bool good = choose_device(value != nullptr && *value != '\0' ? value : "v100-pcie3", models_folder(),
                            choice, error);
  if (good && !seed_from_environment("SOFTGPU_SEED", seed)) {
    error = fmt::format(
        "softgpu: SOFTGPU_SEED='{}': no number; accepted: 0 to 2^64-1, or unset for submission order",
        std::getenv("SOFTGPU_SEED"));
    good = false;
  }
  if (good && !seed_from_environment("SOFTGPU_DELAY", delays)) {
    error = fmt::format(
        "softgpu: SOFTGPU_DELAY='{}': no number; accepted: 0 to 2^64-1, or unset for waits that end in time",
        std::getenv("SOFTGPU_DELAY"));
    good = false;
  }
  std::optional<Failure> failure = Failure();
  const char* const planned = std::getenv("SOFTGPU_FAIL");
  if (good && planned != nullptr && *planned != '\0') {
    failure = Failure::parse(planned);
    error = fmt::format("softgpu: SOFTGPU_FAIL='{}': accepted: {}", planned, Failure::accepted());
    good = failure.has_value();
  }
  if (!good) {
    static bool said = false;
    if (!said) fmt::print(stderr, "{}\n", error);
    said = true;
    return CUDA_ERROR_NO_DEVICE;
  }
  try {
    auto* const made = new Machine(choice, seed);
    made->failure = *failure;
    if (const char* const paths = std::getenv("SOFTGPU_CALL_PATHS"); paths != nullptr && *paths != '\0')
      made->call_paths.enable();
    if (delays) delay_waits(*delays);
    the_machine = made;
  } catch (const std::system_error& problem) {
    fmt::print(stderr, "{}\n", problem.what());
    return CUDA_ERROR_NO_DEVICE;
  }
  static const bool registered = [] {
    pthread_atfork(nullptr, nullptr, in_child);
    // Handlers run last first: those of the program and its tools, registered after cuInit, still find a
    // device.
    std::atexit(at_exit);
    return true;
  }();
  (void)registered;
  return CUDA_SUCCESS;
}

std::vector<Context*>& context_stack() {
  return per_thread<std::vector<Context*>>();
}

}  // namespace softgpu
