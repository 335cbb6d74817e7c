// A reader of machine code whose other process is a script.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

#include "core/log.h"
#include "runtime/processes/kernel_reader.h"

namespace pooch::runtime {
namespace {
namespace fs = std::filesystem;
using namespace std::chrono_literals;

class KernelReaderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = fs::temp_directory_path() / "kernel-reader-XXXXXX";
    root = mkdtemp(pattern.data());
    config.cache_folder = root / "cache";
    log::configure(LogLevel::info, root / "log");
  }
  void TearDown() override { fs::remove_all(root); }

  // `answer(question, image)` returns a packet; `image` is the content of the file that came along.
  void server(const std::string& answer) {
    const fs::path script = root / "server";
    std::ofstream(script)
        << "#!/usr/bin/python3\n"
           "import json, os, socket, sys\n"
           "root = '"
        << root.string()
        << "'\n"
           "open(root + '/starts', 'a').write(' '.join(sys.argv[1:]) + '\\n')\n"
           "channel = socket.socket(fileno=3)\n"
           "def kernel(q, verdict='foreseen'):\n"
           "  return json.dumps({'ticket': q['ticket'], 'kernel': {'verdict': verdict, 'words': [], "
           "'tables': [], 'maps': [], 'all_constants': True}})\n"
           "def answer(q, image):\n"
        << answer
        << "\n"
           "while True:\n"
           "  packet, files, _, _ = socket.recv_fds(channel, 1 << 18, 1)\n"
           "  if not packet: break\n"
           "  q = json.loads(packet)\n"
           "  image = os.fdopen(files[0], 'rb').read() if files else b''\n"
           "  channel.send(answer(q, image).encode())\n";
    fs::permissions(script, fs::perms::owner_all);
    config.planner_program = script;
  }
  std::string text_of(const char* file) {
    std::ostringstream text;
    text << std::ifstream(root / file).rdbuf();
    return text.str();
  }
  // By ticket: "foreseen", "hidden", or the error.
  static std::map<std::uint64_t, std::string> settle(KernelReader& reader) {
    std::map<std::uint64_t, std::string> all;
    for (const auto& [ticket, code] : reader.await(30s))
      all[ticket] = !code ? code.error().message : code->foreseen() ? "foreseen" : "not foreseen";
    EXPECT_FALSE(reader.pending());
    return all;
  }
  static KernelReader::Question kernel(const std::string& name) {
    return {{"/lib/a \"b\".so", 64, nullptr}, name, 90};
  }

  fs::path root;
  Config config;
};

TEST_F(KernelReaderTest, QuestionsAreAnsweredByAProcessThatEndsThen) {
  server(
      "  ok = q['file'] == '/lib/a \"b\".so' and q['offset'] == 64 and q['architecture'] == 90\n"
      "  return kernel(q, 'foreseen' if ok and q['name'] == 'one' else 'hidden')");
  KernelReader reader(config, "/packages");
  const auto one = reader.ask(kernel("one")), two = reader.ask(kernel("two"));
  EXPECT_TRUE(reader.pending());
  EXPECT_EQ(settle(reader), (std::map<std::uint64_t, std::string>{{one, "foreseen"}, {two, "not foreseen"}}));
  EXPECT_TRUE(reader.poll().empty()) << "an answer is handed out once";
  EXPECT_EQ(text_of("starts"),
            "effects --serve --cache " + (root / "cache").string() + " --packages /packages\n");
  const auto later = reader.ask(kernel("one"));
  EXPECT_EQ(settle(reader), (std::map<std::uint64_t, std::string>{{later, "foreseen"}}));
  EXPECT_EQ(text_of("starts").size(), 2 * text_of("starts").find('\n') + 2) << "it was started again";
}

TEST_F(KernelReaderTest, CodeInMemoryComesAlong) {
  server(
      "  return kernel(q, 'foreseen' if image == b'machine' + bytes([0]) + b'code' and q['file'] == '' else "
      "'hidden')");
  KernelReader reader(config, "");
  const std::string code("machine\0code", 12);
  const auto asked = reader.ask({{"", 0, std::make_shared<const std::string>(code)}, "one", 90});
  EXPECT_EQ(settle(reader)[asked], "foreseen");
}

TEST_F(KernelReaderTest, MoreThanFitsIntoAQueueIsAnsweredToo) {
  server("  return kernel(q)");
  KernelReader reader(config, "");
  for (int i = 0; i < 1000; ++i) reader.ask(kernel(std::string(300, 'k') + std::to_string(i)));
  EXPECT_EQ(settle(reader).size(), 1000u);
}

