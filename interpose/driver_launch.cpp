// Launches. Those of a library inside a wrapped call belong to that call. All others are bare: nothing is
// known of the kernel but its parameters, so every word in them that is a managed address stands for the
// whole allocation, read and written. A stale word in an unused part of a struct only costs a copy.
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <vector>

#include "interpose/call_builder.h"
#include "interpose/driver_api.h"
#include "interpose/libraries.h"
#include "interpose/process.h"

using namespace pooch;
using namespace pooch::interpose;

namespace {

POOCH_REAL(cuda, cuLaunchKernel);
POOCH_REAL(cuda, cuLaunchKernel_ptsz);
POOCH_REAL(cuda, cuLaunchKernelEx);
POOCH_REAL(cuda, cuLaunchKernelEx_ptsz);
POOCH_REAL(cuda, cuLaunchCooperativeKernel);
POOCH_REAL(cuda, cuLaunchCooperativeKernel_ptsz);
POOCH_REAL(cuda, cuFuncGetParamInfo);
POOCH_REAL(cuda, cuKernelGetParamInfo);
POOCH_REAL(cuda, cuModuleUnload);
POOCH_REAL(cuda, cuLibraryUnload);

struct Parameter {
  std::size_t offset, bytes;
};
using Parameters = std::vector<Parameter>;

// Parameters of one kernel, asked for one by one until the driver has no more.
template <class Get, class Kernel>
std::optional<Parameters> ask(Get* get, Kernel kernel) {
  if (get == nullptr) return std::nullopt;
  Parameters all;
  for (Parameter one; get(kernel, all.size(), &one.offset, &one.bytes) == CUDA_SUCCESS;) all.push_back(one);
  if (all.empty()) return std::nullopt;
  return all;
}

// cuLaunchKernel takes a CUfunction or a CUkernel; each query understands one of them. No parameters at all
// and "do not know" look the same, and mean the same here: nothing to scan.
Parameters ask_driver(const Scope& scope, CUfunction function) {
  if (auto known = ask(real_cuFuncGetParamInfo.get_if_present(scope), function)) return std::move(*known);
  const auto kernel = reinterpret_cast<CUkernel>(function);
  if (auto known = ask(real_cuKernelGetParamInfo.get_if_present(scope), kernel)) return std::move(*known);
  return {};
}

// By handle; emptied when code is unloaded, since a handle may then come to mean another kernel.
constinit std::shared_mutex layouts_mutex;
std::map<CUfunction, std::shared_ptr<const Parameters>>& layouts() {
  static auto* const all = new std::map<CUfunction, std::shared_ptr<const Parameters>>;
  return *all;
}

std::shared_ptr<const Parameters> parameters_of(const Scope& scope, CUfunction function) {
  {
    const std::shared_lock lock(layouts_mutex);
    if (const auto found = layouts().find(function); found != layouts().end()) return found->second;
  }
  auto asked = std::make_shared<const Parameters>(ask_driver(scope, function));
  const std::unique_lock lock(layouts_mutex);
  return layouts().emplace(function, std::move(asked)).first->second;
}

void forget_layouts() {
  const std::unique_lock lock(layouts_mutex);
  layouts().clear();
}

void scan(CallBuilder& call, const runtime::Session& session, const void* memory, std::size_t bytes) {
  for (std::size_t at = 0; at + sizeof(std::uint64_t) <= bytes; at += sizeof(std::uint64_t)) {
    std::uint64_t word;
    std::memcpy(&word, static_cast<const std::byte*>(memory) + at, sizeof word);
    if (!session.owns(Address{word})) continue;
    if (const auto allocation = session.find(Address{word})) {
      call.add(allocation->base, allocation->bytes, Effect::read_write);
    }
  }
}

// The other way to pass parameters: one buffer, named in a list of keys and values.
void scan_extra(CallBuilder& call, const runtime::Session& session, void** extra) {
  const void* buffer = nullptr;
  std::size_t bytes = 0;
  for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER) {
      buffer = extra[1];
    } else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE) {
      bytes = *static_cast<const std::size_t*>(extra[1]);
    } else {
      return;  // not known; the driver will refuse it
    }
  }
  if (buffer != nullptr) scan(call, session, buffer, bytes);
}

