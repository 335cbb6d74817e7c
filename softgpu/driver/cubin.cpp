// Parameters of a cubin's kernels.
#include <elf.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <string_view>

#include "softgpu/driver/fatbin.h"

namespace softgpu {
namespace {

// A cubin, none of whose offsets is believed.
class Cubin {
 public:
  Cubin(const std::byte* at, std::uint64_t bytes) : at_(at), bytes_(bytes) {
    const auto head = get<Elf64_Ehdr>(0);
    if (!head || std::memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 || head->e_ident[EI_CLASS] != ELFCLASS64 ||
        head->e_shentsize != sizeof(Elf64_Shdr))
      return;
    for (std::uint64_t i = 0; i < head->e_shnum; ++i) {
      const auto section = get<Elf64_Shdr>(head->e_shoff + i * sizeof(Elf64_Shdr));
      if (!section) {
        sections_.clear();
        return;
      }
      sections_.push_back(*section);
    }
    if (head->e_shstrndx < sections_.size()) names_ = content(sections_[head->e_shstrndx]);
  }

  const std::vector<Elf64_Shdr>& sections() const { return sections_; }
  std::string_view name(const Elf64_Shdr& section) const {
    if (section.sh_name >= names_.size()) return {};
    const std::string_view rest = names_.substr(section.sh_name);
    return rest.substr(0, rest.find('\0'));
  }
  std::string_view content(const Elf64_Shdr& section) const {
    if (section.sh_type == SHT_NOBITS || section.sh_offset > bytes_ ||
        section.sh_size > bytes_ - section.sh_offset)
      return {};
    return {reinterpret_cast<const char*>(at_ + section.sh_offset), section.sh_size};
  }

 private:
  template <class T>
  std::optional<T> get(std::uint64_t offset) const {
    if (offset > bytes_ || bytes_ - offset < sizeof(T)) return std::nullopt;
    T value;
    std::memcpy(&value, at_ + offset, sizeof value);
    return value;
  }

  const std::byte* at_;
  std::uint64_t bytes_;
  std::vector<Elf64_Shdr> sections_;
  std::string_view names_;
};

// One attribute: format and number, then its size, or in the other formats a value of two bytes.
constexpr std::uint8_t format_sized = 4;
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

// Gives the number and the payload of each attribute to `take`; false where one is cut off.
template <class Take>
bool each_attribute(std::string_view info, Take take) {
  while (info.size() >= 4) {
    const auto format = static_cast<std::uint8_t>(info[0]), attribute = static_cast<std::uint8_t>(info[1]);
    std::uint16_t size = 0;
    if (format == format_sized) std::memcpy(&size, info.data() + 2, sizeof size);
    if (info.size() - 4 < size) return false;
    take(attribute, info.substr(4, size));
    info.remove_prefix(4 + size);
  }
  return true;
}

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
std::map<std::uint32_t, std::string_view> read_symbols(const Cubin& cubin) {
  std::map<std::uint32_t, std::string_view> names;
  for (const Elf64_Shdr& section : cubin.sections()) {
    if (section.sh_type != SHT_SYMTAB || section.sh_link >= cubin.sections().size()) continue;
    const std::string_view table = cubin.content(section);
    const std::string_view text = cubin.content(cubin.sections()[section.sh_link]);
    for (std::uint32_t i = 0; i < table.size() / sizeof(Elf64_Sym); ++i) {
      Elf64_Sym symbol;
      std::memcpy(&symbol, table.data() + i * sizeof symbol, sizeof symbol);
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_name >= text.size()) continue;
      const std::string_view rest = text.substr(symbol.st_name);
      names.emplace(i, rest.substr(0, rest.find('\0')));
    }
  }
  return names;
}

// Local memory of the functions that need some.
void read_stacks(const Cubin& cubin, std::string_view info, FatBinary::Kernels& kernels) {
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
  const Cubin cubin(at, bytes);
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
