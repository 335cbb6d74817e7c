// What reaches a tool that listens (NVTX_INJECTION64_PATH names one), and that nothing does without it.
#include "runtime/observe/nvtx.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace pooch::runtime {
namespace {

TEST(Nvtx, AnnotatesInItsOwnDomainWhereSomebodyListens) {
  const bool listened = std::getenv("NVTX_INJECTION64_PATH") != nullptr;
  const auto log = std::filesystem::temp_directory_path() / ("nvtx-test-" + std::to_string(getpid()));
  setenv("NVTX_TOOL_LOG", log.c_str(), 1);
  nvtx::mark("before open(): nobody is told");
  nvtx::open();
  nvtx::open();
  EXPECT_EQ(nvtx::attached(), listened);
  nvtx::Iterations iterations;
  iterations.begin("train 9f31");
  {
    const nvtx::Range outer(nvtx::Category::evict, "conv1.out");
    const nvtx::Range inner(nvtx::Category::prefetch, std::string_view("conv2.output", 9));
  }
  nvtx::mark("plan left");
  iterations.begin("train 9f31");
  iterations.end();
  iterations.end();
  std::ostringstream heard;
  heard << std::ifstream(log).rdbuf();
  std::filesystem::remove(log);
  EXPECT_EQ(heard.str(), listened ? "pooch: category 1 iteration\n"
                                    "pooch: category 2 evict\n"
                                    "pooch: category 3 prefetch\n"
                                    "pooch: category 4 replay\n"
                                    "pooch: start 1 1 train 9f31\n"
                                    "pooch: push 2 conv1.out\n"
                                    "pooch: push 3 conv2.out\n"
                                    "pooch: pop\n"
                                    "pooch: pop\n"
                                    "pooch: mark 0 plan left\n"
                                    "pooch: end 1\n"
                                    "pooch: start 2 1 train 9f31\n"
                                    "pooch: end 2\n"
                                  : "");
}

}  // namespace
}  // namespace pooch::runtime
