#include "core/config.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "core/ids.h"

namespace pooch {
namespace {

Result<Config> config_of(const std::map<std::string, std::string>& variables) {
  return read_config([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(Config, DefaultsToHybridPlansAndWarnings) {
  const auto config = config_of({});
  ASSERT_TRUE(config);
  EXPECT_EQ(config->policy, Policy::hybrid);
  EXPECT_EQ(config->log_level, LogLevel::warn);
  EXPECT_FALSE(config->memory_cap);
}

TEST(Config, CallsAreWatchedFromTheStartForWhoeverAsksForOps) {
  EXPECT_FALSE(config_of({})->watch_from_start);
  EXPECT_FALSE(config_of({{"POOCH_MEMORY_CAP", "1GiB"}, {"POOCH_SUMMARY", "folder"}})->watch_from_start);
  for (const char* variable : {"POOCH_PLAN", "POOCH_REPORT", "POOCH_RECORD", "POOCH_TRACE"})
    EXPECT_TRUE(config_of({{variable, "file"}})->watch_from_start) << variable;
  EXPECT_TRUE(config_of({{"POOCH_POLICY", "hybrid"}})->watch_from_start);
}

TEST(Config, BadValuesNameVariableValueAndWhatIsAccepted) {
  const auto policy = config_of({{"POOCH_POLICY", "magic"}});
  ASSERT_FALSE(policy);
  EXPECT_EQ(policy.error().message,
            "POOCH_POLICY: 'magic': accepted are keep, demand, swap-all-unscheduled, swap-all, swap-opt, "
            "pooch, superneurons, "
            "vdnn-all, vdnn-conv, vdnn-dyn, lms, lms-sync, hybrid");
  const auto cap = config_of({{"POOCH_MEMORY_CAP", "lots"}});
  ASSERT_FALSE(cap);
  EXPECT_NE(cap.error().message.find("POOCH_MEMORY_CAP: 'lots'"), std::string::npos);
  EXPECT_FALSE(config_of({{"POOCH_MEMORY_CAP", "0"}}));
  EXPECT_FALSE(config_of({{"POOCH_HOST_MEMORY", "-3"}}));
  EXPECT_FALSE(config_of({{"POOCH_LOG", "chatty"}}));
}

TEST(Config, HasEverySettingAsItIsGiven) {
  const auto read =
      config_of({{"POOCH_MEMORY_CAP", "25%"},  {"POOCH_HOST_MEMORY", "8GiB"}, {"POOCH_POLICY", "swap-opt"},
                 {"POOCH_TIMER", "events"},    {"POOCH_CALLSITES", "1"},      {"POOCH_PLAN", "plan.json"},
                 {"POOCH_CACHE", "cache"},     {"POOCH_PLANNER", "planner"},  {"POOCH_WAIT_FOR_PLANS", "1"},
                 {"POOCH_VERIFY", "all"},      {"POOCH_SUBSTITUTES", "0"},    {"POOCH_CHECK", "1"},
                 {"POOCH_LANDING", "off"},     {"POOCH_TRACE", "trace.json"}, {"POOCH_REPORT", "report"},
                 {"POOCH_SUMMARY", "summary"}, {"POOCH_RECORD", "calls"},     {"POOCH_LOG", "debug"},
                 {"POOCH_LOG_FILE", "log"},    {"POOCH_CHILDREN", "0"},       {"POOCH_MEMORY_INFO", "all"}});
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read->memory_cap->resolve(400), 100u);
  EXPECT_EQ(*read->host_memory->resolve(0), 8 * GiB);
  EXPECT_EQ(read->policy, Policy::swap_opt);
  EXPECT_TRUE(read->policy_chosen);
  EXPECT_EQ(read->timer, Timer::events);
  EXPECT_TRUE(read->call_sites);
  EXPECT_EQ(read->plan_file, "plan.json");
  EXPECT_EQ(read->cache_folder, "cache");
  EXPECT_EQ(read->planner_program, "planner");
  EXPECT_TRUE(read->wait_for_plans);
  EXPECT_EQ(read->verify, Verify::all);
  EXPECT_FALSE(read->substitutes);
  EXPECT_TRUE(read->check_copies);
  EXPECT_EQ(read->landing, LandingUse::off);
  EXPECT_EQ(read->trace_file, "trace.json");
  EXPECT_EQ(read->report_folder, "report");
  EXPECT_EQ(read->summary_folder, "summary");
  EXPECT_EQ(read->record_file, "calls");
  EXPECT_EQ(read->log_level, LogLevel::debug);
  EXPECT_EQ(read->log_file, "log");
  EXPECT_FALSE(read->children);
  EXPECT_EQ(read->memory_info, MemoryStory::all);
}

TEST(Config, AnEmptySettingIsNone) {
  for (const char* variable :
       {"POOCH_MEMORY_CAP", "POOCH_HOST_MEMORY", "POOCH_POLICY", "POOCH_TIMER", "POOCH_CALLSITES",
        "POOCH_WAIT_FOR_PLANS", "POOCH_VERIFY", "POOCH_SUBSTITUTES", "POOCH_CHECK", "POOCH_LANDING",
        "POOCH_LOG", "POOCH_CHILDREN", "POOCH_MEMORY_INFO"}) {
    const auto read = config_of({{variable, ""}});
    ASSERT_TRUE(read) << variable;
    EXPECT_FALSE(read->memory_cap || read->host_memory || read->policy_chosen || read->watch_from_start)
        << variable;
  }
}

TEST(Config, AChoiceThatIsNoneOfThoseThereAreIsRefusedByItsName) {
  const std::map<std::string, std::string> accepted = {{"POOCH_TIMER", "automatic, cupti, events, none"},
                                                       {"POOCH_CALLSITES", "0, 1"},
                                                       {"POOCH_WAIT_FOR_PLANS", "0, 1"},
                                                       {"POOCH_VERIFY", "off, sample, all"},
                                                       {"POOCH_SUBSTITUTES", "0, 1"},
                                                       {"POOCH_CHECK", "0, 1"},
                                                       {"POOCH_LANDING", "auto, on, off"},
                                                       {"POOCH_LOG", "error, warn, info, debug"},
                                                       {"POOCH_CHILDREN", "0, 1"},
                                                       {"POOCH_MEMORY_INFO", "device, all"}};
  for (const auto& [variable, names] : accepted) {
    const auto read = config_of({{variable, "yes"}});
    ASSERT_FALSE(read) << variable;
    EXPECT_EQ(read.error().message, variable + ": 'yes': accepted are " + names);
  }
}

}  // namespace
}  // namespace pooch