template <class RealCall>
CUresult launch_bare(const Scope& scope, const char* name, CUfunction function, StreamHandle stream,
                     void** parameters, void** extra, RealCall&& real) {
  runtime::Session* const session = scope.outermost() ? session_for_driver_call(scope) : nullptr;
  if (session == nullptr) return real();
  CallBuilder call(scope, *session, name, OpKind::bare_launch, stream);
  if (parameters != nullptr) {
    const auto layout = parameters_of(scope, function);
    for (std::size_t i = 0; i < layout->size(); ++i) {
      if (parameters[i] != nullptr) scan(call, *session, parameters[i], (*layout)[i].bytes);
    }
  }
  if (extra != nullptr) scan_extra(call, *session, extra);
  return call.submit(CUDA_ERROR_OUT_OF_MEMORY, real);
}

}  // namespace

#define POOCH_LAUNCHES(suffix, for_zero)                                                                     \
  POOCH_EXPORT CUresult cuLaunchKernel##suffix(                                                              \
      CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,                     \
      unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes,   \
      CUstream hStream, void** kernelParams, void** extra) {                                                 \
    const Scope scope;                                                                                       \
    auto* const real = real_cuLaunchKernel##suffix.get(scope);                                               \
    if (real == nullptr) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;                                        \
    return launch_bare(scope, "cuLaunchKernel", f, stream_of(hStream, for_zero), kernelParams, extra, [&] {  \
      return real(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream, \
                  kernelParams, extra);                                                                      \
    });                                                                                                      \
  }                                                                                                          \
  POOCH_EXPORT CUresult cuLaunchKernelEx##suffix(const CUlaunchConfig* config, CUfunction f,                 \
                                                 void** kernelParams, void** extra) {                        \
    const Scope scope;                                                                                       \
    auto* const real = real_cuLaunchKernelEx##suffix.get(scope);                                             \
    if (real == nullptr) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;                                        \
    const auto launch = [&] { return real(config, f, kernelParams, extra); };                                \
    if (config == nullptr) return launch();                                                                  \
    return launch_bare(scope, "cuLaunchKernelEx", f, stream_of(config->hStream, for_zero), kernelParams,     \
                       extra, launch);                                                                       \
  }                                                                                                          \
  POOCH_EXPORT CUresult cuLaunchCooperativeKernel##suffix(                                                   \
      CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,                     \
      unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes,   \
      CUstream hStream, void** kernelParams) {                                                               \
    const Scope scope;                                                                                       \
    auto* const real = real_cuLaunchCooperativeKernel##suffix.get(scope);                                    \
    if (real == nullptr) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;                                        \
    return launch_bare(scope, "cuLaunchCooperativeKernel", f, stream_of(hStream, for_zero), kernelParams,    \
                       nullptr, [&] {                                                                        \
                         return real(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ,       \
                                     sharedMemBytes, hStream, kernelParams);                                 \
                       });                                                                                   \
  }

POOCH_LAUNCHES(, StreamHandle::legacy)
POOCH_LAUNCHES(_ptsz, StreamHandle::per_thread)

POOCH_EXPORT CUresult cuModuleUnload(CUmodule hmod) {
  const Scope scope;
  auto* const real = real_cuModuleUnload.get(scope);
  if (real == nullptr) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
  forget_layouts();
  return real(hmod);
}

POOCH_EXPORT CUresult cuLibraryUnload(CUlibrary library) {
  const Scope scope;
  auto* const real = real_cuLibraryUnload.get(scope);
  if (real == nullptr) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
  forget_layouts();
  return real(library);
}
