#include "tools/effects/survey.h"

#include <algorithm>
#include <map>
#include <random>
#include <utility>

#include "tools/effects/analysis.h"
#include "tools/effects/disassembler.h"
#include "tools/effects/images.h"

namespace pooch::effects {
namespace {

constexpr std::size_t at_once = 500;  // kernels for one run of nvdisasm

// A kernel, by its place in the file.
using Place = std::pair<std::size_t, std::size_t>;  // image, number among its kernels

bool fits(const Kernel& kernel, const std::string& part) {
  return part.empty() || kernel.name.find(part) != std::string::npos ||
         demangled(kernel.name).find(part) != std::string::npos;
}

void draw(std::vector<Place>& places, const Selection& selection) {
  if (selection.sample == 0 || selection.sample >= places.size()) return;
  std::mt19937_64 random(selection.seed);
  // Not std::shuffle, which is not the same everywhere.
  for (std::size_t i = 0; i < selection.sample; ++i)
    std::swap(places[i], places[i + random() % (places.size() - i)]);
  places.resize(selection.sample);
  std::sort(places.begin(), places.end());
}

KernelEffects lost(Kernel kernel, std::string why) {
  KernelEffects effects;
  effects.kernel = std::move(kernel);
  effects.unknown.push_back({std::move(why), 0, ""});
  return effects;
}

void analyse_some(const std::string& cubin, const std::vector<Kernel>& kernels,
                  const std::filesystem::path& disassembler, const std::function<void(KernelEffects)>& take) {
  std::vector<std::uint32_t> symbols;
  for (const Kernel& kernel : kernels) symbols.push_back(kernel.symbol);
  const auto codes = disassemble(disassembler, cubin, symbols);
  for (const Kernel& kernel : kernels) {
    if (!codes) {
      take(lost(kernel, codes.error().message));
      continue;
    }
    const auto code =
        std::find_if(codes->begin(), codes->end(), [&](const Code& one) { return one.name == kernel.name; });
    take(code != codes->end() ? analyse(kernel, *code) : lost(kernel, "nvdisasm does not give its code"));
  }
}

}  // namespace

Result<std::size_t> survey(const std::filesystem::path& file, const Selection& selection,
                           const std::filesystem::path& disassembler,
                           const std::function<void(KernelEffects)>& take) {
  const auto opened = ImageFile::open(file);
  if (!opened) return opened.error();
  const auto& images = opened->images();
  std::vector<Place> places;
  for (std::size_t image = 0; image < images.size(); ++image) {
    if (selection.architecture && images[image].architecture != *selection.architecture) continue;
    const auto kernels = kernels_of(images[image].cubin());
    for (std::size_t i = 0; i < kernels.size(); ++i)
      if (fits(kernels[i], selection.name)) places.emplace_back(image, i);
  }
  const std::size_t found = places.size();
  draw(places, selection);
  for (std::size_t begin = 0; begin < places.size();) {
    const std::size_t image = places[begin].first;
    const std::string cubin = images[image].cubin();
    const auto all = kernels_of(cubin);
    std::vector<Kernel> some;
    for (; begin < places.size() && places[begin].first == image && some.size() < at_once; ++begin)
      some.push_back(all[places[begin].second]);
    analyse_some(cubin, some, disassembler, take);
  }
  return found;
}

}  // namespace pooch::effects
