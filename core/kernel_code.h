// What a kernel touches, by its machine code: what `pooch effects` found out (docs/effects.md), as launches
// need it.
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

// A word of the parameters that the kernel uses as an address.
struct TouchedWord {
  std::uint32_t offset;  // bytes among the parameters as the kernel has them, a multiple of 8
  Effect effect;         // on what lies there
};

class KernelCode {
 public:
  // One kernel of `pooch effects --json`. Error: invalid_argument, the path of the value that is missing or
  // wrong.
  static Result<KernelCode> from_json(std::string_view text);
  // The next value. Where it is no kernel the cursor has the error, and the result means nothing.
  static KernelCode read(JsonCursor& in);

  // It touches what its parameters point to, its module's variables and the driver's memory, and nothing
  // else.
  bool foreseen() const { return foreseen_; }
  // Why it is not foreseen, or which instruction says so; empty where it is.
  const std::string& why() const { return why_; }
  // A launch leaves nothing behind but what it writes where its parameters point: it may be made again.
  bool repeatable() const { return repeatable_; }
  // Whether the word at `offset` of the parameters is ever read. What is not is left over from the caller's
  // stack.
  bool reads(std::uint32_t offset) const;

  // The words that one launch may use as addresses, in order, each once; their values may be no addresses at
  // all. `bytes`: of all parameters. Meaningful where the kernel is foreseen.
  void touched(const LaunchGrid& grid, std::uint32_t bytes, WordIndex::Read read,
               std::vector<TouchedWord>& words) const;

 private:
  using Bits = std::uint8_t;
  static constexpr Bits loads = 1, stores = 2, updates = 4;
  struct Word {
    std::uint32_t offset = 0;
    Bits bits = 0;
  };
  // Words that blocks pick: at `offset` plus what the index comes to.
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
  Bits any_ = 0;                          // what becomes of a word that may be any of those that are read
  std::vector<std::uint32_t> constants_;  // bytes of the parameters that are read, in words of 4
  std::int64_t indexed_from_ = -1;        // from here on an index picks some; -1: nowhere
  bool all_constants_ = true;
};

}  // namespace pooch
