// Plans from a file and from planner processes that do all that a planner should not.
#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "tests/unit/runtime/plan_source_support.h"

namespace pooch::runtime {
namespace {

TEST_F(PlanSourceTest, APlannerWorksFromTheProfileAndItsPlanIsKept) {
  planner(R"(echo "$0 $*" > arguments; cp "$profile" seen.json; echo ran >> runs; cp good.json "$out")");
  {
    const auto source = open();
    const auto plan = ask(*source);
    ASSERT_TRUE(plan) << warnings();
    EXPECT_EQ(to_json(*plan), to_json(plan_for(phase)));
    EXPECT_FALSE(source->poll(phase)) << "a plan is handed out once";
    EXPECT_FALSE(source->pending(phase));
  }
  EXPECT_NE(read(root / "arguments")
                .find("plan /dev/fd/3 --phase 9f31 --policy hybrid --memory 4096 -o "
                      "/dev/fd/4\n"),
            std::string::npos)
      << read(root / "arguments");
  EXPECT_EQ(read(root / "seen.json"), to_json(test::random_profile(40, 1)));
  EXPECT_EQ(temporary_files(), 0u);

  const auto again = open();
  again->request(phase, []() -> Profile { throw "the cache has it"; }, {});
  const auto plan = again->poll(phase);
  ASSERT_TRUE(plan) << warnings();
  EXPECT_EQ(to_json(*plan), to_json(plan_for(phase)));
  EXPECT_EQ(read(root / "runs"), "ran\n");
  EXPECT_EQ(warnings(), "");
  // The entry is a plan file like others.
  ASSERT_EQ(cached().size(), 1u);
  EXPECT_TRUE(plan_from_json(read(cached()[0])));
}

TEST_F(PlanSourceTest, ThePlannerStandsByItself) {
  setenv("LD_PRELOAD", "", 1);
  setenv("POOCH_MEMORY_CAP", "1GiB", 1);
  const int leaked = fcntl(STDERR_FILENO, F_DUPFD, 40);  // without O_CLOEXEC
  ASSERT_EQ(leaked, 40);
  std::signal(SIGTERM, SIG_IGN);
  planner(
      R"(env > environment; nice > niceness; readlink /proc/self/fd/0 > stdin; to=$(readlink /proc/$$/fd/1); echo $to > stdout
    ls /proc/$$/fd > files; cut -d' ' -f6 /proc/$$/stat > session; echo $$ > id
    grep SigIgn /proc/self/status > ignored; grep SigBlk /proc/self/status > blocked; cp good.json "$out")");
  const auto source = open();
  EXPECT_TRUE(ask(*source)) << warnings();
  close(leaked);
  std::signal(SIGTERM, SIG_DFL);
  unsetenv("POOCH_MEMORY_CAP");
  EXPECT_EQ(read(root / "environment").find("LD_PRELOAD"), std::string::npos);
  EXPECT_EQ(read(root / "environment").find("POOCH_"), std::string::npos);
  EXPECT_NE(read(root / "environment").find("TMPDIR="), std::string::npos) << "the rest is handed on";
  EXPECT_EQ(read(root / "niceness"), std::to_string(std::min(getpriority(PRIO_PROCESS, 0) + 10, 19)) + "\n");
  EXPECT_EQ(read(root / "stdin"), "/dev/null\n");
  EXPECT_EQ(read(root / "stdout"), "/dev/null\n");
  EXPECT_EQ(read(root / "files").find("40"), std::string::npos) << "files are not inherited";
  EXPECT_EQ(read(root / "session"), read(root / "id")) << "its own session";
  EXPECT_EQ(read(root / "ignored"), "SigIgn:\t0000000000000000\n");
  EXPECT_EQ(read(root / "blocked"), "SigBlk:\t0000000000000000\n");
}

int children_ended = 0, forks_seen = 0;

TEST_F(PlanSourceTest, TheProgramNeverSeesAChild) {
  children_ended = forks_seen = 0;
  pthread_atfork([] { ++forks_seen; }, [] { ++forks_seen; }, [] { ++forks_seen; });
  std::signal(SIGCHLD, [](int) { ++children_ended; });
  planner(R"(until [ -e gate ]; do sleep 0.01; done; cp good.json "$out")");
  const auto source = open();
  source->request(phase, [] { return test::random_profile(40, 1); }, {});
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(source->poll(phase));
  EXPECT_TRUE(source->pending(phase));
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
  write(root / "gate", "");
  source->settle(phase);
  EXPECT_TRUE(source->poll(phase));
  EXPECT_EQ(waitpid(-1, nullptr, 0), -1);
  std::signal(SIGCHLD, SIG_DFL);
  EXPECT_EQ(children_ended, 0);
  EXPECT_EQ(forks_seen, 0);
}

TEST_F(PlanSourceTest, PlannersStartWhileOtherThreadsAllocateAndFork) {
  planner(R"(cp good.json "$out")");
  std::atomic<bool> stop{false};
  std::vector<std::thread> busy;
  for (int i = 0; i < 2; ++i) {
    busy.emplace_back([&] {
      while (!stop) delete[] new char[1000];
    });
  }
  busy.emplace_back([&] {
    while (!stop) {
      const pid_t child = fork();
      if (child == 0) _exit(0);
      waitpid(child, nullptr, 0);
    }
  });
  for (int i = 0; i < 20; ++i) {
    fs::remove_all(root / "cache");
    const auto source = open();
    EXPECT_TRUE(ask(*source)) << warnings();
  }
  stop = true;
  for (std::thread& each : busy) each.join();
  EXPECT_EQ(warnings(), "");
}

TEST_F(PlanSourceTest, AProgramThatClosedItsStandardFilesIsServed) {
  planner(R"(from=$(readlink /proc/$$/fd/0); to=$(readlink /proc/$$/fd/1); echo $from $to > files
    echo 'is heard' >&2)");
  const int kept[] = {dup(0), dup(1), dup(2)};
  for (int file = 0; file < 3; ++file) close(file);
  const auto source = open();
  const bool made = ask(*source).has_value();
  for (int file = 0; file < 3; ++file) {
    dup2(kept[file], file);
    close(kept[file]);
  }
  EXPECT_FALSE(made);
  EXPECT_EQ(read(root / "files"), "/dev/null /dev/null\n");
  expect_demand("planner: is heard\n");
}

TEST_F(PlanSourceTest, APlannerIsWaitedForAsLongAsIsAsked) {
  planner(R"(until [ -e gate ]; do sleep 0.01; done; cp good.json "$out")");
  auto source = open();
  EXPECT_TRUE(source->settle(phase, 0ms)) << "nobody was asked";
  source->request(phase, [] { return test::random_profile(40, 1); }, {});
  EXPECT_FALSE(source->settle(phase, 20ms));
  EXPECT_FALSE(source->poll(phase));
  write(root / "gate", "");
  EXPECT_TRUE(source->settle(phase, 30s));
  EXPECT_TRUE(source->poll(phase));
}

TEST_F(PlanSourceTest, APlannerThatDoesNotEndIsEnded) {
  planner("echo $$ > id; trap '' TERM HUP INT; while :; do :; done");
  const auto source = open(1);
  EXPECT_FALSE(ask(*source));
  expect_demand("took longer than 1 s");
  const pid_t id = std::stoi(read(root / "id"));
  for (int i = 0; i < 500 && fs::exists("/proc/" + std::to_string(id) + "/exe"); ++i)
    std::this_thread::sleep_for(10ms);
  std::error_code error;
  EXPECT_TRUE(fs::read_symlink("/proc/" + std::to_string(id) + "/exe", error).empty()) << "still running";
}

TEST_F(PlanSourceTest, AlarmsCannotBeTrappedAwayFromUs) {
  planner("echo $$ > id; trap '' ALRM; while :; do :; done");
  const auto source = open(1);
  EXPECT_FALSE(ask(*source));
  expect_demand("took longer than 1 s");
}

TEST_F(PlanSourceTest, APlannerThatIsKilled) {
  planner("kill -9 $$");
  const auto source = open();
  EXPECT_FALSE(ask(*source));
  expect_demand("planner ended without a plan");
  EXPECT_TRUE(cached().empty());
}

TEST_F(PlanSourceTest, APlannersOwnWordsAreHandedOn) {
  planner("echo 'pooch: error: plan: swap-all needs 5 GiB' >&2; echo more >&2; exit 2");
  const auto source = open();
  EXPECT_FALSE(ask(*source));
  expect_demand("planner: plan: swap-all needs 5 GiB\n");
}

TEST_F(PlanSourceTest, APlannerThatNeverStopsTalkingHoldsNobodyUp) {
  planner("yes 'out of cheese' >&2");
  const auto source = open(1);
  EXPECT_FALSE(ask(*source));
  expect_demand("planner: out of cheese\n");
}

TEST_F(PlanSourceTest, GarbageIsNoPlan) {
  planner(R"(echo '{"schema":1' > "$out")");
  const auto source = open();
  EXPECT_FALSE(ask(*source));
  expect_demand("plan: line 2, column 1: ',' or '}' is expected, but the text ends");
  EXPECT_TRUE(cached().empty());
}

TEST_F(PlanSourceTest, APlanForSomethingElseIsNoPlan) {
  write(root / "other.json", to_json(plan_for("beef")));
  planner(R"(cp other.json "$out")");
  const auto source = open();
  EXPECT_FALSE(ask(*source));
  expect_demand("its phase is 'beef', not '9f31'");
  EXPECT_TRUE(cached().empty());
}

// Results would be other bits.
Plan with_other_algorithms() {
  Plan plan = plan_for(phase);
  plan.algorithms.push_back({4, "conv1 conv_forward", "fft", "gemm", 1, 2, 0});
  return plan;
}

TEST_F(PlanSourceTest, APlanWithOtherAlgorithmsIsNoPlan) {
  write(root / "other.json", to_json(with_other_algorithms()));
  planner(R"(cp other.json "$out")");
  const auto source = open();
  EXPECT_FALSE(ask(*source));
  expect_demand("it gives convolutions other algorithms, which would change results");
  EXPECT_TRUE(cached().empty());
}

TEST_F(PlanSourceTest, APlanForAnotherStructureIsNoPlan) {
  planner(R"(cp good.json "$out")");
  const auto source = open();
  source->request(phase, [] { return test::random_profile(40, 1); }, {.structure = "5a"});
  source->settle(phase);
  EXPECT_FALSE(source->poll(phase));
  expect_demand("its structure is '', not '5a'");
}

TEST_F(PlanSourceTest, AfterThreeFailuresNoMorePlannersAreStarted) {
  planner("echo ran >> runs; exit 1");
  const auto source = open();
  for (const char* each : {"a", "b", "c", "d", "e"}) EXPECT_FALSE(ask(*source, each));
  EXPECT_EQ(read(root / "runs"), "ran\nran\nran\n");
  EXPECT_EQ(warning_count(), 3u);
  EXPECT_NE(warnings().find("no more plans are tried"), std::string::npos) << warnings();
}

TEST_F(PlanSourceTest, WithoutAPlannerOneLineSaysWhereItWasLookedFor) {
  fs::create_directories(root / "lib");
  const PlanTarget target{"lazy", 4096, 1 << 20};
  const auto source = std::move(*PlanSource::open(config, target, {.library_folder = root / "lib"}));
  EXPECT_FALSE(ask(*source, "a"));
  EXPECT_FALSE(ask(*source, "b"));
  EXPECT_EQ(warning_count(), 1u) << warnings();
  EXPECT_NE(warnings().find((root / "bin/pooch").string() + " or "), std::string::npos) << warnings();

  // An installed one is found.
  planner(R"(cp good.json "$out")");
  fs::create_directories(root / "bin");
  fs::rename(root / "planner", root / "bin/pooch");
  config.planner_program.clear();
  const auto served = std::move(*PlanSource::open(config, target, {.library_folder = root / "lib"}));
  EXPECT_TRUE(ask(*served)) << warnings();
}

TEST_F(PlanSourceTest, APlannerThatCannotBeRun) {
  config.planner_program = root / "none";
  EXPECT_FALSE(ask(*open()));
  EXPECT_NE(warnings().find("none, which POOCH_PLANNER names"), std::string::npos) << warnings();
  EXPECT_EQ(warning_count(), 1u);
}

TEST_F(PlanSourceTest, AProgramOfAnotherKindOfMachineIsNoPlanner) {
  planner("");
  write(config.planner_program,
        "\x7f"
        "ELF, but not for here");
  EXPECT_FALSE(ask(*open()));
  expect_demand("cannot be run: Exec format error");
}

TEST_F(PlanSourceTest, UnplannedPoliciesAskNobody) {
  planner(R"(echo ran >> runs; cp good.json "$out")");
  config.policy = Policy::demand;
  EXPECT_FALSE(ask(*open()));
  EXPECT_FALSE(fs::exists(root / "runs"));
  EXPECT_EQ(warnings(), "");
}

TEST_F(PlanSourceTest, EndingTheProgramEndsThePlanner) {
  planner("echo $$ > id; until [ -e gate ]; do sleep 0.01; done");
  const auto source = open();
  source->request(phase, [] { return test::random_profile(40, 1); }, {});
  for (int i = 0; i < 1000 && read(root / "id").empty(); ++i) std::this_thread::sleep_for(10ms);
  const std::string process = "/proc/" + std::to_string(std::stoi(read(root / "id"))) + "/exe";
  source->abandon();
  EXPECT_FALSE(source->poll(phase));
  std::error_code error;
  for (int i = 0; i < 500 && !fs::read_symlink(process, error).empty(); ++i)
    std::this_thread::sleep_for(10ms);
  EXPECT_TRUE(fs::read_symlink(process, error).empty());
  EXPECT_EQ(temporary_files(), 0u);
  EXPECT_EQ(warnings(), "");
}

// Whatever kills the program: it cannot do anything about it.
TEST_F(PlanSourceTest, AProgramThatIsKilledTakesThePlannerWithItAndLeavesNothing) {
  planner("echo $$ > id; exec sleep 100");
  const pid_t program = fork();
  if (program == 0) {
    const auto source = open();
    source->request(phase, [] { return test::random_profile(40, 1); }, {});
    for (int i = 0; i < 1000 && read(root / "id").empty(); ++i) std::this_thread::sleep_for(10ms);
    raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(program, &status, 0), program);
  ASSERT_FALSE(read(root / "id").empty());
  const pid_t id = std::stoi(read(root / "id"));
  std::error_code error;
  const std::string process = "/proc/" + std::to_string(id) + "/exe";
  for (int i = 0; i < 500 && !fs::read_symlink(process, error).empty(); ++i)
    std::this_thread::sleep_for(10ms);
  EXPECT_TRUE(fs::read_symlink(process, error).empty()) << "still running";
  EXPECT_EQ(temporary_files(), 0u);
}

TEST_F(PlanSourceTest, ReadingWhatAPlannerSaysDoesNotEndIt) {
  planner(R"(echo one >&2; sleep 0.3; echo two >&2; sleep 0.3; cp good.json "$out")");
  EXPECT_TRUE(ask(*open())) << warnings();
}

// ---- POOCH_PLAN

TEST_F(PlanSourceTest, APlanFileServesItsPhaseAndThePlannerTheOthers) {
  config.plan_file = root / "good.json";
  write(root / "b.json", to_json(plan_for("b")));
  planner(R"(echo ran >> runs; cp b.json "$out")");
  const auto source = open();
  const auto plan = ask(*source);
  ASSERT_TRUE(plan);
  EXPECT_EQ(to_json(*plan), to_json(plan_for(phase)));
  EXPECT_FALSE(fs::exists(root / "runs"));
  EXPECT_TRUE(ask(*source, "b")) << warnings();

  config.policy = Policy::demand;
  EXPECT_TRUE(ask(*open())) << "a file counts under every policy";
}

TEST_F(PlanSourceTest, APlanFileWithOtherAlgorithmsIsRefusedOnceAndTheProgramGoesOn) {
  write(root / "other.json", to_json(with_other_algorithms()));
  config.plan_file = root / "other.json";
  config.policy = Policy::demand;
  const auto source = open();
  EXPECT_FALSE(ask(*source));
  EXPECT_FALSE(ask(*source));
  EXPECT_NE(warnings().find(
                "gives 1 convolutions other algorithms, which would change results: it is not followed"),
            std::string::npos)
      << warnings();
  EXPECT_EQ(warning_count(), 1u) << warnings();
}

TEST_F(PlanSourceTest, APlanFileThatIsNoneIsABadSetting) {
  const PlanTarget target{"lazy", 4095, 1 << 20};
  const auto message = [&](const char* file) {
    config.plan_file = root / file;
    const auto source = PlanSource::open(config, target);
    EXPECT_FALSE(source);
    EXPECT_EQ(source.error().code, ErrorCode::invalid_argument);
    return source.error().message;
  };
  const std::string at = "POOCH_PLAN: '" + root.string();
  EXPECT_EQ(message("none.json"),
            at + "/none.json': No such file or directory: accepted are plans that `pooch plan` wrote");
  write(root / "bad.json", "{}");
  EXPECT_EQ(message("bad.json"),
            at + "/bad.json': plan: /schema is missing: accepted are plans that `pooch plan` wrote");
  ASSERT_EQ(mkfifo((root / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(message("pipe"), at + "/pipe': not a file: accepted are plans that `pooch plan` wrote");
  EXPECT_EQ(message("tmp"), at + "/tmp': not a file: accepted are plans that `pooch plan` wrote");
  EXPECT_EQ(
      message("good.json"),
      at + "/good.json': it was made for 4096 bytes of device memory: accepted are plans for at most 4095");
}

}  // namespace
}  // namespace pooch::runtime
