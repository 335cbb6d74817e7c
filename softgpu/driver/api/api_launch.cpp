// Kernel launches. Parameters are copied at the call, whichever form they come in.
#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "softgpu/driver/api/api.h"
#include "softgpu/driver/code/device_code.h"

using namespace softgpu;

namespace {

constexpr std::uint64_t lowest_address = 64 << 10, end_of_addresses = std::uint64_t{1} << 48;

struct Grid {
  unsigned grid[3], block[3], shared;
  bool cooperative = false;
};

// A launch's own copy of its parameters.
struct Parameters {
  std::vector<std::byte> bytes;
  std::vector<const void*> pointers;
};

// The packed buffer of the `extra` form; null where it is malformed.
const std::byte* packed(void** extra, std::size_t& size) {
  const std::byte* buffer = nullptr;
  size = 0;
  for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER) {
      buffer = static_cast<const std::byte*>(extra[1]);
    } else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE) {
      size = *static_cast<const std::size_t*>(extra[1]);
    } else {
      return nullptr;
    }
  }
  return buffer;
}

bool copy_parameters(const Kernel& kernel, void** params, void** extra, Parameters& out) {
  // Offsets are multiples of 8 at most, and so is the buffer's address.
  out.bytes.resize(kernel.packed_bytes);
  if (!kernel.params.empty()) {
    if ((params != nullptr) == (extra != nullptr)) return false;
    if (extra != nullptr) {
      std::size_t size = 0;
      const std::byte* const buffer = packed(extra, size);
      if (buffer == nullptr || size < kernel.packed_bytes) return false;
      std::memcpy(out.bytes.data(), buffer, kernel.packed_bytes);
    } else {
      for (std::size_t i = 0; i < kernel.params.size(); ++i) {
        if (params[i] == nullptr) return false;
        std::memcpy(out.bytes.data() + kernel.params[i].offset, params[i], kernel.params[i].bytes);
      }
    }
  }
  for (const KernelParam& param : kernel.params) out.pointers.push_back(out.bytes.data() + param.offset);
  return true;
}

bool grid_fits(const Grid& g) {
  for (int i = 0; i < 3; ++i) {
    if (g.grid[i] == 0 || g.block[i] == 0) return false;
  }
  return g.grid[0] <= 2147483647u && g.grid[1] <= 65535 && g.grid[2] <= 65535 && g.block[0] <= 1024 &&
         g.block[1] <= 1024 && g.block[2] <= 64 &&
         std::uint64_t{g.block[0]} * g.block[1] * g.block[2] <= 1024;
}

// Of the ranges those that no word of the parameters points into: their addresses came from somewhere else.
std::uint64_t indirect(const std::vector<Touch>& touches, const std::vector<std::byte>& parameters) {
  const auto points_into = [&](const Touch& touch) {
    for (std::size_t at = 0; at + sizeof(std::uint64_t) <= parameters.size(); at += sizeof(std::uint64_t)) {
      std::uint64_t word;
      std::memcpy(&word, parameters.data() + at, sizeof word);
      if (word >= touch.address && word - touch.address < touch.bytes) return true;
    }
    return false;
  };
  return touches.size() -
         static_cast<std::uint64_t>(std::count_if(touches.begin(), touches.end(), points_into));
}

// All words of the parameters but addresses, which differ from run to run.
std::uint64_t scalars(Machine& m, const Kernel& kernel, const Parameters& parameters) {
  Hash hash;
  for (std::size_t i = 0; i < kernel.params.size(); ++i) {
    const auto* const at = static_cast<const std::byte*>(parameters.pointers[i]);
    for (std::uint32_t offset = 0; offset < kernel.params[i].bytes; offset += sizeof(std::uint64_t)) {
      std::uint64_t word = 0;
      std::memcpy(&word, at + offset, std::min<std::size_t>(sizeof word, kernel.params[i].bytes - offset));
      const bool address = word >= lowest_address && word < end_of_addresses &&
                           (m.addresses.device(word) || m.host.find(word) != nullptr);
      hash.add(address ? lowest_address : word);
    }
  }
  return hash.value();
}

Content content_of(Machine& m, const Kernel& kernel, const Parameters& parameters, bool known,
                   Footprint& footprint) {
  Content content;
  if (m.compute()) return content;
  content.kind = known ? Content::Kind::kernel : Content::Kind::unknown;
  if (!known) return content;
  Hash identity(kernel.name_hash);
  identity.add(footprint.scalars ? *footprint.scalars : scalars(m, kernel, parameters));
  content.identity = identity.value();
  content.tells = std::move(footprint.tells);
  content.hears = std::move(footprint.hears);
  content.stages = std::move(footprint.stages);
  content.comparisons = std::move(footprint.comparisons);
  return content;
}

