// Which of a job's processes on this node this one is, as torchrun, MPI or Slurm say in the environment.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

namespace pooch {

struct LocalRank {
  std::uint32_t rank, count;  // on this node: rank < count
  std::uint32_t world_rank;   // among all nodes; `rank` if not given
  bool operator==(const LocalRank&) const = default;
};

// `get` is like getenv. Empty if no launcher set these variables, or their values make no sense: they are not
// pooch's.
std::optional<LocalRank> find_local_rank(const std::function<const char*(const char*)>& get);

// Slurm's list of tasks by node, "4(x2),3": those of node `node`; empty if it has none.
std::optional<std::uint32_t> slurm_tasks(std::string_view list, std::uint32_t node);

}  // namespace pooch
