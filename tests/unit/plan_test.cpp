#include "core/plan.h"

#include <gtest/gtest.h>

#include <string>

namespace pooch {
namespace {

constexpr const char* example = R"({"schema":1,"phase":"9f31","device":"v100-pcie3","policy":"hybrid",
 "cap":17179869184,"seed":3,"backing":"alias","in_core_ms":2000,"predicted_ms":2190.5,"bound_ms":2120,
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
            "plan: /algorithms/1/op is not above the one before it");
  EXPECT_EQ(reading("[7]").error().message, "plan: /algorithms/0 is 7");
  EXPECT_EQ(reading("7").error().message, "plan: /algorithms is 7");
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
      {R"("schema":1)", R"("schema":2)", "/schema is 2"},
      {R"("phase":"9f31",)", "", "/phase is missing"},
      {R"("cap":17179869184)", R"("cap":-1)", "/cap is -1"},
      {R"("cap":17179869184)", R"("cap":"much")", "/cap is \"much\""},
      {R"("backing":"alias")", R"("backing":"magic")", "/backing is \"magic\", not remap or alias"},
      {R"("predicted_ms":2190.5)", R"("predicted_ms":-1)", "/predicted_ms is -1"},
      {R"("class":"keep")", R"("class":"burn")", "/maps/0/class is \"burn\", not keep or swap or recompute"},
      {R"("buffer":9)", R"("buffer":99999999999)", "/maps/0/buffer is 99999999999"},
      {R"("moved":134217728)", R"("moved":0)", "/maps/1/moved is 0 of"},
      {R"("moved":134217728)", R"("moved":305520896)", "/maps/1/moved is 305520896 of"},
      {R"("by":[41,42])", R"("by":[])", "/maps/2/by is []"},
      {R"("by":[41,42])", R"("by":[41,-2])", "/maps/2/by/1 is -2"},
      {R"("by":[41,42])", R"("by":[40])", "names op 40, which is not replayed"},
      {R"("map":17)", R"("map":4)", "/maps/1/map is not above"},
      {R"("210":[)", R"("x10":[)", "/before/x10 is no position"},
      {R"("210":[)", R"("-1":[)", "/before/-1 is no position"},
      {R"("prefetch 17")", R"("prefetch")", "/before/210/0 is \"prefetch\""},
      {R"("prefetch 17")", R"("prefetch 17x")", "/before/210/0 is \"prefetch 17x\""},
      {R"("prefetch 17")", R"("prefetch 19")", "there is no map 19"},
      {R"("prefetch 17")", R"("prefetch 17","prefetch 17")",
       "/maps/1 is of class swap, but leaves 1 times and is fetched 2"},
      {R"("evict 17")", R"("drop 17")", "/maps/1 is of class swap, but there is \"drop 17\""},
      {R"("drop 18")", R"("evict 18")", "/maps/2 is of class recompute, but there is \"evict 18\""},
      {R"("drop 18")", R"("drop 18","drop 4")", "/maps/0 is of class keep, but leaves 1"},
      {R"("44":[)", R"("400":[)", "/maps/1 is fetched before it has left"},
      {R"("45":[)", R"("232":[)", "names op 41, which is not replayed after"},
      {R"("after":{)", R"("later":{)", "/after is missing"},
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

// Cut anywhere, it is an error and nothing worse.
TEST(Plan, EveryPrefixIsRefused) {
  const std::string text = example;
  for (std::size_t length = 0; length < text.size(); ++length)
    EXPECT_FALSE(plan_from_json(text.substr(0, length))) << length;
}

}  // namespace
}  // namespace pooch
