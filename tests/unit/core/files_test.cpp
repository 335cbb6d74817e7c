// What pooch writes harms nobody: signals, pipes, links, drafts; and the log, which is written the same way.
#include "core/files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "core/log.h"

namespace pooch {
namespace {
namespace fs = std::filesystem;

class Files : public testing::Test {
 protected:
  Files() {
    std::string name = (fs::temp_directory_path() / "files-XXXXXX").string();
    folder = mkdtemp(name.data());
    out = folder / "out";
  }
  ~Files() override { fs::remove_all(folder); }

  static std::string read(const fs::path& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  static void write(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }
  static std::string why(const Status& status) { return status ? "" : status.error().message; }
  static mode_t mode(const fs::path& path) {
    struct stat facts {};
    return stat(path.c_str(), &facts) == 0 ? facts.st_mode & 07777 : 0;
  }
  std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), {}));
  }

  fs::path folder, out;
};

bool pending(int signal) {
  sigset_t all;
  sigpending(&all);
  return sigismember(&all, signal) != 0;
}

// A pipe that nobody reads any more.
struct BrokenPipe {
  int ends[2];
  BrokenPipe() {
    if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
    close(ends[0]);
  }
  ~BrokenPipe() { close(ends[1]); }
};

// No file may be larger.
struct SizeLimit {
  rlimit before{};
  explicit SizeLimit(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before);
    const rlimit little{bytes, before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &little);
  }
  ~SizeLimit() { setrlimit(RLIMIT_FSIZE, &before); }
};

// --- signals

TEST_F(Files, AReaderThatWentAwayIsAnErrorAndNoSignal) {
  const BrokenPipe pipe;
  EXPECT_EQ(write_all(pipe.ends[1], "text"), EPIPE);
  EXPECT_FALSE(pending(SIGPIPE));
}

