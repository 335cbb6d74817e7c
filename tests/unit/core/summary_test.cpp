#include "core/summary.h"

#include <gtest/gtest.h>

#include <string>

#include "core/ids.h"

namespace pooch {
namespace {

TEST(Summary, SurvivesItsOwnJson) {
  Summary summary;
  summary.device = "a \"device\"";
  summary.policy = "demand";
  summary.cap_bytes = 16 * GiB;
  summary.evictions = 42;
  const auto same = summary_from_json(to_json(summary));
  ASSERT_TRUE(same) << same.error().message;
  EXPECT_EQ(same->device, summary.device);
  EXPECT_EQ(same->evictions, 42u);
  EXPECT_FALSE(same->iterations) << "unknown stays unknown";
}

TEST(Summary, KeepsWhatIsKnownAndEveryKernel) {
  Summary summary;
  summary.iterations = 7;
  summary.predicted_ms = 1.5;
  summary.planned_peak_bytes = 3 * GiB;
  summary.unforeseen_kernels = {{"scale", 3, "an address loaded from memory"}, {"add", 1, ""}};
  const auto same = summary_from_json(to_json(summary));
  ASSERT_TRUE(same) << same.error().message;
  EXPECT_EQ(same->iterations, 7u);
  EXPECT_EQ(same->predicted_ms, 1.5);
  EXPECT_EQ(same->planned_peak_bytes, 3 * GiB);
  ASSERT_EQ(same->unforeseen_kernels.size(), 2u);
  EXPECT_EQ(same->unforeseen_kernels[0].name, "scale");
  EXPECT_EQ(same->unforeseen_kernels[0].launches, 3u);
  EXPECT_EQ(same->unforeseen_kernels[0].why, "an address loaded from memory");
  EXPECT_EQ(same->unforeseen_kernels[1].why, "");
  EXPECT_EQ(same->unforeseen_kernels[1].short_name(), "add");
}

TEST(Summary, NamesTheFieldThatIsWrong) {
  EXPECT_EQ(summary_from_json("{}").error().message, "summary: /schema is missing");
  std::string text = to_json(Summary{});
  text.replace(text.find("\"cap_bytes\": 0"), 14, "\"cap_bytes\": -1");
  EXPECT_EQ(summary_from_json(text).error().message,
            "summary: /cap_bytes is -1: a whole number from 0 to 18446744073709551615");
  EXPECT_FALSE(summary_from_json("no json"));
  EXPECT_FALSE(summary_from_json(std::string(100'000, '[')));
}

TEST(Summary, OfAnotherVersionMayHaveMore) {
  std::string text = to_json(Summary{});
  text.insert(text.find('"'), "\"later\": {\"a\": [1, null]}, ");
  EXPECT_TRUE(summary_from_json(text));
  text.insert(text.find('"'), "\"schema\": 1, ");
  EXPECT_EQ(summary_from_json(text).error().message, "summary: /schema appears twice");
}

TEST(Summary, OfADeviceWithAnyNameIsWritten) {
  Summary summary;
  summary.device = "V100 \xff\n";
  EXPECT_NE(to_json(summary).find("V100"), std::string::npos);
}

TEST(Summary, ANameOfThousandsOfLettersIsCutBetweenCharacters) {
  const UnforeseenKernel plain{std::string(5000, 'x'), 1, ""}, accented{std::string(119, 'x') + "éé", 1, ""};
  EXPECT_EQ(plain.short_name(), std::string(120, 'x') + "…");
  EXPECT_EQ(accented.short_name(), std::string(119, 'x') + "…");
}

}  // namespace
}  // namespace pooch
