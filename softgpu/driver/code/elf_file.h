// An ELF file of 64 bits, none of whose offsets is believed; and the attributes that cubins have of their
// functions.
#pragma once

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

namespace softgpu {

class ElfFile {
 public:
  // No sections where it is damaged, or no such file. The bytes must outlive this.
  ElfFile(const std::byte* at, std::uint64_t bytes);

  const Elf64_Ehdr& head() const { return head_; }
  const std::vector<Elf64_Shdr>& sections() const { return sections_; }
  std::string_view name(const Elf64_Shdr& section) const { return text_at(names_, section.sh_name); }
  // Empty where it has none, or lies outside.
  std::string_view content(const Elf64_Shdr& section) const;
  // The table's symbols and the text of their names; nothing where `section` is no table of symbols.
  std::vector<Elf64_Sym> symbols(const Elf64_Shdr& section) const;
  std::string_view symbol_name(const Elf64_Shdr& table, const Elf64_Sym& symbol) const;

 private:
  template <class T>
  std::optional<T> get(std::uint64_t offset) const {
    if (offset > bytes_ || bytes_ - offset < sizeof(T)) return std::nullopt;
    T value;
    std::memcpy(&value, at_ + offset, sizeof value);
    return value;
  }
  static std::string_view text_at(std::string_view texts, std::uint64_t offset);

  const std::byte* at_;
  std::uint64_t bytes_;
  Elf64_Ehdr head_{};
  std::vector<Elf64_Shdr> sections_;
  std::string_view names_;
};

// Gives the number and the payload of each attribute in a section `.nv.info…` to `take`; false where one is
// cut off.
template <class Take>
bool each_attribute(std::string_view info, Take take) {
  constexpr std::uint8_t sized = 4;  // format and number, then its size, or in other formats two bytes
  while (info.size() >= 4) {
    const auto format = static_cast<std::uint8_t>(info[0]), attribute = static_cast<std::uint8_t>(info[1]);
    std::uint16_t size = 0;
    if (format == sized) std::memcpy(&size, info.data() + 2, sizeof size);
    if (info.size() - 4 < size) return false;
    take(attribute, info.substr(4, size));
    info.remove_prefix(4 + size);
  }
  return true;
}

}  // namespace softgpu
