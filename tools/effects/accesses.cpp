#include "tools/effects/accesses.h"

#include <algorithm>
#include <vector>

namespace pooch::effects {
namespace {

constexpr std::uint32_t word_bytes = 8;

// What an alternative's terms say of where the address comes from: parameters by word, others by origin.
struct Key {
  Origin origin;
  std::int64_t place = 0;
  SymbolId index = 0;

  auto operator<=>(const Key&) const = default;
};

std::int64_t floor_word(std::int64_t offset) {
  return offset - ((offset % word_bytes) + word_bytes) % word_bytes;
}

std::set<Key> keys_of(const Values& values, const Alternative& one) {
  std::set<Key> keys;
  for (const TermId id : one.terms) {
    const Term& term = values.term(id);
    if (term.negative) continue;
    const bool parameter = term.origin == Origin::word || term.origin == Origin::table;
    keys.insert({term.origin, parameter ? floor_word(term.offset) : 0, parameter ? term.index : 0});
  }
  return keys;
}

bool has(const std::set<Key>& keys, Origin origin) {
  return std::any_of(keys.begin(), keys.end(), [&](const Key& key) { return key.origin == origin; });
}

// Gathers one kernel's effects.
class Collector {
 public:
  Collector(const Kernel& kernel, const Code& code, const Values& values, const Symbols& symbols)
      : code_(code), values_(values), symbols_(symbols) {
    effects_.kernel = kernel;
    effects_.instructions = code.instructions.size();
  }

  void touch(std::size_t instruction, Effect effect, ValueId low, ValueId high) {
    if (low == Values::bottom || high == Values::bottom) {
      lose(instruction, "an address that nothing sets");
      return;
    }
    for (const Alternative& one : values_[high].alternatives) take(instruction, effect, one);
    check_halves(instruction, low, high);
    for (const ValueId half : {low, high}) take_derived(effect, half);
  }
  void hide(std::size_t instruction, const std::string& why) { add(effects_.hidden, instruction, why); }
  void lose(std::size_t instruction, const std::string& why) { add(effects_.unknown, instruction, why); }
  void map(std::size_t instruction, Effect effect, SymbolId symbol) {
    const Symbol& at = symbols_[symbol];
    if (at.kind != SymbolKind::window || at.number < 0) {
      hide(instruction, "a tensor map that no parameter is");
      return;
    }
    maps_[static_cast<std::uint32_t>(at.number)] |= effect;
  }

