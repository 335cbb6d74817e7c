// What the host's memory is said to be, from files as the kernel has them.
#include "core/host_memory.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "core/ids.h"

namespace pooch::test {
namespace {

class HostMemoryOfSystem : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "host_memoryXXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
    files_ = {name + "/proc", name + "/groups"};
    write("proc/meminfo", "MemTotal:  67108864 kB\nMemFree:  1024 kB\nMemAvailable:  33554432 kB\n");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void write(const std::string& file, const std::string& text) {
    const auto path = root_ / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  // Cgroup v2, bytes.
  void group(const std::string& path, const std::string& limit, std::uint64_t used,
             std::uint64_t idle_files) {
    write("groups" + path + "/memory.max", limit);
    write("groups" + path + "/memory.current", std::to_string(used));
    write("groups" + path + "/memory.stat",
          "anon 1\nfile 2\ninactive_file " + std::to_string(idle_files) + "\nactive_file 3\n");
  }

  std::filesystem::path root_;
  HostMemoryFiles files_;
};

TEST_F(HostMemoryOfSystem, WithoutGroupsIsWhatTheSystemHasLeft) {
  EXPECT_EQ(unused_host_memory(files_), 32 * GiB);
}

TEST_F(HostMemoryOfSystem, IsUnknownWhereTheSystemDoesNotTell) {
  std::filesystem::remove(root_ / "proc/meminfo");
  EXPECT_EQ(unused_host_memory(files_), 0u);
}

TEST_F(HostMemoryOfSystem, EveryAncestorsLimitBinds) {
  write("proc/self/cgroup", "0::/a/b\n");
  group("/a/b", "max", 0, 0);
  group("/a", std::to_string(1 * GiB), 768 * MiB, 0);
  EXPECT_EQ(available_host_memory(files_), 1 * GiB);
  EXPECT_EQ(unused_host_memory(files_), 256 * MiB);
}

TEST_F(HostMemoryOfSystem, CachedFilesThatNobodyUsesCountAsFree) {
  write("proc/self/cgroup", "0::/\n");
  group("", std::to_string(1 * GiB), 768 * MiB, 512 * MiB);
  EXPECT_EQ(unused_host_memory(files_), 768 * MiB);
}

TEST_F(HostMemoryOfSystem, AGroupThatIsAboveItsLimitLeavesNothing) {
  write("proc/self/cgroup", "0::/\n");
  group("", std::to_string(1 * GiB), 2 * GiB, 0);
  EXPECT_EQ(unused_host_memory(files_), 0u);
}

TEST_F(HostMemoryOfSystem, OlderGroupsHaveOtherFiles) {
  write("proc/self/cgroup", "5:cpu:/elsewhere\n4:memory:/job\n0::/\n");
  write("groups/memory/job/memory.limit_in_bytes", std::to_string(2 * GiB));
  write("groups/memory/job/memory.usage_in_bytes", std::to_string(1 * GiB));
  write("groups/memory/job/memory.stat",
        "inactive_file 5\ntotal_inactive_file " + std::to_string(256 * MiB) + "\n");
  EXPECT_EQ(available_host_memory(files_), 2 * GiB);
  EXPECT_EQ(unused_host_memory(files_), 1 * GiB + 256 * MiB);
}

}  // namespace
}  // namespace pooch::test
