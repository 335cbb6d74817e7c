#include "core/plan.h"

#include <gtest/gtest.h>

#include <string>

namespace pooch {
namespace {

constexpr const char* example = R"({"schema":1,"phase":"9f31","device":"v100-pcie3","policy":"hybrid",
 "cap":17179869184,"seed":3,"in_core_ms":2000,"predicted_ms":2190.5,"bound_ms":2120,
 "peak":17000000000,"host_bytes":134217728,
 "maps":[
  {"map":4,"name":"conv1.out","buffer":9,"bytes":411041792,"class":"keep","why":"fits","cost_ms":0,
   "alternative":"swap","alternative_cost_ms":1.5},
  {"map":17,"name":"conv3_2.out","buffer":30,"bytes":205520896,"class":"swap","moved":134217728,
   "why":"hidden","cost_ms":0},
  {"map":18,"name":"relu3_2.out","buffer":31,"bytes":205520896,"class":"recompute","by":[41,42],
   "why":"cheap","cost_ms":0.9}],
 "before":{"210":["prefetch 17"],"231":["replay 41","replay 42"]},
 "after":{"44":["evict 17"],"45":["drop 18"]}})";

// The example with one piece of its text replaced.
std::string with(const std::string& from, const std::string& to) {
  std::string text = example;
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Plan, IsReadWithAllItsParts) {
  const Result<Plan> plan = plan_from_json(example);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->phase, "9f31");
  EXPECT_EQ(plan->cap, 17179869184u);
  EXPECT_EQ(plan->bound_ms, 2120);
  ASSERT_EQ(plan->maps.size(), 3u);
  EXPECT_EQ(plan->maps[0].alternative, MapClass::swap);
  EXPECT_EQ(plan->maps[0].alternative_cost_ms, 1.5);
  EXPECT_EQ(plan->maps[1].moved, 134217728u);
  EXPECT_EQ(plan->maps[1].alternative_cost_ms, std::nullopt);
  EXPECT_EQ(plan->maps[2].by, (std::vector<std::int32_t>{41, 42}));
  const std::vector<PlanAction> replays{{PlanAction::Kind::replay, 41}, {PlanAction::Kind::replay, 42}};
  EXPECT_EQ(plan->before.at(231), replays);
  EXPECT_EQ(plan->after.at(44), (std::vector<PlanAction>{{PlanAction::Kind::evict, 17}}));
}

TEST(Plan, WrittenAndReadAgainIsTheSame) {
  const Result<Plan> plan = plan_from_json(example);
  ASSERT_TRUE(plan) << plan.error().message;
  const std::string text = to_json(*plan);
  const Result<Plan> again = plan_from_json(text);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(to_json(*again), text);
  EXPECT_NE(text.find("\"after\":{\n  \"44\":[\"evict 17\"],\n  \"45\":[\"drop 18\"]}"), std::string::npos)
      << text;
}

TEST(Plan, FetchesInPiecesAndKeepsWhatIsBrief) {
  std::string text =
      with(R"("210":["prefetch 17"])", R"("205":["prefetch 17 67108864"],"210":["prefetch 17"])");
  text.replace(text.find("\"why\":\"cheap\""), 0, "\"brief\":true,");
  const Result<Plan> plan = plan_from_json(text);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->before.at(205), (std::vector<PlanAction>{{PlanAction::Kind::prefetch, 17, 67108864}}));
  EXPECT_EQ(plan->before.at(210), (std::vector<PlanAction>{{PlanAction::Kind::prefetch, 17}}));
  EXPECT_TRUE(plan->maps[2].brief);
  const Result<Plan> again = plan_from_json(to_json(*plan));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->before, plan->before);
  EXPECT_TRUE(again->maps[2].brief);
}