  KernelEffects& finish() {
    for (const auto& [key, effect] : words_) effects_.words.push_back({key.first, key.second, effect});
    for (const auto& [key, effect] : tables_)
      effects_.tables.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key), effect});
    for (const auto& [offset, effect] : maps_) effects_.maps.push_back({offset, effect});
    effects_.verdict = !effects_.unknown.empty()  ? Verdict::unknown
                       : !effects_.hidden.empty() ? Verdict::hidden
                                                  : Verdict::foreseen;
    return effects_;
  }

 private:
  void add(std::vector<Reason>& to, std::size_t instruction, const std::string& why) {
    const Instruction* const one =
        instruction < code_.instructions.size() ? &code_.instructions[instruction] : nullptr;
    to.push_back({why, one != nullptr ? one->address : 0, one != nullptr ? one->text : std::string()});
  }

  void take(std::size_t instruction, Effect effect, const Alternative& one) {
    const std::set<Key> keys = keys_of(values_, one);
    if (keys.empty()) {
      if (!one.terms.empty() || one.plain == Plain::integer)
        lose(instruction, "an address without a base");
      else if (one.plain == Plain::constant)
        hide(instruction, "an address in the code");
      return;  // what is left lies next to 0, where nothing is
    }
    if (has(keys, Origin::unknown)) lose(instruction, "an address that may be any");
    const std::size_t bases =
        static_cast<std::size_t>(std::count_if(keys.begin(), keys.end(), [](const Key& key) {
          return key.origin == Origin::word || key.origin == Origin::table;
        }));
    const bool loaded = has(keys, Origin::loaded) || has(keys, Origin::constant_bank);
    if (loaded)
      hide(instruction, bases != 0                         ? "a parameter and a loaded number, added"
                        : has(keys, Origin::constant_bank) ? "an address from constant memory"
                                                           : "an address loaded from memory");
    const Certainty certainty = bases == 1 && !loaded ? Certainty::base : Certainty::sum;
    for (const Key& key : keys) take(effect, certainty, key);
  }

  void take(Effect effect, Certainty certainty, const Key& key) {
    if (key.origin == Origin::word)
      words_[{static_cast<std::uint32_t>(key.place), certainty}] |= effect;
    else if (key.origin == Origin::table)
      tables_[{key.index != 0 ? key.place : 0, symbols_.text(key.index), certainty}] |= effect;
    else if (key.origin == Origin::module)
      effects_.module |= effect;
    else if (key.origin == Origin::driver)
      effects_.driver |= effect;
    else if (key.origin == Origin::heap)
      effects_.heap |= effect;
  }

  // The lower half of an address must come from where the upper half does: there may be more in it, offsets
  // of 32 bits, never less. In the window of shared or of local memory it is any number.
  void check_halves(std::size_t instruction, ValueId low, ValueId high) {
    std::vector<std::set<Key>> uppers;
    for (const Alternative& one : values_[high].alternatives) uppers.push_back(keys_of(values_, one));
    for (const Alternative& one : values_[low].alternatives) {
      const std::set<Key> lower = keys_of(values_, one);
      const bool agrees = std::any_of(uppers.begin(), uppers.end(), [&](const std::set<Key>& upper) {
        if (has(upper, Origin::shared_window) || has(upper, Origin::local_window)) return true;
        return upper.empty() ? lower.empty()
                             : std::includes(lower.begin(), lower.end(), upper.begin(), upper.end());
      });
      if (!agrees) lose(instruction, "an address whose halves come from different places");
    }
  }

  void take_derived(Effect effect, ValueId half) {
    const Derived& from = values_[half].derived;
    effects_.any_derived = effects_.any_derived || from.any_word;
    for (const std::uint32_t word : from.words) words_[{word * word_bytes, Certainty::derived}] |= effect;
    for (const Alternative& one : values_[half].alternatives)
      for (const TermId id : one.terms) {
        const Term& term = values_.term(id);
        if (!term.negative) continue;
        if (term.origin == Origin::word)
          words_[{static_cast<std::uint32_t>(floor_word(term.offset)), Certainty::derived}] |= effect;
        else if (term.origin == Origin::table)
          effects_.any_derived = true;
      }
  }

  const Code& code_;
  const Values& values_;
  const Symbols& symbols_;
  KernelEffects effects_;
  std::map<std::pair<std::uint32_t, Certainty>, Effect> words_;
  std::map<std::tuple<std::int64_t, std::string, Certainty>, Effect> tables_;
  std::map<std::uint32_t, Effect> maps_;
};

}  // namespace

bool is_strict(const KernelEffects& effects) {
  return effects.verdict == Verdict::foreseen &&
         std::none_of(effects.words.begin(), effects.words.end(),
                      [](const WordEffect& one) { return one.certainty == Certainty::sum; }) &&
         std::none_of(effects.tables.begin(), effects.tables.end(), [](const TableEffect& one) {
           return one.certainty == Certainty::sum || one.index == "?";
         });
}

void Accesses::touch(Values& values, std::size_t instruction, Effect effect, ValueId low, ValueId high) {
  auto& [l, h] = touches_[{instruction, effect}];
  l = values.join(l, low);
  h = values.join(h, high);
}

void Accesses::read_constant(std::int64_t offset, unsigned bytes) {
  constexpr std::int64_t word = 4;
  if (offset < 0) return;
  for (std::int64_t at = offset - offset % word; at < offset + bytes; at += word)
    constants_.insert(static_cast<std::uint32_t>(at));
}

KernelEffects Accesses::summary(const Kernel& kernel, const Code& code, Values& values,
                                const Symbols& symbols) const {
  Collector collector(kernel, code, values, symbols);
  for (const auto& [key, halves] : touches_)
    collector.touch(key.first, key.second, halves.first, halves.second);
  for (const Map& map : maps_) collector.map(map.instruction, map.effect, map.symbol);
  for (const auto& [instruction, why] : hidden_) collector.hide(instruction, why);
  for (const auto& [instruction, why] : lost_) collector.lose(instruction, why);
  KernelEffects effects = std::move(collector.finish());
  effects.prints = prints_;
  effects.constants.assign(constants_.begin(), constants_.end());
  effects.indexed_constants.assign(indexed_.begin(), indexed_.end());
  effects.all_constants = all_constants_;
  return effects;
}

}  // namespace pooch::effects
