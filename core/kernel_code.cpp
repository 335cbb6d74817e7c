#include "core/kernel_code.h"

#include <fmt/core.h>

#include <algorithm>

#include "core/json_cursor.h"

namespace pooch {
namespace {

constexpr std::uint32_t word_bytes = 8;
constexpr std::int64_t most_offset = 65536;     // kernels' parameters may have 32,764 bytes
constexpr std::uint64_t most_blocks = 1 << 16;  // for which words are looked up one by one

std::uint32_t read_offset(JsonCursor& in) {
  return static_cast<std::uint32_t>(in.whole(most_offset));
}

}  // namespace

// --- JSON

// One kernel while it is read: tables are put together when all of it is known.
struct KernelCode::Reader {
  JsonCursor& in;
  KernelCode& code;
  std::string verdict;
  bool side_effects = false, has_maps = false;

  Bits effects() {
    std::string_view rest = in.word();
    Bits bits = 0;
    while (!rest.empty()) {
      const std::string_view one = rest.substr(0, rest.find('+'));
      rest.remove_prefix(std::min(one.size() + 1, rest.size()));
      const Bits bit = one == "load" ? loads : one == "store" ? stores : one == "update" ? updates : 0;
      if (bit == 0) return in.refuse("'load', 'store' and 'update', joined by '+'"), 0;
      bits |= bit;
    }
    return bits;
  }

  void words() {
    in.array([&] {
      Word word;
      in.members([&](std::string_view key) {
        if (key == "offset")
          word.offset = read_offset(in) / word_bytes * word_bytes;
        else if (key == "effect")
          word.bits = effects();
        else
          in.skip();
      });
      if (word.bits != 0) code.words_.push_back(word);
    });
  }

  void tables() {
    in.array([&] {
      Pick pick{};
      std::string index;
      in.members([&](std::string_view key) {
        if (key == "offset")
          pick.offset = in.integer(most_offset);
        else if (key == "effect")
          pick.bits = effects();
        else if (key == "index")
          in.text(index);
        else
          in.skip();
      });
      if (in.good()) add_table(index, pick);
    });
  }
  void add_table(const std::string& text, const Pick& pick) {
    auto parsed = WordIndex::parse(text);
    if (!parsed) {
      code.any_ |= pick.bits;
      return;
    }
    const auto known = std::find_if(code.tables_.begin(), code.tables_.end(),
                                    [&](const Table& one) { return one.text == text; });
    if (known != code.tables_.end())
      known->picks.push_back(pick);
    else
      code.tables_.push_back({text, std::move(*parsed), {pick}});
  }

  // The first reason is enough to know where to look.
  void reasons() {
    in.array([&] {
      std::string why, instruction;
      in.members([&](std::string_view key) {
        if (key == "why")
          in.text(why);
        else if (key == "instruction")
          in.text(instruction);
        else
          in.skip();
      });
      if (code.why_.empty()) code.why_ = instruction.empty() ? why : fmt::format("{}: {}", why, instruction);
    });
  }

