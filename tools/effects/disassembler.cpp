#include "tools/effects/disassembler.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdlib>

#include "tools/child.h"
#include "tools/temporary_folder.h"
#include "tools/text_file.h"

namespace pooch::effects {
namespace fs = std::filesystem;
namespace {

// Ten times as long as it takes.
constexpr std::size_t least_seconds = 10, bytes_a_second = 100'000;  // of a processor
constexpr int patience = 60;  // how many times as long it may take for that

bool is_program(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0;
}

std::vector<fs::path> folders() {
  std::vector<fs::path> all;
  const char* const path = std::getenv("PATH");
  for (std::string_view rest = path != nullptr ? path : ""; !rest.empty();) {
    const std::size_t end = rest.find(':');
    all.emplace_back(rest.substr(0, end));
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  for (const char* const variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* const home = std::getenv(variable)) all.push_back(fs::path(home) / "bin");
  all.emplace_back("/usr/local/cuda/bin");
  return all;
}

fs::path of_triton_in(const fs::path& packages) {
  return packages / "triton/backends/nvidia/bin/nvdisasm";
}

// Where `python3` keeps Triton. It is looked for, not imported.
std::optional<fs::path> of_triton() {
  const auto found = tools::output_of({"python3", "-c",
                                       "import importlib.util as u; s = u.find_spec('triton'); "
                                       "print(s.submodule_search_locations[0] if s else '')"});
  if (!found || found->size() < 2) return std::nullopt;
  return of_triton_in(fs::path(found->substr(0, found->find('\n'))).parent_path());
}

}  // namespace

const char* const disassembler_cure =
    "put a toolkit's bin folder on PATH, set CUDA_HOME, or install Triton (pip "
    "install "
    "triton)";

std::optional<fs::path> find_disassembler(const fs::path& packages) {
  for (const fs::path& folder : folders())
    if (is_program(folder / "nvdisasm")) return folder / "nvdisasm";
  if (!packages.empty() && is_program(of_triton_in(packages))) return of_triton_in(packages);
  const auto triton = of_triton();
  if (triton && is_program(*triton)) return triton;
  return std::nullopt;
}

Result<std::vector<Code>> disassemble(const fs::path& program, std::string_view cubin,
                                      const std::vector<std::uint32_t>& symbols) {
  const auto folder = tools::TemporaryFolder::make();
  if (!folder) return folder.error();
  const std::string file = folder->path() / "image.cubin";
  if (const auto written = tools::write_text(file, cubin); !written) return written.error();
  std::string numbers;
  for (const std::uint32_t symbol : symbols)
    numbers += fmt::format("{}{}", numbers.empty() ? "" : ",", symbol);
  // What is damaged may keep it busy for ever; where others keep the machine busy, it takes its time.
  const std::chrono::seconds processor(least_seconds + cubin.size() / bytes_a_second);
  const auto text =
      tools::output_of({program.string(), "-c", "-fun", numbers, file}, patience * processor, processor);
  if (!text) return Error{ErrorCode::internal, fmt::format("{} does not disassemble it", program.string())};
  return read_disassembly(*text);
}

}  // namespace pooch::effects
