// What it costs to know what a kernel touches, one kernel at a time; and which are not foreseen.
//
// usage: speed NVDISASM FILE ARCHITECTURE NAMES
// NAMES: a file with the kernels' mangled names, one in a line; those that FILE does not have are left out.
#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "tools/effects/analysis.h"
#include "tools/effects/disassembler.h"
#include "tools/effects/images.h"
#include "tools/effects/json.h"

namespace {

using namespace pooch::effects;

// Of processor time, of this process and of those that it waited for: other programs' load is not in it.
double milliseconds() {
  double all = 0;
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage{};
    getrusage(who, &usage);
    for (const timeval& time : {usage.ru_utime, usage.ru_stime})
      all += 1e3 * static_cast<double>(time.tv_sec) + 1e-3 * static_cast<double>(time.tv_usec);
  }
  return all;
}

void print(const char* what, std::vector<double> times) {
  if (times.empty()) return;
  std::sort(times.begin(), times.end());
  double sum = 0;
  for (const double time : times) sum += time;
  fmt::print("| {} | {:.1f} | {:.1f} | {:.1f} | {:.0f} |\n", what, times[times.size() / 2],
             times[times.size() * 9 / 10], times.back(), sum);
}

void print_reason(const KernelEffects& effects) {
  if (effects.verdict == Verdict::foreseen) return;
  const Reason& why = effects.unknown.empty() ? effects.hidden.front() : effects.unknown.front();
  fmt::print("{}: {}: {}: {}\n", name_of(effects.verdict), demangled(effects.kernel.name).substr(0, 160),
             why.why, why.instruction);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 5) {
    fmt::print(stderr, "usage: speed NVDISASM FILE ARCHITECTURE NAMES\n");
    return 2;
  }
  const auto architecture = std::strtoul(arguments[3], nullptr, 10);
  std::set<std::string> names;
  std::ifstream in(arguments[4]);
  for (std::string name; std::getline(in, name);) names.insert(name);
  double begin = milliseconds();
  const auto file = ImageFile::open(arguments[2]);
  if (!file) {
    fmt::print(stderr, "speed: {}: {}\n", arguments[2], file.error().message);
    return 2;
  }
  const double opened = milliseconds() - begin;
  std::vector<double> unpacked, read, disassembled, analysed, whole;
  std::size_t instructions = 0;
  for (const Image& image : file->images()) {
    if (image.architecture != architecture) continue;
    begin = milliseconds();
    const std::string cubin = image.cubin();
    const double unpacking = milliseconds() - begin;
    begin = milliseconds();
    const auto kernels = kernels_of(cubin);
    const double reading = milliseconds() - begin;
    for (const Kernel& kernel : kernels) {
      if (!names.contains(kernel.name)) continue;
      begin = milliseconds();
      const auto codes = disassemble(arguments[1], cubin, {kernel.symbol});
      const double disassembling = milliseconds() - begin;
      if (!codes || codes->empty()) continue;
      begin = milliseconds();
      const KernelEffects effects = analyse(kernel, codes->front());
      const double analysing = milliseconds() - begin;
      print_reason(effects);
      names.erase(kernel.name);
      instructions += effects.instructions;
      unpacked.push_back(unpacking);
      read.push_back(reading);
      disassembled.push_back(disassembling);
      analysed.push_back(analysing);
      whole.push_back(unpacking + reading + disassembling + analysing);
    }
  }
  for (const std::string& name : names) fmt::print("not there: {}\n", name);
  fmt::print("opening the file: {:.1f} ms; {} kernels with {} instructions\n\n", opened, whole.size(),
             instructions);
  fmt::print("| ms of a core | median | 90th percentile | most | sum |\n| --- | --- | --- | --- | --- |\n");
  print("unpacking", unpacked);
  print("reading its kernels", read);
  print("disassembling", disassembled);
  print("analysing", analysed);
  print("all", whole);
  return 0;
}
