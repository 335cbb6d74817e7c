// What sessions show of themselves to `pooch top`.
#include "core/live.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace pooch {
namespace {

class LivePages : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "live-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  LivePage page(std::int32_t process, std::int32_t device = 0) {
    auto made = LivePage::create(folder_, process, device);
    EXPECT_TRUE(made) << made.error().message;
    return std::move(*made);
  }
  std::string only_page() {
    const auto pages = live_pages(folder_);
    EXPECT_EQ(pages.size(), 1u);
    return pages.at(0);
  }

  std::string folder_;
};

TEST_F(LivePages, AreReadAsTheyWereWritten) {
  LivePage mine = page(getpid());
  Live live;
  live.process = getpid();
  live.iterations = 41;
  live.state = LiveState::planned;
  live.gpu = "NVIDIA H200";
  live.dearest[0].name = "conv3_2";
  mine.write(live);
  const auto read = read_live(only_page());
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->iterations, 41u);
  EXPECT_EQ(read->state, LiveState::planned);
  EXPECT_EQ(read->gpu.view(), "NVIDIA H200");
  EXPECT_EQ(read->dearest[0].name.view(), "conv3_2");
}

TEST_F(LivePages, CutTextsThatAreTooLong) {
  Live live;
  live.warning = std::string(1000, 'x');
  EXPECT_EQ(live.warning.view(), std::string(255, 'x'));
}

TEST_F(LivePages, AreGoneWithTheirSession) {
  {
    const LivePage mine = page(getpid());
    EXPECT_EQ(live_pages(folder_).size(), 1u);
  }
  EXPECT_TRUE(live_pages(folder_).empty());
}

TEST_F(LivePages, ComeByProcessAndDevice) {
  const LivePage b = page(20, 1), a = page(3), c = page(20);
  std::vector<std::string> names;
  for (const std::string& path : live_pages(folder_))
    names.push_back(std::filesystem::path(path).filename().string());
  EXPECT_EQ(names, (std::vector<std::string>{"3-0.live", "20-0.live", "20-1.live"}));
}

TEST_F(LivePages, OfAnEarlierProcessWithTheSameNumberIsReplaced) {
  { std::ofstream(folder_ + "/7-0.live") << "anything"; }
  const LivePage mine = page(7);
  EXPECT_TRUE(read_live(only_page()));
}

TEST_F(LivePages, OfAnotherVersionAreRefused) {
  std::ofstream(folder_ + "/7-0.live") << std::string(8192, 'x');
  const auto read = read_live(only_page());
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::invalid_argument);
  EXPECT_NE(read.error().message.find("another version"), std::string::npos) << read.error().message;
}

TEST_F(LivePages, AreNotKeptInAFolderOfSomebodyElse) {
  if (geteuid() != 0) GTEST_SKIP() << "only root gives folders away";
  ASSERT_EQ(chown(folder_.c_str(), 1, 1), 0);
  EXPECT_FALSE(LivePage::create(folder_, getpid(), 0));
}

// All of a page is of one write.
TEST_F(LivePages, AreReadWholeWhileTheyAreWritten) {
  LivePage mine = page(getpid());
  mine.write({});
  std::atomic<bool> enough{false};
  std::thread writer([&] {
    for (std::uint64_t i = 1; !enough; ++i) {
      Live live;
      live.iterations = live.ops = live.evictions = live.unforeseen_ops = i;
      live.predicted_ms = static_cast<double>(i);
      mine.write(live);
    }
  });
  const std::string path = only_page();
  std::uint64_t latest = 0;
  for (int i = 0; i < 2000; ++i) {
    const auto read = read_live(path);
    if (!read) continue;  // the writer was stopped in the middle for that long
    EXPECT_EQ(read->ops, read->iterations);
    EXPECT_EQ(read->evictions, read->iterations);
    EXPECT_EQ(read->unforeseen_ops, read->iterations);
    EXPECT_EQ(read->predicted_ms, static_cast<double>(read->iterations));
    EXPECT_GE(read->iterations, latest);
    latest = read->iterations;
  }
  enough = true;
  writer.join();
  EXPECT_GT(latest, 0u);
}

}  // namespace
}  // namespace pooch
