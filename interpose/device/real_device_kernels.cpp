// Kernels of pooch's own: digests of memory, and batch norm from its statistics.
#include <algorithm>

#include "core/digest.h"
#include "interpose/batch_norm_ptx.h"
#include "interpose/device/driver_table.h"
#include "interpose/device/real_device.h"
#include "interpose/digest_ptx.h"
#include "interpose/hooks/driver_api.h"

namespace pooch::interpose {

// The driver compiles the text for the device at hand.
Result<void*> RealDevice::load_kernel(OwnKernel& kernel, const char* ptx, const char* name) {
  const std::lock_guard lock(kernels_mutex_);
  if (kernel.function != nullptr) return kernel.function;
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  Status loaded = POOCH_CALL(cuModuleLoadData, &module, ptx);
  if (loaded) loaded = POOCH_CALL(cuModuleGetFunction, &function, module, name);
  if (!loaded) return Error{ErrorCode::not_supported, loaded.error().message, loaded.error().vendor_status};
  return kernel.function = function;
}

namespace {

// Enough warps to keep the memory of the largest devices busy.
constexpr std::uint64_t block = 256, most_blocks = 1024;

}  // namespace

Status RealDevice::digest(Address from, std::uint64_t bytes, Address result, StreamHandle stream) {
  const auto kernel = load_kernel(digest_, digest_ptx, "memory_digest");
  if (!kernel) return kernel.error();
  constexpr std::size_t words = sizeof(Digest) / sizeof(std::uint32_t);
  if (Status zeroed = POOCH_CALL(cuMemsetD32Async, raw(result), 0, words, vendor(stream)); !zeroed)
    return zeroed;
  CUdeviceptr source = raw(from), target = raw(result);
  void* parameters[] = {&source, &bytes, &target};
  const auto grid = static_cast<unsigned>(std::clamp<std::uint64_t>(bytes / 8 / block, 1, most_blocks));
  return POOCH_CALL(cuLaunchKernel, static_cast<CUfunction>(*kernel), grid, 1, 1, block, 1, 1, 0,
                    vendor(stream), parameters, nullptr);
}

Status RealDevice::normalise(const NormaliseCall& call, StreamHandle stream) {
  return run_batch_norm(call, nullptr, stream);
}

Status RealDevice::compare(const NormaliseCall& call, std::uint32_t (*differs)[formulas],
                           StreamHandle stream) {
  return run_batch_norm(call, differs, stream);
}

// Each thread takes 16 bytes of x at a time. The grid fills the device twice, and its threads go on from
// there: each block of one that compares writes to host memory.
Status RealDevice::run_batch_norm(const NormaliseCall& call, std::uint32_t (*differs)[formulas],
                                  StreamHandle stream) {
  const auto kernel = load_kernel(batch_norm_, batch_norm_ptx, "batch_norm");
  if (!kernel) return kernel.error();
  NormaliseCall c = call;
  auto how = static_cast<unsigned>(c.formula) << 4;
  how |= (c.how.channel_of_row ? 1U : 0U) | (c.how.half ? 2U : 0U);
  how |= (c.clip != Clip::none ? 4U : 0U) | (c.clip == Clip::drops_nan ? 8U : 0U);
  // Page-locked memory has one address on the host and on the device.
  auto flags = reinterpret_cast<CUdeviceptr>(differs);
  void* parameters[] = {&c.at.x,     &c.at.y,    &c.at.scale,     &c.at.bias, &c.at.mean, &c.at.inverse,
                        &c.how.rows, &c.how.row, &c.how.channels, &how,       &flags};
  constexpr std::uint64_t blocks_at_once = 6;  // of a multiprocessor, with the kernel's registers
  const std::uint64_t bytes = c.how.rows * c.how.row * (c.how.half ? 2 : 4);
  const auto grid = static_cast<unsigned>(std::clamp<std::uint64_t>(
      bytes / 16 / block, 1, 2 * blocks_at_once * static_cast<std::uint64_t>(multiprocessors_)));
  return POOCH_CALL(cuLaunchKernel, static_cast<CUfunction>(*kernel), grid, 1, 1, block, 1, 1, 0,
                    vendor(stream), parameters, nullptr);
}

}  // namespace pooch::interpose
