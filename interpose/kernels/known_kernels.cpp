#include "interpose/kernels/known_kernels.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "core/log.h"
#include "interpose/hooks/libraries.h"
#include "interpose/kernels/code_images.h"
#include "interpose/sessions/configuration.h"
#include "interpose/sessions/context.h"
#include "runtime/processes/kernel_reader.h"

namespace pooch::interpose {
namespace {

POOCH_REAL(cuda, cuFuncGetParamInfo);
POOCH_REAL(cuda, cuKernelGetParamInfo);
POOCH_REAL(cuda, cuFuncGetName);
POOCH_REAL(cuda, cuKernelGetName);
POOCH_REAL(cuda, cuFuncGetModule);
POOCH_REAL(cuda, cuKernelGetLibrary);
POOCH_REAL(cuda, cuCtxGetDevice);
POOCH_REAL(cuda, cuDeviceGetAttribute);

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds between_looks(1);
// Answers are taken together, but those that came first do not wait longer for the others.
constexpr std::chrono::seconds patience(30);
constexpr std::chrono::seconds longest_wait(120);  // with POOCH_WAIT_FOR_PLANS

// --- what the driver says

// Parameters of one kernel, asked for one by one until the driver has no more.
struct Params {
  std::vector<ParamLayout> all;
  CUresult ended_by = CUDA_ERROR_INVALID_VALUE;  // which is how the driver says that these were all

  bool complete() const { return ended_by == CUDA_ERROR_INVALID_VALUE; }
};
template <class Get, class Kernel>
Params ask_params(Get* get, Kernel kernel) {
  Params asked;
  if (get == nullptr) return asked;
  for (ParamLayout one;
       (asked.ended_by = get(kernel, asked.all.size(), &one.offset, &one.bytes)) == CUDA_SUCCESS;)
    asked.all.push_back(one);
  return asked;
}

template <class Get, class Kernel>
const char* ask_name(Get* get, Kernel kernel) {
  const char* name = nullptr;
  return get != nullptr && get(&name, kernel) == CUDA_SUCCESS ? name : nullptr;
}

// cuLaunchKernel takes a CUfunction or a CUkernel; each query understands one of them. A driver without the
// queries says nothing, and there is nothing to scan.
Result<KnownKernel> ask_driver(const Scope& scope, CUfunction function) {
  const auto kernel = reinterpret_cast<CUkernel>(function);
  Params params = ask_params(real_cuFuncGetParamInfo.get_if_present(scope), function);
  const bool is_function = !params.all.empty();
  bool complete = params.complete();
  if (!is_function) {
    params = ask_params(real_cuKernelGetParamInfo.get_if_present(scope), kernel);
    complete = params.complete() || (complete && params.all.empty());
  }
  if (!complete)
    return Error{ErrorCode::device,
                 fmt::format("the driver does not say what a kernel's parameters are ({})",
                             static_cast<int>(params.ended_by)),
                 params.ended_by};
  const bool is_kernel = !is_function && !params.all.empty();
  const char* name = is_kernel ? nullptr : ask_name(real_cuFuncGetName.get_if_present(scope), function);
  if (name == nullptr && !is_function) name = ask_name(real_cuKernelGetName.get_if_present(scope), kernel);
  return std::make_shared<const KernelFacts>(name, std::move(params.all));
}

// As it was found, or, where nobody saw that (kernels can be enumerated), as the driver says.
std::optional<KernelOrigin> find_origin(const Scope& scope, CUfunction function) {
  if (auto found = origin_of(function)) return found;
  const auto kernel = reinterpret_cast<CUkernel>(function);
  CUmodule module = nullptr;
  CUlibrary library = nullptr;
  std::optional<runtime::CodeImage> image;
  const char* name = nullptr;
  if (auto* const ask = real_cuFuncGetModule.get_if_present(scope);
      ask != nullptr && ask(&module, function) == CUDA_SUCCESS) {
    image = image_of(module);
    name = ask_name(real_cuFuncGetName.get_if_present(scope), function);
  } else if (auto* const ask_kernel = real_cuKernelGetLibrary.get_if_present(scope);
             ask_kernel != nullptr && ask_kernel(&library, kernel) == CUDA_SUCCESS) {
    image = image_of(library);
    name = ask_name(real_cuKernelGetName.get_if_present(scope), kernel);
  }
  return image && name != nullptr ? std::optional(KernelOrigin{*image, name}) : std::nullopt;
}

// 90 for compute capability 9.0; 0: the driver does not say.
std::uint32_t architecture(const Scope& scope) {
  auto* const device_of_context = real_cuCtxGetDevice.get(scope);
  auto* const attribute = real_cuDeviceGetAttribute.get(scope);
  CUdevice device = 0;
  int major = 0, minor = 0;
  if (device_of_context == nullptr || attribute == nullptr || device_of_context(&device) != CUDA_SUCCESS ||
      attribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device) != CUDA_SUCCESS ||
      attribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device) != CUDA_SUCCESS)
    return 0;
  return static_cast<std::uint32_t>(10 * major + minor);
}

// --- what is known

struct Known {
  KnownKernel facts;
  bool wanted = false;  // its code was asked for
};
constinit std::shared_mutex kernels_mutex;
// By handle.
std::map<CUfunction, Known>& kernels() {
  static auto* const all = new std::map<CUfunction, Known>;
  return *all;
}

