// A PlanSource whose planners are shell scripts, for tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/log.h"
#include "runtime/planning/plan_source.h"
#include "tests/support/random_profile.h"

namespace pooch::runtime {
namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr const char* phase = "9f31";

inline std::string read(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}
inline void write(const fs::path& path, const std::string& text) {
  std::ofstream(path) << text;
}

inline Plan plan_for(const std::string& its_phase) {
  Plan plan;
  plan.phase = its_phase;
  plan.device = "lazy";
  plan.policy = "hybrid";
  plan.cap = 4096;
  plan.predicted_ms = 12.5;
  PlanMap map;
  map.map = 3, map.name = "conv.out", map.bytes = map.moved = 64, map.of = MapClass::swap, map.why = "idle";
  plan.maps.push_back(map);
  plan.after[4] = {{PlanAction::Kind::evict, 3}};
  plan.before[9] = {{PlanAction::Kind::prefetch, 3}};
  return plan;
}

class PlanSourceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = fs::temp_directory_path() / "plan-source-XXXXXX";
    root = mkdtemp(pattern.data());
    for (const char* each : {"cache", "tmp"}) {
      fs::create_directory(root / each);
      fs::permissions(root / each, fs::perms::owner_all);
    }
    setenv("TMPDIR", (root / "tmp").c_str(), 1);
    config.policy = Policy::hybrid;
    config.cache_folder = root / "cache";
    log::configure(LogLevel::warn, root / "log");
    write(root / "good.json", to_json(plan_for(phase)));
  }
  void TearDown() override {
    unsetenv("TMPDIR");
    unsetenv("LD_PRELOAD");
    fs::remove_all(root);
  }

  // $profile and $out are what the planner was given.
  void planner(const std::string& body) {
    const fs::path script = root / "planner";
    write(script,
          "#!/bin/sh\nprofile=$2\nfor each; do out=$each; done\ncd " + root.string() + "\n" + body + "\n");
    fs::permissions(script, fs::perms::owner_all);
    config.planner_program = script;
  }
  std::unique_ptr<PlanSource> open(unsigned seconds = 30) {
    auto source = PlanSource::open(config, PlanTarget{"lazy", 4096, 1 << 20}, {.seconds = seconds});
    EXPECT_TRUE(source) << source.error().message;
    return std::move(*source);
  }
  std::optional<Plan> ask(PlanSource& source, const std::string& of = phase) {
    source.request(of, [] { return test::random_profile(40, 1); }, {});
    source.settle(of);
    return source.poll(of);
  }
  std::string warnings() { return read(root / "log"); }
  std::size_t warning_count() {
    const std::string text = warnings();
    return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  }
  // Nothing may be left behind.
  std::size_t temporary_files() {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(root / "tmp"), {}));
  }
  std::vector<fs::path> cached() {
    std::vector<fs::path> all;
    for (const auto& each : fs::directory_iterator(root / "cache")) all.push_back(each.path());
    return all;
  }
  void expect_demand(const std::string& reason) {
    EXPECT_NE(warnings().find(reason), std::string::npos) << warnings();
    EXPECT_NE(warnings().find("stays in demand mode"), std::string::npos) << warnings();
    EXPECT_EQ(warning_count(), 1u) << warnings();
    EXPECT_EQ(temporary_files(), 0u);
  }

  fs::path root;
  Config config;
};

}  // namespace pooch::runtime
