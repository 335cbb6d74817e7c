// The session keeps what its tracker is told, and nothing that goes wrong with the file hurts the program.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/recording.h"
#include "runtime/session/session.h"
#include "tests/support/lazy_device.h"
#include "tracker/recorded_profile.h"

namespace pooch {
namespace {
namespace fs = std::filesystem;

RecordingReader::Source source_of(std::string_view stream) {
  return [stream](std::span<char> into) mutable -> Result<std::size_t> {
    const std::size_t count = std::min(into.size(), stream.size());
    std::copy_n(stream.begin(), count, into.begin());
    stream.remove_prefix(count);
    return count;
  };
}

struct Contents {
  std::size_t records = 0;
  bool complete = false;
};

Contents contents(const std::string& stream) {
  auto reader = RecordingReader::open(source_of(stream));
  if (!reader) throw std::runtime_error(reader.error().message);
  Contents found;
  for (;; ++found.records) {
    const auto record = reader->next();
    if (!record) throw std::runtime_error(record.error().message);
    if (!*record) break;
  }
  found.complete = reader->complete();
  return found;
}

class Recorded : public testing::Test {
 protected:
  Recorded() {
    std::string name = (fs::temp_directory_path() / "recording-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~Recorded() override { fs::remove_all(folder_); }

  fs::path file() const { return folder_ / "calls"; }

  std::string text() const {
    std::ostringstream all;
    all << std::ifstream(file(), std::ios::binary).rdbuf();
    return all.str();
  }

  fs::path folder_;
};

// Three layers, each with a map of its own that backward reads, in an allocation that comes and goes.
class Loop {
 public:
  explicit Loop(const std::string& record_file) : device_(GiB) {
    Config config;
    config.memory_cap = SizeSetting{"512MiB"};
    config.host_memory = SizeSetting{"1GiB"};
    config.record_file = record_file;
    session_ = std::move(*runtime::Session::open(config, device_));
    weights_ = *session_->allocate(4 * MiB, std::nullopt);
  }

  int call(const char* function, OpKind kind, std::vector<Access> accesses, bool blocks = false,
           int status = 0) {
    Call made{function, kind, StreamHandle::legacy, accesses};
    made.blocks = blocks;
    return session_->submit(
        made, [status] { return status; }, 2);
  }

  void iterate(int times) {
    for (int i = 0; i < times; ++i) {
      std::vector<Address> maps;
      for (int layer = 0; layer < 3; ++layer) {
        maps.push_back(*session_->allocate(8 * MiB, StreamHandle::legacy));
        std::vector<Access> accesses = {{maps.back(), 8 * MiB, Effect::overwrite},
                                        {weights_, 4 * MiB, Effect::read}};
        if (layer > 0) accesses.push_back({maps[layer - 1], 8 * MiB, Effect::read});
        call("forward", OpKind::conv_forward, accesses);
        call("failed", OpKind::conv_forward, accesses, false, /*status=*/1);
      }
      for (; !maps.empty(); maps.pop_back()) {
        call("backward", OpKind::conv_backward_filter,
             {{weights_, 4 * MiB, Effect::read_write}, {maps.back(), 8 * MiB, Effect::read}});
        (void)session_->free(maps.back(), StreamHandle::legacy);
      }
    }
  }

  // The host waits for it.
  void read_back() { call("copy", OpKind::copy_out, {{weights_, 4 * MiB, Effect::read}}, /*blocks=*/true); }

  runtime::Session& session() { return *session_; }

 private:
  test::LazyDevice device_;
  std::unique_ptr<runtime::Session> session_;
  Address weights_;
};

constexpr std::size_t one_iteration = 3 + 3 + 6;  // allocations, frees, calls that succeed

TEST_F(Recorded, TheRunAgainKnowsWhatTheSessionKnew) {
  Loop loop(file());
  loop.iterate(6);
  loop.session().finish_profile();
  const Profile online = loop.session().profile();
  const std::string stream = text();
  auto reader = RecordingReader::open(source_of(stream));
  ASSERT_TRUE(reader) << reader.error().message;
  const auto offline = tracker::profile_of(*reader);
  ASSERT_TRUE(offline) << offline.error().message;
  EXPECT_TRUE(reader->complete());
  EXPECT_EQ(offline->device, online.device);
  EXPECT_EQ(offline->device_bytes, online.device_bytes);
  EXPECT_EQ(offline->cap_bytes, online.cap_bytes);
  EXPECT_EQ(offline->host_budget_bytes, online.host_budget_bytes);
  EXPECT_EQ(offline->policy, online.policy);
  EXPECT_EQ(offline->ops, online.ops) << "failed calls are not recorded";
  EXPECT_EQ(offline->need_bytes, online.need_bytes);
  EXPECT_EQ(offline->iterations, online.iterations);
  EXPECT_GT(offline->iterations, 0u);
  ASSERT_EQ(offline->phases.size(), online.phases.size());
  ASSERT_GT(offline->phases.size(), 0u);
  // Which phase took the most time only the run itself can know.
  for (const PhaseProfile& phase : online.phases) {
    const auto same = std::find_if(offline->phases.begin(), offline->phases.end(),
                                   [&](const PhaseProfile& other) { return other.id == phase.id; });
    ASSERT_NE(same, offline->phases.end()) << phase.id;
    EXPECT_EQ(same->seen, phase.seen);
    EXPECT_EQ(same->ops.size(), phase.ops.size());
    EXPECT_EQ(same->graph.layers.size(), phase.graph.layers.size());
  }
}

TEST_F(Recorded, ABlockingCallWritesOutWhatThereIs) {
  Loop loop(file());
  loop.iterate(2);
  EXPECT_EQ(contents(text()).records, 0u);
  loop.read_back();
  const Contents found = contents(text());
  EXPECT_EQ(found.records, one_iteration * 2 + 2);
  EXPECT_FALSE(found.complete) << "the program goes on";
}

TEST_F(Recorded, APathThatCannotBeWrittenOnlyCostsALine) {
  testing::internal::CaptureStderr();
  {
    Loop loop(folder_ / "none" / "calls");
    loop.iterate(2);
    EXPECT_EQ(loop.session().summary().ops, 12u);
  }
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("/none/calls: No such file or directory; nothing is recorded\n"), std::string::npos);
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1);
}

TEST_F(Recorded, APipeThatNobodyReadsIsNotWaitedFor) {
  ASSERT_EQ(mkfifo(file().c_str(), 0600), 0);
  testing::internal::CaptureStderr();
  Loop loop(file());
  EXPECT_NE(testing::internal::GetCapturedStderr().find("nobody reads this pipe"), std::string::npos);
}

TEST_F(Recorded, AReaderThatGoesAwayEndsTheRecordingAndNotTheProgram) {
  ASSERT_EQ(mkfifo(file().c_str(), 0600), 0);
  const int reader = open(file().c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  testing::internal::CaptureStderr();
  {
    Loop loop(file());
    close(reader);
    loop.iterate(2);
    loop.read_back();
    loop.read_back();
    EXPECT_EQ(loop.session().summary().ops, 14u);
    sigset_t pending;
    sigpending(&pending);
    EXPECT_EQ(sigismember(&pending, SIGPIPE), 0);
  }
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("Broken pipe; the recording ends here"), std::string::npos);
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1);
}

TEST_F(Recorded, AFullDiskEndsTheRecordingAndNotTheProgram) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  testing::internal::CaptureStderr();
  {
    Loop loop("/dev/full");
    loop.iterate(2);
    EXPECT_EQ(loop.session().summary().ops, 12u);
  }
  EXPECT_NE(testing::internal::GetCapturedStderr().find("No space left on device; the recording ends here"),
            std::string::npos);
}

TEST_F(Recorded, AFileThatAnotherSessionRecordsToIsLeftToIt) {
  Loop first(file());
  testing::internal::CaptureStderr();
  Loop second(file());
  EXPECT_NE(testing::internal::GetCapturedStderr().find("another process records there"), std::string::npos);
  second.iterate(2);
  first.session().finish_profile();
  EXPECT_EQ(contents(text()).records, 1u);
}

TEST_F(Recorded, AKilledProgramLeavesWhatCameBeforeItsLastBlockingCall) {
  const pid_t child = fork();
  if (child == 0) {
    Loop loop(file());
    loop.iterate(2);
    loop.read_back();
    loop.iterate(1);
    raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  const Contents found = contents(text());
  EXPECT_FALSE(found.complete);
  EXPECT_EQ(found.records, one_iteration * 2 + 2);
}

}  // namespace
}  // namespace pooch
