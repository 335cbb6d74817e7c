#include "core/profile.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <tuple>

#include "core/profile_check.h"
#include "tests/support/random_profile.h"
#include "tests/support/walk_profile.h"

namespace pooch {

// Every field of the header: what the writer forgets, or the reader, differs here.
static auto fields(const ProfileBuffer& b) {
  return std::tie(b.bytes, b.managed, b.from, b.until);
}
static auto fields(const ProfileVersion& v) {
  return std::tie(v.buffer, v.offset, v.bytes, v.producer, v.readers, v.role);
}
static auto fields(const ProfileOp& o) {
  return std::tie(o.key, o.function, o.kind, o.stream, o.us, o.gap_us, o.outlier, o.reads, o.writes,
                  o.scratch, o.shape, o.filter, o.window, o.mode, o.site, o.trials, o.algorithm,
                  o.substitute);
}
static auto fields(const Module& m) {
  return std::tie(m.path, m.build_id);
}
static auto fields(const CallFrame& f) {
  return std::tie(f.module, f.offset);
}
static auto fields(const CallSite& s) {
  return std::tie(s.frames, s.python);
}
static auto fields(const Algorithm& a) {
  return std::tie(a.name, a.us, a.workspace);
}
static auto fields(const Trials& t) {
  return std::tie(t.algorithms);
}
static auto fields(const ProfileCopy& c) {
  return std::tie(c.before, c.to_device, c.bytes, c.stream, c.us, c.version);
}
static auto fields(const MemoryEvent& e) {
  return std::tie(e.before, e.buffer, e.allocated);
}
static auto fields(const Layer& l) {
  return std::tie(l.name, l.kind, l.inputs, l.output, l.shape, l.bytes, l.window, l.forward, l.backward,
                  l.forward_us, l.backward_us);
}
static auto fields(const Map& m) {
  return std::tie(m.name, m.bytes, m.kept, m.memory, m.versions);
}
static auto fields(const LayerGraph::Edge& e) {
  return std::tie(e.from, e.to);
}
static auto fields(const LinkSample& s) {
  return std::tie(s.to_device, s.bytes, s.us, s.both_ways);
}
static auto fields(const PhaseProfile& p) {
  return std::tie(p.id, p.kind, p.seen, p.measured, p.iteration_us, p.turn, p.functions, p.buffers,
                  p.versions, p.ops, p.copies, p.memory, p.graph.layers, p.graph.maps, p.graph.edges);
}
static auto fields(const Profile& p) {
  return std::tie(p.schema, p.device, p.device_bytes, p.cap_bytes, p.host_budget_bytes, p.need_bytes,
                  p.outside_bytes, p.policy, p.timer, p.iterations, p.ops, p.link, p.modules, p.sites,
                  p.trials, p.phases);
}
// Not a friend of the structs: the product compares none of them.
template <class T>
auto operator==(const T& a, const T& b) -> decltype(fields(a) == fields(b)) {
  return fields(a) == fields(b);
}

namespace {

using nlohmann::json;

Profile small() {
  return test::random_profile(40, 3);
}

std::string error_of(std::string_view text) {
  const auto read = profile_from_json(text);
  if (read) return "no error";
  EXPECT_EQ(read.error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(read.error().message.find('\n'), std::string::npos) << "one line";
  return read.error().message;
}

// The error after `value` is put at `path` of a good profile. The keys are then in alphabetical order.
std::string error_with(const std::string& path, const json& value) {
  json whole = json::parse(to_json(small()));
  whole[json::json_pointer(path)] = value;
  return error_of(whole.dump());
}

std::string error_without(const std::string& path) {
  json whole = json::parse(to_json(small()));
  const json::json_pointer pointer(path);
  whole.at(pointer.parent_pointer()).erase(pointer.back());
  return error_of(whole.dump());
}

// One with nothing at its default.
Profile full() {
  Profile profile = small();
  profile.iterations = 12;
  PhaseProfile& phase = profile.phases[0];
  phase.ops[0].stream = 3;
  phase.ops[0].gap_us = 0.125;
  phase.ops[0].outlier = true;
  phase.ops[0].mode = "käse \"\\/";
  phase.ops[0].window = {3, {3, 4, 5}, {1, 2, 3}, {0, 1, 2}, {1, 1, 2}, 32};
  phase.ops[0].shape = {8, 2, {1, 2, 3, 4, 5, 6, 7, 8}};
  phase.ops[0].scratch = {0};
  const std::uint32_t made = phase.ops[3].writes[0];
  phase.ops[0].substitute = {{{0, 1}, {made}, 3, Clip::drops_nan, Formula::one_fma, 12.5}};
  phase.copies[0].stream = 2;
  phase.graph.layers[0].shape = {5, 4, {1, 2, 3, 4, 5}};
  return profile;
}

TEST(Profile, SurvivesItsOwnJson) {
  for (std::size_t ops = 0; ops < 60; ++ops) {
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
      const Profile profile = test::random_profile(ops, seed);
      ASSERT_EQ(profile.phases[0].ops.size(), ops);
      const auto read = profile_from_json(to_json(profile));
      ASSERT_TRUE(read) << ops << " ops, seed " << seed << ": " << read.error().message;
      ASSERT_TRUE(*read == profile) << ops << " ops, seed " << seed;
      test::walk(*read);
    }
  }
}

TEST(Profile, KeepsEveryField) {
  for (const Profile& profile : {Profile{}, full()}) {
    const auto read = profile_from_json(to_json(profile));
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_TRUE(*read == profile);
  }
}

TEST(Profile, EqualArgumentsMakeEqualRandomProfiles) {
  EXPECT_TRUE(test::random_profile(200, 7) == test::random_profile(200, 7));
  EXPECT_FALSE(test::random_profile(200, 7) == test::random_profile(200, 8));
}

TEST(Profile, ReadsKeysInAnyOrderAndWithAnySpace) {
  const Profile profile = full();
  const auto read = profile_from_json(json::parse(to_json(profile)).dump(3));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_TRUE(*read == profile);
}

TEST(Profile, HasOneOpPerLine) {
  const std::string text = to_json(small());
  const auto at = text.find("\n{\"id\":17,\"key\":\"");
  ASSERT_NE(at, std::string::npos);
  const json op = json::parse(text.substr(at, text.find(",\n", at) - at));
  EXPECT_EQ(op["id"], 17);
  EXPECT_EQ(op["key"].get<std::string>().size(), 16u);
  EXPECT_FALSE(op.contains("stream")) << "what is usual is left out";
}

TEST(Profile, WritesOnlyWhatItCanRead) {
  Profile profile = small();
  profile.device = "a\nb\tc\x7f \xff\xc0\xaf \xed\xa0\x80 é";
  const auto read = profile_from_json(to_json(profile));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->device, "a?b?c? ??? ??? é");
}

TEST(Profile, SaysWhichTimeIsNone) {
  Profile profile = small();
  profile.phases[0].ops[4].us = std::nan("");
  EXPECT_EQ(error_of(to_json(profile)), "/phases/0/ops/4/us is null: a number from 0 to 1000000000000000");
}

TEST(ProfileErrors, AnotherSchemaIsNamedWhateverElseThereIs) {
  EXPECT_EQ(error_of(R"({"schema":7})"), "schema is 7; this pooch reads 1");
  EXPECT_EQ(error_of(R"({"new":[{"a":null,"b":[1.5e3,true,"x\n\""]}],"schema":2,"more":1})"),
            "schema is 2; this pooch reads 1");
  EXPECT_EQ(error_with("/schema", "1"), "/schema is \"1\": a whole number from 0 to 2147483647");
  EXPECT_EQ(error_without("/schema"), "/schema is missing");
}

