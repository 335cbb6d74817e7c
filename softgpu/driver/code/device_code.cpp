#include "softgpu/driver/code/device_code.h"

#include <algorithm>
#include <cstring>

#include "softgpu/driver/code/host_kernels.h"

namespace softgpu {
namespace {

constexpr std::uint64_t bytes_per_thread = 32;
constexpr std::uint32_t word_bytes = sizeof(std::uint64_t);
constexpr std::uint32_t largest_without_unused_places = 64;

// The end of the memory that goes on without a gap: an allocation may be made of several mappings.
std::uint64_t end_of_memory(AddressMap& addresses, Object* object, std::uint64_t enough) {
  while (object->kind == ObjectKind::mapping && object->end() < enough) {
    Object* const next = addresses.after(*object);
    if (next == nullptr || next->kind != ObjectKind::mapping) break;
    object = next;
  }
  return object->end();
}

void touch_word(AddressMap& addresses, std::uint64_t word, std::uint32_t param_bytes, std::uint64_t threads,
                Footprint& out) {
  if (Object* const object = addresses.find(word)) {
    const std::uint64_t moved = threads * bytes_per_thread;
    if (param_bytes <= largest_without_unused_places)
      out.touches.push_back({word, object->end() - word, TouchKind::unknown});
    out.bytes += static_cast<double>(std::min(moved, end_of_memory(addresses, object, word + moved) - word));
  } else if (param_bytes == word_bytes && addresses.tombstone(word) != nullptr) {
    out.touches.push_back({word, 1, TouchKind::unknown});  // the checker says what became of it
  }
}

// What the parameters alone tell.
void touch_words(AddressMap& addresses, const Kernel& kernel, const void* const* params,
                 std::uint64_t threads, Footprint& out) {
  out.touches.push_back({0, 0, TouchKind::unknown});  // it may write what no check here sees
  for (std::size_t i = 0; i < kernel.params.size(); ++i) {
    const std::uint32_t bytes = kernel.params[i].bytes;
    const auto* const at = static_cast<const std::byte*>(params[i]);
    // Words lie at multiples of 8 of the packed form.
    for (std::uint32_t offset = (0 - kernel.params[i].offset) % word_bytes; offset + word_bytes <= bytes;
         offset += word_bytes) {
      std::uint64_t word = 0;
      std::memcpy(&word, at + offset, word_bytes);
      touch_word(addresses, word, bytes, threads, out);
    }
  }
}

// How often the bytes go to or come from memory.
int ways(TouchKind kind) {
  if (kind == TouchKind::reach) return 0;
  return kind == TouchKind::read || kind == TouchKind::write ? 1 : 2;
}

bool touch_by_family(Kernel& kernel, const void* const* params, const unsigned (&grid)[3],
                     const unsigned (&block)[3], Footprint& out) {
  if (!kernel.family_asked) {
    kernel.family_asked = true;
    kernel.demangled = demangled(kernel.name);
    kernel.family = kernel_family(kernel.demangled);
  }
  if (kernel.family == nullptr) return false;
  std::vector<std::uint32_t> sizes;
  for (const KernelParam& param : kernel.params) sizes.push_back(param.bytes);
  KernelLaunch launch{
      kernel.demangled.c_str(), params, sizes.data(), static_cast<std::uint32_t>(sizes.size()), {}, {}};
  std::copy_n(grid, 3, launch.grid);
  std::copy_n(block, 3, launch.block);
  Footprint known;
  if (!kernel.family->footprint(launch, known) || !known.scalars) return false;
  for (const Touch& touch : known.touches) out.bytes += ways(touch.kind) * static_cast<double>(touch.bytes);
  out.touches = std::move(known.touches);
  out.scalars = known.scalars;
  out.stages = std::move(known.stages);
  return true;
}

}  // namespace

bool device_code_footprint(AddressMap& addresses, Kernel& kernel, const void* const* params,
                           const unsigned (&grid)[3], const unsigned (&block)[3], Footprint& out) {
  if (touch_by_family(kernel, params, grid, block, out)) return true;
  std::uint64_t threads = 1;
  for (int i = 0; i < 3; ++i) threads *= std::uint64_t{grid[i]} * block[i];
  touch_words(addresses, kernel, params, threads, out);
  return false;
}

}  // namespace softgpu
