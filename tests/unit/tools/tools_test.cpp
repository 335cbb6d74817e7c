// What the tools read from outside: a model's file, a timeline, a command's output, a probe's answers.
// Whatever is wrong with it is told in one line that names the value.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tools/child.h"
#include "tools/device_choice.h"
#include "tools/doctor_findings.h"
#include "tools/simulate_run.h"
#include "tools/traced_iterations.h"

namespace {

using namespace pooch;
using namespace pooch::tools;
namespace fs = std::filesystem;

const std::string deep(100'000, '[');

class ToolsRead : public testing::Test {
 protected:
  ToolsRead() {
    std::string name = (fs::temp_directory_path() / "tools-test-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    fs::create_directory(folder_ / "models");
  }
  ~ToolsRead() override { fs::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }

  // The reason, without the file that it begins with.
  std::string model_error(const std::string& text) const {
    const std::string file = write("models/abacus.json", text) + ": ";
    const auto model = read_model(SoftDevice{.model = "abacus"}, folder_);
    if (model) return "";
    EXPECT_TRUE(model.error().message.starts_with(file)) << model.error().message;
    return model.error().message.substr(file.size());
  }
  std::string timeline_error(const std::string& text) const {
    const auto iterations = traced_iterations(write("trace.json", text), "9f31");
    return iterations ? "" : iterations.error().message;
  }

  fs::path folder_;
};

std::string answers_error(const std::string& text) {
  const auto answers = answers_from_json(text);
  return answers ? "" : answers.error().message;
}

std::string with(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

const std::string model =
    R"({"name":"x","host_bytes":64000,"link":{"to_device":12e9,"latency_ns":9,"to_host":11e9}})";

TEST_F(ToolsRead, HostMemoryAndLinkOfAModel) {
  write("models/abacus.json", model);
  const auto machine = read_model(SoftDevice{.model = "abacus"}, folder_);
  ASSERT_TRUE(machine);
  EXPECT_EQ(machine->host_bytes, 64000u);
  EXPECT_EQ(machine->to_device, 12e9);
  EXPECT_EQ(machine->to_host, 11e9);
}

TEST_F(ToolsRead, ABadModelIsOneLineThatNamesFileAndValue) {
  EXPECT_EQ(model_error(with(model, "64000", "-1")),
            "/host_bytes is -1: a whole number from 0 to 18446744073709551615");
  EXPECT_EQ(model_error(with(model, "64000", "18446744073709551616")),
            "/host_bytes is 18446744073709551616: a whole number from 0 to 18446744073709551615");
  EXPECT_TRUE(
      model_error(with(model, "11e9", "1e999")).starts_with("/link/to_host is 1e999: a number from 0 "));
  EXPECT_TRUE(
      model_error(with(model, "12e9", "\"fast\"")).starts_with("/link/to_device is \"fast\": a number"));
  EXPECT_EQ(model_error(with(model, "11e9}", "11e9}, \"link\": []")), "/link is a list: an object");
  EXPECT_EQ(model_error(with(model, "\"x\"", deep)), "/name: line 1, column 73: a value is expected");
  EXPECT_EQ(model_error(with(model, "to_host", "to_hosts")), "/link/to_host is missing");
  EXPECT_EQ(model_error("{}"), "/host_bytes is missing");
  EXPECT_EQ(model_error(model + "}"), "line 1, column 88: the end of the text is expected");
}

const std::string timeline = R"({"displayTimeUnit":"ms","traceEvents":[
{"ph":"M","pid":1,"name":"process_name","args":{"name":"pooch"}},
{"ph":"M","pid":1,"tid":3,"name":"thread_name","args":{"name":"iterations"}},
{"ph":"X","pid":1,"tid":3,"ts":1000.5,"dur":2.000,"name":"9f31","args":{"mode":"demand"}},
{"ph":"X","pid":1,"tid":4,"ts":1500.000,"dur":2.000,"name":"9f31","args":{"position":1}},
{"ph":"C","pid":1,"ts":1600,"name":"device memory","args":{"used":5,"free up to the cap":7}},
{"ph":"X","pid":1,"tid":3,"ts":3000.5,"dur":2.000,"name":"9f31","args":{"mode":"plan"}},
{"ph":"X","pid":1,"tid":3,"ts":7000.5,"dur":2.000,"name":"77","args":{"mode":"plan"}}
]})";

TEST_F(ToolsRead, IterationsOfATimeline) {
  const auto found = traced_iterations(write("trace.json", timeline), "9f31");
  ASSERT_TRUE(found);
  ASSERT_EQ(found->size(), 2u);
  EXPECT_EQ((*found)[0].ms, 2);
  EXPECT_FALSE((*found)[0].planned);
  EXPECT_EQ((*found)[1].ms, 4);
  EXPECT_TRUE((*found)[1].planned);
}

TEST_F(ToolsRead, ABadTimelineIsOneLineThatNamesTheValue) {
  EXPECT_TRUE(timeline_error(with(timeline, "1000.5", "1e999"))
                  .starts_with("/traceEvents/2/ts is 1e999: a number from 0 to "));
  EXPECT_EQ(timeline_error(with(timeline, "\"demand\"", "null")),
            "/traceEvents/2/args/mode is null: a text in quotes");
  EXPECT_TRUE(timeline_error(with(timeline, "\"tid\":4", "\"tid\":-4"))
                  .starts_with("/traceEvents/3/tid is -4: a whole number"));
  EXPECT_NE(timeline_error(with(timeline, "\"used\":5", "\"used\":" + deep)).find("a value is expected"),
            std::string::npos);
  EXPECT_TRUE(timeline_error(timeline.substr(0, 200)).ends_with(", but the text ends"));
  EXPECT_EQ(timeline_error("[]"), "the text is a list: an object");
  EXPECT_EQ(timeline_error("{}"), "/traceEvents is missing");
  const auto none = traced_iterations(folder_ / "none", "9f31");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().message, "No such file or directory");
}

TEST(BatchOf, IsThatOfTheLastLineThatHasOne) {
  EXPECT_EQ(batch_of("hello\n{\"batch\": 8}\n{\"losses\": [1, 2], \"batch\": 64}\nbye\n"), 64u);
  EXPECT_EQ(batch_of("{\"batch\": 8}"), 8u);
  EXPECT_EQ(batch_of(""), std::nullopt);
}

TEST(BatchOf, WhatIsNoNumberOfImagesCountsAsNoLine) {
  const std::string good = "{\"batch\": 8}\n";
  for (const std::string line :
       {"{\"batch\": 0}", "{\"batch\": -3}", "{\"batch\": 1.5}", "{\"batch\": 18446744073709551616}",
        "{\"batch\": \"9\"}", "{\"batch\": 9", "[{\"batch\": 9}]", "{\"batch\": 9} x",
        "{\"batch\": 9, \"alternate\": \"vgg16\"}"})
    EXPECT_EQ(batch_of(good + line), 8u) << line;
  EXPECT_EQ(batch_of(good + "{\"x\": " + deep), 8u);
  EXPECT_EQ(batch_of(good + deep), 8u);
}

TEST(Answers, AreReadAsTheyWereWritten) {
  Answers some;
  some.by_dlsym = "lib\"pooch\\.so";
  some.driver_version = 13000;
  some.runtime = "/usr/lib/x";
  some.cudnn_version = std::uint64_t{1} << 60;
  const auto again = answers_from_json(to_json(some));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->by_dlsym, some.by_dlsym);
  EXPECT_EQ(again->driver_version, 13000u);
  EXPECT_EQ(again->init, std::nullopt);
  EXPECT_EQ(again->cudnn_version, some.cudnn_version);
}

