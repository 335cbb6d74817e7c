// nothing(8 bytes, 4 bytes, 24 bytes): touches nothing. For programs that measure what a launch costs.
#include "softgpu/image.h"

namespace {

void footprint(const void* const*, softgpu::Footprint&) {}
void run(const void* const*) {}

constexpr std::uint32_t sizes[] = {8, 4, 24};
constexpr softgpu::KernelEntry entry{"nothing", sizes, 3, &footprint, &run};

}  // namespace

extern "C" __attribute__((visibility("default"))) constexpr softgpu::Image softgpu_image{softgpu::image_magic,
                                                                                         1, &entry};
