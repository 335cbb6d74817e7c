#include "temporary_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <system_error>

namespace pooch::tools {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view prefix = "pooch-tmp-";

// Locked, where it is the user's own and nobody has locked it; else nothing.
OpenFile lock_folder(const fs::path& folder) {
  OpenFile opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat facts {};
  if (!opened || fstat(opened.number(), &facts) != 0 || facts.st_uid != geteuid()) return OpenFile();
  if (flock(opened.number(), LOCK_EX | LOCK_NB) != 0) return OpenFile();
  // Removed between the two by somebody who took it for a dead command's.
  if (fstat(opened.number(), &facts) != 0 || facts.st_nlink == 0) return OpenFile();
  return opened;
}

// Not one that only looks alike: nothing lies beside `files`.
bool is_ours(const fs::path& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (entry.path().filename() != "files") return false;
  return !error;
}

void sweep(const fs::path& base) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(base, error)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(prefix) || name.size() != prefix.size() + 6) continue;
    const OpenFile lock = lock_folder(entry.path());
    std::error_code ignored;
    if (lock && is_ours(entry.path())) fs::remove_all(entry.path(), ignored);
  }
}

}  // namespace

Result<TemporaryFolder> TemporaryFolder::make() {
  std::error_code error;
  const fs::path base = fs::absolute(fs::temp_directory_path(error), error);
  sweep(base);
  for (int tries = 0; tries < 10; ++tries) {
    std::string name = (base / prefix).string() + "XXXXXX";
    if (mkdtemp(name.data()) == nullptr) break;
    OpenFile lock = lock_folder(name);
    if (!lock || mkdir((name + "/files").c_str(), 0700) != 0) continue;
    return TemporaryFolder(name, std::move(lock));
  }
  return Error{ErrorCode::internal, "no temporary folder can be made"};
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code error;
  if (!whole_.empty()) fs::remove_all(whole_, error);
}

}  // namespace pooch::tools
