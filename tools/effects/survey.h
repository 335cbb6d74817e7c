// What the kernels of a file touch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/result.h"
#include "tools/effects/kernel.h"

namespace pooch::effects {

struct Selection {
  std::string name;                           // part of the name, as it is or demangled; empty: all
  std::optional<std::uint32_t> architecture;  // 90 for sm_90
  std::size_t sample = 0;                     // that many of them, drawn at random; 0: all
  std::uint64_t seed = 1;
};

// One after the other, to `take`. Kernels that nvdisasm does not give are `unknown`. Returns how many the
// file has that fit, before any were drawn. Error: invalid_argument, the reason without the file's name.
Result<std::size_t> survey(const std::filesystem::path& file, const Selection& selection,
                           const std::filesystem::path& disassembler,
                           const std::function<void(KernelEffects)>& take);

}  // namespace pooch::effects