// Who was asked for code, and what for. Under kernels_mutex, but for `reader` itself.
struct Asking {
  runtime::KernelReader* reader = nullptr;  // made at the first question; lives as long as the process
  std::map<std::uint64_t, std::pair<CUfunction, KnownKernel>> open;  // by ticket
  std::vector<std::pair<std::uint64_t, KernelCode>> answered;        // and not yet taken
  Clock::time_point first_answer;
};
Asking& asking() {
  static auto* const one = new Asking;
  return *one;
}
constinit std::atomic<bool> answers_due{false};
constinit std::atomic<Clock::rep> next_look{0};

struct Unforeseen {
  std::mutex mutex;
  std::map<std::uint64_t, UnforeseenKernel> kernels;  // by identity
};
Unforeseen& unforeseen() {
  static auto* const all = new Unforeseen;
  return *all;
}

void note_answers(std::vector<runtime::KernelReader::Answer> answers) {
  Asking& state = asking();
  for (auto& [ticket, code] : answers) {
    const auto open = state.open.find(ticket);
    if (open == state.open.end()) continue;
    if (code) {
      if (state.answered.empty()) state.first_answer = Clock::now();
      state.answered.emplace_back(ticket, std::move(*code));
      continue;
    }
    if (code.error().code != ErrorCode::not_supported)
      log::info("machine code of {}: {}", open->second.second->name(), code.error().message);
    state.open.erase(open);
  }
}

// All kernels that were asked for are known from now on.
void take_answers() {
  Asking& state = asking();
  for (auto& [ticket, code] : state.answered) {
    const auto open = state.open.extract(ticket);
    const auto& [function, asked] = open.mapped();
    const auto known = kernels().find(function);
    // The handle may have come to mean another kernel.
    if (known == kernels().end() || known->second.facts->identity() != asked->identity()) continue;
    const std::string why = code.why();
    known->second.facts = std::make_shared<const KernelFacts>(
        known->second.facts->with_code(std::make_shared<const KernelCode>(std::move(code))));
    if (!why.empty()) log::info("machine code of {}: any memory may be touched: {}", asked->name(), why);
  }
  state.answered.clear();
  answers_due.store(!state.open.empty(), std::memory_order_relaxed);
}

void look_for_answers() {
  const auto now = Clock::now();
  auto due = next_look.load(std::memory_order_relaxed);
  const auto then = (now + between_looks).time_since_epoch().count();
  if (now.time_since_epoch().count() < due || !next_look.compare_exchange_strong(due, then)) return;
  const std::unique_lock lock(kernels_mutex);
  Asking& state = asking();
  note_answers(state.reader->poll());
  const bool all = state.answered.size() == state.open.size();
  if (all || (!state.answered.empty() && now - state.first_answer > patience)) take_answers();
}

}  // namespace

Result<KnownKernel> facts_of(const Scope& scope, CUfunction function) {
  if (answers_due.load(std::memory_order_relaxed)) look_for_answers();
  {
    const std::shared_lock lock(kernels_mutex);
    if (const auto found = kernels().find(function); found != kernels().end()) return found->second.facts;
  }
  auto asked = ask_driver(scope, function);
  if (!asked) return asked;
  const std::unique_lock lock(kernels_mutex);
  return kernels().emplace(function, Known{std::move(*asked)}).first->second.facts;
}

KnownKernel want_code(const Scope& scope, CUfunction function, const KnownKernel& facts) {
  {
    const std::shared_lock lock(kernels_mutex);
    const auto known = kernels().find(function);
    if (known == kernels().end() || known->second.wanted) return facts;
  }
  const auto origin = find_origin(scope, function);
  const std::uint32_t device = origin ? architecture(scope) : 0;
  const Config* const config = configuration();
  const std::unique_lock lock(kernels_mutex);
  const auto known = kernels().find(function);
  if (known == kernels().end() || std::exchange(known->second.wanted, true)) return facts;
  if (device == 0 || config == nullptr) return facts;
  Asking& state = asking();
  if (state.reader == nullptr) state.reader = new runtime::KernelReader(*config, packages_folder());
  const std::uint64_t ticket = state.reader->ask({origin->image, origin->name, device});
  state.open.emplace(ticket, std::pair(function, known->second.facts));
  answers_due.store(true, std::memory_order_relaxed);
  if (!config->wait_for_plans) {
    note_answers(state.reader->poll());  // which sends it
    return facts;
  }
  note_answers(state.reader->await(longest_wait));
  take_answers();
  return known->second.facts;
}

void count_unforeseen(const KernelFacts& facts) {
  Unforeseen& all = unforeseen();
  const std::lock_guard lock(all.mutex);
  UnforeseenKernel& one = all.kernels[facts.identity()];
  if (one.launches++ == 0) one.name = facts.name();
  if (one.why.empty() && facts.code() != nullptr) one.why = facts.code()->why();
}

std::vector<UnforeseenKernel> unforeseen_kernels() {
  Unforeseen& all = unforeseen();
  const std::lock_guard lock(all.mutex);
  std::vector<UnforeseenKernel> list;
  for (const auto& [identity, one] : all.kernels) list.push_back(one);
  std::sort(list.begin(), list.end(), [](const UnforeseenKernel& a, const UnforeseenKernel& b) {
    return a.launches != b.launches ? a.launches > b.launches : a.name < b.name;
  });
  return list;
}

void forget_kernels() {
  const std::unique_lock lock(kernels_mutex);
  kernels().clear();
}

}  // namespace pooch::interpose
