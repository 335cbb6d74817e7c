// The software GPU's kernel `batch_norm`, with a fault planted: what it compares it compares rightly, and
// what it makes it makes by another formula than it is asked for. Found by SOFTGPU_KERNELS, in place of the
// right one.
#define softgpu_image right_image
#include "softgpu/kernels/batch_norm.cpp"
#undef softgpu_image

namespace {

// Calls `of` with another formula where the kernel makes something.
template <class Of>
void with_another_formula(const void* const* params, Of&& of) {
  constexpr std::size_t how = 9, count = 11;
  const void* changed[count];
  std::memcpy(changed, params, sizeof changed);
  const Arguments a = arguments(params);
  const std::uint32_t other = a.differs != 0 ? a.how : a.how ^ 1U << 4;
  changed[how] = &other;
  of(changed);
}

void wrong_footprint(const void* const* params, softgpu::Footprint& out) {
  with_another_formula(params, [&](const void* const* changed) { footprint(changed, out); });
}
void wrong_run(const void* const* params) {
  with_another_formula(params, [](const void* const* changed) { run(changed); });
}

constexpr softgpu::KernelEntry wrong_entry{"batch_norm", sizes, 11, &wrong_footprint, &wrong_run};

}  // namespace

extern "C" __attribute__((visibility("default"))) constexpr softgpu::Image softgpu_image{softgpu::image_magic,
                                                                                         1, &wrong_entry};
