// PTX text: which kernels it has, and what their parameters are. What they compute is told by host functions
// of the same names (host_kernels.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace softgpu {

struct PtxEntry {
  std::string name;
  std::vector<std::uint32_t> param_sizes;  // bytes
};

// Is this the beginning of a PTX module? They start with .version, comments aside.
bool is_ptx(const char* text);
// Its kernels; nothing where an entry cannot be understood.
std::optional<std::vector<PtxEntry>> ptx_entries(std::string_view text);

}  // namespace softgpu