// From the iteration before: the map is fetched before it leaves, or never.
TEST(Plan, WhatIsAwayAcrossTheEndIsFetchedBeforeItLeaves) {
  const auto across = [](const char* from, const char* to) {
    std::string text = with(from, to);
    text.replace(text.find("\"moved\":134217728"), 0, "\"across\":true,");
    return plan_from_json(text);
  };
  const Result<Plan> plan = across(R"("44":[)", R"("400":[)");
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_TRUE(plan->maps[1].across);
  const Result<Plan> again = plan_from_json(to_json(*plan));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_TRUE(again->maps[1].across);
  EXPECT_TRUE(across(R"("210":["prefetch 17"],)", ""));
  const Result<Plan> late = across("", "");
  ASSERT_FALSE(late);
  EXPECT_NE(late.error().message.find("/maps/1 is away across the iteration's end, and leaves before"),
            std::string::npos)
      << late.error().message;
}

TEST(Plan, SaysWhatLeavesAgain) {
  std::string text = with("", "");
  text.replace(text.find("\"moved\":134217728"), 0, "\"leaves_again\":true,");
  const Result<Plan> plan = plan_from_json(text);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_TRUE(plan->maps[1].leaves_again);
  const Result<Plan> again = plan_from_json(to_json(*plan));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_TRUE(again->maps[1].leaves_again);
}

TEST(Plan, NamesWhatReplaysAreMadeBy) {
  const Result<Plan> plan = plan_from_json(with("\"replay 41\"", "\"replay 41 one_fma\""));
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->before.at(231)[0].formula, Formula::one_fma);
  EXPECT_EQ(plan->before.at(231)[1].formula, std::nullopt);
  const Result<Plan> again = plan_from_json(to_json(*plan));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->before, plan->before);
  for (const char* const wrong : {"\"replay 41 guess\"", "\"replay 41 one_fma 3\"", "\"evict 41 one_fma\""})
    EXPECT_NE(plan_from_json(with("\"replay 41\"", wrong)).error().message.find("a formula's name"),
              std::string::npos);
}

TEST(Plan, SaysWhenWhatIsExpected) {
  std::string text = with("\"replay 41\"", "\"replay 41 one_fma at 1200.5 for 40.0\"");
  text.replace(text.find("\"prefetch 17\""), 13, "\"prefetch 17 4096 at 7.0 for 0.5\",\"prefetch 17\"");
  text.replace(text.find("\"evict 17\""), 10, "\"evict 17 at 0.0 for 1e0\"");
  EXPECT_FALSE(plan_from_json(text)) << "no exponents";
  text.replace(text.find("1e0"), 3, "1.0");
  text.replace(text.find("\"replay 41 one_fma"), 0, "\"start at 1300.0\",");
  text.replace(text.find("\"231\""), 0, "\"44\":[\"start at 12.5\"],");
  const Result<Plan> plan = plan_from_json(text);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->before.at(231)[0].formula, Formula::one_fma);
  EXPECT_EQ(plan->before.at(231)[0].time, (PlanTime{1200.5, 40}));
  EXPECT_EQ(plan->before.at(231)[1].time, std::nullopt);
  EXPECT_EQ(plan->before.at(210)[0].up_to, 4096u);
  EXPECT_EQ(plan->before.at(210)[0].time, (PlanTime{7, 0.5}));
  EXPECT_EQ(plan->after.at(44)[0].time, (PlanTime{0, 1}));
  EXPECT_EQ(plan->starts_us, (std::map<std::int32_t, double>{{44, 12.5}, {231, 1300}}));
  EXPECT_FALSE(plan->before.contains(44));
  const Result<Plan> again = plan_from_json(to_json(*plan));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->before, plan->before);
  EXPECT_EQ(again->after, plan->after);
  EXPECT_EQ(again->starts_us, plan->starts_us);
  for (const char* const wrong :
       {"\"evict 17 at 3.0\"", "\"evict 17 at -1.0 for 2.0\"", "\"evict 17 at 1.0 for nan\"",
        "\"evict 17 at 1.0 for 2.0 3\"", "\"evict 17 at 1.0 for 1000000000000000000.0\""})
    EXPECT_NE(plan_from_json(with("\"evict 17\"", wrong)).error().message.find("at 1.5 for 2.0"),
              std::string::npos)
        << wrong;
  EXPECT_FALSE(plan_from_json(with("\"drop 18\"", "\"drop 18 at 1.0 for 2.0\""))) << "takes no time";
  EXPECT_FALSE(plan_from_json(with("\"prefetch 17\"", "\"start at 1.0\",\"start at 2.0\"")));
  EXPECT_FALSE(plan_from_json(with("\"evict 17\"", "\"start at 1.0\""))) << "only before an op";
}

