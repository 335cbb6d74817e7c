// A launch of one of PyTorch's kernels, for tests of what the software GPU says that it touches.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include "softgpu/image.h"

namespace softgpu {

inline bool operator==(const Touch& a, const Touch& b) {
  return std::tie(a.address, a.bytes, a.kind) == std::tie(b.address, b.bytes, b.kind);
}
inline void PrintTo(const Touch& touch, std::ostream* out) {
  *out << std::hex << touch.address << std::dec << " +" << touch.bytes << " " << static_cast<int>(touch.kind);
}

using Touches = std::vector<Touch>;
using Address = std::uint64_t;
constexpr Address a = 0x7f0000000000, b = 0x7f0000200000, c = 0x7f0000400000, d = 0x7f0000600000;
constexpr auto read = TouchKind::read, write = TouchKind::write;
#define ANONYMOUS "at::native::(anonymous namespace)::"

inline const Image& image() {
  static void* const library = dlopen(std::getenv("PYTORCH_KERNELS"), RTLD_NOW);
  static const auto* const image =
      library == nullptr ? nullptr : static_cast<const Image*>(dlsym(library, "softgpu_image"));
  if (image == nullptr) {
    ADD_FAILURE() << dlerror();
    std::abort();
  }
  return *image;
}

// A kernel with its parameters' bytes.
struct Kernel {
  std::string name;  // as demangled
  std::vector<std::vector<std::byte>> params;
  std::array<unsigned, 3> grid{1, 1, 1}, block{1, 1, 1};

  template <class... T>
  explicit Kernel(std::string called, const T&... values) : name(std::move(called)) {
    (add(values), ...);
  }
  template <class T>
  void add(const T& value) {
    params.emplace_back(sizeof value);
    std::memcpy(params.back().data(), &value, sizeof value);
  }
  template <class T>
  void put(std::size_t param, std::size_t offset, const T& value) {
    std::memcpy(params[param].data() + offset, &value, sizeof value);
  }

  // Not known: no touches, no scalars.
  Footprint footprint() const {
    std::vector<const void*> pointers;
    std::vector<std::uint32_t> sizes;
    for (const auto& param : params) {
      pointers.push_back(param.data());
      sizes.push_back(static_cast<std::uint32_t>(param.size()));
    }
    const std::string full = "void " + name;
    const KernelLaunch launch{full.c_str(),
                              pointers.data(),
                              sizes.data(),
                              static_cast<std::uint32_t>(sizes.size()),
                              {grid[0], grid[1], grid[2]},
                              {block[0], block[1], block[2]}};
    for (std::uint32_t i = 0; i < image().family_count; ++i) {
      const KernelFamily& family = image().families[i];
      Footprint known;
      if (name.rfind(family.prefix, 0) == 0) return family.footprint(launch, known) ? known : Footprint();
    }
    return {};
  }
  Touches touches() const { return footprint().touches; }
  std::uint64_t scalars() const { return footprint().scalars.value_or(0); }
};

}  // namespace softgpu
