// What `pooch effects` says of a kernel, for one launch of it.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/kernel_code.h"
#include "tests/support/launch_parameters.h"

namespace pooch {
namespace {

using Bytes = test::LaunchParameters;

std::string kernel(const std::string& verdict, const std::string& words, const std::string& tables,
                   const std::string& more = "") {
  return "{\"verdict\":\"" + verdict + "\",\"words\":[" + words + "],\"tables\":[" + tables + "]" +
         (more.find("\"maps\"") == std::string::npos ? ",\"maps\":[]" : "") +
         (more.find("\"all_constants\"") == std::string::npos ? ",\"all_constants\":false" : "") +
         (more.empty() ? "" : "," + more) + "}";
}
KernelCode code(const std::string& json) {
  auto read = KernelCode::from_json(json);
  EXPECT_TRUE(read) << read.error().message;
  return read ? *read : KernelCode();
}
std::string word(int offset, const char* effect, const char* certainty = "base") {
  return "{\"offset\":" + std::to_string(offset) + ",\"effect\":\"" + effect + "\",\"certainty\":\"" +
         certainty + "\"}";
}
std::string table(int offset, const char* index, const char* effect) {
  return "{\"offset\":" + std::to_string(offset) + ",\"index\":\"" + index + "\",\"effect\":\"" + effect +
         "\",\"certainty\":\"base\"}";
}

// "8 read, 16 write"
std::string touched(const KernelCode& of, const Bytes& params, const LaunchGrid& grid = {}) {
  std::vector<TouchedWord> words;
  of.touched(
      grid, params.size(), [&](std::int64_t offset, unsigned bytes) { return params.read(offset, bytes); },
      words);
  static constexpr const char* effects[] = {"read", "write", "overwrite", "read_write", "scratch"};
  std::string text;
  for (const TouchedWord& one : words)
    text +=
        (text.empty() ? "" : ", ") + std::to_string(one.offset) + " " + effects[static_cast<int>(one.effect)];
  return text;
}

TEST(KernelCode, WhatIsOnlyStoredIsWrittenAndNotOverwritten) {
  const auto saxpy = code(kernel(
      "foreseen",
      word(8, "load") + "," + word(16, "load+store") + "," + word(24, "store") + "," + word(32, "update"),
      ""));
  EXPECT_TRUE(saxpy.foreseen());
  EXPECT_TRUE(saxpy.repeatable());
  EXPECT_EQ(touched(saxpy, Bytes(40)), "8 read, 16 read_write, 24 write, 32 read_write");
  EXPECT_EQ(touched(saxpy, Bytes(24)), "8 read, 16 read_write") << "there are no more parameters";
}

TEST(KernelCode, AWordUnderSeveralCertaintiesCountsOnce) {
  EXPECT_EQ(
      touched(code(kernel("foreseen",
                          word(8, "load") + "," + word(8, "store", "derived") + "," + word(8, "load", "sum"),
                          "")),
              Bytes(16)),
      "8 read_write");
}

// PyTorch's lists of tensors: two lists of four addresses, a byte for each block behind them.
TEST(KernelCode, BlocksPickTheWordsOfTables) {
  Bytes params(80);
  for (std::size_t i = 0; i < 3; ++i)
    params.put<std::uint8_t>(64 + i, static_cast<std::uint8_t>(i == 2 ? 2 : 0));
  const char* const index = "(p[CTAID.X + 64].u8 * 0x8)";
  const auto lists = code(kernel("foreseen", "", table(0, index, "load") + "," + table(32, index, "store"),
                                 "\"constants\":[],\"indexed_constants\":[0]"));
  EXPECT_EQ(touched(lists, params, {{3, 1, 1}}), "0 read, 16 read, 32 write, 48 write")
      << "what lies between was left by somebody else";
  EXPECT_EQ(touched(lists, params, {{1, 1, 1}}), "0 read, 32 write");
}

TEST(KernelCode, WhereNobodyKnowsWhichWordAllThatAreReadMayBe) {
  const std::string constants = "\"constants\":[0,4,16,20,28]";
  const auto any = code(kernel("foreseen", word(16, "store"), table(0, "?", "load"), constants));
  EXPECT_EQ(touched(any, Bytes(40)), "0 read, 16 read_write, 24 read");
  EXPECT_TRUE(any.reads(24)) << "half of it";
  EXPECT_FALSE(any.reads(8));
  const auto all = code(kernel("foreseen", "", table(0, "?", "load"), "\"all_constants\":true"));
  EXPECT_EQ(touched(all, Bytes(24)), "0 read, 8 read, 16 read");
  const auto indexed = code(kernel("foreseen", "", table(0, "?", "load"), "\"indexed_constants\":[12]"));
  EXPECT_EQ(touched(indexed, Bytes(24)), "8 read, 16 read");
  const auto derived =
      code(kernel("foreseen", word(0, "load"), "", constants + ",\"any_word_derived\":true"));
  EXPECT_EQ(touched(derived, Bytes(40)), "0 read_write, 16 read_write, 24 read_write");
}

TEST(KernelCode, ATableThatIsLeftMayBeAnyWord) {
  Bytes params(32);
  params.put<std::uint8_t>(24, 9);
  const auto out =
      code(kernel("foreseen", "", table(0, "(p[24].u8 * 0x8)", "load"), "\"constants\":[0,8,24]"));
  EXPECT_EQ(touched(out, params), "0 read, 8 read, 24 read");
  const auto odd = code(kernel("foreseen", "", table(4, "CTAID.X", "load"), "\"constants\":[0]"));
  EXPECT_EQ(touched(odd, params), "0 read");
  const auto many = code(kernel("foreseen", "", table(0, "(CTAID.X * 0x8)", "store"), "\"constants\":[16]"));
  EXPECT_EQ(touched(many, params, {{1u << 31, 1, 1}}), "16 write");
}

TEST(KernelCode, HiddenAndUnknownKernelsSayWhy) {
  const auto hidden = code(kernel("hidden", "", "",
                                  "\"hidden\":[{\"why\":\"an address loaded from memory\",\"address\":16,"
                                  "\"instruction\":\"LDG.E R2, [R4.64]\"}]"));
  EXPECT_FALSE(hidden.foreseen());
  EXPECT_EQ(hidden.why(), "an address loaded from memory: LDG.E R2, [R4.64]");
  EXPECT_FALSE(code(kernel("unknown", "", "")).foreseen());
  const auto maps = code(kernel("foreseen", "", "", "\"maps\":[{\"offset\":0,\"effect\":\"load\"}]"));
  EXPECT_FALSE(maps.foreseen()) << "what a tensor map names is no word";
  EXPECT_FALSE(maps.why().empty());
}

TEST(KernelCode, WhatLeavesSomethingElseBehindIsNotMadeAgain) {
  EXPECT_TRUE(code(kernel("foreseen", "", "", "\"module\":\"load\"")).repeatable());
  for (const char* trace :
       {"\"module\":\"store\"", "\"module\":\"update\"", "\"heap\":\"load\"", "\"prints\":true"}) {
    const auto leaves = code(kernel("foreseen", "", "", trace));
    EXPECT_TRUE(leaves.foreseen()) << trace;
    EXPECT_FALSE(leaves.repeatable()) << trace;
  }
}

TEST(KernelCode, WrongTextIsRefusedByItsPath) {
  const auto error = [](const std::string& text) {
    const auto read = KernelCode::from_json(text);
    return read ? "accepted" : read.error().message;
  };
  EXPECT_EQ(error("{}"), "kernel:  has no 'verdict'");
  EXPECT_EQ(error(kernel("seen", "", "")), "kernel: /verdict is \"seen\": 'foreseen', 'hidden' or 'unknown'");
  EXPECT_EQ(error(kernel("foreseen", word(8, "loads"), "")),
            "kernel: /words/0/effect is \"loads\": 'load', 'store' and 'update', joined by '+'");
  EXPECT_EQ(error(kernel("foreseen", word(800000, "load"), "")),
            "kernel: /words/0/offset is 800000: a whole number from 0 to 65536");
}

}  // namespace
}  // namespace pooch
