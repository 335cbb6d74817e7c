// The program that is to be run, by its file: what would keep the dynamic linker from preloading anything.
#include <elf.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>

#include "doctor_findings.h"

namespace pooch::tools {
namespace fs = std::filesystem;
namespace {

#if defined(__x86_64__)
constexpr Elf64_Half our_machine = EM_X86_64;
#elif defined(__aarch64__)
constexpr Elf64_Half our_machine = EM_AARCH64;
#endif

std::optional<fs::path> find_command(const std::string& command) {
  if (command.find('/') != std::string::npos) {
    if (access(command.c_str(), X_OK) == 0) return command;
    return {};
  }
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "/bin:/usr/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const fs::path candidate = fs::path(folder) / command;
    std::error_code error;
    if (access(candidate.c_str(), X_OK) == 0 && fs::is_regular_file(candidate, error)) return candidate;
  }
  return {};
}

// A file's parts by offset; nothing where it is too short.
class Image {
 public:
  explicit Image(const fs::path& path) {
    std::ifstream in(path, std::ios::binary | std::ios::ate);
    bytes_.resize(in ? static_cast<std::size_t>(in.tellg()) : 0);
    in.seekg(0);
    in.read(bytes_.data(), static_cast<std::streamsize>(bytes_.size()));
  }
  template <class T>
  std::optional<T> at(std::uint64_t offset) const {
    T value;
    if (offset > bytes_.size() || bytes_.size() - offset < sizeof value) return {};
    std::memcpy(&value, bytes_.data() + offset, sizeof value);
    return value;
  }
  std::string_view text_at(std::uint64_t offset) const {
    if (offset >= bytes_.size()) return {};
    const std::string_view rest = std::string_view(bytes_).substr(offset);
    return rest.substr(0, rest.find('\0'));
  }
  std::string_view all() const { return bytes_; }

 private:
  std::string bytes_;
};

// An executable of 64 bits.
struct Executable {
  bool dynamic = false;  // has an interpreter: the dynamic linker, which does the preloading
  std::vector<std::string> needed;
};

std::vector<Elf64_Phdr> segments_of(const Image& image, const Elf64_Ehdr& header) {
  std::vector<Elf64_Phdr> all;
  for (unsigned i = 0; i < header.e_phnum; ++i)
    if (const auto one = image.at<Elf64_Phdr>(header.e_phoff + i * sizeof(Elf64_Phdr))) all.push_back(*one);
  return all;
}

Executable read_executable(const Image& image, const Elf64_Ehdr& header) {
  Executable read;
  std::vector<std::uint64_t> names;
  std::uint64_t strings = 0;
  const std::vector<Elf64_Phdr> segments = segments_of(image, header);
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type == PT_INTERP) read.dynamic = true;
    if (segment.p_type != PT_DYNAMIC) continue;
    for (std::uint64_t at = 0; at + sizeof(Elf64_Dyn) <= segment.p_filesz; at += sizeof(Elf64_Dyn)) {
      const auto entry = image.at<Elf64_Dyn>(segment.p_offset + at);
      if (!entry || entry->d_tag == DT_NULL) break;
      if (entry->d_tag == DT_NEEDED) names.push_back(entry->d_un.d_val);
      if (entry->d_tag == DT_STRTAB) strings = entry->d_un.d_ptr;
    }
  }
  // The string table is named by address.
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type != PT_LOAD || strings < segment.p_vaddr ||
        strings - segment.p_vaddr >= segment.p_filesz)
      continue;
    for (const std::uint64_t name : names)
      read.needed.emplace_back(image.text_at(segment.p_offset + strings - segment.p_vaddr + name));
  }
  return read;
}

Finding judge_runtime(const Image& image, const Executable& executable) {
  for (const std::string& library : executable.needed)
    if (library.starts_with("libcudart.so"))
      return {"program's runtime", Level::ok, "shared, " + library, ""};
  // A static one opens the driver by this name.
  if (image.all().find("libcuda.so.1") != std::string_view::npos)
    return {"program's runtime", Level::ok, "static, inside the program", ""};
  return {"program's runtime", Level::ok,
          "none in the program itself; its libraries or modules may bring one", ""};
}

bool runs_with_privileges(const fs::path& path) {
  struct stat status {};
  const bool set_id = stat(path.c_str(), &status) == 0 && (status.st_mode & (S_ISUID | S_ISGID)) != 0;
  return set_id || getxattr(path.c_str(), "security.capability", nullptr, 0) > 0;
}

// "#!/usr/bin/env python3" runs env; "#!/usr/bin/python3 -B" runs that.
std::string interpreter_of(const Image& image) {
  std::istringstream line(std::string(image.all().substr(2, image.all().find('\n') - 2)));
  std::string first, second;
  line >> first >> second;
  while (second.starts_with("-") && line >> second) continue;  // env's options
  return fs::path(first).filename() == "env" && !second.empty() ? second : first;
}

Findings look_at_file(const fs::path& path, int scripts_left) {
  if (runs_with_privileges(path)) {
    return {
        {"program", Level::problem,
         fmt::format("{} runs with privileges (setuid, setgid or capabilities): the dynamic linker ignores "
                     "LD_PRELOAD",
                     path.string()),
         "run a copy of it without the bit, as the user that it changes to"}};
  }
  const Image image(path);
  if (image.all().starts_with("#!") && scripts_left > 0) {
    const std::string interpreter = interpreter_of(image);
    const auto found = find_command(interpreter);
    if (!found) {
      return {{"program", Level::problem,
               fmt::format("{} asks for {}, which is not there", path.string(), interpreter),
               "install it, or correct the first line"}};
    }
    return look_at_file(*found, scripts_left - 1);
  }
  if (!image.all().starts_with(ELFMAG))
    return {{"program", Level::warning, path.string() + " is no executable of this system",
             "name the program itself after --"}};
  const auto header = image.at<Elf64_Ehdr>(0);
  if (!header || header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_machine != our_machine) {
    return {{"program", Level::problem,
             fmt::format(
                 "{} is a {} program: libpooch.so cannot be loaded into it", path.string(),
                 image.all().size() > EI_CLASS && image.all()[EI_CLASS] == ELFCLASS32 ? "32-bit" : "foreign"),
             "build it for this machine, with 64 bits"}};
  }
  const Executable executable = read_executable(image, *header);
  if (!executable.dynamic) {
    return {{"program", Level::problem, path.string() + " is linked statically: nothing can be preloaded",
             "link it dynamically (the CUDA runtime inside may stay static)"}};
  }
  return {{"program", Level::ok, path.string() + ", 64-bit, linked dynamically", ""},
          judge_runtime(image, executable)};
}

}  // namespace

bool is_there(const std::string& command) {
  return find_command(command).has_value();
}

Findings look_at_program(const std::string& command) {
  const auto path = find_command(command);
  if (!path) {
    return {{"program", Level::problem, fmt::format("'{}' is not found, or may not be executed", command),
             "give its path after --"}};
  }
  return look_at_file(*path, /*scripts_left=*/4);
}

Findings look_at_command(const std::vector<std::string>& command) {
  Findings all = look_at_program(command.front());
  if (!fs::path(command.front()).filename().string().starts_with("python")) return all;
  const auto script = std::find_if(command.begin() + 1, command.end(),
                                   [](const std::string& word) { return word != "-B" && word != "-u"; });
  std::error_code error;
  if (script != command.end() && script->ends_with(".py") && !fs::exists(*script, error))
    all.push_back({"script", Level::problem, fmt::format("'{}' is not there", *script), "correct its path"});
  return all;
}

}  // namespace pooch::tools
