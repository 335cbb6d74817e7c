#include "tools/effects/images.h"

#include <cxxabi.h>

#include <cstdlib>
#include <cstring>
#include <utility>

#include "core/hash.h"
#include "softgpu/driver/code/elf_file.h"

namespace pooch::effects {
namespace {

using softgpu::ElfFile;

constexpr std::uint32_t container_magic = 0xba55ed50;
constexpr std::uint16_t cuda_machine = 190;
constexpr std::uint8_t param_bank = 0x0a;  // the attribute that says where the parameters are

const std::byte* bytes_of(std::string_view text) {
  return reinterpret_cast<const std::byte*>(text.data());
}

// Since CUDA 13 the flags have the architecture one byte further up.
std::uint32_t architecture_of(const Elf64_Ehdr& head) {
  constexpr unsigned char new_layout = 8;
  return (head.e_ident[EI_ABIVERSION] >= new_layout ? head.e_flags >> 8 : head.e_flags) & 0xff;
}

std::uint32_t default_base(std::uint32_t architecture) {
  return architecture >= 100 ? 0x380 : architecture >= 90 ? 0x210 : 0x160;
}

// Of all that the result depends on.
std::uint64_t key_of(const Kernel& kernel, std::string_view code) {
  std::uint64_t key = mix(mix(hash(code), kernel.architecture), kernel.param_base);
  for (const Param& param : kernel.params) key = mix(mix(key, param.offset), param.bytes);
  for (const auto& [offset, name] : *kernel.module_names) key = mix(mix(key, offset), hash(name));
  return key;
}

template <class T>
T read(std::string_view from, std::size_t offset = 0) {
  T value{};
  if (offset + sizeof value <= from.size()) std::memcpy(&value, from.data() + offset, sizeof value);
  return value;
}

// What the words of bank 4 name: each has a relocation.
std::map<std::uint32_t, std::string> read_module_names(const ElfFile& elf) {
  std::map<std::uint32_t, std::string> names;
  std::vector<std::string> symbols;
  for (const Elf64_Shdr& section : elf.sections())
    for (const Elf64_Sym& symbol : elf.symbols(section))
      symbols.emplace_back(elf.symbol_name(section, symbol));
  for (const Elf64_Shdr& section : elf.sections()) {
    const std::string_view name = elf.name(section);
    if (!name.starts_with(".rel") || name.find(".nv.constant4") == std::string_view::npos) continue;
    const std::string_view table = elf.content(section);
    const std::size_t size = section.sh_type == SHT_RELA ? sizeof(Elf64_Rela) : sizeof(Elf64_Rel);
    for (std::size_t at = 0; at + size <= table.size(); at += size) {
      const auto one = read<Elf64_Rel>(table, at);
      const std::uint64_t symbol = ELF64_R_SYM(one.r_info);
      if (symbol < symbols.size()) names.emplace(static_cast<std::uint32_t>(one.r_offset), symbols[symbol]);
    }
  }
  return names;
}

void read_param_bank(Kernel& kernel, std::string_view info) {
  struct Bank {
    std::uint32_t section;
    std::uint16_t base, bytes;
  };
  kernel.param_base = default_base(kernel.architecture);
  softgpu::each_attribute(info, [&](std::uint8_t attribute, std::string_view payload) {
    if (attribute != param_bank || payload.size() != sizeof(Bank)) return;
    const auto bank = read<Bank>(payload);
    kernel.param_base = bank.base;
    kernel.param_bytes = bank.bytes;
  });
}

}  // namespace

Result<ImageFile> ImageFile::open(const std::filesystem::path& path) {
  auto mapped = MappedFile::open(path);
  if (!mapped) return mapped.error();
  ImageFile opened;
  opened.mapping_ = std::move(*mapped);
  if (!opened.read(opened.mapping_->text()))
    return Error{ErrorCode::invalid_argument, "no cubin, no fat binary, and no library with device code"};
  return opened;
}

bool ImageFile::read(std::string_view bytes) {
  if (effects::read<std::uint32_t>(bytes) == container_magic) {
    read_containers(bytes);
    return !images_.empty() || ptx_texts_ != 0;
  }
  const ElfFile elf(bytes_of(bytes), bytes.size());
  if (elf.sections().empty()) return false;
  if (elf.head().e_machine == cuda_machine) {
    images_ = images_of(bytes);
    return true;
  }
  for (const Elf64_Shdr& section : elf.sections())
    if (const std::string_view name = elf.name(section); name == ".nv_fatbin" || name == "__nv_relfatbin")
      read_containers(elf.content(section));
  return !images_.empty() || ptx_texts_ != 0;
}

// One behind the other, each at a multiple of 8. What lies between them is skipped.
void ImageFile::read_containers(std::string_view bytes) {
  constexpr std::size_t alignment = 8;
  for (std::size_t at = 0; at < bytes.size();) {
    const auto container = softgpu::read_container(bytes_of(bytes) + at, bytes.size() - at);
    if (!container) {
      at += alignment;
      continue;
    }
    for (const softgpu::FatEntry& entry : container->entries) {
      if (entry.ptx)
        ++ptx_texts_;
      else
        images_.push_back({entry.architecture, entry});
    }
    at += (container->bytes + alignment - 1) / alignment * alignment;
  }
}

std::vector<Image> images_of(std::string_view code) {
  std::vector<Image> images;
  if (const auto container = softgpu::read_container(bytes_of(code), code.size())) {
    for (const softgpu::FatEntry& entry : container->entries)
      if (!entry.ptx) images.push_back({entry.architecture, entry});
    return images;
  }
  const ElfFile elf(bytes_of(code), code.size());
  if (elf.sections().empty() || elf.head().e_machine != cuda_machine) return images;
  const std::uint32_t architecture = architecture_of(elf.head());
  images.push_back({architecture, {false, architecture, 0, bytes_of(code), code.size(), 0}});
  return images;
}

std::vector<Kernel> kernels_of(std::string_view cubin) {
  const ElfFile elf(bytes_of(cubin), cubin.size());
  const auto described = softgpu::cubin_kernels(bytes_of(cubin), cubin.size());
  const auto module_names =
      std::make_shared<const std::map<std::uint32_t, std::string>>(read_module_names(elf));
  std::map<std::string_view, std::string_view> code, info;
  for (const Elf64_Shdr& section : elf.sections()) {
    const std::string_view name = elf.name(section);
    if (name.starts_with(".text.")) code[name.substr(6)] = elf.content(section);
    if (name.starts_with(".nv.info.")) info[name.substr(9)] = elf.content(section);
  }
  std::vector<Kernel> all;
  for (const Elf64_Shdr& section : elf.sections()) {
    std::uint32_t number = 0;
    for (const Elf64_Sym& symbol : elf.symbols(section)) {
      const std::uint32_t own = number++;
      const auto known = described.find(elf.symbol_name(section, symbol));
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || known == described.end()) continue;
      const auto text = code.find(known->first);
      if (text == code.end() || text->second.empty()) continue;
      Kernel kernel;
      kernel.name = known->first;
      kernel.symbol = own;
      kernel.architecture = architecture_of(elf.head());
      kernel.code_bytes = text->second.size();
      kernel.module_names = module_names;
      for (const softgpu::KernelParam& param : known->second.params)
        kernel.params.push_back({param.offset, param.bytes});
      read_param_bank(kernel, info[known->first]);
      kernel.code_hash = key_of(kernel, text->second);
      all.push_back(std::move(kernel));
    }
  }
  return all;
}

std::string demangled(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), std::free);
  return status == 0 ? text.get() : name;
}

}  // namespace pooch::effects
