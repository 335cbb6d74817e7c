// Holds the rules for kernels by name (interpose/kernels/rules.cpp) against the kernels' own code.
//
// usage: audit NVDISASM FILE ARCHITECTURE KERNELS_PER_RULE SEED [PART]
// KERNELS_PER_RULE: 0 for all. PART: of the names of kernels, as their source has them; others are left out.
//
// Each kernel of the sample is analysed, and a launch is made up in which every word of the parameters is the
// address of an allocation of its own. A rule contradicts the code where it understands that launch and says
// that a word is only read, or no address, and the code stores there; or that it is no address, and the code
// loads. The exit code is 1 where one does, or where less than nine in ten of the kernels that have a rule
// are foreseen: what is not says nothing of its rule.
#include <fmt/core.h>

#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "interpose/kernels/kernel_facts.h"
#include "tools/effects/images.h"
#include "tools/effects/json.h"
#include "tools/effects/survey.h"

namespace {

using namespace pooch::effects;
using pooch::interpose::KernelFacts;
using pooch::interpose::LaunchParams;
using pooch::interpose::LaunchWord;
using pooch::interpose::ParamLayout;

constexpr std::uint32_t word_bytes = 8;
// Addresses whose lower bytes are 0: flags and counts among the words are, too.
constexpr std::uint64_t first_address = std::uint64_t{1} << 40, allocation_bytes = 1 << 16;

// What the code touches only where a flag among the parameters says that a graph is captured, by rule: LDC.U8
// of the flag guards each access. The rules are for launches without the flag alone (KernelStruct::captured).
// By rule and by the struct's size, which tells PyTorch's version.
const std::map<std::pair<std::string, std::uint32_t>, std::set<std::uint32_t>> only_when_captured = {
    {{"fmha_cutlassF_*", 272}, {224, 232, 256, 264}},
    {{"fmha_cutlassB_*", 464}, {224, 232}},
    {{"fmha_cutlassF_*", 280}, {232, 240, 264, 272}},
    {{"fmha_cutlassB_*", 480}, {232, 240}},
};

constexpr const char* no_rule = "(none)";

struct Place {
  std::size_t image, kernel;
};

struct Row {
  std::size_t found = 0, seen = 0, foreseen = 0, strict = 0, hidden = 0, unknown = 0;
  std::size_t held = 0;  // foreseen, and the rule understands the launch
  std::size_t contradictions = 0;
  std::size_t loaded_filled = 0;  // words that the rule calls written and the code may load
};

std::vector<ParamLayout> layout_of(const Kernel& kernel) {
  std::vector<ParamLayout> layout;
  for (const Param& param : kernel.params) layout.push_back({param.offset, param.bytes});
  return layout;
}

std::string rule_of(const Kernel& kernel) {
  const KernelFacts facts(kernel.name.c_str(), layout_of(kernel));
  return facts.rule() != nullptr ? std::string(facts.rule()->function) : no_rule;
}

// What the rule says of a launch all of whose words are addresses; nothing where it does not understand it.
std::map<std::uint32_t, LaunchWord> words_by_rule(const KernelFacts& facts, const Kernel& kernel) {
  std::vector<std::byte> buffer((facts.packed_bytes() + word_bytes - 1) / word_bytes * word_bytes);
  for (std::uint64_t at = 0; at < buffer.size(); at += word_bytes) {
    const std::uint64_t address = first_address + at * allocation_bytes;
    std::memcpy(buffer.data() + at, &address, sizeof address);
  }
  const auto layout = layout_of(kernel);
  const LaunchParams params(buffer.data(), buffer.size(), layout);
  std::vector<LaunchWord> words;
  (void)facts.find_words(
      params, pooch::LaunchGrid(),
      [](std::uint64_t address) {
        return address >= first_address ? pooch::interpose::Memory{address, allocation_bytes}
                                        : pooch::interpose::Memory{};
      },
      words);
  std::map<std::uint32_t, LaunchWord> found;
  bool understood = false;
  for (const LaunchWord& word : words) {
    understood = understood || word.known;
    found.emplace(static_cast<std::uint32_t>(layout[word.param].offset) + word.offset, word);
  }
  return understood ? found : std::map<std::uint32_t, LaunchWord>();
}

class Audit {
 public:
  Row& row(const std::string& rule) { return rows_[rule]; }

  void take(const KernelEffects& effects) {
    const Kernel& kernel = effects.kernel;
    Row& row = rows_[rule_of(kernel)];
    ++row.seen;
    row.strict += is_strict(effects) ? 1 : 0;
    ++(effects.verdict == Verdict::foreseen ? row.foreseen
       : effects.verdict == Verdict::hidden ? row.hidden
                                            : row.unknown);
    if (effects.verdict != Verdict::foreseen) {
      const Reason& why = effects.unknown.empty() ? effects.hidden[0] : effects.unknown[0];
      ++reasons_[why.why];
      fmt::print("{}: {}: {} {}\n", name_of(effects.verdict), demangled(kernel.name).substr(0, 100), why.why,
                 why.instruction);
    }
    const KernelFacts facts(kernel.name.c_str(), layout_of(kernel));
    const auto words = words_by_rule(facts, kernel);
    if (words.empty()) return;
    // What is not foreseen was lost somewhere: its words may be too many.
    if (effects.verdict != Verdict::foreseen) return;
    ++row.held;
    for (const WordEffect& one : effects.words)
      if (one.certainty == Certainty::base) hold(row, kernel, words, one.offset, one.effect, false);
    for (const TableEffect& one : effects.tables)
      if (one.certainty == Certainty::base && one.index != "?" && one.offset >= 0)
        hold(row, kernel, words, static_cast<std::uint32_t>(one.offset), one.effect, true);
  }

