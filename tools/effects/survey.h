// What the kernels of a file touch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
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

// These kernels of a cubin, likewise.
void analyse_kernels(const std::string& cubin, std::span<const Kernel> kernels,
                     const std::filesystem::path& disassembler,
                     const std::function<void(KernelEffects)>& take);

// One kernel of a fat binary, which begins at the first byte of `code`, or of a cubin. `architecture`: the
// device's, 90 for 9.0. What is looked at is what the driver would take: machine code of the same major
// version, with the highest minor that is not above the device's. Errors: invalid_argument, no such code has
// a kernel of this name; internal, the disassembler does not work, so that nothing is known of the kernel.
Result<KernelEffects> analyse_kernel(std::string_view code, const std::string& name,
                                     std::uint32_t architecture, const std::filesystem::path& disassembler);

}  // namespace pooch::effects
