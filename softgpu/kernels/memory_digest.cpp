// memory_digest(from, bytes, result): adds two sums over the 8-byte words of [from, from + bytes), each mixed
// with its index, to the two words at `result`; bytes beyond the last whole word count as one filled up with
// zeros.
#include <algorithm>
#include <cstring>

#include "softgpu/image.h"

namespace {

struct Arguments {
  std::uint64_t from, bytes, result;
};

Arguments arguments(const void* const* params) {
  const auto read = [&](int i) {
    std::uint64_t value;
    std::memcpy(&value, params[i], sizeof value);
    return value;
  };
  return {read(0), read(1), read(2)};
}

void footprint(const void* const* params, softgpu::Footprint& out) {
  constexpr double operations_per_byte = 2;
  const auto [from, bytes, result] = arguments(params);
  if (bytes > 0) out.touches.push_back({from, bytes, softgpu::TouchKind::read});
  out.touches.push_back({result, 16, softgpu::TouchKind::read_write});
  out.bytes = static_cast<double>(bytes);
  out.flops = operations_per_byte * out.bytes;
}

std::uint64_t folded(std::uint64_t value, int by) {
  return value ^ (value >> by);
}

void run(const void* const* params) {
  const auto [from, bytes, result] = arguments(params);
  std::uint64_t sums[2];
  std::memcpy(sums, reinterpret_cast<const void*>(result), sizeof sums);
  const char* const memory = reinterpret_cast<const char*>(from);
  for (std::uint64_t i = 0; i * 8 < bytes; ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, memory + i * 8, std::min<std::uint64_t>(8, bytes - i * 8));
    word ^= (i + 1) * 0x9E3779B97F4A7C15;
    word = folded(word, 30) * 0xBF58476D1CE4E5B9;
    word = folded(folded(word, 27) * 0x94D049BB133111EB, 31);
    sums[0] += word;
    sums[1] += folded(folded(word, 32) * 0xD6E8FEB86659FD93, 29);
  }
  std::memcpy(reinterpret_cast<void*>(result), sums, sizeof sums);
}

constexpr std::uint32_t sizes[] = {8, 8, 8};
constexpr softgpu::KernelEntry entry{"memory_digest", sizes, 3, &footprint, &run};

}  // namespace

extern "C" __attribute__((visibility("default"))) constexpr softgpu::Image softgpu_image{softgpu::image_magic,
                                                                                         1, &entry};
