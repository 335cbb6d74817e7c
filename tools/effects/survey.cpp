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

constexpr std::uint64_t at_once = 4 << 20;  // bytes of code for one run of nvdisasm: some seconds

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

KernelEffects effects_of(const Kernel& kernel, const std::vector<Code>& codes) {
  const auto code =
      std::find_if(codes.begin(), codes.end(), [&](const Code& one) { return one.name == kernel.name; });
  return code != codes.end() ? analyse(kernel, *code) : lost(kernel, "nvdisasm does not give its code");
}

void analyse_some(const std::string& cubin, std::span<const Kernel> kernels,
                  const std::filesystem::path& disassembler, const std::function<void(KernelEffects)>& take) {
  std::vector<std::uint32_t> symbols;
  for (const Kernel& kernel : kernels) symbols.push_back(kernel.symbol);
  const auto codes = disassemble(disassembler, cubin, symbols);
  for (const Kernel& kernel : kernels)
    take(codes ? effects_of(kernel, *codes) : lost(kernel, codes.error().message));
}

// Those that a device of this architecture runs; a driver takes one of these.
std::vector<Image> best_images(std::string_view code, std::uint32_t architecture) {
  constexpr std::uint32_t minors = 10;
  std::uint32_t best = 0;
  std::vector<Image> images = images_of(code);
  for (const Image& image : images)
    if (image.architecture / minors == architecture / minors && image.architecture <= architecture)
      best = std::max(best, image.architecture);
  std::erase_if(images, [&](const Image& image) { return image.architecture != best; });
  return images;
}

}  // namespace

void analyse_kernels(const std::string& cubin, std::span<const Kernel> kernels,
                     const std::filesystem::path& disassembler,
                     const std::function<void(KernelEffects)>& take) {
  while (!kernels.empty()) {
    std::size_t count = 0;
    for (std::uint64_t bytes = 0; count < kernels.size() && bytes < at_once; ++count)
      bytes += kernels[count].code_bytes;
    analyse_some(cubin, kernels.first(count), disassembler, take);
    kernels = kernels.subspan(count);
  }
}

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
    for (; begin < places.size() && places[begin].first == image; ++begin)
      some.push_back(all[places[begin].second]);
    analyse_kernels(cubin, some, disassembler, take);
  }
  return found;
}

Result<KernelEffects> analyse_kernel(std::string_view code, const std::string& name,
                                     std::uint32_t architecture, const std::filesystem::path& disassembler) {
  for (const Image& image : best_images(code, architecture)) {
    const std::string cubin = image.cubin();
    for (const Kernel& kernel : kernels_of(cubin)) {
      if (kernel.name != name) continue;
      const auto codes = disassemble(disassembler, cubin, {kernel.symbol});
      if (!codes) return codes.error();
      return effects_of(kernel, *codes);
    }
  }
  return Error{ErrorCode::invalid_argument, "no machine code that the device runs has a kernel of this name"};
}

}  // namespace pooch::effects
