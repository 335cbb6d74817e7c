// What `pooch top` makes of a session's page.
#include "live_view.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "core/pages.h"

namespace pooch::tools {
namespace {

LiveView planned() {
  LiveView view;
  view.program = "python train.py";
  Live& live = view.live;
  live.process = 4711;
  live.state = LiveState::planned;
  live.iterations = 128, live.planned_iterations = 124;
  live.planned_ms = 412, live.in_core_ms = 377.6, live.predicted_ms = 410.2;
  live.cap = 16 * GiB, live.used = 12 * GiB, live.need = 50 * GiB;
  live.host_budget = 200 * GiB, live.host_used = 25 * GiB;
  live.bytes_out = live.bytes_in = 100 * GiB;
  live.out_per_iteration = live.in_per_iteration = 4.12e9;
  live.gpu = "NVIDIA H200";
  live.policy = "hybrid";
  live.dearest[0].name = "conv3_2", live.dearest[0].cost_ms = 1.25, live.dearest[0].of = MapClass::swap;
  return view;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST(LiveView, SaysFirstWhoRunsAndHowItFares) {
  const auto lines = lines_of(live_text(planned(), {}));
  EXPECT_EQ(lines.at(0), "python train.py (4711) on NVIDIA H200, device 0                  planned, hybrid");
  EXPECT_EQ(lines.at(1), "  time     iteration 128 (124 planned), 412.0 ms, +9.1 % over in-core; predicte~");
  EXPECT_EQ(lines.at(2), "  device   #######################....... 12.0 GiB of 16.0 GiB, need 50.0 GiB");
  EXPECT_EQ(lines.at(4), "  link     out 10.0 GB/s, in 10.0 GB/s; 100 GiB and 100 GiB so far");
  EXPECT_EQ(lines.at(5), "  dearest  conv3_2 (swap 1.25 ms)");
}

TEST(LiveView, FitsItsWidth) {
  LiveView view = planned();
  view.program = "python a_program_with_a_rather_long_name_that_nobody_needs_in_full_but_has_all_the_same.py";
  view.live.warning = std::string(250, 'w');
  for (LiveStyle style : {LiveStyle{80}, LiveStyle{60}, LiveStyle{200}})
    for (const std::string& line : lines_of(live_text(view, style) + live_table({view, view}, style)))
      EXPECT_LE(line.size(), style.width) << line;
}

TEST(LiveView, ComparesWithInCoreOnlyWhatFollowsAPlan) {
  LiveView view = planned();
  view.live.state = LiveState::streaming;
  view.live.iteration_ms = 800;
  const std::string text = live_text(view, {});
  EXPECT_EQ(text.find("in-core"), std::string::npos) << text;
  EXPECT_NE(text.find("800.0 ms"), std::string::npos) << text;
}

TEST(LiveView, ShowsWarningsWithoutControlCharacters) {
  LiveView view = planned();
  view.live.warning = "one\ntwo\x1b[31m";
  const auto lines = lines_of(live_text(view, {}));
  EXPECT_EQ(lines.back(), "  warning  one\\ntwo\\x1b[31m");
}

TEST(LiveView, UsesColoursOnlyWhereAsked) {
  EXPECT_EQ(live_text(planned(), {}).find('\x1b'), std::string::npos);
  LiveStyle style;
  style.colour = true;
  EXPECT_NE(live_text(planned(), style).find("\x1b[32mplanned, hybrid"), std::string::npos);
}

TEST(LiveView, SaysThatAProcessHasEnded) {
  LiveView view = planned();
  view.ended = true;
  EXPECT_NE(live_text(view, {}).find("ended, hybrid"), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(live_json({view}))[0]["state"], "ended");
}

TEST(LiveView, GivesEverythingAsJson) {
  const auto all = nlohmann::json::parse(live_json({planned()}));
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0]["process"], 4711);
  EXPECT_EQ(all[0]["iteration_ms"], 412.0);
  EXPECT_EQ(all[0]["cap_bytes"], 16 * GiB);
  EXPECT_EQ(all[0]["dearest"][0]["of"], "swap");
  EXPECT_EQ(nlohmann::json::parse(live_json({})).size(), 0u);
}

}  // namespace
}  // namespace pooch::tools
