#include "runtime/processes/own_program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace pooch::runtime {
namespace {
namespace fs = std::filesystem;

class OwnProgram : public testing::Test {
 protected:
  OwnProgram() {
    std::string name = fs::temp_directory_path() / "own-program-XXXXXX";
    root = mkdtemp(name.data());
  }
  ~OwnProgram() override { fs::remove_all(root); }

  // Paths are from the folder.
  void make(const char* path, fs::perms permissions = fs::perms::owner_all) {
    fs::create_directories((root / path).parent_path());
    std::ofstream(root / path) << "#!/bin/sh\n";
    fs::permissions(root / path, permissions);
  }
  std::string found(const std::string& chosen, const std::string& beside = {}) {
    const auto program = find_own_program(chosen, beside);
    return program ? *program : program.error().message;
  }

  fs::path root;
};

TEST_F(OwnProgram, IsTheOneThatIsChosen) {
  make("mine");
  make("lib/pooch");
  EXPECT_EQ(found(root / "mine", root / "lib"), root / "mine");
}

TEST_F(OwnProgram, LiesBesideTheLibraryInAnInstallationABundleOrABuild) {
  const std::string library = root / "lib" / "pooch";
  fs::create_directories(library);
  EXPECT_EQ(found("", library), "there is no program " + (root / "lib/bin/pooch").string() + " or " +
                                    (root / "bin/pooch").string() + " or " +
                                    (root / "lib/pooch/pooch").string() + " or " +
                                    (root / "lib/tools/pooch").string());
  for (const char* place : {"lib/tools/pooch", "lib/pooch/pooch", "bin/pooch", "lib/bin/pooch"}) {
    make(place);
    EXPECT_EQ(found("", library), root / place) << "places come in an order";
  }
}

TEST_F(OwnProgram, IsAFileThatCanBeRun) {
  make("text", fs::perms::owner_read);
  fs::create_directory(root / "folder");
  for (const char* name : {"text", "folder", "nothing"})
    EXPECT_EQ(found(root / name), "there is no program " + (root / name).string());
}

TEST_F(OwnProgram, IsLookedForBesideThisCodeWhereNothingElseIsSaid) {
  const std::string here = fs::read_symlink("/proc/self/exe").parent_path();
  const std::string all = found("");
  EXPECT_TRUE(all.find(here + "/pooch") != std::string::npos ||
              all.find(fs::path(here).parent_path()) != std::string::npos)
      << all;
}

TEST_F(OwnProgram, ItsEnvironmentHasNothingThatWouldMakePoochServeIt) {
  setenv("POOCH_MEMORY_CAP", "1GiB", 1);
  setenv("LD_PRELOAD", "", 1);
  setenv("OWN_PROGRAM_TEST", "kept", 1);
  const std::vector<std::string> kept = own_environment();
  for (const char* name : {"POOCH_MEMORY_CAP", "LD_PRELOAD", "OWN_PROGRAM_TEST"}) unsetenv(name);
  EXPECT_NE(std::find(kept.begin(), kept.end(), "OWN_PROGRAM_TEST=kept"), kept.end());
  for (const std::string& entry : kept)
    EXPECT_FALSE(entry.starts_with("POOCH_") || entry.starts_with("LD_PRELOAD=")) << entry;
}

TEST_F(OwnProgram, ItsVersionChangesWhenItIsReplaced) {
  make("mine");
  const std::string first = file_version(root / "mine");
  EXPECT_FALSE(first.empty());
  EXPECT_EQ(file_version(root / "mine"), first);
  fs::last_write_time(root / "mine", fs::last_write_time(root / "mine") + std::chrono::seconds(1));
  const std::string later = file_version(root / "mine");
  EXPECT_NE(later, first);
  std::ofstream(root / "mine", std::ios::app) << "true\n";
  EXPECT_NE(file_version(root / "mine"), later);
  EXPECT_EQ(file_version(root / "nothing"), "");
}

}  // namespace
}  // namespace pooch::runtime
