#include "runtime/processes/detached_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

namespace pooch::runtime {
namespace {
using namespace std::chrono_literals;

Result<DetachedProcess> shell(const std::string& script, unsigned seconds = 60, std::vector<int> files = {}) {
  return DetachedProcess::start({{"/bin/sh", "-c", script}, {"WORD=kept"}, seconds, std::move(files)});
}
bool ends(DetachedProcess& process) {
  return process.wait_until(std::chrono::steady_clock::now() + 50s);
}

TEST(DetachedProcess, EndsByItselfWhenItsTimeIsOver) {
  auto process = DetachedProcess::start({{"/bin/sleep", "100"}, {}, 1});
  ASSERT_TRUE(process) << process.error().message;
  EXPECT_FALSE(process->ended());
  EXPECT_TRUE(ends(*process));
}

TEST(DetachedProcess, EndsWhenItIsKilled) {
  auto process = DetachedProcess::start({{"/bin/sleep", "100"}, {}});
  ASSERT_TRUE(process) << process.error().message;
  EXPECT_FALSE(process->wait_until(std::chrono::steady_clock::now() + 1ms));
  process->kill();
  EXPECT_TRUE(ends(*process));
  EXPECT_TRUE(process->ended());
  process->kill();  // does nothing to whoever has its number by now
}

TEST(DetachedProcess, WhatItSaysIsKeptUpTo4KiB) {
  auto process = shell("echo \"$WORD\" >&2");
  ASSERT_TRUE(process) << process.error().message;
  EXPECT_TRUE(ends(*process));
  EXPECT_EQ(process->said(), "kept\n");
  auto talker = shell("i=0; while [ $i -lt 1000 ]; do echo 12345678 >&2; i=$((i + 1)); done");
  ASSERT_TRUE(talker) << talker.error().message;
  EXPECT_TRUE(ends(*talker));
  EXPECT_EQ(talker->said().size(), 4096u);
}

TEST(DetachedProcess, FindsOpenWhatItIsGivenAndNothingElse) {
  int given[2], other[2];
  ASSERT_EQ(pipe(given), 0);
  ASSERT_EQ(pipe(other), 0);
  auto process = shell("exec >&3; echo given; ls /proc/$$/fd", 60, {given[1]});
  ASSERT_TRUE(process) << process.error().message;
  close(given[1]);
  std::string all;
  char piece[256];
  for (ssize_t got; (got = read(given[0], piece, sizeof piece)) > 0;)
    all.append(piece, static_cast<std::size_t>(got));
  EXPECT_EQ(all, "given\n0\n1\n2\n3\n4\n") << "4 is what tells it of our end";
  EXPECT_TRUE(ends(*process));
  for (const int file : {given[0], other[0], other[1]}) close(file);
}

TEST(DetachedProcess, WhatCannotBeRunIsNamed) {
  const auto nothing = DetachedProcess::start({{"/none/program"}, {}});
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(nothing.error().message, "/none/program cannot be run: No such file or directory");
  const auto closed = shell("true", 60, {-1});
  ASSERT_FALSE(closed);
  EXPECT_EQ(closed.error().message, "a file for the program: Bad file descriptor");
}

}  // namespace
}  // namespace pooch::runtime
