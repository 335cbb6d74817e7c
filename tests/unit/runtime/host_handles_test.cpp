// Another process tries handles of host memory, here a shell script; what is kept of its answer.
#include "runtime/processes/host_handles.h"

#include <sys/stat.h>

#include "tests/unit/runtime/plan_source_support.h"

namespace pooch::runtime {
namespace {

constexpr const char* works = "echo 'host handles work' >&2";
constexpr const char* crashes = "echo 'the driver crashes when it is asked for a handle of host memory' >&2";

class HostHandles : public PlanSourceTest {
 protected:
  void SetUp() override {
    PlanSourceTest::SetUp();
    write(root / "libcuda.so.1", "a driver");
    device.name = "a device", device.host_handles = true;
    device.bus_id = "0000:3b:00.0", device.driver = root / "libcuda.so.1";
  }
  void process(const std::string& body) {
    const fs::path script = root / "pooch";
    write(script, "#!/bin/sh\necho \"$*\" >> " + (root / "asked").string() + "\n" + body + "\n");
    fs::permissions(script, fs::perms::owner_all);
  }
  // Empty: they work.
  std::string trial(unsigned seconds = 20) {
    const Status done = try_host_handles(device, CacheFolder(root / "cache"), {seconds, root});
    return done ? "" : done.error().message;
  }
  std::size_t asked() {
    const std::string all = read(root / "asked");
    return static_cast<std::size_t>(std::count(all.begin(), all.end(), '\n'));
  }
  std::vector<fs::path> kept() {
    std::vector<fs::path> all;
    for (const auto& entry : fs::directory_iterator(root / "cache")) all.push_back(entry.path());
    return all;
  }

  DeviceInfo device{};
};

TEST_F(HostHandles, WorkIsWhatOneProcessSaysForAllThatFollow) {
  process(works);
  EXPECT_EQ(trial(), "");
  EXPECT_EQ(read(root / "asked"), "doctor --host-handles 0000:3b:00.0\n");
  process(crashes);
  EXPECT_EQ(trial(), "");
  EXPECT_EQ(asked(), 1u);
}

TEST_F(HostHandles, ACrashIsKeptToo) {
  process(std::string("echo 'words of the driver' >&2\n") + crashes);
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(trial(), "the driver crashes when it is asked for a handle of host memory");
  EXPECT_EQ(asked(), 1u);
  ASSERT_EQ(kept().size(), 1u);
  struct stat facts {};
  ASSERT_EQ(stat(kept()[0].c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 07777, 0600u);
}

TEST_F(HostHandles, AnotherDriverOrDeviceIsAskedAgain) {
  process(crashes);
  EXPECT_NE(trial(), "");
  process(works);
  write(root / "libcuda.so.1", "a newer driver");
  EXPECT_EQ(trial(), "");
  device.name = "another device";
  EXPECT_EQ(trial(), "");
  EXPECT_EQ(asked(), 3u);
  EXPECT_EQ(kept().size(), 3u);
}

TEST_F(HostHandles, ARefusalIsNotKept) {
  process("echo 'pooch: error: no handle of host memory: cuMemCreate fails with 801' >&2; exit 3");
  for (int i = 0; i < 2; ++i) EXPECT_EQ(trial(), "no handle of host memory: cuMemCreate fails with 801");
  EXPECT_EQ(asked(), 2u);
  EXPECT_TRUE(kept().empty());
}

TEST_F(HostHandles, WhoIsKilledTellsNothing) {
  process("kill -KILL $$");
  EXPECT_EQ(trial(), "who tried handles of host memory ended without a word");
  EXPECT_TRUE(kept().empty());
}

TEST_F(HostHandles, AHungDriverHoldsTheProgramUpForALimitedTime) {
  process("sleep 100");
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_EQ(trial(1), (root / "pooch").string() + " got no handle of host memory from the driver in 1 s");
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 10s);
  EXPECT_TRUE(kept().empty());
}

TEST_F(HostHandles, AnEntryThatOthersMayWriteIsNotTrusted) {
  process(works);
  EXPECT_EQ(trial(), "");
  ASSERT_EQ(kept().size(), 1u);
  chmod(kept()[0].c_str(), 0666);
  process(crashes);
  EXPECT_NE(trial(), "");
  process(works);
  EXPECT_NE(trial(), "") << "the new entry serves";
  chmod((root / "cache").c_str(), 0777);
  EXPECT_EQ(trial(), "") << "and not where others may write into the folder";
  EXPECT_EQ(asked(), 3u);
}

TEST_F(HostHandles, ACutOrChangedEntryIsAskedForAgain) {
  process(works);
  EXPECT_EQ(trial(), "");
  ASSERT_EQ(kept().size(), 1u);
  const fs::path entry = kept()[0];
  const std::string good = read(entry);
  for (const std::string& bad : {std::string(), good.substr(0, good.size() - 1), "x" + good, good + "x"}) {
    write(entry, bad);
    EXPECT_EQ(trial(), "");
    EXPECT_EQ(read(entry), good);
  }
  EXPECT_EQ(asked(), 5u);
}

TEST_F(HostHandles, WithoutACacheOrADriversFileEachRunAsks) {
  process(crashes);
  for (int i = 0; i < 2; ++i)
    EXPECT_FALSE(try_host_handles(device, CacheFolder(""), {.library_folder = root}));
  device.driver = "libcuda.so.1";
  for (int i = 0; i < 2; ++i) EXPECT_NE(trial(), "");
  EXPECT_EQ(asked(), 4u);
  EXPECT_TRUE(kept().empty());
}

TEST_F(HostHandles, WithoutThePoochProgramTheyAreNotUsed) {
  const std::string why = trial();
  EXPECT_EQ(why.find("there is no program "), 0u) << why;
  EXPECT_NE(why.find(" or " + (root / "pooch").string() + " or "), std::string::npos) << why;
  EXPECT_NE(why.find(" to try handles of host memory with"), std::string::npos) << why;
}

TEST_F(HostHandles, ADeviceThatIsOnNoBusIsTakenAtItsWord) {
  process(crashes);
  device.bus_id.clear();
  EXPECT_EQ(trial(), "");
  EXPECT_EQ(asked(), 0u);
}

}  // namespace
}  // namespace pooch::runtime
