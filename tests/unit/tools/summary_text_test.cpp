// What `pooch run` says at a command's end.
#include <gtest/gtest.h>

#include "core/pages.h"
#include "report.h"

namespace pooch::tools {
namespace {

Summary planned() {
  Summary summary;
  summary.device = "NVIDIA H200", summary.policy = "hybrid";
  summary.cap_bytes = 16 * GiB, summary.need_bytes = 51 * GiB, summary.peak_device_bytes = 16 * GiB;
  summary.peak_host_bytes = 35 * GiB;
  summary.iterations = 24, summary.planned_iterations = 21, summary.settled_after = 3;
  summary.actual_ms = 109, summary.predicted_ms = 108, summary.in_core_ms = 100;
  summary.evictions = 100, summary.verified = 210, summary.replays = 400;
  return summary;
}
std::string first_line(const Summary& summary) {
  const std::string text = summary_text(summary);
  return text.substr(0, text.find('\n'));
}

TEST(SummaryText, AnswersFirstWhatItCost) {
  EXPECT_EQ(
      summary_text(planned()),
      "pooch: 51.0 GiB in 16.0 GiB: about +9.0 % over in-core (by the times of its ops), settled after 3 "
      "iterations; 210 results made again were compared, all equal\n"
      "pooch: NVIDIA H200: peak 16.0 GiB on the device, 35.0 GiB on the host\n"
      "pooch: 24 iterations, 21 of them planned by hybrid\n"
      "pooch: 109.0 ms per planned iteration, 108.0 predicted\n");
}

TEST(SummaryText, SaysThatNothingHadToBeMoved) {
  Summary summary;
  summary.cap_bytes = 16 * GiB, summary.need_bytes = 12 * GiB, summary.iterations = 24;
  EXPECT_EQ(first_line(summary), "pooch: 12.0 GiB in 16.0 GiB: nothing had to be moved");
}

TEST(SummaryText, SaysWhatMayHelpWhereNoPlanWasFollowed) {
  Summary summary = planned();
  summary.planned_iterations = 0, summary.verified = 0;
  summary.actual_ms = summary.predicted_ms = summary.in_core_ms = {};
  EXPECT_EQ(first_line(summary), "pooch: 51.0 GiB in 16.0 GiB: 24 iterations, none of them by a plan");
  EXPECT_NE(summary_text(summary).find("no plan was followed"), std::string::npos);
}

TEST(SummaryText, SaysWhatMayHelpWhereAPlanTakesLongerThanItSays) {
  Summary summary = planned();
  summary.actual_ms = 216;
  EXPECT_NE(summary_text(summary).find("2.0 times their prediction"), std::string::npos);
}

TEST(SummaryText, CannotBeReadOverWhereResultsDiffered) {
  Summary summary = planned();
  summary.mismatches = 2;
  EXPECT_NE(first_line(summary).find("2 OF 210 RESULTS THAT WERE MADE AGAIN DIFFERED"), std::string::npos);
}

// A run is too short, or takes a plan from the cache.
TEST(SummaryText, NamesNoTimeThatWasNotMeasured) {
  Summary summary = planned();
  summary.actual_ms = {};
  EXPECT_EQ(first_line(summary).find('%'), std::string::npos);
  EXPECT_NE(first_line(summary).find("21 of 24 iterations by a plan"), std::string::npos);
}

}  // namespace
}  // namespace pooch::tools