TEST_F(KernelReaderTest, OneThatCannotBeReadHarmsNoOther) {
  server(
      "  return kernel(q) if q['name'] != 'bad' else json.dumps({'ticket': q['ticket'], 'error': "
      "'damaged'})");
  KernelReader reader(config, "");
  const auto bad = reader.ask(kernel("bad")), good = reader.ask(kernel("good"));
  EXPECT_EQ(settle(reader), (std::map<std::uint64_t, std::string>{{bad, "damaged"}, {good, "foreseen"}}));
}

TEST_F(KernelReaderTest, OneThatKillsTheProcessIsLeftOutAndTheOthersAreAskedAgain) {
  server("  if q['name'] == 'deadly': os.abort()\n  return kernel(q)");
  KernelReader reader(config, "");
  const auto first = reader.ask(kernel("first")), deadly = reader.ask(kernel("deadly")),
             last = reader.ask(kernel("last"));
  auto all = settle(reader);
  EXPECT_EQ(all[first], "foreseen");
  EXPECT_EQ(all[deadly], "the reader of machine code ended");
  EXPECT_EQ(all[last], "foreseen");
}

// The socket reports the reset before the answers that came ahead of it.
TEST_F(KernelReaderTest, WhatWasAnsweredBeforeTheProcessDiedCounts) {
  server(
      "  if q['name'] == 'deadly':\n    open(root + '/dies', 'w')\n    os.abort()\n"
      "  return kernel(q)");
  KernelReader reader(config, "");
  const auto first = reader.ask(kernel("first")), deadly = reader.ask(kernel("deadly")),
             last = reader.ask(kernel("last"));
  EXPECT_TRUE(reader.poll().empty()) << "the process has hardly started";
  for (int i = 0; i < 3000 && !fs::exists(root / "dies"); ++i) std::this_thread::sleep_for(10ms);
  std::this_thread::sleep_for(300ms);  // it dies with a question unread
  auto all = settle(reader);
  EXPECT_EQ(all[first], "foreseen");
  EXPECT_EQ(all[deadly], "the reader of machine code ended");
  EXPECT_EQ(all[last], "foreseen");
}

TEST_F(KernelReaderTest, AProcessThatAlwaysDiesIsNotStartedForEver) {
  server("  os.abort()");
  KernelReader reader(config, "");
  for (int i = 0; i < 20; ++i) reader.ask(kernel("k" + std::to_string(i)));
  EXPECT_EQ(settle(reader).size(), 20u);
  const std::string starts = text_of("starts");
  EXPECT_LE(std::count(starts.begin(), starts.end(), '\n'), 5);
  EXPECT_EQ(settle(reader).size(), 0u);
}

TEST_F(KernelReaderTest, WhoHasNoDisassemblerSaysSoOnce) {
  server("  return json.dumps({'error': 'nvdisasm is nowhere'})");
  KernelReader reader(config, "");
  const auto one = reader.ask(kernel("one")), two = reader.ask(kernel("two"));
  auto all = settle(reader);
  EXPECT_EQ(all[one], "nvdisasm is nowhere");
  EXPECT_EQ(all[two], "nvdisasm is nowhere");
  const auto three = reader.ask(kernel("three"));
  EXPECT_EQ(settle(reader)[three], "nvdisasm is nowhere");
  const std::string said = text_of("log");
  EXPECT_NE(said.find("nvdisasm is nowhere"), std::string::npos);
  EXPECT_EQ(said.find("nvdisasm is nowhere"), said.rfind("nvdisasm is nowhere")) << said;
}

TEST_F(KernelReaderTest, NonsenseIsNoAnswer) {
  for (const char* nonsense :
       {"{", "{}", "{\"ticket\":77,\"kernel\":{}}", "{\"ticket\":1,\"kernel\":[]}", "x"}) {
    server(std::string("  return '") + nonsense + "'");
    KernelReader reader(config, "");
    const auto asked = reader.ask(kernel("one"));
    const auto all = settle(reader);
    ASSERT_EQ(all.size(), 1u) << nonsense;
    EXPECT_NE(all.at(asked), "foreseen") << nonsense;
  }
}

TEST_F(KernelReaderTest, WithoutAProgramNothingIsRead) {
  config.planner_program = root / "nowhere";
  KernelReader reader(config, "");
  const auto asked = reader.ask(kernel("one"));
  const auto all = settle(reader);
  EXPECT_NE(all.at(asked).find("there is no program"), std::string::npos) << all.at(asked);
}

}  // namespace
}  // namespace pooch::runtime
