#include "core/log.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

namespace pooch {
namespace {

TEST(Log, AMessageStaysOnItsLine) {
  EXPECT_EQ(log::printable("phase é ✓: 3 %"), "phase é ✓: 3 %");
  EXPECT_EQ(log::printable("a\npooch: error: b\r\t\x1b[2J\x7f"),
            "a\\npooch: error: b\\x0d\\x09\\x1b[2J\\x7f");
  EXPECT_EQ(log::printable(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(log::printable("\xc2\x9b"
                           "2J"),
            "\\xc2\\x9b"
            "2J")
      << "a terminal's commands in one character";
  EXPECT_EQ(log::printable("\xe2\x80\xae"
                           "fdp"),
            "\\xe2\\x80\\xae"
            "fdp")
      << "text from right to left";
  EXPECT_EQ(log::printable("\xe2\x80\xa8"), "\\xe2\\x80\\xa8") << "the end of a line";
  EXPECT_EQ(log::printable("\xff \xc3"), "\\xff \\xc3") << "no UTF-8";
  EXPECT_EQ(log::printable("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "half a character of UTF-16";
  EXPECT_LT(log::printable(std::string(1 << 20, 'x')).size(), 20'000u);
}

TEST(Log, AFailureThatAllThreadsMeetIsOneError) {
  testing::internal::CaptureStderr();
  log::failure("the device is lost");
  std::thread([] { log::failure("a call fails"); }).join();
  log::failure("so does another");  // of the thread that began
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(said, "pooch: error: the device is lost\npooch: error: so does another\n");
}

TEST(Log, WritesWhatIsPrintable) {
  ::testing::internal::CaptureStderr();
  log::error("'{}' is no policy", "x\npooch: error: y");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "pooch: error: 'x\\npooch: error: y' is no policy\n");
}

}  // namespace
}  // namespace pooch
