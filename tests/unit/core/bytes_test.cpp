#include "core/bytes.h"

#include <gtest/gtest.h>

#include <string>

#include "core/ids.h"

namespace pooch {
namespace {

TEST(Bytes, UnderstandsWhatPeopleWrite) {
  EXPECT_EQ(*parse_bytes("16GiB"), 16 * GiB);
  EXPECT_EQ(*parse_bytes(" 512 MiB "), 512 * MiB);
  EXPECT_EQ(*parse_bytes("1.5g"), GiB + GiB / 2);
  EXPECT_EQ(*parse_bytes("1073741824"), GiB);
  EXPECT_EQ(*parse_bytes("2KiB"), 2048u);
  EXPECT_EQ(*parse_bytes("16GB"), 16'000'000'000u);
  EXPECT_EQ(*parse_bytes("1.5 mb"), 1'500'000u);
  EXPECT_EQ(*parse_bytes("25%", 400), 100u);
}

TEST(Bytes, NamesTheTextItDoesNotUnderstand) {
  for (const char* text : {"", "GiB", "16 gib extra", "-1", "1e400", "12X", "nan", "99999999T"}) {
    const auto bytes = parse_bytes(text);
    ASSERT_FALSE(bytes) << text;
    EXPECT_NE(bytes.error().message.find(std::string("'") + text + "'"), std::string::npos) << text;
  }
  EXPECT_FALSE(parse_bytes("80%")) << "a share of nothing";
  EXPECT_FALSE(parse_bytes("101%", 100));
  EXPECT_EQ(parse_bytes("120%", 100).error().message,
            "'120%' is more than there is: accepted are up to 100%");
}

}  // namespace
}  // namespace pooch
