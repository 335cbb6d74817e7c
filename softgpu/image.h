// How the software GPU's own libraries bring kernels: a module image is a table of host functions, given to
// cuLibraryLoadData as `code`, so that every kernel travels the same road as on a real device:
// cuLibraryLoadData -> cuLibraryGetKernel -> cuLaunchKernel.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace softgpu {

// `update`: read and written, and what was there goes into nothing but the new content of the same bytes.
// `reach`: nothing of it is touched, but it must be there.
// `unknown`: may read or write any of the bytes. It races only with what surely writes; from the first of its
// kind on nobody can say any more which bytes were never written.
enum class TouchKind : std::uint8_t { read, write, read_write, update, unknown, reach };
// Surely, not perhaps.
constexpr bool writes(TouchKind kind) {
  return kind == TouchKind::write || kind == TouchKind::read_write || kind == TouchKind::update;
}

// `bytes` contiguous bytes of device memory that a kernel touches. Each is checked (mapped, alive, in bounds,
// written before it is read, no race).
struct Touch {
  std::uint64_t address;
  std::uint64_t bytes;
  TouchKind kind;
  // Of an update: the bits of a number that matters to it alone.
  std::uint64_t factor = 0;
};

// One step of a kernel: its results come from what it reads and from nothing else. Numbers are of touches.
struct Stage {
  std::uint64_t identity;  // what it does, in whatever kernel; of the scalars that matter to it too
  std::vector<std::uint32_t> reads, writes;
};

// What one launch costs and touches. `kind` names a row of the model's rate table ("conv_fwd", "bn_bwd", …).
struct Footprint {
  std::vector<Touch> touches;
  const char* kind = "elementwise";
  double flops = 0;
  double bytes = 0;  // memory traffic

  // For what the results come from (driver/checks/provenance.h).
  // The hash of all scalars that go into every result; none: of all parameters but the addresses among them.
  std::optional<std::uint64_t> scalars;
  // What one kernel tells and others hear, on whatever device: a word that stands for what it read. It is set
  // when the kernel runs.
  std::shared_ptr<std::uint64_t> tells;
  std::vector<std::shared_ptr<const std::uint64_t>> hears;
  // In order: what an earlier one wrote may be read by a later one. None: all that is written comes from all
  // that is read.
  std::vector<Stage> stages;
  // A stage that is not made, but compared with what lies where it would write. Where that is not what it
  // would make, the 4-byte word at `flag`, in page-locked memory, becomes 1.
  struct Comparison {
    Stage stage;
    std::uint64_t flag;
  };
  std::vector<Comparison> comparisons;
};

struct KernelEntry {
  const char* name;                  // unique within the image
  const std::uint32_t* param_sizes;  // bytes of each parameter, in order; pointers are 8
  std::uint32_t param_count;
  // `params[i]` points to parameter i, as in cuLaunchKernel's kernelParams.
  void (*footprint)(const void* const* params, Footprint& out);
  // The numerics; device addresses in parameters can be dereferenced. Called in compute mode only. Null: such
  // a launch is refused there.
  void (*run)(const void* const* params);
  std::uint32_t local_bytes = 0;  // of local memory for each thread
};

// A launch of device code that an image has no entry for.
struct KernelLaunch {
  const char* name;  // demangled
  const void* const* params;
  const std::uint32_t* param_sizes;
  std::uint32_t param_count;
  unsigned grid[3], block[3];
};

// Kernels whose names begin alike and whose accesses follow one rule.
struct KernelFamily {
  const char* prefix;  // of the demangled name, less what it returns
  // Fills in touches, scalars and stages, nothing else. False: this launch is not one that the rule is sure
  // of.
  bool (*footprint)(const KernelLaunch& launch, Footprint& out);
};

inline constexpr std::uint64_t image_magic = 0x3155504754464f53;  // "SOFTGPU1"

struct Image {
  std::uint64_t magic = image_magic;
  std::uint32_t count;
  const KernelEntry* kernels;
  std::uint32_t family_count = 0;
  const KernelFamily* families = nullptr;
};

}  // namespace softgpu
