#include "runtime/observe/recorder.h"

#include <unistd.h>

#include "core/files.h"
#include "core/log.h"

namespace pooch::runtime {

void Recorder::open(const std::string& path, const RecordedSession& session) {
  if (path.empty()) return;
  path_ = path;
  const auto file = open_stream(path);
  if (!file) return log::error("POOCH_RECORD: {}: {}; nothing is recorded", path, file.error().message);
  file_ = *file;
  const auto sink = [to = file_](std::string_view bytes) -> Status {
    if (const int reason = write_all(to, bytes); reason != 0) return file_error(reason);
    return Done{};
  };
  writer_ = std::make_unique<RecordingWriter>(sink, session);
  flush();
}

void Recorder::flush() {
  if (writer_ == nullptr) return;
  writer_->flush();
  if (writer_->failure()) fail();
}

void Recorder::finish() {
  if (writer_ == nullptr) return;
  writer_->end();
  writer_->failure() ? fail() : close();
}

void Recorder::fail() {
  log::error("POOCH_RECORD: {}: {}; the recording ends here", path_, writer_->failure()->message);
  close();
}

void Recorder::close() {
  writer_.reset();
  ::close(file_);
  file_ = -1;
}

}  // namespace pooch::runtime
