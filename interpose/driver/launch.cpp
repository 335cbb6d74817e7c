// Launches. Those of a library inside a wrapped call belong to that call. All others are bare. Rules for
// known kernels (kernels/rules.h) say what their parameters point to and what becomes of it. Of all others
// nothing is known but the parameters: every word in them that is the address of an allocation stands for the
// whole of it, read and written. A stale word in an unused part of a struct only costs a copy.
//
// What tells two launches apart: kernel, grid, block, shared memory, attributes, where in their allocations
// the addresses lie, and the element counts that a rule finds. No other scalar, since seeds and step numbers
// differ from iteration to iteration (docs/decisions/0015-rules-for-bare-kernels.md).
#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/per_thread.h"
#include "interpose/calls/call_builder.h"
#include "interpose/cudnn/batch_norm.h"
#include "interpose/driver/operands.h"
#include "interpose/driver/replay_launch.h"
#include "interpose/hooks/driver_api.h"
#include "interpose/hooks/errors.h"
#include "interpose/hooks/libraries.h"
#include "interpose/hooks/stream.h"
#include "interpose/kernels/code_images.h"
#include "interpose/kernels/kernel_facts.h"
#include "interpose/kernels/known_kernels.h"
#include "interpose/sessions/again.h"
#include "interpose/sessions/inside.h"
#include "interpose/sessions/served.h"
#include "interpose/sessions/sessions.h"

using namespace pooch;
using namespace pooch::interpose;

namespace {

POOCH_REAL(cuda, cuLaunchKernel);
POOCH_REAL(cuda, cuLaunchKernel_ptsz);
POOCH_REAL(cuda, cuLaunchKernelEx);
POOCH_REAL(cuda, cuLaunchKernelEx_ptsz);
POOCH_REAL(cuda, cuLaunchCooperativeKernel);
POOCH_REAL(cuda, cuLaunchCooperativeKernel_ptsz);
POOCH_REAL(cuda, cuModuleUnload);
POOCH_REAL(cuda, cuLibraryUnload);

// Instead of attributes: a launch that cannot be made again without them.
constexpr std::uint64_t cooperative = 1;

// What a launch says beside its parameters.
struct Launch {
  const char* function;  // the API's
  LaunchShape shape;
  StreamHandle stream;
  std::uint64_t attributes = 0;  // hash of what cuLaunchKernelEx adds; 0: nothing
  void** params = nullptr;
  void** extra = nullptr;
};

// The other way to pass parameters: one buffer, named in a list of keys and values.
std::span<const std::byte> buffer_of(void** extra) {
  const void* buffer = nullptr;
  std::size_t bytes = 0;
  for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER) {
      buffer = extra[1];
    } else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE) {
      bytes = *static_cast<const std::size_t*>(extra[1]);
    } else {
      return {};  // not known; the driver will refuse it
    }
  }
  return {static_cast<const std::byte*>(buffer), buffer == nullptr ? 0 : bytes};
}