  int finish() const {
    for (const auto& [why, times] : reasons_) fmt::print("{:>5} {}\n", times, why);
    fmt::print(
        "\n| rule | kernels | analysed | foreseen | strictly | hidden | unknown | held | contradictions | "
        "filled, maybe loaded |\n");
    fmt::print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
    Row all;
    for (const auto& [name, row] : rows_) {
      print(name, row);
      for (const auto member : {&Row::found, &Row::seen, &Row::foreseen, &Row::strict, &Row::hidden,
                                &Row::unknown, &Row::held, &Row::contradictions, &Row::loaded_filled})
        all.*member += row.*member;
    }
    print("all", all);
    std::size_t seen = 0, foreseen = 0;
    for (const auto& [name, row] : rows_)
      if (name != no_rule) seen += row.seen, foreseen += row.foreseen;
    return all.contradictions == 0 && 10 * foreseen >= 9 * seen ? 0 : 1;
  }

 private:
  static void print(const std::string& name, const Row& row) {
    fmt::print("| `{}` | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n", name, row.found, row.seen,
               row.foreseen, row.strict, row.hidden, row.unknown, row.held, row.contradictions,
               row.loaded_filled);
  }

  // A table's words are those from where it begins; its rule names the first.
  void hold(Row& row, const Kernel& kernel, const std::map<std::uint32_t, LaunchWord>& words,
            std::uint32_t offset, Effect effect, bool table) {
    const auto guarded = only_when_captured.find({rule_of(kernel), kernel.params[0].bytes});
    if (guarded != only_when_captured.end() && guarded->second.contains(offset)) return;
    const auto found = words.find(offset);
    const bool writes = (effect & (stores | updates)) != 0, reads = (effect & (loads | updates)) != 0;
    const char* why = nullptr;
    if (found == words.end())
      why = table && scanned(kernel, words, offset) ? nullptr : "no address by its rule";
    else if (found->second.effect == pooch::Effect::read && writes)
      why = "only read by its rule";
    else if (found->second.effect == pooch::Effect::overwrite && reads)
      why = "overwritten by its rule";
    else if (found->second.effect == pooch::Effect::write && reads)
      ++row.loaded_filled;
    if (why == nullptr) return;
    ++row.contradictions;
    fmt::print("contradiction: {}: byte {} is {} by the code, {}\n", demangled(kernel.name).substr(0, 200),
               offset, text_of(effect), why);
  }

  // Is the parameter one whose words the rule looks through, or names some of?
  static bool scanned(const Kernel& kernel, const std::map<std::uint32_t, LaunchWord>& words,
                      std::uint32_t offset) {
    for (const Param& param : kernel.params)
      if (offset >= param.offset && offset < param.offset + param.bytes)
        return words.lower_bound(param.offset) != words.lower_bound(param.offset + param.bytes);
    return false;
  }

  std::map<std::string, Row> rows_;
  std::map<std::string, std::size_t> reasons_;
};

// Some of each rule, by image.
std::map<std::size_t, std::set<std::size_t>> draw(std::map<std::string, std::vector<Place>>& places,
                                                  std::size_t each, std::uint64_t seed) {
  if (each == 0) each = std::numeric_limits<std::size_t>::max();
  std::map<std::size_t, std::set<std::size_t>> drawn;
  std::mt19937_64 random(seed);
  for (auto& [rule, all] : places)
    for (std::size_t i = 0; i < std::min(each, all.size()); ++i) {
      std::swap(all[i], all[i + random() % (all.size() - i)]);
      drawn[all[i].image].insert(all[i].kernel);
    }
  return drawn;
}

// Two images at once.
void look_at(const ImageFile& file, const std::map<std::size_t, std::set<std::size_t>>& drawn,
             const char* disassembler, Audit& audit) {
  std::mutex mutex;
  auto next = drawn.begin();
  const auto work = [&] {
    for (;;) {
      std::unique_lock lock(mutex);
      if (next == drawn.end()) return;
      const auto& [image, numbers] = *next++;
      lock.unlock();
      const std::string cubin = file.images()[image].cubin();
      const auto kernels = kernels_of(cubin);
      std::vector<Kernel> some;
      for (const std::size_t number : numbers) some.push_back(kernels[number]);
      analyse_kernels(cubin, some, disassembler, [&](const KernelEffects& effects) {
        const std::lock_guard one(mutex);
        audit.take(effects);
      });
    }
  };
  std::thread other(work);
  work();
  other.join();
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 6 && count != 7) {
    fmt::print(stderr, "usage: audit NVDISASM FILE ARCHITECTURE KERNELS_PER_RULE SEED [PART]\n");
    return 2;
  }
  const auto file = ImageFile::open(arguments[2]);
  if (!file) {
    fmt::print(stderr, "audit: {}: {}\n", arguments[2], file.error().message);
    return 2;
  }
  const auto architecture = std::strtoul(arguments[3], nullptr, 10);
  Audit audit;
  std::map<std::string, std::vector<Place>> places;
  for (std::size_t image = 0; image < file->images().size(); ++image) {
    if (file->images()[image].architecture != architecture) continue;
    const auto kernels = kernels_of(file->images()[image].cubin());
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      if (count == 7 && demangled(kernels[i].name).find(arguments[6]) == std::string::npos) continue;
      const std::string rule = rule_of(kernels[i]);
      ++audit.row(rule).found;
      places[rule].push_back({image, i});
    }
  }
  const std::size_t each = std::strtoul(arguments[4], nullptr, 10);
  look_at(*file, draw(places, each, std::strtoull(arguments[5], nullptr, 10)), arguments[1], audit);
  return audit.finish();
}
