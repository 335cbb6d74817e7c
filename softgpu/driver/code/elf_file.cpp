#include "softgpu/driver/code/elf_file.h"

namespace softgpu {

ElfFile::ElfFile(const std::byte* at, std::uint64_t bytes) : at_(at), bytes_(bytes) {
  const auto head = get<Elf64_Ehdr>(0);
  if (!head || std::memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 || head->e_ident[EI_CLASS] != ELFCLASS64 ||
      head->e_shentsize != sizeof(Elf64_Shdr))
    return;
  head_ = *head;
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

std::string_view ElfFile::content(const Elf64_Shdr& section) const {
  if (section.sh_type == SHT_NOBITS || section.sh_offset > bytes_ ||
      section.sh_size > bytes_ - section.sh_offset)
    return {};
  return {reinterpret_cast<const char*>(at_ + section.sh_offset), section.sh_size};
}

std::vector<Elf64_Sym> ElfFile::symbols(const Elf64_Shdr& section) const {
  if (section.sh_type != SHT_SYMTAB) return {};
  const std::string_view table = content(section);
  std::vector<Elf64_Sym> all(table.size() / sizeof(Elf64_Sym));
  if (!all.empty()) std::memcpy(all.data(), table.data(), all.size() * sizeof(Elf64_Sym));
  return all;
}

std::string_view ElfFile::symbol_name(const Elf64_Shdr& table, const Elf64_Sym& symbol) const {
  return table.sh_link < sections_.size() ? text_at(content(sections_[table.sh_link]), symbol.st_name)
                                          : std::string_view();
}

std::string_view ElfFile::text_at(std::string_view texts, std::uint64_t offset) {
  if (offset >= texts.size()) return {};
  const std::string_view rest = texts.substr(offset);
  return rest.substr(0, rest.find('\0'));
}

}  // namespace softgpu
