#include "interpose/callsites/callsites.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <mutex>
#include <span>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/hash.h"
#include "core/log.h"
#include "interpose/callsites/python.h"
#include "interpose/hooks/real_symbol.h"

namespace pooch::interpose {
namespace {

constexpr std::size_t deepest = 64;
// Return addresses lie below it. What an unwinder that lost its way finds need not.
constexpr std::uintptr_t end_of_user_space = std::uintptr_t{1} << 47;

// ---- the unwinder

using Unwinder = int (*)(void** addresses, int size);

// Opened here and for nobody else: libunwind exports the C++ runtime's names, too.
Unwinder open_unwinder() {
  if (void* const library = dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL))
    if (void* const found = real_dlsym()(library, "unw_backtrace")) return reinterpret_cast<Unwinder>(found);
  void* const own = real_dlsym()(RTLD_DEFAULT, "backtrace");
  log::info("POOCH_CALLSITES: there is no libunwind.so.8 (package libunwind8): {}",
            own != nullptr ? "the C library's slower unwinder is used" : "no native stacks");
  return reinterpret_cast<Unwinder>(own);
}

Unwinder unwinder() {
  static const Unwinder opened = open_unwinder();
  return opened;
}

// ---- modules

// Where an address lies: `module` 0 is memory that belongs to no file, with the address itself as offset.
using Place = CallFrame;

std::string build_id_of(const dl_phdr_info& object) {
  std::string text;
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const auto& segment = object.dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    const auto* at = reinterpret_cast<const char*>(object.dlpi_addr + segment.p_vaddr);
    for (const char* const end = at + segment.p_memsz; at + sizeof(ElfW(Nhdr)) <= end;) {
      ElfW(Nhdr) note;
      std::memcpy(&note, at, sizeof note);
      const auto padded = [](std::size_t size) { return (size + 3) / 4 * 4; };
      const char* const name = at + sizeof note;
      const char* const content = name + padded(note.n_namesz);
      at = content + padded(note.n_descsz);
      if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != 4 || std::memcmp(name, "GNU", 4) != 0 ||
          at > end)
        continue;
      for (std::size_t k = 0; k < note.n_descsz; ++k)
        text += fmt::format("{:02x}", static_cast<unsigned char>(content[k]));
      return text;
    }
  }
  return text;
}

bool contains(const dl_phdr_info& object, std::uintptr_t address) {
  return std::any_of(object.dlpi_phdr, object.dlpi_phdr + object.dlpi_phnum, [&](const auto& segment) {
    return segment.p_type == PT_LOAD && address - (object.dlpi_addr + segment.p_vaddr) < segment.p_memsz;
  });
}

// The program itself has no name.
std::string path_of(const dl_phdr_info& object) {
  const std::string named = object.dlpi_name == nullptr ? "" : object.dlpi_name;
  std::error_code error;
  const auto full = std::filesystem::canonical(named.empty() ? "/proc/self/exe" : named, error);
  return error ? named : full.string();
}

class Modules {
 public:
  // Each address as a frame, without those in libpooch itself.
  std::vector<CallFrame> frames_of(std::span<void* const> addresses) {
    Search search{*this, addresses, std::vector<CallFrame>(addresses.size()), {}};
    search.own.resize(addresses.size());
    for (std::size_t i = 0; i < addresses.size(); ++i) search.frames[i] = {0, call_of(addresses[i])};
    dl_iterate_phdr(&Modules::look, &search);
    std::vector<CallFrame> found;
    for (std::size_t i = 0; i < addresses.size(); ++i)
      if (!search.own[i]) found.push_back(search.frames[i]);
    return found;
  }

  const Module& at(std::uint32_t index) const { return modules_[index]; }

 private:
  struct Search {
    Modules& modules;
    std::span<void* const> addresses;
    std::vector<CallFrame> frames;
    std::vector<bool> own;
  };

  // An address inside of the call that returns to `address`.
  static std::uintptr_t call_of(const void* address) { return reinterpret_cast<std::uintptr_t>(address) - 1; }

  static int look(dl_phdr_info* object, std::size_t, void* data) {
    Search& search = *static_cast<Search*>(data);
    const bool own = contains(*object, reinterpret_cast<std::uintptr_t>(&Modules::look));
    std::uint32_t index = 0;
    for (std::size_t i = 0; i < search.addresses.size(); ++i) {
      const std::uintptr_t address = call_of(search.addresses[i]);
      if (!contains(*object, address)) continue;
      search.own[i] = own;
      if (index == 0 && !own) index = search.modules.index_of(*object);
      search.frames[i] = {index, address - object->dlpi_addr};
    }
    return 0;
  }

