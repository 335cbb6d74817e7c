#include "effects_command.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "run_command.h"
#include "text_file.h"
#include "tools/effects/disassembler.h"
#include "tools/effects/json.h"
#include "tools/effects/survey.h"

namespace pooch::tools {
namespace {

using namespace effects;

constexpr std::size_t reasons_shown = 4;

std::string name_of(const Kernel& kernel) {
  return fmt::format("{} (sm_{}, {:016x})", demangled(kernel.name), kernel.architecture, kernel.code_hash);
}

std::string mark_of(Certainty certainty) {
  return certainty == Certainty::sum ? "  or another word of the sum" : "";
}

// One kernel: its verdict, a line per word that it uses as an address, and why it is not foreseen.
std::string text_of(const KernelEffects& effects) {
  std::string text = fmt::format("{}\n  {}\n", name_of(effects.kernel), effects::name_of(effects.verdict));
  const auto line = [&](const std::string& what, Effect effect, const std::string& mark) {
    if (effect != 0) text += fmt::format("    {:<28} {}{}\n", what, effects::text_of(effect), mark);
  };
  for (const WordEffect& one : effects.words)
    if (one.certainty != Certainty::derived)
      line(fmt::format("byte {}", one.offset), one.effect, mark_of(one.certainty));
  for (const TableEffect& one : effects.tables)
    line(one.index == "?" ? "any byte" : fmt::format("byte {} + {}", one.offset, one.index), one.effect,
         mark_of(one.certainty));
  for (const MapEffect& one : effects.maps)
    line(fmt::format("tensor map at byte {}", one.offset), one.effect, "");
  line("the module's variables", effects.module, "");
  line("the driver's memory", effects.driver, "");
  line("what kernels allocate", effects.heap, "");
  if (effects.prints) text += "    prints\n";
  std::size_t shown = 0;
  for (const auto* const reasons : {&effects.unknown, &effects.hidden})
    for (const Reason& one : *reasons)
      if (shown++ < reasons_shown)
        text += fmt::format("    {:#06x} {}: {}\n", one.address, one.why, one.instruction);
  if (shown > reasons_shown) text += fmt::format("    and {} more\n", shown - reasons_shown);
  return text;
}

// How many of each verdict.
struct Counts {
  std::size_t kernels = 0, foreseen = 0, strict = 0, hidden = 0;

  void add(const KernelEffects& one) {
    ++kernels;
    foreseen += one.verdict == Verdict::foreseen ? 1 : 0;
    strict += is_strict(one) ? 1 : 0;
    hidden += one.verdict == Verdict::hidden ? 1 : 0;
  }
};

}  // namespace

int effects_command(const EffectsOptions& options) {
  if (options.server.serve) return serve_effects(options.server);
  if (options.files.empty()) {
    say("pooch: error: effects: no file: cubins, fat binaries, libraries and programs are accepted\n");
    return exit_bad_usage;
  }
  std::optional<std::filesystem::path> disassembler = options.nvdisasm;
  if (options.nvdisasm.empty()) disassembler = find_disassembler();
  if (!disassembler) {
    say("pooch effects: nvdisasm is nowhere: {}\n", disassembler_cure);
    return exit_failed;
  }
  Selection selection{options.kernel, std::nullopt, options.sample, options.seed};
  if (options.arch != 0) selection.architecture = options.arch;
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  std::string text;
  Counts counts;
  std::size_t found = 0;
  for (const std::string& file : options.files) {
    const auto surveyed = survey(file, selection, *disassembler, [&](const KernelEffects& one) {
      counts.add(one);
      if (options.json)
        list.push_back(to_json(one));
      else
        text += text_of(one);
    });
    if (!surveyed) {
      say("pooch effects: {}: {}\n", file, surveyed.error().message);
      return exit_bad_usage;
    }
    found += *surveyed;
  }
  if (options.json)
    return print_text("pooch effects",
                      nlohmann::ordered_json({{"schema", 1}, {"kernels", list}}).dump() + "\n");
  text += fmt::format(
      "{} of {} kernels: {} foreseen ({} with one word for each address), {} hidden, {} unknown\n",
      counts.kernels, found, counts.foreseen, counts.strict, counts.hidden,
      counts.kernels - counts.foreseen - counts.hidden);
  return print_text("pooch effects", text);
}

}  // namespace pooch::tools
