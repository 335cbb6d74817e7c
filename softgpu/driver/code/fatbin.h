// Device code as nvcc packs it, read for what its kernels are called and what parameters they take.
//
//   wrapper  0x466243b1 ── data ──▶ container  0xBA55ED50, entries one behind the other
//                                     ├── cubin (ELF) per architecture   plain, or compressed by LZ4 or zstd
//                                     └── PTX text                       likewise
//
// A cubin has a section `.nv.info.<kernel>` per kernel, whose attribute KPARAM_INFO gives ordinal, offset and
// size of each parameter, and a section `.nv.info`, whose attributes FRAME_SIZE and MIN_STACK_SIZE give the
// local memory that the function of a symbol needs. The layouts are not documented; they were read from what
// nvcc 13 and the public PyTorch wheels contain, and tests/softgpu/fatbin.cpp reads both.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "softgpu/driver/code/ptx.h"

namespace softgpu {

struct DeviceKernel {
  std::vector<KernelParam> params;
  std::uint64_t code_bytes = 0;   // of its machine code; 0 where it is PTX text
  std::uint32_t local_bytes = 0;  // of local memory for each thread
};

// One image of a container.
struct FatEntry {
  bool ptx;
  std::uint32_t architecture, flags;
  const std::byte* payload;
  std::uint64_t bytes, unpacked_bytes;  // the latter 0 where it is not compressed

  // The payload as it was before it was packed; empty where it does not unpack to what the head says.
  std::string unpack() const;
};

struct FatContainer {
  std::vector<FatEntry> entries;
  std::uint64_t bytes;  // of the whole
};

// The container that begins here; nothing where it makes no sense, or is longer than `available`. Nothing is
// read but heads.
std::optional<FatContainer> read_container(const std::byte* container, std::uint64_t available);

class FatBinary {
 public:
  // By name, as it is mangled.
  using Kernels = std::map<std::string, DeviceKernel, std::less<>>;

  // Whether this is a wrapper, a container or a cubin.
  static bool recognises(const void* code);
  // The last two: they hold no addresses, so files may have them.
  static bool recognises_file(const void* code);
  // `code`, which must outlive the result where it is no cubin. Nothing else is read but the heads of the
  // entries; nullptr where they make no sense. `capability`: the device's, 90 for 9.0. `available`: how long
  // it is, where that is known.
  static std::unique_ptr<FatBinary> open(const void* code, int capability,
                                         std::uint64_t available = std::numeric_limits<std::uint64_t>::max());

  // All kernels of the entry that suits the device best, decompressed and read at the first call. Where no
  // entry is made for the device it is the one for the nearest: parameters are the same in all of them. Empty
  // where the entry is damaged or has no kernels. Not safe to call from two threads at once.
  const Kernels& kernels();
  // nullptr: there is none of this name.
  const DeviceKernel* find(std::string_view kernel);

 private:
  const FatEntry& best() const;

  std::vector<FatEntry> entries_;
  int capability_ = 0;
  bool read_ = false;
  Kernels kernels_;
};

// Kernels of one cubin; empty where it is none, or damaged.
FatBinary::Kernels cubin_kernels(const std::byte* cubin, std::uint64_t bytes);

}  // namespace softgpu