struct Damage {
  const char* path;
  json value;
  const char* message;
};

TEST(ProfileErrors, NameThePathTheValueAndWhatIsAccepted) {
  const Damage damages[] = {
      {"/device", 3, "/device is 3: a text in quotes"},
      {"/ops", -1, "/ops is -1: a whole number from 0 to 9007199254740992"},
      {"/ops", 1.5, "/ops is 1.5: a whole number from 0 to 9007199254740992"},
      {"/cap_bytes", 18446744073709551615u,
       "/cap_bytes is 18446744073709551615: a whole number from 0 to 1125899906842624"},
      {"/phases", {{"a", 1}}, "/phases is an object: a list"},
      {"/phases/0", json::array(), "/phases/0 is a list: an object"},
      {"/link/2/to", "disk", "/link/2/to is \"disk\": \"device\" or \"host\""},
      {"/link/2/both_ways", 1, "/link/2/both_ways is 1: true or false"},
      {"/phases/0/ops/3/us", -0.5, "/phases/0/ops/3/us is -0.5: a number from 0 to 1000000000000000"},
      {"/phases/0/ops/3/us", 1e300, "/phases/0/ops/3/us is 1e+300: a number from 0 to 1000000000000000"},
      {"/phases/0/ops/3/id", 4, "/phases/0/ops/3/id is 4: its place in the list, 3"},
      {"/phases/0/ops/3/key", "xyz", "/phases/0/ops/3/key is \"xyz\": up to 16 hexadecimal digits in quotes"},
      {"/phases/0/ops/3/key", "11223344556677889", "/phases/0/ops/3/key is \"11223344556677889\": up to 16"},
      {"/phases/0/ops/3/kind", "conv", "/phases/0/ops/3/kind is \"conv\": a kind of op: conv_forward, conv_"},
      {"/phases/0/ops/3/stream", 70000, "/phases/0/ops/3/stream is 70000: a whole number from 0 to 65535"},
      {"/phases/0/ops/3/colour", "red", "/phases/0/ops/3/colour is no field; accepted: id, key, "},
      {"/phases/0/versions/2/role", "x",
       "/phases/0/versions/2/role is \"x\": a role: feature_map, activation"},
      {"/phases/0/versions/2/bytes", 0, "/phases/0/versions/2/bytes is 0: a whole number from 1 to"},
      {"/phases/0/ops/0/shape/sizes",
       {1, 2, 3, 4, 5, 6, 7, 8, 9},
       "/phases/0/ops/0/shape/sizes/8 is 9: one size too many, 8 are accepted"},
      {"/phases/0/ops/0/shape/sizes",
       {1 << 30, 1 << 30},
       "/phases/0/ops/0/shape is an object: a shape of at most 1125899906842624 bytes"},
      {"/phases/0/ops/0/window/size",
       {1, 2, 3, 4},
       "/phases/0/ops/0/window/size/3 is 4: one number too many, 3 are accepted"},
      {"/phases/0/ops/0/window/size",
       {3},
       "/phases/0/ops/0/window is an object: a window whose lists are of"},
      {"/phases/0/memory/0/free", 1,
       "/phases/0/memory/0 is an object: an object with either allocate or free"},
      {"/phases/0/edges/1", {0, 1, 2}, "/phases/0/edges/1 is a list: a list of two layers"},
      {"/sites/0/frames/1", {1}, "/sites/0/frames/1 is a list: a list of a module and an offset"},
  };
  for (const Damage& damage : damages) {
    const std::string message = error_with(damage.path, damage.value);
    EXPECT_EQ(message.substr(0, std::string_view(damage.message).size()), damage.message) << message;
  }
  EXPECT_EQ(error_without("/phases/0/ops/3/us"), "/phases/0/ops/3/us is missing");
  EXPECT_EQ(error_without("/phases/0/id"), "/phases/0/id is missing");
}