// What of the attributes belongs to the launch itself: not events, nor hints about caches.
std::uint64_t hash_attributes(const CUlaunchConfig& config) {
  std::uint64_t sum = 0;
  for (unsigned i = 0; config.attrs != nullptr && i < config.numAttrs; ++i) {
    const CUlaunchAttribute& one = config.attrs[i];
    sum = mix(sum, static_cast<std::uint64_t>(one.id) + 1);
    if (one.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
      sum = mix(mix(mix(sum, one.value.clusterDim.x), one.value.clusterDim.y), one.value.clusterDim.z);
    if (one.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) sum = mix(sum, one.value.cooperative != 0);
  }
  return sum;
}

// Adds the words as operands.
void add_operands(CallBuilder& call, std::span<const LaunchWord> words) {
  for (const LaunchWord& word : words) {
    const std::uint64_t offset = word.address - word.in.base, rest = word.in.bytes - offset;
    if (!word.known || word.whole) {
      call.add(Address{word.in.base}, word.in.bytes, word.effect);
    } else if (word.bytes == 0 || word.bytes > rest) {
      call.add(Address{word.address}, rest, word.effect == Effect::overwrite ? Effect::write : word.effect);
    } else {
      call.add(Address{word.address}, word.bytes, word.effect);
    }
    call.trait(offset);
  }
}

// The words of a launch's parameters that are addresses, put into `words`.
class FoundWords {
 public:
  FoundWords(runtime::Session& session, const KernelFacts& facts, const Launch& launch,
             std::vector<LaunchWord>& words)
      : buffer_(launch.extra != nullptr ? buffer_of(launch.extra) : std::span<const std::byte>()),
        by_buffer_(launch.params == nullptr && !buffer_.empty()),
        whole_{0, buffer_.size()},
        layout_(by_buffer_ && !apart(facts) ? std::span(&whole_, 1) : facts.layout()),
        params_(by_buffer_ ? LaunchParams(buffer_.data(), buffer_.size(), layout_)
                           : LaunchParams(launch.params, layout_)) {
    words.clear();
    if (!by_buffer_ && launch.params == nullptr) return;
    const auto find = [&](std::uint64_t word) {
      auto known = session.find_known(Address{word});
      if (!known)  // of another device, which this one may reach
        if (const runtime::Session* const owner = session_owning(Address{word}))
          known = owner->find(Address{word});
      return known ? Memory{raw(known->base), known->bytes} : Memory{};
    };
    const auto& [function, blocks, threads, shared] = launch.shape;
    const LaunchGrid grid{{blocks[0], blocks[1], blocks[2]}, {threads[0], threads[1], threads[2]}};
    sizes_ = facts.find_words(params_, grid, find, words);
    foreseen_ = facts.foreseen() &&
                std::all_of(words.begin(), words.end(), [](const LaunchWord& word) { return word.known; });
  }
  FoundWords(const FoundWords&) = delete;
  FoundWords& operator=(const FoundWords&) = delete;

  const LaunchParams& params() const { return params_; }
  std::uint64_t sizes() const { return sizes_; }
  // The launch touches nothing else.
  bool foreseen() const { return foreseen_; }

 private:
  // A buffer of a kernel that is not known, or that ends too early, is looked at as a whole.
  bool apart(const KernelFacts& facts) const {
    return facts.foreseen() && facts.packed_bytes() <= buffer_.size();
  }

  const std::span<const std::byte> buffer_;
  const bool by_buffer_;
  const ParamLayout whole_;
  const std::span<const ParamLayout> layout_;
  const LaunchParams params_;
  std::uint64_t sizes_ = 0;
  bool foreseen_ = false;
};

// The words of a launch, with what is known of its kernel now.
struct Understood {
  KnownKernel facts;
  std::optional<FoundWords> found;

  Understood(const Scope& scope, runtime::Session& session, KnownKernel known, const Launch& launch,
             std::vector<LaunchWord>& words)
      : facts(std::move(known)) {
    found.emplace(session, *facts, launch, words);
    if (found->foreseen()) return;
    if (KnownKernel now = want_code(scope, launch.shape.function, facts); now != facts) {
      facts = std::move(now);
      found.emplace(session, *facts, launch, words);
    }
    if (!found->foreseen()) count_unforeseen(*facts);
  }
};

// Not inlined: a launch that passes shall find few instructions.
template <class RealCall>
[[gnu::noinline]] CUresult launch_bare(const Scope& scope, const Launch& launch, const RealCall& once) {
  const auto real = [&] { return with_memory(scope, once); };
  runtime::Session* const session = scope.outermost() ? session_for_driver_call(scope) : nullptr;
  if (session == nullptr) return real();
  const auto asked = facts_of(scope, launch.shape.function);
  if (!asked) {
    report_refused(launch.function, asked.error());
    return to_cuda(asked.error());
  }
  auto& words = per_thread<std::vector<LaunchWord>>();
  const Understood known(scope, *session, *asked, launch, words);
  const KernelFacts& facts = *known.facts;

  CallBuilder call(scope, *session, launch.function,
                   facts.kind_of_launch(known.found->foreseen(), known.found->sizes()), launch.stream);
  call.mode(facts.mode());
  if (known.found->foreseen()) call.clip(clip_of(facts.mode(), known.found->params()));
  for (const std::uint64_t part : {facts.identity(), known.found->sizes(), launch.attributes})
    call.trait(part);
  for (int i = 0; i < 3; ++i) call.trait(launch.shape.grid[i]), call.trait(launch.shape.block[i]);
  call.trait(launch.shape.shared_bytes);
  add_operands(call, words);
  const auto keep = [&]() -> std::unique_ptr<Replay> {
    const Keeping keeping(scope, call.accesses());
    return keep_launch(keeping, real_cuLaunchKernel.get_if_present(scope), launch.shape,
                       known.found->params(), words);
  };
  if (!known.found->foreseen()) call.unforeseen();
  if (known.found->foreseen() && facts.repeatable() && launch.attributes == 0) call.keep(keep);
  return call.submit(CUDA_ERROR_OUT_OF_MEMORY, real);
}

}  // namespace

void pooch::interpose::add_kernel(CallBuilder& call, const Scope& scope, const LaunchShape& shape,
                                  void** params, void** extra) {
  const auto asked = facts_of(scope, shape.function);
  if (!asked) return call.unforeseen();  // nobody can tell what it touches
  auto& words = per_thread<std::vector<LaunchWord>>();
  const Understood known(scope, call.session(), *asked,
                         {call.function(), shape, call.stream(), 0, params, extra}, words);
  add_operands(call, words);
  if (!known.found->foreseen()) call.unforeseen();
}

