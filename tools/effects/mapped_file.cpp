#include "tools/effects/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "core/files.h"

namespace pooch::effects {

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::filesystem::path& path) {
  const OpenFile file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return Error{ErrorCode::invalid_argument, file_error(errno).message};
  return map(file.number());
}

Result<std::shared_ptr<const MappedFile>> MappedFile::map(int file) {
  struct stat state {};
  if (fstat(file, &state) != 0) return Error{ErrorCode::invalid_argument, file_error(errno).message};
  if (!S_ISREG(state.st_mode) || state.st_size == 0)
    return Error{ErrorCode::invalid_argument, "no file with content"};
  const auto bytes = static_cast<std::size_t>(state.st_size);
  void* const at = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file, 0);
  if (at == MAP_FAILED) return Error{ErrorCode::invalid_argument, file_error(errno).message};
  return std::shared_ptr<const MappedFile>(new MappedFile(at, bytes));
}

MappedFile::~MappedFile() {
  munmap(at_, bytes_);
}

}  // namespace pooch::effects