  void member(std::string_view key) {
    if (key == "verdict") {
      in.text(verdict);
      if (in.good() && verdict != "foreseen" && verdict != "hidden" && verdict != "unknown")
        in.refuse("'foreseen', 'hidden' or 'unknown'");
    } else if (key == "words") {
      words();
    } else if (key == "tables") {
      tables();
    } else if (key == "maps") {
      in.array([&] { has_maps = true, in.skip(); });
    } else if (key == "module") {
      side_effects |= (effects() & (stores | updates)) != 0;
    } else if (key == "heap") {
      side_effects |= effects() != 0;
    } else if (key == "prints") {
      side_effects |= in.boolean();
    } else if (key == "any_word_derived") {
      if (in.boolean()) code.any_ |= loads | stores;
    } else if (key == "constants") {
      in.array([&] { code.constants_.push_back(read_offset(in)); });
    } else if (key == "indexed_constants") {
      in.array([&] {
        const std::int64_t from = std::max<std::int64_t>(in.integer(most_offset), 0);
        code.indexed_from_ = code.indexed_from_ < 0 ? from : std::min(from, code.indexed_from_);
      });
    } else if (key == "all_constants") {
      code.all_constants_ = in.boolean();
    } else if (key == "hidden" || key == "unknown") {
      reasons();
    } else {
      in.skip();
    }
  }
};

KernelCode KernelCode::read(JsonCursor& in) {
  KernelCode code;
  Reader reader{in, code, {}};
  std::vector<std::string> missing{"verdict", "words", "tables", "maps", "all_constants"};
  in.members([&](std::string_view key) {
    std::erase(missing, key);
    reader.member(key);
  });
  if (!missing.empty()) in.reject(fmt::format("has no '{}'", missing.front()));
  // What a tensor map names is no word of the parameters.
  if (reader.has_maps && code.why_.empty()) code.why_ = "it goes through tensor maps";
  code.foreseen_ = reader.verdict == "foreseen" && !reader.has_maps;
  code.repeatable_ = code.foreseen_ && !reader.side_effects;
  std::sort(code.constants_.begin(), code.constants_.end());
  return code;
}

Result<KernelCode> KernelCode::from_json(std::string_view text) {
  JsonCursor in(text);
  KernelCode code = read(in);
  in.finish();
  if (!in.good()) return Error{ErrorCode::invalid_argument, "kernel: " + in.error()};
  return code;
}

// --- launches

Effect KernelCode::effect_of(Bits bits) {
  return bits == loads ? Effect::read : bits == stores ? Effect::write : Effect::read_write;
}

bool KernelCode::reads(std::uint32_t offset) const {
  if (all_constants_ || (indexed_from_ >= 0 && offset + word_bytes > indexed_from_)) return true;
  const auto first = std::lower_bound(constants_.begin(), constants_.end(), offset);
  return first != constants_.end() && *first < offset + word_bytes;
}

void KernelCode::add_any(Bits bits, std::uint32_t bytes, std::vector<Word>& found) const {
  for (std::uint32_t offset = 0; offset + word_bytes <= bytes; offset += word_bytes)
    if (reads(offset)) found.push_back({offset, bits});
}

// False: there are more blocks than can be looked at, or one of them leaves the parameters.
bool KernelCode::add_picked(const Table& table, const LaunchGrid& grid, std::uint32_t bytes,
                            WordIndex::Read read, std::vector<Word>& found) const {
  std::uint32_t end[3];
  std::uint64_t all = 1;
  for (int axis = 0; axis < 3; ++axis) {
    end[axis] = table.index.depends_on(axis) ? grid.blocks[axis] : 1;
    all *= end[axis];
    if (all > most_blocks) return false;
  }
  std::vector<std::int64_t> places;
  places.reserve(all);
  for (std::uint32_t z = 0; z < end[2]; ++z)
    for (std::uint32_t y = 0; y < end[1]; ++y)
      for (std::uint32_t x = 0; x < end[0]; ++x) places.push_back(table.index.at({x, y, z}, grid, read));
  std::sort(places.begin(), places.end());
  places.erase(std::unique(places.begin(), places.end()), places.end());
  for (const Pick& pick : table.picks)
    for (const std::int64_t place : places) {
      const std::int64_t at = pick.offset + place;
      if (at < 0 || at % word_bytes != 0 || at + word_bytes > bytes) return false;
      found.push_back({static_cast<std::uint32_t>(at), pick.bits});
    }
  return true;
}

void KernelCode::touched(const LaunchGrid& grid, std::uint32_t bytes, WordIndex::Read read,
                         std::vector<TouchedWord>& words) const {
  std::vector<Word> found;
  Bits any = any_;
  for (const Table& table : tables_)
    if (!add_picked(table, grid, bytes, read, found))
      for (const Pick& pick : table.picks) any |= pick.bits;
  if (any != 0) add_any(any, bytes, found);
  for (const Word& word : words_)
    if (word.offset + word_bytes <= bytes) found.push_back(word);
  std::sort(found.begin(), found.end(), [](const Word& a, const Word& b) { return a.offset < b.offset; });
  words.clear();
  for (std::size_t i = 0; i < found.size();) {
    Bits bits = 0;
    const std::uint32_t offset = found[i].offset;
    for (; i < found.size() && found[i].offset == offset; ++i) bits |= found[i].bits;
    words.push_back({offset, effect_of(bits)});
  }
}

}  // namespace pooch