TEST(Answers, ADevicesNameOfAnyBytesIsAnAnswer) {
  Answers some;
  some.device = "GPU \xff\xfe";
  const auto again = answers_from_json(to_json(some));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_TRUE(again->device.starts_with("GPU "));
}

TEST(Answers, BadOnesAreOneLineThatNamesTheValue) {
  Answers some;
  some.driver_version = 13000;
  const std::string text = to_json(some);
  EXPECT_EQ(answers_error(with(text, "13000", "-1")),
            "/driver_version is -1: a whole number from 0 to 4294967295");
  EXPECT_EQ(answers_error(with(text, "13000", "4294967296")),
            "/driver_version is 4294967296: a whole number from 0 to 4294967295");
  EXPECT_EQ(answers_error(with(text, "\"device\":\"\"", "\"device\":7")), "/device is 7: a text in quotes");
  EXPECT_EQ(answers_error(with(text, "13000", deep)).find("/driver_version is a list: "), 0u);
  EXPECT_TRUE(
      answers_error(with(text, "\"init\"", "\"outit\"")).starts_with("/outit is no field; accepted: "));
  EXPECT_EQ(answers_error("{}"), "/by_dlsym is missing");
  EXPECT_TRUE(answers_error("").ends_with("an object"));
}

TEST(Child, WhatTakesTooLongPrintsNothing) {
  using pooch::tools::output_of;
  EXPECT_EQ(output_of({"echo", "all"}), "all\n");
  EXPECT_FALSE(output_of({"sh", "-c", "echo some; exec sleep 60"}, std::chrono::seconds(1)));
  EXPECT_FALSE(output_of({"false"}));
  // Of a processor: what waits for one is not ended.
  const std::chrono::seconds one(1), minute(60);
  EXPECT_EQ(output_of({"sh", "-c", "sleep 2; echo all"}, minute, one), "all\n");
  EXPECT_FALSE(output_of({"sh", "-c", "while :; do :; done"}, minute, one));
  EXPECT_FALSE(output_of({"no-such-program-at-all"}));
}

}  // namespace