// What a consumer would follow: each kind of index and order.
TEST(ProfileErrors, NoIndexLeadsOutside) {
  const Profile good = small();
  const PhaseProfile& phase = good.phases[0];
  const auto below = [](const char* what, std::size_t count) {
    return fmt::format("{}'s index, below {}", what, count);
  };
  const std::tuple<std::string, json, std::string> damages[] = {
      {"/ops/1/reads/1", 900000, below("a version", phase.versions.size())},
      {"/ops/1/writes/0", 900000, below("a version", phase.versions.size())},
      {"/ops/1/function", 99, below("a function", phase.functions.size())},
      {"/ops/0/scratch", {99}, "0 is 99: " + below("a buffer", phase.buffers.size())},
      {"/versions/1/buffer", 4000000000u, below("a buffer", phase.buffers.size())},
      {"/versions/1/offset", 1u << 30, "a region inside buffer 1"},
      {"/versions/2/producer", 40, "a position, below 40"},
      {"/versions/1/readers/0", 40, "a position, below 40"},
      {"/buffers/2/from", 41, "a position, at most 40"},
      {"/turn", 40, "a position, below 40"},
      {"/measured", 1000, "at most the"},
      {"/copies/0/before", 41, "a position, at most 40"},
      {"/copies/0/version", 1000, below("a version", phase.versions.size())},
      {"/memory/0/before", 41, "a position, at most 40"},
      {"/memory/0/allocate", 1000, below("a buffer", phase.buffers.size())},
      {"/layers/1/inputs/0", 1000, below("a map", phase.graph.maps.size())},
      {"/layers/1/output", 1000, below("a map", phase.graph.maps.size())},
      {"/layers/1/forward/0", 40, "a position, below 40"},
      {"/layers/1/backward/0", 40, "a position, below 40"},
      {"/maps/1/memory", 1000, below("a map", phase.graph.maps.size())},
      {"/maps/1/versions/0", 1000, below("a version", phase.versions.size())},
      {"/edges/0/0", 1000, below("a layer", phase.graph.layers.size())},
      {"/edges/0/1", 1000, below("a layer", phase.graph.layers.size())},
  };
  for (const auto& [path, value, accepted] : damages) {
    const std::string message = error_with("/phases/0" + path, value);
    EXPECT_EQ(message.rfind("/phases/0" + path, 0), 0u) << message;
    EXPECT_NE(message.find(accepted), std::string::npos) << path << ": " << message;
  }
}