  std::uint32_t index_of(const dl_phdr_info& object) {
    Module module{path_of(object), build_id_of(object)};
    for (std::uint32_t i = 1; i < modules_.size(); ++i)
      if (modules_[i].path == module.path && modules_[i].build_id == module.build_id) return i;
    modules_.push_back(std::move(module));
    return static_cast<std::uint32_t>(modules_.size() - 1);
  }

  std::vector<Module> modules_{Module{}};
};

// ---- stacks

struct Stack {
  std::vector<void*> addresses;
  std::vector<std::string> python;
  bool operator==(const Stack&) const = default;
};

struct StackHash {
  std::size_t operator()(const Stack& stack) const {
    std::uint64_t state = 0;
    for (void* const address : stack.addresses) state = mix(state, reinterpret_cast<std::uintptr_t>(address));
    for (const std::string& frame : stack.python) state = mix(state, hash(frame));
    return state;
  }
};

// Everything that was seen. A leaf: nothing is called with its mutex held but the dynamic linker.
class Sites {
 public:
  std::uint32_t id_of(Stack stack) {
    const std::lock_guard lock(mutex_);
    const auto [place, fresh] = ids_.try_emplace(std::move(stack), sites_.size() + 1);
    if (fresh) {
      // At once: the module may be gone later.
      sites_.push_back({modules_.frames_of(place->first.addresses), place->first.python});
    }
    return place->second;
  }

  CallSite site(std::uint32_t id) const {
    const std::lock_guard lock(mutex_);
    return sites_[id - 1];
  }
  Module module(std::uint32_t index) const {
    const std::lock_guard lock(mutex_);
    return modules_.at(index);
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<Stack, std::uint32_t, StackHash> ids_;
  std::vector<CallSite> sites_;
  Modules modules_;
};

// Never destroyed: calls may come after this library's destructors.
Sites& sites() {
  static Sites* const all = new Sites;
  return *all;
}

// ---- into a profile

class Describer {
 public:
  explicit Describer(Profile& profile) : profile_(profile) {}

  std::uint32_t site(std::uint32_t id) {
    const auto [place, fresh] = sites_.try_emplace(id, profile_.sites.size() + 1);
    if (fresh) profile_.sites.push_back(described(sites().site(id)));
    return place->second;
  }

 private:
  CallSite described(CallSite site) {
    const bool functions_only = site.python.empty();
    for (CallFrame& frame : site.frames) {
      if (functions_only && frame.module == 0)
        if (auto function = perf_map().function_at(frame.offset)) site.python.push_back(std::move(*function));
      frame.module = module(frame.module);
    }
    return site;
  }

  std::uint32_t module(std::uint32_t index) {
    const auto [place, fresh] = modules_.try_emplace(index, profile_.modules.size());
    if (fresh) profile_.modules.push_back(sites().module(index));
    return place->second;
  }

  const PerfMap& perf_map() {
    if (!perf_map_) perf_map_ = PerfMap::read();
    return *perf_map_;
  }

  Profile& profile_;
  std::map<std::uint32_t, std::uint32_t> sites_, modules_;
  std::optional<PerfMap> perf_map_;
};

}  // namespace

std::uint32_t call_site() {
  std::array<void*, deepest> addresses;
  const Unwinder unwind = unwinder();
  const int found = unwind == nullptr ? 0 : unwind(addresses.data(), static_cast<int>(deepest));
  Stack stack;
  for (int i = 0; i < found; ++i) {
    const auto address = reinterpret_cast<std::uintptr_t>(addresses[static_cast<std::size_t>(i)]);
    if (address == 0 || address >= end_of_user_space) break;
    stack.addresses.push_back(addresses[static_cast<std::size_t>(i)]);
  }
  stack.python = python_frames();
  if (stack.addresses.empty() && stack.python.empty()) return 0;
  return sites().id_of(std::move(stack));
}

void describe_sites(Profile& profile) {
  Describer describer(profile);
  for (PhaseProfile& phase : profile.phases)
    for (ProfileOp& op : phase.ops)
      if (op.site != 0) op.site = describer.site(op.site);
}

}  // namespace pooch::interpose
