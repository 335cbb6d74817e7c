// NVIDIA's disassembler, which full toolkits have and Triton brings along.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "tools/effects/sass.h"

namespace pooch::effects {

// By $PATH, $CUDA_HOME and $CUDA_PATH, /usr/local/cuda, and Triton: in `packages`, a folder of Python's
// packages, else where `python3` finds it. Nothing: none of them has it.
std::optional<std::filesystem::path> find_disassembler(const std::filesystem::path& packages = {});
// In words, for those who have none.
extern const char* const disassembler_cure;

// The code of these kernels of a cubin, by the numbers of their symbols. Error: internal, one line.
Result<std::vector<Code>> disassemble(const std::filesystem::path& program, std::string_view cubin,
                                      const std::vector<std::uint32_t>& symbols);

}  // namespace pooch::effects