// Passing comes before the call is made an object of, so that such a launch writes no arguments to memory.
// One that the device has no memory for takes the long way.
#define POOCH_LAUNCHES(suffix, for_zero)                                                                     \
  POOCH_HOT_EXPORT CUresult cuLaunchKernel##suffix(                                                          \
      CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,                     \
      unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes,   \
      CUstream hStream, void** kernelParams, void** extra) {                                                 \
    const Scope scope;                                                                                       \
    auto* const real = real_cuLaunchKernel##suffix.get(scope);                                               \
    if (real == nullptr) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;                                        \
    if (const Unwatched passes(scope); passes)                                                               \
      if (const CUresult status = real(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ,     \
                                       sharedMemBytes, hStream, kernelParams, extra);                        \
          status != CUDA_ERROR_OUT_OF_MEMORY)                                                                \
        return status;                                                                                       \
    const LaunchShape shape{                                                                                 \
        f, {gridDimX, gridDimY, gridDimZ}, {blockDimX, blockDimY, blockDimZ}, sharedMemBytes};               \
    return launch_bare(                                                                                      \
        scope, {"cuLaunchKernel", shape, stream_of(hStream, for_zero), 0, kernelParams, extra}, [=] {        \
          return real(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes,      \
                      hStream, kernelParams, extra);                                                         \
        });                                                                                                  \
  }                                                                                                          \
  POOCH_HOT_EXPORT CUresult cuLaunchKernelEx##suffix(const CUlaunchConfig* config, CUfunction f,             \
                                                     void** kernelParams, void** extra) {                    \
    const Scope scope;                                                                                       \
    auto* const real = real_cuLaunchKernelEx##suffix.get(scope);                                             \
    if (real == nullptr) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;                                        \
    if (config == nullptr) return real(config, f, kernelParams, extra);                                      \
    if (const Unwatched passes(scope); passes)                                                               \
      if (const CUresult status = real(config, f, kernelParams, extra); status != CUDA_ERROR_OUT_OF_MEMORY)  \
        return status;                                                                                       \
    const LaunchShape shape{f,                                                                               \
                            {config->gridDimX, config->gridDimY, config->gridDimZ},                          \
                            {config->blockDimX, config->blockDimY, config->blockDimZ},                       \
                            config->sharedMemBytes};                                                         \
    return launch_bare(scope,                                                                                \
                       {"cuLaunchKernelEx", shape, stream_of(config->hStream, for_zero),                     \
                        hash_attributes(*config), kernelParams, extra},                                      \
                       [=] { return real(config, f, kernelParams, extra); });                                \
  }                                                                                                          \
  POOCH_EXPORT CUresult cuLaunchCooperativeKernel##suffix(                                                   \
      CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,                     \
      unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes,   \
      CUstream hStream, void** kernelParams) {                                                               \
    const Scope scope;                                                                                       \
    auto* const real = real_cuLaunchCooperativeKernel##suffix.get(scope);                                    \
    if (real == nullptr) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;                                        \
    const auto launch = [=] {                                                                                \
      return real(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream, \
                  kernelParams);                                                                             \
    };                                                                                                       \
    if (const Unwatched passes(scope); passes)                                                               \
      if (const CUresult status = launch(); status != CUDA_ERROR_OUT_OF_MEMORY) return status;               \
    const LaunchShape shape{                                                                                 \
        f, {gridDimX, gridDimY, gridDimZ}, {blockDimX, blockDimY, blockDimZ}, sharedMemBytes};               \
    return launch_bare(                                                                                      \
        scope,                                                                                               \
        {"cuLaunchCooperativeKernel", shape, stream_of(hStream, for_zero), cooperative, kernelParams},       \
        launch);                                                                                             \
  }

POOCH_LAUNCHES(, StreamHandle::legacy)
POOCH_LAUNCHES(_ptsz, StreamHandle::per_thread)

POOCH_EXPORT CUresult cuModuleUnload(CUmodule hmod) {
  const Scope scope;
  auto* const real = real_cuModuleUnload.get(scope);
  if (real == nullptr) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
  forget_kernels();
  forget_kept_launches();
  code_unloaded(hmod);
  return real(hmod);
}

POOCH_EXPORT CUresult cuLibraryUnload(CUlibrary library) {
  const Scope scope;
  auto* const real = real_cuLibraryUnload.get(scope);
  if (real == nullptr) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
  forget_kernels();
  forget_kept_launches();
  code_unloaded(library);
  return real(library);
}
