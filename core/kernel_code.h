// The memory that a kernel touches, found in its machine code by `pooch effects` (docs/effects.md), in the
// form that launches need.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/effect.h"
#include "core/result.h"
#include "core/word_index.h"

namespace pooch {

class JsonCursor;

// A parameter word that the kernel uses as an address.
struct TouchedWord {
  std::uint32_t offset;  // bytes from the start of the kernel's parameters, a multiple of 8
  Effect effect;         // on the memory it points to
};

class KernelCode {
 public:
  // One kernel of `pooch effects --json`. Error: invalid_argument, the path of the value that is missing or
  // wrong.
  static Result<KernelCode> from_json(std::string_view text);
  // Reads the next value. If it is no kernel, the cursor has the error and the result is invalid.
  static KernelCode read(JsonCursor& in);

  // It touches only what its parameters point to, its module's variables and the driver's memory.
  bool foreseen() const { return foreseen_; }
  // Why it is not foreseen, with the instruction if known; empty if it is.
  const std::string& why() const { return why_; }
  // A launch's only effects are its writes where its parameters point: it can be replayed.
  bool repeatable() const { return repeatable_; }
  // Whether the kernel ever reads the parameter word at `offset`. A word that it does not read is left over
  // from the caller's stack.
  bool reads(std::uint32_t offset) const;

  // The words that one launch may use as addresses, in order, each once; a value need not be an address.
  // `bytes`: of all parameters. Valid only if the kernel is foreseen.
  void touched(const LaunchGrid& grid, std::uint32_t bytes, WordIndex::Read read,
               std::vector<TouchedWord>& words) const;

 private:
  using Bits = std::uint8_t;
  static constexpr Bits loads = 1, stores = 2, updates = 4;
  struct Word {
    std::uint32_t offset = 0;
    Bits bits = 0;
  };
  // A word that blocks select: at `offset` plus the value of the index.
  struct Pick {
    std::int64_t offset;
    Bits bits;
  };
  struct Table {
    std::string text;
    WordIndex index;
    std::vector<Pick> picks;
  };
  struct Reader;

  static Effect effect_of(Bits bits);
  void add_any(Bits bits, std::uint32_t bytes, std::vector<Word>& found) const;
  bool add_picked(const Table& table, const LaunchGrid& grid, std::uint32_t bytes, WordIndex::Read read,
                  std::vector<Word>& found) const;

  bool foreseen_ = false, repeatable_ = false;
  std::string why_;
  std::vector<Word> words_;
  std::vector<Table> tables_;
  Bits any_ = 0;                          // effects through an address that may be any word that is read
  std::vector<std::uint32_t> constants_;  // parameter words of 4 bytes that are read: their offsets
  std::int64_t indexed_from_ = -1;        // an index may read any parameter from here on; -1: none
  bool all_constants_ = true;
};

}  // namespace pooch