void note(const Call& call, const char* kernel, const Grid& g, Work& work) {
  WorkActivity activity = call.activity(activity_kernels);
  activity.name = kernel;
  std::copy_n(g.grid, 3, activity.grid);
  std::copy_n(g.block, 3, activity.block);
  activity.shared_bytes = g.shared;
  activity.cooperative = g.cooperative;
  activity_feed().follow(work, activity);
}

CUresult launch(const char* name, bool per_thread, CUfunction function, const Grid& grid, CUstream in,
                void** params, void** extra) {
  SOFTGPU_CALL(name, needs_context, &Model::launch);
  Kernel* const kernel = m.modules.kernel(function);
  const StreamPtr stream = m.stream(in, per_thread, call.context);
  if (kernel == nullptr || stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  auto parameters = std::make_shared<Parameters>();
  if (!grid_fits(grid) || !copy_parameters(*kernel, params, extra, *parameters))
    return CUDA_ERROR_INVALID_VALUE;
  if (m.compute() && (kernel->entry == nullptr || kernel->entry->run == nullptr)) {
    fmt::print(stderr, "softgpu: no host function for the kernel {} with its parameters\n", kernel->name);
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  if (!m.overheads.load(call.lock, *kernel, stream->device)) return CUDA_ERROR_OUT_OF_MEMORY;
  if (!stream->capture) m.scheduler.wait_for_room(call.lock, stream->device);
  Footprint footprint;
  bool known = true;
  if (kernel->entry != nullptr) {
    kernel->entry->footprint(parameters->pointers.data(), footprint);
  } else {
    known = device_code_footprint(m.addresses, *kernel, parameters->pointers.data(), grid.grid, grid.block,
                                  footprint);
  }
  Work work = call.work();
  work.by.name = kernel->name;
  work.engine = Engine::compute;
  work.launch = !stream->capture;
  work.duration = m.cost.kernel(footprint.kind, footprint.flops, footprint.bytes);
  // The others took theirs from the parameters.
  if (kernel->entry != nullptr)
    m.statistics.indirect_touches += indirect(footprint.touches, parameters->bytes);
  work.content = content_of(m, *kernel, *parameters, known, footprint);
  work.touches = std::move(footprint.touches);
  if (m.compute()) {
    work.run = [run = kernel->entry->run, parameters] { run(parameters->pointers.data()); };
  }
  if (activity_feed().wants(activity_kernels) && !stream->capture) note(call, kernel->name, grid, work);
  if (!stream->capture) ++m.statistics.kernels;
  return m.scheduler.submit(call.lock, stream, std::move(work));
}

CUresult launch_ex(const char* name, bool per_thread, const CUlaunchConfig* config, CUfunction function,
                   void** params, void** extra) {
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Grid grid{{config->gridDimX, config->gridDimY, config->gridDimZ},
                  {config->blockDimX, config->blockDimY, config->blockDimZ},
                  config->sharedMemBytes};
  return launch(name, per_thread, function, grid, config->hStream, params, extra);
}

}  // namespace

SOFTGPU_EXPORT(cuLaunchKernel)
(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
 CUstream s, void** params, void** extra) {
  return launch(__func__, false, f, Grid{{gx, gy, gz}, {bx, by, bz}, shared}, s, params, extra);
}
SOFTGPU_EXPORT(cuLaunchKernel_ptsz)
(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
 CUstream s, void** params, void** extra) {
  return launch(__func__, true, f, Grid{{gx, gy, gz}, {bx, by, bz}, shared}, s, params, extra);
}
SOFTGPU_EXPORT(cuLaunchKernelEx)(const CUlaunchConfig* config, CUfunction f, void** params, void** extra) {
  return launch_ex(__func__, false, config, f, params, extra);
}
SOFTGPU_EXPORT(cuLaunchKernelEx_ptsz)
(const CUlaunchConfig* config, CUfunction f, void** params, void** extra) {
  return launch_ex(__func__, true, config, f, params, extra);
}
SOFTGPU_EXPORT(cuLaunchCooperativeKernel)
(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
 CUstream s, void** params) {
  return launch(__func__, false, f, Grid{{gx, gy, gz}, {bx, by, bz}, shared, true}, s, params, nullptr);
}
SOFTGPU_EXPORT(cuLaunchCooperativeKernel_ptsz)
(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
 CUstream s, void** params) {
  return launch(__func__, true, f, Grid{{gx, gy, gz}, {bx, by, bz}, shared, true}, s, params, nullptr);
}