TEST(Plan, NamesOtherAlgorithms) {
  const std::string one =
      R"({"op":3,"name":"conv1 conv_forward","takes":"fft","instead_of":"gemm","ms":1.5,"instead_of_ms":2,)"
      R"("workspace":4096})";
  const auto reading = [](const std::string& list) {
    return plan_from_json(with("\"before\":", "\"algorithms\":" + list + ",\"before\":"));
  };
  const Result<Plan> plan = reading("[" + one + "]");
  ASSERT_TRUE(plan) << plan.error().message;
  ASSERT_EQ(plan->algorithms.size(), 1u);
  EXPECT_EQ(plan->algorithms[0].op, 3);
  EXPECT_EQ(plan->algorithms[0].takes, "fft");
  EXPECT_EQ(plan->algorithms[0].instead_of, "gemm");
  EXPECT_EQ(plan->algorithms[0].workspace, 4096u);
  const Result<Plan> again = plan_from_json(to_json(*plan));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(to_json(*again), to_json(*plan));
  EXPECT_EQ(reading("[" + one + "," + one + "]").error().message,
            "plan: /algorithms/1/op is 3: a position above that of the one in front of it, 3");
  EXPECT_EQ(reading("[7]").error().message, "plan: /algorithms/0 is 7: an object");
  EXPECT_EQ(reading("7").error().message, "plan: /algorithms is 7: a list");
  EXPECT_EQ(reading("[{}]").error().message, "plan: /algorithms/0/op is missing");
}

TEST(Plan, WithoutMapsIsAPlan) {
  Plan plan;
  plan.phase = "0";
  const Result<Plan> again = plan_from_json(to_json(plan));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_TRUE(again->before.empty());
}

struct Fault {
  const char *from, *to, *says;
};