// In words of the profile instead of its text.
std::string checked(const std::function<void(PhaseProfile&)>& damage) {
  Profile profile = small();
  EXPECT_TRUE(check(profile));
  damage(profile.phases[0]);
  const Status status = check(profile);
  return status ? "no error" : status.error().message;
}

TEST(ProfileErrors, NoSiteLeadsOutside) {
  const auto modules = std::to_string(small().modules.size()), sites = std::to_string(small().sites.size());
  EXPECT_EQ(error_with("/sites/1/frames/0/0", 900),
            "/sites/1/frames/0/0 is 900: a module's index, of which there are " + modules);
  EXPECT_EQ(error_with("/phases/0/ops/2/site", 900),
            "/phases/0/ops/2/site is 900: a site's index, below " + sites);
}

TEST(ProfileErrors, TrialsOfAlgorithmsAreThoseThatAreThere) {
  EXPECT_EQ(error_with("/phases/0/ops/0/trials", 9), "/phases/0/ops/0/trials is 9: a trial's index, below 2");
  EXPECT_EQ(error_with("/phases/0/ops/0/algorithm", 7),
            "/phases/0/ops/0/algorithm is 7: an algorithm's index, below 2");
  EXPECT_EQ(error_without("/phases/0/ops/0/trials"),
            "/phases/0/ops/0/algorithm is 0: an algorithm's index, but there is none");
  EXPECT_EQ(error_with("/trials/0/algorithms/2/name", "gemm"),
            "/trials/0/algorithms/2/name is \"gemm\": unlike that of algorithm 0");
  EXPECT_EQ(error_with("/trials/1/algorithms/0/us", -1).substr(0, 36),
            "/trials/1/algorithms/0/us is -1: a n");
  EXPECT_EQ(error_with("/trials/1/algorithms/0/workspace", -1).substr(0, 40),
            "/trials/1/algorithms/0/workspace is -1: ");
  EXPECT_EQ(error_without("/trials/0/algorithms/0/us"), "/trials/0/algorithms/0/us is missing");
  EXPECT_EQ(error_with("/trials/0/algorithms", json::array()),
            "/trials/0/algorithms is empty: at least one algorithm");
}

