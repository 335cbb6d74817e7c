#include "core/live.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "core/files.h"

namespace pooch {
namespace fs = std::filesystem;
namespace {

constexpr std::uint64_t magic = 0x31'65'76'69'6c'68'63'70;  // "pchlive1"; another with each change of Live
constexpr std::string_view suffix = ".live";
constexpr int most_reads = 1000;

}  // namespace

struct LivePage::Layout {
  std::uint64_t magic;
  std::uint64_t bytes;  // of what follows: another version of pooch has another number
  std::atomic<std::uint64_t> number;
  Live live;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

std::string_view name(LiveState state) {
  constexpr std::array<std::string_view, 4> names{"fits", "streaming", "settling", "planned"};
  return names[static_cast<std::size_t>(state)];
}

std::string live_folder(const std::string& setting) {
  if (!setting.empty()) return setting;
  return fmt::format("/dev/shm/pooch-{}", getuid());
}

namespace {

// Of processes that were killed, and that nobody has looked for since.
void remove_old_pages(const std::string& folder) {
  constexpr auto old = std::chrono::hours(24);
  for (const std::string& path : live_pages(folder)) {
    std::error_code error;
    const auto made = fs::last_write_time(path, error);
    const pid_t process = std::atoi(fs::path(path).filename().c_str());
    const bool gone = kill(process, 0) != 0 && errno == ESRCH;
    if (!error && gone && fs::file_time_type::clock::now() - made > old) fs::remove(path, error);
  }
}

}  // namespace

Result<LivePage> LivePage::create(const std::string& folder, std::int32_t process, std::int32_t device) {
  struct stat what {};
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return file_error(errno);
  if (stat(folder.c_str(), &what) != 0) return file_error(errno);
  if (what.st_uid != geteuid())
    return file_error(EPERM);  // whoever owns it could take pages away, or add some
  remove_old_pages(folder);
  std::string path = fmt::format("{}/{}-{}{}", folder, process, device, suffix);
  (void)unlink(path.c_str());  // of an earlier process with this number
  const OpenFile file(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) return file_error(errno);
  // Not by ftruncate alone: what there is no memory for would be a signal when it is written.
  if (const int reason = posix_fallocate(file.number(), 0, sizeof(Layout)); reason != 0) {
    (void)unlink(path.c_str());
    return file_error(reason);
  }
  void* const memory = mmap(nullptr, sizeof(Layout), PROT_READ | PROT_WRITE, MAP_SHARED, file.number(), 0);
  if (memory == MAP_FAILED) {
    (void)unlink(path.c_str());
    return file_error(errno);
  }
  auto* const page = new (memory) Layout{magic, sizeof(Live), 0, {}};
  page->live.process = process;
  page->live.device = device;
  return LivePage(std::move(path), page);
}

LivePage::LivePage(LivePage&& other) noexcept
    : path_(std::move(other.path_)), page_(std::exchange(other.page_, nullptr)) {}

LivePage::~LivePage() {
  if (page_ == nullptr) return;
  if (page_->live.process == getpid()) (void)unlink(path_.c_str());
  (void)munmap(page_, sizeof(Layout));
}

void LivePage::write(const Live& live) {
  const std::uint64_t number = page_->number.load(std::memory_order_relaxed);
  page_->number.store(number + 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  std::memcpy(static_cast<void*>(&page_->live), &live, sizeof live);
  page_->number.store(number + 2, std::memory_order_release);
}

Result<Live> read_live(const std::string& path) {
  using Layout = LivePage::Layout;
  const OpenFile file(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  struct stat what {};
  if (!file || fstat(file.number(), &what) != 0) return file_error(errno);
  const Error foreign{ErrorCode::invalid_argument,
                      fmt::format("{}: written by another version of pooch", path)};
  if (static_cast<std::size_t>(what.st_size) < sizeof(Layout)) return foreign;
  void* const memory = mmap(nullptr, sizeof(Layout), PROT_READ, MAP_SHARED, file.number(), 0);
  if (memory == MAP_FAILED) return file_error(errno);
  const auto* const page = static_cast<const Layout*>(memory);
  std::optional<Live> live;
  const bool ours = page->magic == magic && page->bytes == sizeof(Live);
  for (int i = 0; ours && i < most_reads && !live; ++i) {
    const std::uint64_t before = page->number.load(std::memory_order_acquire);
    Live copy;
    std::memcpy(static_cast<void*>(&copy), &page->live, sizeof copy);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (before % 2 == 0 && page->number.load(std::memory_order_relaxed) == before) live = copy;
  }
  (void)munmap(memory, sizeof(Layout));
  if (!ours) return foreign;
  // Its writer died in the middle of a write, or is stopped there.
  if (!live) return Error{ErrorCode::invalid_argument, fmt::format("{}: half written", path)};
  return *live;
}

std::vector<std::string> live_pages(const std::string& folder) {
  std::vector<std::pair<std::pair<long, long>, std::string>> found;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string file = at->path().filename().string();
    long process = 0, device = 0;
    if (!file.ends_with(suffix) || std::sscanf(file.c_str(), "%ld-%ld", &process, &device) != 2) continue;
    found.emplace_back(std::pair(process, device), at->path().string());
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> paths;
  for (auto& [number, path] : found) paths.push_back(std::move(path));
  return paths;
}

}  // namespace pooch
