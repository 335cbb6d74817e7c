#include "core/cache_folder.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "core/files.h"

namespace pooch {
namespace fs = std::filesystem;
namespace {

Error useless(const std::string& path, const std::string& why) {
  return {ErrorCode::invalid_argument, fmt::format("{}: {}", path, why)};
}

// Why others may have a say in what is there; empty: they have none.
std::string doubt(const struct stat& facts) {
  if (facts.st_uid != geteuid() && facts.st_uid != 0)
    return fmt::format("it belongs to user {}", facts.st_uid);
  if ((facts.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return fmt::format(
        "others may write there (mode {:04o}; accepted are folders and files that only their owner may)",
        facts.st_mode & 07777);
  return {};
}

// Opened, so that what was looked at is what is used; the caller closes it.
Result<int> open_folder(const std::string& folder) {
  const int opened = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (opened < 0) return file_error(errno);
  struct stat facts {};
  const std::string why = fstat(opened, &facts) == 0 ? doubt(facts) : std::strerror(errno);
  if (why.empty()) return opened;
  ::close(opened);
  return Error{ErrorCode::invalid_argument, why};
}

// As the XDG Base Directory Specification has it, for nobody else to look into. 0, or an errno.
int make_folders(const fs::path& folder) {
  if (mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST) return 0;
  if (errno != ENOENT || !folder.has_parent_path() || folder.parent_path() == folder) return errno;
  if (const int reason = make_folders(folder.parent_path()); reason != 0) return reason;
  return mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST ? 0 : errno;
}

}  // namespace

Status CacheFolder::trusted() const {
  if (path_.empty()) return Done{};
  const auto opened = open_folder(path_);
  if (opened) {
    ::close(*opened);
    return Done{};
  }
  if (const int reason = opened.error().vendor_status; reason == ENOENT || reason == ENOTDIR) return Done{};
  return useless(path_, opened.error().message);
}

Result<std::string> CacheFolder::read(const std::string& name) const {
  const auto opened = open_folder(path_);
  if (!opened) return opened.error();
  const int file = openat(*opened, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  const int reason = errno;
  ::close(*opened);
  if (file < 0 && reason == ELOOP) return Error{ErrorCode::invalid_argument, "a symbolic link"};
  if (file < 0) return file_error(reason);
  struct stat facts {};
  const std::string why = fstat(file, &facts) == 0 && S_ISREG(facts.st_mode) ? doubt(facts) : "not a file";
  auto text = why.empty() ? read_whole(file) : Result<std::string>(Error{ErrorCode::invalid_argument, why});
  ::close(file);
  return text;
}

Status CacheFolder::store(const std::string& name, std::string_view text) const {
  if (path_.empty()) return Done{};
  if (const int reason = make_folders(path_); reason != 0) return useless(path_, std::strerror(reason));
  if (const Status fit = trusted(); !fit) return fit;
  const std::string path = path_ + "/" + name;
  const Status written = write_whole(path, text, {.replaces = true, .mode = 0600});
  return written ? written : useless(path, written.error().message);
}

std::string cache_folder(const std::string& chosen) {
  std::error_code error;
  if (!chosen.empty()) return fs::absolute(chosen, error).string();
  // Relative ones are invalid (XDG Base Directory Specification).
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache == '/')
    return std::string(cache) + "/pooch";
  if (const char* home = std::getenv("HOME"); home != nullptr && *home == '/')
    return std::string(home) + "/.cache/pooch";
  return {};
}

}  // namespace pooch
