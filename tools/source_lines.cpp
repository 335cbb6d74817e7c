#include "source_lines.h"

#include <elf.h>
#include <fmt/core.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>

#include "child.h"

namespace pooch::tools {
namespace {

constexpr const char* programs[] = {"addr2line", "llvm-addr2line"};
constexpr std::size_t most_at_once = 4096;  // arguments

void erase_all(std::string& text, std::string_view part) {
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at))
    text.erase(at, part.size());
}

// "ns::(anonymous namespace)::f<int>(char) const [clone .cold]" -> "ns::f<int>"
std::string short_name(std::string name) {
  if (const std::size_t clone = name.find(" [clone"); clone != name.npos) name.erase(clone);
  if (name.ends_with(" const")) name.erase(name.size() - 6);
  if (name.ends_with(')')) {
    // Back to where the last parentheses open.
    std::size_t at = name.size();
    for (int depth = 0; at > 0;) {
      --at;
      depth += name[at] == ')' ? 1 : name[at] == '(' ? -1 : 0;
      if (depth == 0) break;
    }
    if (at > 0 && !std::string_view(name).substr(0, at).ends_with("operator")) name.erase(at);
  }
  erase_all(name, "(anonymous namespace)::");
  return name;
}

// "/a/../b.cpp:12 (discriminator 3)" -> "/b.cpp:12"; "??:0" -> ""
std::string short_place(std::string place) {
  if (const std::size_t more = place.find(" ("); more != place.npos) place.erase(more);
  if (place.starts_with("??") || place.ends_with(":?") || place.ends_with(":0")) return {};
  return std::filesystem::path(place).lexically_normal().string();
}

std::optional<std::uint64_t> address_line(std::string_view line) {
  std::uint64_t address = 0;
  if (!line.starts_with("0x")) return std::nullopt;
  const auto [end, problem] = std::from_chars(line.data() + 2, line.data() + line.size(), address, 16);
  if (problem != std::errc{} || end != line.data() + line.size()) return std::nullopt;
  return address;
}

// In a piece of notes; false at the end of what is well formed.
bool next_note(std::string_view& notes, std::string& build_id) {
  ElfW(Nhdr) note;
  if (notes.size() < sizeof note) return false;
  std::memcpy(&note, notes.data(), sizeof note);
  const std::size_t name = (std::size_t{note.n_namesz} + 3) / 4 * 4;
  const std::size_t content = (std::size_t{note.n_descsz} + 3) / 4 * 4;
  if (notes.size() < sizeof note + name + content) return false;
  if (note.n_type == NT_GNU_BUILD_ID && notes.substr(sizeof note, 4) == std::string_view("GNU\0", 4)) {
    for (const char byte : notes.substr(sizeof note + name, note.n_descsz))
      build_id += fmt::format("{:02x}", static_cast<unsigned char>(byte));
    return false;
  }
  notes.remove_prefix(sizeof note + name + content);
  return true;
}

}  // namespace

std::string build_id_of_file(const std::string& file) {
  constexpr std::uint64_t most_notes = 1 << 20;
  std::ifstream in(file, std::ios::binary);
  ElfW(Ehdr) header;
  constexpr unsigned char own_class = sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32;
  if (!in.read(reinterpret_cast<char*>(&header), sizeof header) ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != own_class ||
      header.e_phentsize != sizeof(ElfW(Phdr)))
    return {};
  std::string build_id;
  for (std::uint64_t i = 0; i < header.e_phnum && build_id.empty(); ++i) {
    ElfW(Phdr) segment;
    in.seekg(static_cast<std::streamoff>(header.e_phoff + i * sizeof segment));
    if (!in.read(reinterpret_cast<char*>(&segment), sizeof segment)) return {};
    if (segment.p_type != PT_NOTE || segment.p_filesz > most_notes) continue;
    std::string notes(segment.p_filesz, '\0');
    in.seekg(static_cast<std::streamoff>(segment.p_offset));
    if (!in.read(notes.data(), static_cast<std::streamsize>(notes.size()))) return {};
    std::string_view rest = notes;
    while (next_note(rest, build_id)) {
    }
  }
  return build_id;
}

std::map<std::uint64_t, std::vector<SourceLine>> parse_source_lines(const std::string& text) {
  std::map<std::uint64_t, std::vector<SourceLine>> found;
  std::istringstream in(text);
  std::vector<SourceLine>* lines = nullptr;
  for (std::string function, place; std::getline(in, function);) {
    if (const auto address = address_line(function)) {
      lines = &found[*address];
      lines->clear();
      continue;
    }
    if (lines == nullptr || !std::getline(in, place)) break;
    if (function != "??") lines->push_back({short_name(std::move(function)), short_place(std::move(place))});
  }
  return found;
}

SourceLines::SourceLines(const std::vector<Address>& addresses) {
  std::map<std::pair<std::string, std::string>, std::vector<std::uint64_t>> by_file;
  for (const Address& address : addresses)
    by_file[{address.file, address.build_id}].push_back(address.offset);
  for (auto& [key, offsets] : by_file) {
    const auto& [file, build_id] = key;
    std::error_code error;
    if (!std::filesystem::is_regular_file(file, error)) continue;  // the kernel's, or from another machine
    if (build_id_of_file(file) != build_id) {
      problems_.push_back(fmt::format("{} is another build than the one that ran", file));
      continue;
    }
    std::sort(offsets.begin(), offsets.end());
    offsets.erase(std::unique(offsets.begin(), offsets.end()), offsets.end());
    look_up(file, build_id, offsets);
  }
}

void SourceLines::look_up(const std::string& file, const std::string& build_id,
                          const std::vector<std::uint64_t>& offsets) {
  for (std::size_t first = 0; first < offsets.size(); first += most_at_once) {
    std::vector<std::string> command{"", "-a", "-f", "-C", "-i", "-e", file};
    for (std::size_t i = first; i < std::min(first + most_at_once, offsets.size()); ++i)
      command.push_back(fmt::format("{:#x}", offsets[i]));
    std::optional<std::string> text;
    for (const char* program : programs) {
      command[0] = program;
      if ((text = output_of(command))) break;
    }
    if (!text) {
      problems_.push_back(fmt::format("{}: no addr2line (package binutils) that reads it", file));
      return;
    }
    for (auto& [offset, lines] : parse_source_lines(*text))
      known_[{file, build_id, offset}] = std::move(lines);
  }
}

std::vector<SourceLine> SourceLines::at(const Address& address) const {
  const auto found = known_.find(address);
  if (found != known_.end() && !found->second.empty()) return found->second;
  const std::string name = std::filesystem::path(address.file).filename().string();
  return {{fmt::format("{}+{:#x}", name.empty() ? "memory" : name, address.offset), ""}};
}

}  // namespace pooch::tools
