#include "core/local_rank.h"

#include <charconv>

namespace pooch {
namespace {

struct Launcher {
  const char *rank, *count, *world_rank;
};
constexpr Launcher launchers[] = {
    {"LOCAL_RANK", "LOCAL_WORLD_SIZE", "RANK"},  // torchrun
    {"OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_RANK"},
    {"MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE", "MV2_COMM_WORLD_RANK"},
    {"MPI_LOCALRANKID", "MPI_LOCALNRANKS", "PMI_RANK"},  // MPICH, Intel MPI
};

std::optional<std::uint32_t> number(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<std::uint32_t> number(const char* text) {
  return text == nullptr ? std::nullopt : number(std::string_view(text));
}

std::optional<LocalRank> made_of(std::optional<std::uint32_t> rank, std::optional<std::uint32_t> count,
                                 std::optional<std::uint32_t> world_rank) {
  if (!rank || !count || *rank >= *count) return std::nullopt;
  return LocalRank{*rank, *count, world_rank.value_or(*rank)};
}

}  // namespace

std::optional<std::uint32_t> slurm_tasks(std::string_view list, std::uint32_t node) {
  while (!list.empty()) {
    const std::string_view entry = list.substr(0, list.find(','));
    list.remove_prefix(std::min(entry.size() + 1, list.size()));
    const auto times = entry.find("(x");
    const auto tasks = number(entry.substr(0, times));
    std::optional<std::uint32_t> nodes = 1;
    if (times != std::string_view::npos) {
      if (!entry.ends_with(')')) return std::nullopt;
      nodes = number(entry.substr(times + 2, entry.size() - times - 3));
    }
    if (!tasks || !nodes) return std::nullopt;
    if (node < *nodes) return tasks;
    node -= *nodes;
  }
  return std::nullopt;
}

std::optional<LocalRank> find_local_rank(const std::function<const char*(const char*)>& get) {
  for (const Launcher& one : launchers)
    if (const auto found =
            made_of(number(get(one.rank)), number(get(one.count)), number(get(one.world_rank))))
      return found;
  const char* const list = get("SLURM_STEP_TASKS_PER_NODE");
  const auto count = list != nullptr ? slurm_tasks(list, number(get("SLURM_NODEID")).value_or(0))
                                     : number(get("SLURM_NTASKS_PER_NODE"));
  return made_of(number(get("SLURM_LOCALID")), count, number(get("SLURM_PROCID")));
}

}  // namespace pooch