TEST_F(Files, AFileAsLargeAsItMayBeIsAnErrorAndNoSignal) {
  const int file = open(out.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  int reason = 0;
  {
    const SizeLimit limit(10);
    reason = write_all(file, "more than ten bytes");
  }
  close(file);
  EXPECT_EQ(reason, EFBIG);
  EXPECT_EQ(read(out), "more than ");
  EXPECT_FALSE(pending(SIGXFSZ));
}

TEST_F(Files, ASignalOfTheProgramsOwnStaysPending) {
  sigset_t pipe_signal, before;
  sigemptyset(&pipe_signal);
  sigaddset(&pipe_signal, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
  const BrokenPipe pipe;
  EXPECT_EQ(write_all(pipe.ends[1], "text"), EPIPE);
  EXPECT_FALSE(pending(SIGPIPE)) << "blocked, and not the program's";
  EXPECT_LT(::write(pipe.ends[1], "text", 4), 0);
  ASSERT_TRUE(pending(SIGPIPE));
  EXPECT_EQ(write_all(pipe.ends[1], "text"), EPIPE);
  EXPECT_TRUE(pending(SIGPIPE)) << "the program's own";
  constexpr timespec at_once{0, 0};
  EXPECT_EQ(sigtimedwait(&pipe_signal, nullptr, &at_once), SIGPIPE);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

volatile int seen = 0;

TEST_F(Files, HandlersAndMaskStayWhatTheyAre) {
  struct sigaction handler {
  }, before{}, after{};
  handler.sa_handler = [](int) { seen = seen + 1; };
  sigaction(SIGPIPE, &handler, &before);
  sigset_t mask_before, mask_after;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask_before);
  const BrokenPipe pipe;
  EXPECT_EQ(write_all(pipe.ends[1], "text"), EPIPE);
  pthread_sigmask(SIG_SETMASK, nullptr, &mask_after);
  EXPECT_EQ(seen, 0) << "not told of what it did not do";
  EXPECT_LT(::write(pipe.ends[1], "text", 4), 0);
  EXPECT_EQ(seen, 1) << "its own it gets";
  sigaction(SIGPIPE, &before, &after);
  EXPECT_EQ(after.sa_handler, handler.sa_handler);
  for (const int signal : {SIGPIPE, SIGXFSZ})
    EXPECT_EQ(sigismember(&mask_after, signal), sigismember(&mask_before, signal));
}

TEST_F(Files, TheLogOutlivesItsReader) {
  const int kept = dup(STDERR_FILENO);
  {
    const BrokenPipe pipe;
    dup2(pipe.ends[1], STDERR_FILENO);
    log::error("nobody hears this");
    dup2(kept, STDERR_FILENO);
  }
  close(kept);
  EXPECT_FALSE(pending(SIGPIPE));
}

TEST_F(Files, ALogThatIsAPipeWithoutReaderHoldsNobodyUp) {
  ASSERT_EQ(mkfifo(out.c_str(), 0600), 0);
  testing::internal::CaptureStderr();
  log::configure(LogLevel::warn, out);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "pooch: warning: POOCH_LOG_FILE: '" + out.string() + "' cannot be written; logging to stderr\n");
}

// --- whole files

TEST_F(Files, AFileIsReplacedAndKeepsItsMode) {
  write(out, "old");
  chmod(out.c_str(), 0600);
  const int old = open(out.c_str(), O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(why(write_whole(out, "new")), "");
  EXPECT_EQ(read(out), "new");
  EXPECT_EQ(mode(out), 0600u);
  EXPECT_EQ(*read_whole(old), "old") << "whoever has it open sees the old one whole";
  close(old);
  EXPECT_EQ(entries(), 1u);
}

TEST_F(Files, WhatALinkLeadsToIsReplacedAndTheLinkStays) {
  fs::create_directory(folder / "far");
  write(folder / "far/file", "old");
  fs::create_symlink("far/file", folder / "near");
  fs::create_symlink(folder / "near", out);
  EXPECT_EQ(why(write_whole(out, "new")), "");
  EXPECT_EQ(read(folder / "far/file"), "new");
  EXPECT_TRUE(fs::is_symlink(out));
  EXPECT_TRUE(fs::is_symlink(folder / "near"));
  fs::create_symlink("not-yet", folder / "dangling");
  EXPECT_EQ(why(write_whole(folder / "dangling", "new")), "");
  EXPECT_EQ(read(folder / "not-yet"), "new");
  fs::create_symlink("circle", folder / "circle");
  EXPECT_EQ(why(write_whole(folder / "circle", "new")), "Too many levels of symbolic links");
}

TEST_F(Files, ALinkThatSomebodyElsePlantedInASharedFolderIsNotFollowed) {
  if (geteuid() != 0) GTEST_SKIP() << "files of another user cannot be made";
  write(folder / "mine", "precious");
  fs::create_directory(folder / "shared");
  chmod((folder / "shared").c_str(), 01777);
  fs::create_symlink(folder / "mine", folder / "shared/out");
  ASSERT_EQ(lchown((folder / "shared/out").c_str(), 12345, 12345), 0);
  EXPECT_EQ(why(write_whole(folder / "shared/out", "new")), "Permission denied");
  EXPECT_EQ(read(folder / "mine"), "precious");
  EXPECT_FALSE(open_stream(folder / "shared/out"));
  EXPECT_EQ(read(folder / "mine"), "precious");
}

TEST_F(Files, ADraftIsNotWrittenThroughAPlantedLink) {
  write(folder / "mine", "precious");
  // The names that a draft may get next.
  for (int number = 0; number < 60; ++number)
    fs::create_symlink(folder / "mine",
                       out.string() + "." + std::to_string(getpid()) + "." + std::to_string(number) + ".new");
  EXPECT_EQ(why(write_whole(out, "new")), "");
  EXPECT_EQ(read(out), "new");
  EXPECT_EQ(read(folder / "mine"), "precious");
}

TEST_F(Files, AFailureLeavesNothing) {
  const SizeLimit limit(10);
  EXPECT_EQ(why(write_whole(out, "more than ten bytes")), "File too large");
  EXPECT_EQ(entries(), 0u);
  EXPECT_EQ(why(write_whole(folder / "none/out", "text")), "No such file or directory");
  EXPECT_EQ(why(write_whole(folder, "text")), "Is a directory");
}

TEST_F(Files, ADraftThatAKilledWriterLeftGoesWithTheNextWrite) {
  const std::string of_another = out.string() + ".4711.0.new", kept = out.string() + ".backup.new";
  write(kept, "not a draft");
  write(of_another, "alive");
  const int alive = open(of_another.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(flock(alive, LOCK_EX), 0);
  const pid_t child = fork();
  if (child == 0) {
    auto file = OutputFile::open(out);
    file->append("half");
    raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(entries(), 3u) << "a killed writer leaves its draft";
  EXPECT_EQ(why(write_whole(out, "whole")), "");
  EXPECT_EQ(entries(), 3u);
  EXPECT_EQ(read(out), "whole");
  EXPECT_EQ(read(of_another), "alive");
  EXPECT_EQ(read(kept), "not a draft");
  close(alive);
}

TEST_F(Files, ADeviceIsWrittenToAndStaysADevice) {
  const fs::path device = folder / "device";
  if (mknod(device.c_str(), S_IFCHR | 0666, makedev(1, 3)) != 0) GTEST_SKIP() << "no device can be made";
  EXPECT_EQ(why(write_whole(device, "text")), "");
  EXPECT_TRUE(fs::is_character_file(device));
  EXPECT_EQ(entries(), 1u);
}

TEST_F(Files, APipeIsWrittenToAndWithoutReaderNotWaitedFor) {
  ASSERT_EQ(mkfifo(out.c_str(), 0600), 0);
  EXPECT_EQ(why(write_whole(out, "text")), "nobody reads this pipe");
  const int reader = open(out.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  EXPECT_EQ(why(write_whole(out, "text")), "");
  char got[8] = "";
  EXPECT_EQ(::read(reader, got, sizeof got), 4);
  EXPECT_STREQ(got, "text");
  close(reader);
  EXPECT_TRUE(fs::is_fifo(out));
  EXPECT_EQ(why(read_whole(out) ? Status(Done{}) : Status(read_whole(out).error())), "not a file");
}

TEST_F(Files, ANameOfAnOpenFileIsThatFile) {
  const int file = open(out.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_EQ(::write(file, "first ", 6), 6);
  const std::string name = "/dev/fd/" + std::to_string(file);
  EXPECT_EQ(why(write_whole(name, "second ")), "");
  fs::create_symlink(name, folder / "link");
  EXPECT_EQ(why(write_whole(folder / "link", "third")), "");
  close(file);
  EXPECT_EQ(read(out), "first second third");
  EXPECT_EQ(entries(), 2u);
  EXPECT_EQ(why(write_whole("/dev/fd/999", "text")), "Bad file descriptor");
}

TEST_F(Files, AStreamHasItsFileAlone) {
  write(out, "old");
  const auto first = open_stream(out);
  ASSERT_TRUE(first);
  EXPECT_EQ(write_all(*first, "new"), 0);
  EXPECT_EQ(read(out), "new");
  const auto second = open_stream(out);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().message, "another process records there");
  EXPECT_EQ(read(out), "new");
  close(*first);
}

}  // namespace
}  // namespace pooch
