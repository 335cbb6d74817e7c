#include "softgpu/driver/fatbin.h"

#include <lz4.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <limits>
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

// The payload as it was before it was packed; empty where it does not unpack to what the head says.
std::string unpack(const std::byte* from, std::uint64_t bytes, std::uint64_t unpacked, std::uint32_t flags) {
  const char* const packed = reinterpret_cast<const char*>(from);
  if (unpacked == 0) return {packed, bytes};
  std::string text(unpacked, '\0');
  if ((flags & packed_zstd) != 0) {
    const std::size_t made = ZSTD_decompress(text.data(), unpacked, packed, bytes);
    return ZSTD_isError(made) == 0 && made == unpacked ? text : std::string();
  }
  constexpr auto largest = static_cast<std::uint64_t>(std::numeric_limits<int>::max());
  if ((flags & packed_lz4) == 0 || unpacked > largest || bytes > largest) return {};
  const int made =
      LZ4_decompress_safe(packed, text.data(), static_cast<int>(bytes), static_cast<int>(unpacked));
  return made == static_cast<int>(unpacked) ? text : std::string();
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

bool FatBinary::recognises(const void* code) {
  const auto magic = read<std::uint32_t>(static_cast<const std::byte*>(code));
  return magic == wrapper_magic || magic == container_magic || magic == elf_magic;
}

std::unique_ptr<FatBinary> FatBinary::open(const void* code, int capability) {
  const auto* at = static_cast<const std::byte*>(code);
  auto opened = std::make_unique<FatBinary>();
  opened->capability_ = capability;
  const auto magic = read<std::uint32_t>(at);
  if (magic == elf_magic) {
    // Its length is in its own head, which cubin_kernels checks.
    opened->entries_.push_back({false, static_cast<std::uint32_t>(capability), 0, at, largest_entry, 0});
    return opened;
  }
  if (magic == wrapper_magic) at = read<Wrapper>(at).container;
  if (at == nullptr || !opened->read_entries(at)) return nullptr;
  return opened;
}

bool FatBinary::read_entries(const std::byte* container) {
  const auto head = read<ContainerHead>(container);
  if (head.magic != container_magic || head.head_bytes < sizeof head) return false;
  const std::byte* at = container + head.head_bytes;
  for (std::uint64_t left = head.bytes; left > 0;) {
    if (left < sizeof(EntryHead)) return false;
    const auto entry = read<EntryHead>(at);
    if (entry.head_bytes < sizeof entry || entry.head_bytes > left ||
        entry.padded_bytes > left - entry.head_bytes || entry.packed_bytes > entry.padded_bytes ||
        entry.unpacked_bytes > std::min(largest_entry, largest_ratio * entry.packed_bytes))
      return false;
    if (entry.kind == kind_ptx || entry.kind == kind_cubin)
      entries_.push_back({entry.kind == kind_ptx, entry.architecture, static_cast<std::uint32_t>(entry.flags),
                          at + entry.head_bytes,
                          entry.packed_bytes != 0 ? entry.packed_bytes : entry.padded_bytes,
                          entry.unpacked_bytes});
    at += entry.head_bytes + entry.padded_bytes;
    left -= entry.head_bytes + entry.padded_bytes;
  }
  return !entries_.empty();
}

const FatBinary::Entry& FatBinary::best() const {
  return *std::min_element(entries_.begin(), entries_.end(), [&](const Entry& a, const Entry& b) {
    return distance(a.ptx, a.architecture, capability_) < distance(b.ptx, b.architecture, capability_);
  });
}

const FatBinary::Kernels& FatBinary::kernels() {
  if (std::exchange(read_, true)) return kernels_;
  const Entry& entry = best();
  if (!entry.ptx && entry.unpacked_bytes == 0) return kernels_ = cubin_kernels(entry.payload, entry.bytes);
  const std::string text = unpack(entry.payload, entry.bytes, entry.unpacked_bytes, entry.flags);
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
