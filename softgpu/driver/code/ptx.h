// PTX text: which kernels it has, and what their parameters are. What they compute is told by host functions
// of the same names (host_kernels.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace softgpu {

// Where a parameter lies among a launch's packed parameters, in bytes.
struct KernelParam {
  std::uint32_t offset, bytes;
  bool operator==(const KernelParam&) const = default;
};

struct PtxEntry {
  std::string name;
  std::vector<KernelParam> params;
};

// Whether this is the beginning of a PTX module. They start with .version, comments aside.
bool is_ptx(const char* text);
// Its kernels; nothing where an entry cannot be understood.
std::optional<std::vector<PtxEntry>> ptx_entries(std::string_view text);

}  // namespace softgpu
