#include "tools/effects/json.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

namespace pooch::effects {
namespace {

using nlohmann::ordered_json;

const char* name_of(Certainty certainty) {
  switch (certainty) {
    case Certainty::base:
      return "base";
    case Certainty::sum:
      return "sum";
    case Certainty::derived:
      break;
  }
  return "derived";
}

ordered_json to_json(const std::vector<Reason>& reasons) {
  ordered_json list = ordered_json::array();
  for (const Reason& one : reasons)
    list.push_back({{"why", one.why}, {"address", one.address}, {"instruction", one.instruction}});
  return list;
}

}  // namespace

const char* name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::foreseen:
      return "foreseen";
    case Verdict::hidden:
      return "hidden";
    case Verdict::unknown:
      break;
  }
  return "unknown";
}

std::string text_of(Effect effect) {
  std::string text;
  const auto add = [&](Effect bit, const char* name) {
    if ((effect & bit) != 0) text += (text.empty() ? "" : "+") + std::string(name);
  };
  add(loads, "load");
  add(stores, "store");
  add(updates, "update");
  return text;
}

ordered_json to_json(const KernelEffects& effects) {
  const Kernel& kernel = effects.kernel;
  ordered_json words = ordered_json::array(), tables = words, maps = words, params = words;
  for (const Param& one : kernel.params) params.push_back({one.offset, one.bytes});
  for (const WordEffect& one : effects.words)
    words.push_back(
        {{"offset", one.offset}, {"effect", text_of(one.effect)}, {"certainty", name_of(one.certainty)}});
  for (const TableEffect& one : effects.tables)
    tables.push_back({{"offset", one.offset},
                      {"index", one.index},
                      {"effect", text_of(one.effect)},
                      {"certainty", name_of(one.certainty)}});
  for (const MapEffect& one : effects.maps)
    maps.push_back({{"offset", one.offset}, {"effect", text_of(one.effect)}});
  return {{"name", kernel.name},
          {"demangled", demangled(kernel.name)},
          {"code", fmt::format("{:016x}", kernel.code_hash)},
          {"architecture", kernel.architecture},
          {"instructions", effects.instructions},
          {"params", params},
          {"verdict", name_of(effects.verdict)},
          {"strict", is_strict(effects)},
          {"words", words},
          {"tables", tables},
          {"maps", maps},
          {"module", text_of(effects.module)},
          {"driver", text_of(effects.driver)},
          {"heap", text_of(effects.heap)},
          {"prints", effects.prints},
          {"any_word_derived", effects.any_derived},
          {"constants", effects.constants},
          {"indexed_constants", effects.indexed_constants},
          {"all_constants", effects.all_constants},
          {"hidden", to_json(effects.hidden)},
          {"unknown", to_json(effects.unknown)}};
}

}  // namespace pooch::effects