TEST(ProfileErrors, ASubstituteMakesWhatItsOpOrTheOneBehindItMakes) {
  const PhaseProfile good = small().phases[0];
  const json of_op = {{"makes", {good.ops[3].writes[0]}}};
  const auto error = [&](json changes) {
    json substitute = of_op;
    substitute.update(changes);
    return error_with("/phases/0/ops/3/substitute", substitute);
  };
  const std::string path = "/phases/0/ops/3/substitute";
  EXPECT_EQ(error(json::object()), "no error");
  EXPECT_EQ(error({{"through", 3}, {"clip", "keeps_nan"}}).substr(0, path.size() + 37),
            path + "/through is 3: a position behind 3, b");
  EXPECT_EQ(error({{"through", 4}}), path + "/through is 4: a position with a clip, and none without");
  EXPECT_EQ(error({{"reads", {900000}}}).substr(0, path.size() + 30),
            path + "/reads/0 is 900000: a version'");
  EXPECT_EQ(error({{"makes", {good.ops[4].writes[0]}}}).find(path + "/makes/0 is "), 0u);
  EXPECT_EQ(error({{"formula", "guess"}}), path +
                                               "/formula is \"guess\": one of scaled_then_fma, "
                                               "normalised_then_fma, centred_then_fma, one_fma");
  EXPECT_EQ(error({{"clip", "all"}}), path + "/clip is \"all\": one of none, keeps_nan, drops_nan");
}

TEST(ProfileErrors, OpsAndVersionsAgree) {
  EXPECT_EQ(checked([](PhaseProfile& p) {
              p.versions[0].readers.insert(p.versions[0].readers.begin(), 39);
            }).substr(0, 52),
            "/phases/0/versions/0/readers/1 is 0: after the reade");
  EXPECT_EQ(checked([](PhaseProfile& p) { p.ops[3].reads.pop_back(); }).find("/phases/0/versions/"), 0u);
  EXPECT_NE(checked([](PhaseProfile& p) { p.ops[3].reads.pop_back(); }).find("that has it among its reads"),
            std::string::npos);
  EXPECT_NE(checked([](PhaseProfile& p) { p.ops[3].writes.clear(); }).find("that has it among its writes"),
            std::string::npos);
  EXPECT_NE(checked([](PhaseProfile& p) { p.ops[3].reads.push_back(p.ops[3].reads[0]); }).find("once in the"),
            std::string::npos);
  EXPECT_NE(
      checked([](PhaseProfile& p) { p.ops[3].writes.push_back(p.ops[3].writes[0]); }).find("once in the"),
      std::string::npos);
  EXPECT_NE(checked([](PhaseProfile& p) {
              p.versions[p.ops[3].writes[0]].producer = 4;
            }).find("after its producer at 4"),
            std::string::npos)
      << "a reader before the producer";
}