TEST(Plan, SaysWhereAndWhatIsWrong) {
  const Fault faults[] = {
      {R"("schema":1)", R"("schema":2)", "/schema is 2: this pooch reads 1"},
      {R"("phase":"9f31",)", "", "/phase is missing"},
      {R"("cap":17179869184)", R"("cap":-1)", "/cap is -1: a whole number from 0 to"},
      {R"("cap":17179869184)", R"("cap":"much")", "/cap is \"much\": a whole number"},
      {R"("predicted_ms":2190.5)", R"("predicted_ms":-1)", "/predicted_ms is -1: a number from 0"},
      {R"("predicted_ms":2190.5)", R"("predicted_ms":1e300)", "/predicted_ms is 1e300: a number from 0"},
      {R"("class":"keep")", R"("class":"burn")", "/maps/0/class is \"burn\": one of keep, swap, recompute"},
      {R"("class":"keep")", R"("class":"keep","moved":1)", "/maps/0 is an object: a map with moved, if"},
      {R"("class":"keep")", R"("class":"keep","by":[1])", "/maps/0 is an object: a map with by, if"},
      {R"("alternative":"swap",)", "", "/maps/0 is an object: a map with both alternative and"},
      {R"("buffer":9)", R"("buffer":99999999999)", "/maps/0/buffer is 99999999999: a whole number"},
      {R"("buffer":9)", R"("buffer":30)", "/maps/1/buffer is 30: a buffer of its own, unlike /maps/0"},
      {R"("moved":134217728)", R"("moved":0)", "/maps/1/moved is 0: 1 to 205520896"},
      {R"("moved":134217728)", R"("moved":305520896)", "/maps/1/moved is 305520896: 1 to 205520896"},
      {R"("by":[41,42])", R"("by":[])", "/maps/2/by is empty: at least one op"},
      {R"("by":[41,42])", R"("by":[41,-2])", "/maps/2/by/1 is -2: a whole number"},
      {R"("by":[41,42])", R"("by":[42,41])", "/maps/2/by/1 is 41: a position from 43 on"},
      {R"("by":[41,42])", R"("by":[41,41])", "/maps/2/by/1 is 41: a position from 42 on"},
      {R"("by":[41,42])", R"("by":[40])", "/maps/2/by names op 40, which is not replayed"},
      {R"("map":17)", R"("map":4)", "/maps/1/map is 4: a number above"},
      {R"("210":[)", R"("x10":[)", "/before/x10 is no position"},
      {R"("210":[)", R"("-1":[)", "/before/-1 is no position"},
      {R"("210":[)", R"("0210":[)", "/before/0210 is no position"},
      {R"("210":[)", R"("4294967296":[)", "/before/4294967296 is no position"},
      {R"("210":[)", R"("2\u00310":[)", R"(/before/2\u00310 is no position)"},
      {R"("210":[)", R"("231":[)", "/before/231 appears twice"},
      {R"("prefetch 17")", "", "/before/210 is a list: a list of at least one action"},
      {R"("prefetch 17")", R"("prefetch")",
       "/before/210/0 is \"prefetch\": evict, prefetch, drop or replay and"},
      {R"("prefetch 17")", R"("prefetch 17x")", "/before/210/0 is \"prefetch 17x\""},
      {R"("prefetch 17")", R"("prefetch  17")", "/before/210/0 is \"prefetch  17\""},
      {R"("prefetch 17")", R"("prefetch 017")", "/before/210/0 is \"prefetch 017\""},
      {R"("prefetch 17")", R"("prefetch -17")", "/before/210/0 is \"prefetch -17\""},
      {R"("prefetch 17")", R"("prefetch 4294967313")", "/before/210/0 is \"prefetch 4294967313\""},
      {R"("prefetch 17")", R"("prefetch 19")", "/before/210/0 is \"prefetch 19\": the number of a map"},
      {R"("prefetch 17")", R"("prefetch 17","prefetch 17")",
       "/before/210/1 fetches a map that is back: one that is not"},
      {R"("prefetch 17")", R"("prefetch 17 0","prefetch 17")", "/before/210/0 is \"prefetch 17 0\""},
      {R"("prefetch 17")", R"("prefetch 17 4096")",
       "/maps/1 is of class swap, but leaves 1 times and is not fetched whole: one eviction"},
      {R"("prefetch 17")", R"("prefetch 17 4096","prefetch 17 4096")",
       "/before/210/1 fetches up to byte 4096: 4097 to 134217727, or no number"},
      {R"("prefetch 17")", R"("prefetch 17 134217728","prefetch 17")",
       "/before/210/0 fetches up to byte 134217728: 1 to 134217727"},
      {R"("evict 17")", R"("evict 17 4096")", "/after/44/0 is \"evict 17 4096\""},
      {R"("by":[41,42])", R"("by":[41,42],"brief":1)", "/maps/2/brief"},
      {R"("class":"keep")", R"("class":"keep","brief":true)", "/maps/0 is an object: a map with brief only"},
      {R"("class":"keep")", R"("class":"keep","leaves_again":true)",
       "/maps/0 is an object: a map with leaves_again only"},
      {R"("prefetch 17")", R"("prefetch 18")", "/before/210/0 is \"prefetch 18\": a map of class swap"},
      {R"("prefetch 17")", R"("evict 17")",
       "/before/210/0 is \"evict 17\": prefetch and replay before an op"},
      {R"("prefetch 17")", R"("drop 18")", "/before/210/0 is \"drop 18\": prefetch and replay before an op"},
      {R"("evict 17")", R"("prefetch 17")", "/after/44/0 is \"prefetch 17\": evict and drop after an op"},
      {R"("evict 17")", R"("replay 40")", "/after/44/0 is \"replay 40\": evict and drop after an op"},
      {R"("replay 41")", R"("replay 231")",
       "/before/231/0 is \"replay 231\": the replay of an op before op 231"},
      {R"("replay 41")", R"("replay 4000000000")", "/before/231/0 is \"replay 4000000000\""},
      {R"("evict 17")", R"("drop 17")", "/after/44/0 is \"drop 17\": a map of class recompute"},
      {R"("drop 18")", R"("evict 18")", "/after/45/0 is \"evict 18\": a map of class swap"},
      {R"("drop 18")", R"("drop 18","drop 4")", "/after/45/1 is \"drop 4\": a map of class recompute"},
      {R"("drop 18")", R"("drop 18","drop 18")", "/maps/2 is of class recompute, but leaves 2 times"},
      {R"("44":[)", R"("400":[)", "/maps/1 is fetched before it has left"},
      {R"("45":[)", R"("232":[)", "/maps/2/by names op 41, which is not replayed after"},
      {R"("after":{)", R"("later":{)", "/later is no field; accepted:"},
      {R"("why":"fits")", "\"why\":\"fits\npooch: error: not\"", "/maps/0/why: line"},
      {R"("why":"fits")", R"("why":"\u001b[31m")", "/maps/0/why: line 5, column"},
      {R"("why":"fits")", R"("why":"\u009b31m")", "/maps/0/why: line 5, column"},
  };
  for (const Fault& fault : faults) {
    const Result<Plan> plan = plan_from_json(with(fault.from, fault.to));
    ASSERT_FALSE(plan) << fault.to;
    EXPECT_EQ(plan.error().code, ErrorCode::invalid_argument);
    EXPECT_NE(plan.error().message.find(fault.says), std::string::npos) << plan.error().message;
    EXPECT_EQ(plan.error().message.find('\n'), std::string::npos);
  }
}

TEST(Plan, TextThatIsNoObjectIsRefused) {
  for (const char* text : {"", "[]", "{", "7", "{\"schema\":1}"}) EXPECT_FALSE(plan_from_json(text)) << text;
}

// However deep: in a value that is read, and in what a cache entry was made for, which is not.
TEST(Plan, NestedWithoutEndIsRefusedInOneLine) {
  constexpr std::size_t depth = 100'000;
  for (const char open : {'[', '{'}) {
    std::string deep;
    for (std::size_t i = 0; i < depth; ++i) deep += open == '[' ? "[" : "{\"a\":";
    for (const std::string& text :
         {deep, with(R"("cap":17179869184)", "\"cap\":" + deep), with(R"("maps":[)", "\"maps\":[" + deep),
          with(R"("before":{)", "\"before\":{\"1\":" + deep),
          with(R"({"schema":1)", "{\"made_for\":" + deep)}) {
      const Result<Plan> plan = plan_from_json(text);
      ASSERT_FALSE(plan);
      EXPECT_LT(plan.error().message.size(), 200u);
      EXPECT_EQ(plan.error().message.find('\n'), std::string::npos);
    }
  }
}

TEST(Plan, OfTheCacheSaysWhatItWasMadeFor) {
  const Result<Plan> plan =
      plan_from_json(with(R"({"schema":1)", R"({"made_for":{"phase":"9f31"},"schema":1)"));
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->phase, "9f31");
}

// Cut anywhere, it is an error and nothing worse.
TEST(Plan, EveryPrefixIsRefused) {
  const std::string text = example;
  for (std::size_t length = 0; length < text.size(); ++length)
    EXPECT_FALSE(plan_from_json(text.substr(0, length))) << length;
}

}  // namespace
}  // namespace pooch
