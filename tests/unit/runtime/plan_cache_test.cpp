// Plans that are kept between runs: damaged entries, foreign ones, folders and disks that take nothing.
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <functional>

#include "runtime/planning/plan_cache.h"
#include "tests/unit/runtime/plan_source_support.h"

namespace pooch::runtime {
namespace {

class PlanCacheTest : public PlanSourceTest {
 protected:
  // What becomes of an entry that `spoil` has changed: ignored with one warning, and replaced.
  void expect_replaced(const std::string& reason, const std::function<void(const fs::path&)>& spoil) {
    planner(R"(echo ran >> runs; cp good.json "$out")");
    ASSERT_TRUE(ask(*open()));
    ASSERT_EQ(cached().size(), 1u);
    const fs::path entry = cached()[0];
    const std::string good = read(entry);
    spoil(entry);
    EXPECT_TRUE(ask(*open())) << warnings();
    EXPECT_EQ(read(root / "runs"), "ran\nran\n");
    EXPECT_EQ(warning_count(), 1u) << warnings();
    EXPECT_NE(warnings().find("cached plan ignored: " + entry.string() + ": " + reason), std::string::npos)
        << warnings();
    EXPECT_EQ(read(entry), good);
    EXPECT_TRUE(ask(*open()));
    EXPECT_EQ(read(root / "runs"), "ran\nran\n") << "the new entry serves";
  }
};

TEST_F(PlanCacheTest, ACorruptEntry) {
  expect_replaced("plan: the text is ?: an object", [](const fs::path& at) { write(at, "\xff nonsense"); });
}
TEST_F(PlanCacheTest, AnEmptyEntry) {
  expect_replaced("plan: the text is empty: an object", [](const fs::path& at) { write(at, ""); });
}
TEST_F(PlanCacheTest, ATruncatedEntry) {
  expect_replaced("plan: /after: line",
                  [](const fs::path& at) { fs::resize_file(at, fs::file_size(at) - 3); });
}
TEST_F(PlanCacheTest, AnEntryForAnotherHostBudget) {
  expect_replaced("it was made for something else", [](const fs::path& at) {
    std::string text = read(at);
    const std::string budget = "\"host_budget\":1048576";
    write(at, text.replace(text.find(budget), budget.size(), "\"host_budget\":1048577"));
  });
}
TEST_F(PlanCacheTest, AnEntryWhosePlanIsForAnotherPhase) {
  expect_replaced("its phase is 'beef'", [](const fs::path& at) {
    std::string text = read(at);
    const std::size_t second = text.find("9f31", text.find("\"schema\""));
    write(at, text.replace(second, 4, "beef"));
  });
}
TEST_F(PlanCacheTest, APlanWithoutWhatItWasMadeFor) {
  expect_replaced("it was made for something else",
                  [](const fs::path& at) { write(at, to_json(plan_for(phase))); });
}
TEST_F(PlanCacheTest, AnEntryThatIsAPipeHoldsNobodyUp) {
  expect_replaced("not a file", [](const fs::path& at) {
    fs::remove(at);
    ASSERT_EQ(mkfifo(at.c_str(), 0600), 0);
  });
}

TEST_F(PlanCacheTest, ALinkIsNoEntry) {
  expect_replaced("a symbolic link", [this](const fs::path& at) {
    fs::rename(at, root / "elsewhere");
    fs::create_symlink(root / "elsewhere", at);
  });
}
TEST_F(PlanCacheTest, AnEntryThatOthersMayWriteIsNotTrusted) {
  expect_replaced("others may write there (mode 0666", [](const fs::path& at) { chmod(at.c_str(), 0666); });
}
TEST_F(PlanCacheTest, AnEntryOfAnotherUserIsNotTrusted) {
  if (geteuid() != 0) GTEST_SKIP() << "files of another user cannot be made";
  expect_replaced("it belongs to user 12345",
                  [](const fs::path& at) { ASSERT_EQ(chown(at.c_str(), 12345, 12345), 0); });
}

TEST_F(PlanCacheTest, NobodyElseMaySeeWhatIsKept) {
  const mode_t before = umask(0);
  planner(R"(cp good.json "$out")");
  config.cache_folder = root / "new/cache";
  EXPECT_TRUE(ask(*open())) << warnings();
  umask(before);
  for (const char* each : {"new", "new/cache"})
    EXPECT_EQ(fs::status(root / each).permissions(), fs::perms::owner_all) << each;
  for (const auto& entry : fs::directory_iterator(root / "new/cache"))
    EXPECT_EQ(entry.status().permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

class Doubtful : public PlanCacheTest {
 protected:
  // A cache with a plan in it, which `spoil` has made doubtful: not used, not added to, one line.
  void expect_unused(const std::string& reason, const std::function<void(const fs::path&)>& spoil) {
    write(root / "b.json", to_json(plan_for("b")));
    planner(
        R"(echo ran >> runs; case $* in *'--phase b '*) cp b.json "$out";; *) cp good.json "$out";; esac)");
    ASSERT_TRUE(ask(*open()));
    ASSERT_EQ(cached().size(), 1u);
    spoil(root / "cache");
    const auto source = open();
    EXPECT_TRUE(ask(*source)) << warnings();
    EXPECT_TRUE(ask(*source, "b")) << warnings();
    EXPECT_EQ(read(root / "runs"), "ran\nran\nran\n");
    EXPECT_EQ(cached().size(), 1u);
    EXPECT_EQ(warning_count(), 1u) << warnings();
    EXPECT_NE(warnings().find("plans are neither looked for nor kept: the cache is not trusted: " +
                              (root / "cache").string() + ": " + reason),
              std::string::npos)
        << warnings();
  }
};

TEST_F(Doubtful, AFolderThatOthersMayWriteIsNotTrustedEvenWithAStickyBit) {
  expect_unused("others may write there (mode 1777",
                [](const fs::path& cache) { chmod(cache.c_str(), 01777); });
}
TEST_F(Doubtful, AFolderThatItsGroupMayWriteIsNotTrusted) {
  expect_unused("others may write there (mode 0770",
                [](const fs::path& cache) { chmod(cache.c_str(), 0770); });
}
TEST_F(Doubtful, AFolderOfAnotherUserIsNotTrusted) {
  if (geteuid() != 0) GTEST_SKIP() << "folders of another user cannot be made";
  expect_unused("it belongs to user 12345",
                [](const fs::path& cache) { ASSERT_EQ(chown(cache.c_str(), 12345, 12345), 0); });
}

TEST_F(PlanCacheTest, ADifferentCapDevicePolicyBudgetPlacingStructureOrPlannerIsAnotherEntry) {
  const PlanCache cache(root);
  const PlanIdentity identity{phase, "5a", "lazy", "hybrid", true, 4096, 1 << 20, "0.1"};
  std::set<std::string> paths{cache.path_of(identity)};
  std::vector<PlanIdentity> others(8, identity);
  others[0].phase = "9f32", others[1].device = "busy", others[2].policy = "pooch";
  others[7].structure = "5b";
  others[3].placed = false, others[4].cap = 4097, others[5].host_budget = 5, others[6].planner = "0.2";
  for (const PlanIdentity& other : others) paths.insert(cache.path_of(other));
  EXPECT_EQ(paths.size(), 9u);
}

TEST_F(PlanCacheTest, AFolderThatCannotBeMadeCostsOneWarning) {
  write(root / "file", "");
  config.cache_folder = root / "file/cache";
  write(root / "b.json", to_json(plan_for("b")));
  planner(R"(case $* in *'--phase b '*) cp b.json "$out";; *) cp good.json "$out";; esac)");
  const auto source = open();
  EXPECT_TRUE(ask(*source)) << warnings();
  EXPECT_TRUE(ask(*source, "b")) << warnings();
  EXPECT_EQ(warning_count(), 1u) << warnings();
  EXPECT_NE(warnings().find("plans are not kept for the next run"), std::string::npos) << warnings();
}

TEST_F(PlanCacheTest, TheFolderIsTheUsersUnlessOneIsChosen) {
  setenv("XDG_CACHE_HOME", "/somewhere", 1);
  EXPECT_EQ(cache_folder(""), "/somewhere/pooch");
  EXPECT_EQ(cache_folder("/mine"), "/mine");
  setenv("XDG_CACHE_HOME", "relative", 1);
  setenv("HOME", "/home/me", 1);
  EXPECT_EQ(cache_folder(""), "/home/me/.cache/pooch");
  unsetenv("XDG_CACHE_HOME");
}

// A disk of 8 KiB, full but for some bytes; where none can be mounted, no file may grow.
class FullDisk {
 public:
  explicit FullDisk(const fs::path& at) : at_(at) {
    mounted_ = mount("none", at.c_str(), "tmpfs", 0, "size=8k,mode=700") == 0;
    if (mounted_) {
      std::ofstream(at / "filler") << std::string(1 << 14, 'x');
    } else {
      getrlimit(RLIMIT_FSIZE, &before_);
      const rlimit none{16, before_.rlim_max};
      setrlimit(RLIMIT_FSIZE, &none);
    }
  }
  ~FullDisk() {
    if (mounted_) {
      umount(at_.c_str());
    } else {
      setrlimit(RLIMIT_FSIZE, &before_);
    }
  }
  bool mounted() const { return mounted_; }

 private:
  fs::path at_;
  bool mounted_;
  rlimit before_{};
};

TEST_F(PlanCacheTest, AFullCacheDiskCostsOneWarningAndThePlanIsUsed) {
  planner(R"(cp good.json "$out")");
  const FullDisk disk(root / "cache");
  if (!disk.mounted()) GTEST_SKIP() << "no disk can be mounted here";
  const auto source = open();
  EXPECT_TRUE(ask(*source)) << warnings();
  EXPECT_EQ(warning_count(), 1u) << warnings();
  EXPECT_NE(warnings().find("No space left on device"), std::string::npos) << warnings();
  EXPECT_EQ(cached().size(), 1u) << "the filler alone";
}

TEST_F(PlanCacheTest, AFullTemporaryDiskIsNoHindrance) {
  planner(R"(cp good.json "$out")");
  const FullDisk disk(root / "tmp");
  if (!disk.mounted()) GTEST_SKIP() << "no disk can be mounted here";
  EXPECT_TRUE(ask(*open())) << warnings();
  EXPECT_EQ(temporary_files(), 1u) << "the filler alone";
  EXPECT_EQ(cached().size(), 1u) << "the plan alone";
  EXPECT_EQ(warnings(), "");
}

TEST_F(PlanCacheTest, WhereNothingCanBeWrittenThereIsNoPlan) {
  planner(R"(cp good.json "$out")");
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit little{200, before.rlim_max};  // enough for the warning
  const auto source = open();
  setrlimit(RLIMIT_FSIZE, &little);  // SIGXFSZ would end the program
  const auto plan = ask(*source);
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_FALSE(plan);
  expect_demand("the profile cannot be written: File too large");
  EXPECT_TRUE(cached().empty());
}

}  // namespace
}  // namespace pooch::runtime
