// Parameters of a cubin's kernels.
#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <string_view>

#include "softgpu/driver/code/elf_file.h"
#include "softgpu/driver/code/fatbin.h"

namespace softgpu {
namespace {

constexpr std::uint8_t kparam_info = 0x17, kparam_info_v2 = 0x45;
// Of the function alone, and of it with those that it calls, which only linked code has.
constexpr std::uint8_t frame_size = 0x11, min_stack_size = 0x12;

// The payload of both. Where parameters may be larger than 4 KiB it is the second, which has a whole word for
// the size; in the first the size is the upper 14 bits of that word.
struct ParamInfo {
  std::uint32_t index;
  std::uint16_t ordinal, offset;
  std::uint32_t size;
};
static_assert(sizeof(ParamInfo) == 12);

// Local memory of a function, which a symbol's number names.
struct StackInfo {
  std::uint32_t symbol, bytes;
};

// Sorted by ordinal, as a launch gives them; nothing where they are not 0, 1, 2, …
std::optional<std::vector<KernelParam>> read_params(std::string_view info) {
  std::vector<ParamInfo> found;
  const bool whole = each_attribute(info, [&](std::uint8_t attribute, std::string_view payload) {
    if ((attribute != kparam_info && attribute != kparam_info_v2) || payload.size() != sizeof(ParamInfo))
      return;
    std::memcpy(&found.emplace_back(), payload.data(), sizeof(ParamInfo));
    if (attribute == kparam_info) found.back().size >>= 18;
  });
  if (!whole) return std::nullopt;
  std::sort(found.begin(), found.end(),
            [](const ParamInfo& a, const ParamInfo& b) { return a.ordinal < b.ordinal; });
  std::vector<KernelParam> params;
  for (const ParamInfo& one : found) {
    if (one.ordinal != params.size()) return std::nullopt;
    params.push_back({one.offset, one.size});
  }
  return params;
}

// The names of symbols that functions have, by number.
std::map<std::uint32_t, std::string_view> read_symbols(const ElfFile& cubin) {
  std::map<std::uint32_t, std::string_view> names;
  for (const Elf64_Shdr& section : cubin.sections()) {
    std::uint32_t number = 0;
    for (const Elf64_Sym& symbol : cubin.symbols(section)) {
      const std::string_view name = cubin.symbol_name(section, symbol);
      if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && !name.empty()) names.emplace(number, name);
      ++number;
    }
  }
  return names;
}

// Local memory of the functions that need some.
void read_stacks(const ElfFile& cubin, std::string_view info, FatBinary::Kernels& kernels) {
  const auto names = read_symbols(cubin);
  each_attribute(info, [&](std::uint8_t attribute, std::string_view payload) {
    StackInfo stack{};
    if ((attribute != frame_size && attribute != min_stack_size) || payload.size() != sizeof stack) return;
    std::memcpy(&stack, payload.data(), sizeof stack);
    const auto name = names.find(stack.symbol);
    const auto kernel = name == names.end() ? kernels.end() : kernels.find(name->second);
    if (kernel != kernels.end())
      kernel->second.local_bytes = std::max(kernel->second.local_bytes, stack.bytes);
  });
}

}  // namespace

FatBinary::Kernels cubin_kernels(const std::byte* at, std::uint64_t bytes) {
  constexpr std::string_view prefix = ".nv.info.", constants = ".nv.constant0.", code = ".text.";
  FatBinary::Kernels kernels;
  const ElfFile cubin(at, bytes);
  // Functions that kernels call have attributes as well; only kernels have parameters in constant memory.
  std::set<std::string_view> with_constants;
  for (const Elf64_Shdr& section : cubin.sections())
    if (const std::string_view name = cubin.name(section); name.starts_with(constants))
      with_constants.insert(name.substr(constants.size()));
  for (const Elf64_Shdr& section : cubin.sections()) {
    const std::string_view name = cubin.name(section);
    if (!name.starts_with(prefix) || !with_constants.contains(name.substr(prefix.size()))) continue;
    if (auto params = read_params(cubin.content(section)))
      kernels.emplace(name.substr(prefix.size()), DeviceKernel{std::move(*params)});
  }
  for (const Elf64_Shdr& section : cubin.sections()) {
    const std::string_view name = cubin.name(section);
    if (name == ".nv.info") read_stacks(cubin, cubin.content(section), kernels);
    if (!name.starts_with(code)) continue;
    if (const auto kernel = kernels.find(name.substr(code.size())); kernel != kernels.end())
      kernel->second.code_bytes = cubin.content(section).size();
  }
  return kernels;
}

}  // namespace softgpu
