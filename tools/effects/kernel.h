// A kernel as its image describes it, and what it touches.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace pooch::effects {

struct Param {
  std::uint32_t offset = 0, bytes = 0;
};

struct Kernel {
  std::string name;                // mangled
  std::uint32_t symbol = 0;        // its number, for nvdisasm's -fun
  std::uint32_t architecture = 0;  // 90 for sm_90
  std::uint32_t param_base = 0;    // where the parameters begin in constant bank 0
  std::uint32_t param_bytes = 0;
  std::vector<Param> params;
  std::uint64_t code_hash = 0;  // of its code, and of what else tells it from others with the same code
  std::uint64_t code_bytes = 0;
  // Names of functions and variables whose addresses lie in bank 4, by offset.
  std::shared_ptr<const std::map<std::uint32_t, std::string>> module_names;
};

// As its source has it; the same where it is not mangled.
std::string demangled(const std::string& name);

// What happens to memory. Bits.
using Effect = std::uint8_t;
constexpr Effect loads = 1, stores = 2, updates = 4;

// How sure it is that a word is where an address came from.
enum class Certainty : std::uint8_t {
  base,     // the address is this word and an offset
  sum,      // one of several words of the sum is the address, the others are offsets
  derived,  // multiplied or shifted on the way: an address only where that was undone
};

// By byte offset among the parameters, a multiple of 8.
struct WordEffect {
  std::uint32_t offset = 0;
  Certainty certainty = Certainty::base;
  Effect effect = 0;

  auto operator<=>(const WordEffect&) const = default;
};

// A word that the kernel picks: at `offset` plus what `index` comes to. "?": any word.
struct TableEffect {
  std::int64_t offset = 0;
  std::string index;
  Certainty certainty = Certainty::base;
  Effect effect = 0;

  auto operator<=>(const TableEffect&) const = default;
};

// A tensor map among the parameters, which names the memory.
struct MapEffect {
  std::uint32_t offset = 0;
  Effect effect = 0;

  auto operator<=>(const MapEffect&) const = default;
};

// Why a kernel is not foreseen, and which instruction says so.
struct Reason {
  std::string why;
  std::uint32_t address = 0;
  std::string instruction;

  auto operator<=>(const Reason&) const = default;
};

enum class Verdict : std::uint8_t {
  foreseen,  // it touches what its parameters point to, and nothing else of the program's
  hidden,    // some addresses come from elsewhere: `hidden` says which
  unknown,   // the analysis was lost: anything may be touched
};

struct KernelEffects {
  Kernel kernel;
  Verdict verdict = Verdict::unknown;
  std::vector<WordEffect> words;
  std::vector<TableEffect> tables;
  std::vector<MapEffect> maps;
  Effect module = 0;  // the module's own variables
  Effect driver = 0;  // memory that the driver keeps for the kernel
  Effect heap = 0;    // what kernels allocate
  bool prints = false;
  bool any_derived = false;  // any word may be `derived`
  std::vector<Reason> hidden, unknown;
  // Which parameter bytes are read at all, in words of 4; and from where on, where an index picks them.
  std::vector<std::uint32_t> constants;
  std::vector<std::int64_t> indexed_constants;
  bool all_constants = false;  // they may all be
  std::size_t instructions = 0;
};

// All addresses come from one word each, and every index is known.
bool is_strict(const KernelEffects& effects);

}  // namespace pooch::effects
