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

// The payload of both. Where parameters may be larger than 4 KiB it is the second, which has a whole word for
// the size; in the first the size is the upper 14 bits of that word.
struct ParamInfo {
  std::uint32_t index;
  std::uint16_t ordinal, offset;
  std::uint32_t size;
};
static_assert(sizeof(ParamInfo) == 12);

// Sorted by ordinal, as a launch gives them; nothing where they are not 0, 1, 2, …
std::optional<std::vector<KernelParam>> read_params(std::string_view info) {
  std::vector<ParamInfo> found;
  while (info.size() >= 4) {
    const auto format = static_cast<std::uint8_t>(info[0]), attribute = static_cast<std::uint8_t>(info[1]);
    std::uint16_t size = 0;
    if (format == format_sized) std::memcpy(&size, info.data() + 2, sizeof size);
    if (info.size() - 4 < size) return std::nullopt;
    if ((attribute == kparam_info || attribute == kparam_info_v2) && size == sizeof(ParamInfo)) {
      std::memcpy(&found.emplace_back(), info.data() + 4, sizeof(ParamInfo));
      if (attribute == kparam_info) found.back().size >>= 18;
    }
    info.remove_prefix(4 + size);
  }
  std::sort(found.begin(), found.end(),
            [](const ParamInfo& a, const ParamInfo& b) { return a.ordinal < b.ordinal; });
  std::vector<KernelParam> params;
  for (const ParamInfo& one : found) {
    if (one.ordinal != params.size()) return std::nullopt;
    params.push_back({one.offset, one.size});
  }
  return params;
}

}  // namespace

FatBinary::Kernels cubin_kernels(const std::byte* at, std::uint64_t bytes) {
  constexpr std::string_view prefix = ".nv.info.", constants = ".nv.constant0.";
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
      kernels.emplace(name.substr(prefix.size()), std::move(*params));
  }
  return kernels;
}

}  // namespace softgpu
