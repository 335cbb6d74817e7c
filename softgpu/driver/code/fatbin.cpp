#include "softgpu/driver/code/fatbin.h"

#include <lz4.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

namespace softgpu {
namespace {

constexpr std::uint32_t wrapper_magic = 0x466243b1, container_magic = 0xba55ed50, elf_magic = 0x464c457f;
constexpr std::uint32_t packed_lz4 = 0x2000, packed_zstd = 0x8000;
constexpr std::uint16_t kind_ptx = 1, kind_cubin = 2;
// More than any cubin has, and more than it shrinks by; what claims more is damaged.
constexpr std::uint64_t largest_entry = std::uint64_t{4} << 30, largest_ratio = 4096;

struct Wrapper {
  std::uint32_t magic, version;
  const std::byte* container;
  const void* file_name;
};

struct ContainerHead {
  std::uint32_t magic;
  std::uint16_t version, head_bytes;
  std::uint64_t bytes;  // behind the head
};

struct EntryHead {
  std::uint16_t kind, version;
  std::uint32_t head_bytes;
  std::uint64_t padded_bytes;
  std::uint32_t packed_bytes;  // without padding; 0 where nothing is packed
  std::uint32_t options_offset;
  std::uint16_t minor, major;
  std::uint32_t architecture, name_offset, name_bytes;
  std::uint64_t flags, reserved, unpacked_bytes;
};
static_assert(sizeof(ContainerHead) == 16 && sizeof(EntryHead) == 64);

template <class T>
T read(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// How well code for one architecture suits a device of another; the least is best. Cubins run within their
// major version, upwards; PTX text is compiled for whatever is newer. A file may name any 32 bits as its
// architecture.
std::int64_t distance(bool ptx, std::int64_t architecture, int capability) {
  constexpr std::int64_t foreign = 1000, compiled = 100;
  const bool same = architecture / 10 == capability / 10;
  if (architecture <= capability && (same || ptx)) return capability - architecture + (ptx ? compiled : 0);
  return foreign + std::abs(capability - architecture);
}

}  // namespace

std::string FatEntry::unpack() const {
  const char* const packed = reinterpret_cast<const char*>(payload);
  if (unpacked_bytes == 0) return {packed, bytes};
  std::string text(unpacked_bytes, '\0');
  if ((flags & packed_zstd) != 0) {
    const std::size_t made = ZSTD_decompress(text.data(), unpacked_bytes, packed, bytes);
    return ZSTD_isError(made) == 0 && made == unpacked_bytes ? text : std::string();
  }
  constexpr auto largest = static_cast<std::uint64_t>(std::numeric_limits<int>::max());
  if ((flags & packed_lz4) == 0 || unpacked_bytes > largest || bytes > largest) return {};
  const int made =
      LZ4_decompress_safe(packed, text.data(), static_cast<int>(bytes), static_cast<int>(unpacked_bytes));
  return made == static_cast<int>(unpacked_bytes) ? text : std::string();
}

std::optional<FatContainer> read_container(const std::byte* container, std::uint64_t available) {
  if (available < sizeof(ContainerHead)) return std::nullopt;
  const auto head = read<ContainerHead>(container);
  if (head.magic != container_magic || head.head_bytes < sizeof head || head.head_bytes > available ||
      head.bytes > available - head.head_bytes)
    return std::nullopt;
  FatContainer found{{}, head.head_bytes + head.bytes};
  const std::byte* at = container + head.head_bytes;
  for (std::uint64_t left = head.bytes; left > 0;) {
    if (left < sizeof(EntryHead)) return std::nullopt;
    const auto entry = read<EntryHead>(at);
    if (entry.head_bytes < sizeof entry || entry.head_bytes > left ||
        entry.padded_bytes > left - entry.head_bytes || entry.packed_bytes > entry.padded_bytes ||
        entry.unpacked_bytes > std::min(largest_entry, largest_ratio * entry.packed_bytes))
      return std::nullopt;
    if (entry.kind == kind_ptx || entry.kind == kind_cubin)
      found.entries.push_back({entry.kind == kind_ptx, entry.architecture,
                               static_cast<std::uint32_t>(entry.flags), at + entry.head_bytes,
                               entry.packed_bytes != 0 ? entry.packed_bytes : entry.padded_bytes,
                               entry.unpacked_bytes});
    at += entry.head_bytes + entry.padded_bytes;
    left -= entry.head_bytes + entry.padded_bytes;
  }
  return found;
}

bool FatBinary::recognises(const void* code) {
  const auto magic = read<std::uint32_t>(static_cast<const std::byte*>(code));
  return magic == wrapper_magic || magic == container_magic || magic == elf_magic;
}

bool FatBinary::recognises_file(const void* code) {
  return recognises(code) && read<std::uint32_t>(static_cast<const std::byte*>(code)) != wrapper_magic;
}

std::unique_ptr<FatBinary> FatBinary::open(const void* code, int capability, std::uint64_t available) {
  const auto* at = static_cast<const std::byte*>(code);
  auto opened = std::make_unique<FatBinary>();
  opened->capability_ = capability;
  const auto magic = read<std::uint32_t>(at);
  if (magic == elf_magic) {
    // Its length is in its own head, which cubin_kernels checks. It is read at once: programs load it from
    // memory that they use again.
    opened->kernels_ = cubin_kernels(at, std::min(largest_entry, available));
    opened->read_ = true;
    return opened;
  }
  if (magic == wrapper_magic) at = read<Wrapper>(at).container;
  if (at == nullptr) return nullptr;
  // Its length is in its own head; whoever loads it from memory vouches for that.
  auto container = read_container(at, available);
  if (!container || container->entries.empty()) return nullptr;
  opened->entries_ = std::move(container->entries);
  return opened;
}

const FatEntry& FatBinary::best() const {
  return *std::min_element(entries_.begin(), entries_.end(), [&](const FatEntry& a, const FatEntry& b) {
    return distance(a.ptx, a.architecture, capability_) < distance(b.ptx, b.architecture, capability_);
  });
}

const FatBinary::Kernels& FatBinary::kernels() {
  if (std::exchange(read_, true)) return kernels_;
  const FatEntry& entry = best();
  if (!entry.ptx && entry.unpacked_bytes == 0) return kernels_ = cubin_kernels(entry.payload, entry.bytes);
  const std::string text = entry.unpack();
  if (!entry.ptx)
    return kernels_ = cubin_kernels(reinterpret_cast<const std::byte*>(text.data()), text.size());
  if (auto parsed = ptx_entries(text.c_str()))
    for (PtxEntry& kernel : *parsed)
      kernels_.emplace(std::move(kernel.name), DeviceKernel{std::move(kernel.params)});
  return kernels_;
}

const DeviceKernel* FatBinary::find(std::string_view kernel) {
  const auto found = kernels().find(kernel);
  return found == kernels_.end() ? nullptr : &found->second;
}

}  // namespace softgpu
