#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <thread>

#include "core/bytes.h"
#include "core/config.h"
#include "core/digest.h"
#include "core/ids.h"
#include "core/log.h"
#include "core/summary.h"

namespace pooch {
namespace {

TEST(Bytes, UnderstandsWhatPeopleWrite) {
  EXPECT_EQ(*parse_bytes("16GiB"), 16 * GiB);
  EXPECT_EQ(*parse_bytes(" 512 MiB "), 512 * MiB);
  EXPECT_EQ(*parse_bytes("1.5g"), GiB + GiB / 2);
  EXPECT_EQ(*parse_bytes("1073741824"), GiB);
  EXPECT_EQ(*parse_bytes("2KB"), 2048u);
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
}

Result<Config> config_of(const std::map<std::string, std::string>& variables) {
  return read_config([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(LocalRank, IsWhatTheLauncherSays) {
  const auto rank_of = [](const std::map<std::string, std::string>& variables) {
    return config_of(variables)->local_rank;
  };
  EXPECT_EQ(rank_of({{"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "4"}, {"RANK", "9"}}), (LocalRank{1, 4, 9}));
  EXPECT_EQ(rank_of({{"OMPI_COMM_WORLD_LOCAL_RANK", "0"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}),
            (LocalRank{0, 2, 0}));
  EXPECT_EQ(rank_of({{"MPI_LOCALRANKID", "3"}, {"MPI_LOCALNRANKS", "4"}, {"PMI_RANK", "7"}}),
            (LocalRank{3, 4, 7}));
  EXPECT_EQ(rank_of({{"SLURM_LOCALID", "2"}, {"SLURM_PROCID", "10"}, {"SLURM_NTASKS_PER_NODE", "8"}}),
            (LocalRank{2, 8, 10}));
  EXPECT_EQ(rank_of({{"SLURM_LOCALID", "2"},
                     {"SLURM_NODEID", "2"},
                     {"SLURM_STEP_TASKS_PER_NODE", "4(x2),3"},
                     {"SLURM_NTASKS_PER_NODE", "8"}}),
            (LocalRank{2, 3, 2}));
}

TEST(LocalRank, IsNotGuessed) {
  EXPECT_FALSE(config_of({})->local_rank);
  EXPECT_FALSE(config_of({{"LOCAL_RANK", "0"}})->local_rank) << "of how many?";
  EXPECT_FALSE(config_of({{"LOCAL_RANK", "2"}, {"LOCAL_WORLD_SIZE", "2"}})->local_rank);
  EXPECT_FALSE(config_of({{"LOCAL_RANK", "one"}, {"LOCAL_WORLD_SIZE", "2"}})->local_rank);
  for (const char* list : {"", "4(x2", "x", "4(x2)", "4(x),1"}) EXPECT_FALSE(slurm_tasks(list, 2)) << list;
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

TEST(Digest, DependsOnEveryByteAndItsPlace) {
  std::array<std::byte, 100> memory;
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = std::byte(i);
  const Digest whole = digest_of(memory);
  EXPECT_EQ(whole, (Digest{{0x3a7ae176c5e07242, 0x885643881b7176bf}})) << "as in digest_ptx.py";
  for (std::byte& byte : memory) {
    byte ^= std::byte{16};
    const Digest other = digest_of(memory);
    EXPECT_NE(other.sums[0], whole.sums[0]);
    EXPECT_NE(other.sums[1], whole.sums[1]);
    byte ^= std::byte{16};
  }
  std::swap_ranges(memory.begin(), memory.begin() + 8, memory.begin() + 48);
  EXPECT_NE(digest_of(memory), whole) << "words have changed places";
}

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