TEST(ProfileErrors, MemoryAndBuffersAgree) {
  const auto has = [](const std::string& message, const char* part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  has(checked([](PhaseProfile& p) { p.memory.pop_back(); }), "a position with such an event in memory");
  has(checked([](PhaseProfile& p) { p.memory.push_back(p.memory.back()); }), "that has no such event yet");
  has(checked([](PhaseProfile& p) { std::swap(p.memory.front(), p.memory.back()); }),
      "that is allocated before");
  has(checked([](PhaseProfile& p) { --p.memory.back().before; }), "a buffer with until");
  has(checked([](PhaseProfile& p) { ++p.buffers[p.memory[0].buffer].from; }), "while buffer");
  has(checked([](PhaseProfile& p) { p.buffers[p.memory[0].buffer].until = 0; }), "buffer");
}

TEST(ProfileErrors, TheGraphHasNoCycle) {
  EXPECT_EQ(checked([](PhaseProfile& p) {
              p.graph.edges[1] = {1, 1};
            }),
            "/phases/0/edges/1/1 is 1: a later layer than 1");
  EXPECT_EQ(
      checked([](PhaseProfile& p) { p.graph.layers[1].inputs = {3}; }),
      "/phases/0/layers/1/inputs/0 is 3: a map that an earlier layer makes, or an input of the network");
  EXPECT_EQ(checked([](PhaseProfile& p) { p.graph.layers[2].output = 1; }),
            "/phases/0/layers/2/output is 1: a map that no earlier layer makes");
  EXPECT_EQ(checked([](PhaseProfile& p) { p.graph.maps[1].memory = 2, p.graph.maps[2].memory = 1; }),
            "/phases/0/maps/1/memory is 2: a map that has its own memory");
  Profile twice = small();
  twice.phases[1].id = twice.phases[0].id;
  EXPECT_NE(error_of(to_json(twice)).find(": unlike that of /phases/0"), std::string::npos);
}

TEST(ProfileErrors, WhatIsNoJsonSaysWhere) {
  EXPECT_EQ(error_of(""), "the text is empty: an object");
  EXPECT_EQ(error_of(" \n"), "the text is empty: an object");
  EXPECT_EQ(error_of("null"), "the text is null: an object");
  EXPECT_EQ(error_of("[]"), "the text is a list: an object");
  EXPECT_EQ(error_of("{\"schema\":1,\n  \"device\":\"v\"\n  \"ops\""),
            "line 3, column 3: ',' or '}' is expected");
  EXPECT_EQ(error_of("{\"schema\":1,\"link\":[{\"to\":\"host\""),
            "/link/0: line 1, column 33: ',' or '}' is expected, but the text ends");
  EXPECT_EQ(error_of(R"({"schema":1,"schema":1})"), "/schema appears twice");
  EXPECT_EQ(error_of(R"({"schema":01})"), "/schema is 01: a whole number from 0 to 2147483647");
  EXPECT_EQ(error_of(R"({"schema":1,"device":"\u0007"})").substr(0, 33), "/device: line 1, column 24: the c");
  EXPECT_EQ(error_of("{\"schema\":1,\"device\":\"\xc0\xaf\"}").substr(0, 33),
            "/device: line 1, column 23: UTF-8");
  EXPECT_EQ(error_of(to_json(small()) + "x").find("line "), 0u);
  const std::string deep(100000, '[');
  EXPECT_NE(error_of("{\"deep\":" + deep), "no error");
  EXPECT_NE(error_of("{\"schema\":1,\"phases\":" + deep), "no error");
}

TEST(ProfileErrors, UnicodeEscapesAreRead) {
  json whole = json::parse(to_json(small()));
  whole["device"] = "é€😀\"";
  const auto read = profile_from_json(whole.dump(-1, ' ', /*ensure_ascii=*/true));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->device, "é€😀\"");
  for (const char* half : {R"(\ud83d)", R"(\ude00)", R"(\ud83d\u0041)", R"(\u00g0)", R"(\u12)", R"(\x)"})
    EXPECT_NE(error_of(fmt::format(R"({{"schema":1,"device":"{}"}})", half)), "no error") << half;
}

TEST(ProfileErrors, EveryBeginningOfAProfileIsIncomplete) {
  const std::string text = to_json(test::random_profile(12, 6));
  for (std::size_t size = 0; size < text.size() - 2; ++size)
    ASSERT_NE(error_of(text.substr(0, size)), "no error") << size << " bytes";
}

TEST(ProfileErrors, AChangedByteIsRefusedOrHarmless) {
  const std::string text = to_json(test::random_profile(12, 6));
  const std::string values =
      "09-.eE\"\\{}[],: \n\x01\x80\xff"
      "atn";
  int accepted = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::string changed = text;
    changed[at] = values[at % values.size()];
    if (const auto read = profile_from_json(changed)) {
      ++accepted;
      ASSERT_NO_THROW(test::walk(*read)) << at;
    }
  }
  EXPECT_GT(accepted, 0) << "a digit of a time, at least";
}

TEST(Profile, AHundredThousandOpsAreReadSoon) {
  const std::string text = to_json(test::random_profile(100000, 1));
  const auto start = std::chrono::steady_clock::now();
  const auto read = profile_from_json(text);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  ASSERT_TRUE(read) << read.error().message;
  fmt::print("read {} MB in {:.3f} s\n", text.size() / 1000000, taken.count());
  // 0.5 s is the goal without sanitizers on a quiet machine: ./dev bench measures it.
  EXPECT_LT(taken.count(), 10);
}

}  // namespace
}  // namespace pooch
