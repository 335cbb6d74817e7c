// What launches of scale<…>(out, in, count, by) write, for a test of what a kernel costs whose touches are
// known: 64 MiB of either, however many threads it has.
#include <cstring>

#include "softgpu/image.h"

namespace {

using softgpu::TouchKind;

bool footprint(const softgpu::KernelLaunch& launch, softgpu::Footprint& out) {
  constexpr std::uint64_t bytes = std::uint64_t{64} << 20;
  std::uint64_t addresses[2];
  for (int i = 0; i < 2; ++i) std::memcpy(&addresses[i], launch.params[i], sizeof addresses[i]);
  out.touches = {{addresses[0], bytes, TouchKind::write}, {addresses[1], bytes, TouchKind::write}};
  out.scalars = 0;
  return true;
}

constexpr softgpu::KernelFamily family{"scale<", &footprint};

}  // namespace

extern "C" __attribute__((visibility("default"))) constexpr softgpu::Image softgpu_image{
    softgpu::image_magic, 0, nullptr, 1, &family};
