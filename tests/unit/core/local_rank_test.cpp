#include "core/local_rank.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace pooch {
namespace {

std::optional<LocalRank> rank_of(const std::map<std::string, std::string>& variables) {
  return find_local_rank([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(LocalRank, IsWhatTheLauncherSays) {
  EXPECT_EQ(rank_of({{"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "4"}, {"RANK", "9"}}), (LocalRank{1, 4, 9}));
  EXPECT_EQ(rank_of({{"OMPI_COMM_WORLD_LOCAL_RANK", "0"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}),
            (LocalRank{0, 2, 0}));
  EXPECT_EQ(rank_of({{"MV2_COMM_WORLD_LOCAL_RANK", "1"},
                     {"MV2_COMM_WORLD_LOCAL_SIZE", "2"},
                     {"MV2_COMM_WORLD_RANK", "5"}}),
            (LocalRank{1, 2, 5}));
  EXPECT_EQ(rank_of({{"MPI_LOCALRANKID", "3"}, {"MPI_LOCALNRANKS", "4"}, {"PMI_RANK", "7"}}),
            (LocalRank{3, 4, 7}));
  EXPECT_EQ(rank_of({{"SLURM_LOCALID", "2"}, {"SLURM_PROCID", "10"}, {"SLURM_NTASKS_PER_NODE", "8"}}),
            (LocalRank{2, 8, 10}));
  EXPECT_EQ(rank_of({{"SLURM_LOCALID", "2"},
                     {"SLURM_NODEID", "2"},
                     {"SLURM_STEP_TASKS_PER_NODE", "4(x2),3"},
                     {"SLURM_NTASKS_PER_NODE", "8"}}),
            (LocalRank{2, 3, 2}));
}

TEST(LocalRank, IsNotGuessed) {
  EXPECT_FALSE(rank_of({}));
  EXPECT_FALSE(rank_of({{"LOCAL_RANK", "0"}})) << "of how many?";
  EXPECT_FALSE(rank_of({{"LOCAL_RANK", "2"}, {"LOCAL_WORLD_SIZE", "2"}}));
  EXPECT_FALSE(rank_of({{"LOCAL_RANK", "one"}, {"LOCAL_WORLD_SIZE", "2"}}));
  for (const char* list : {"", "4(x2", "x", "4(x2)", "4(x),1"}) EXPECT_FALSE(slurm_tasks(list, 2)) << list;
}

}  // namespace
}  // namespace pooch
