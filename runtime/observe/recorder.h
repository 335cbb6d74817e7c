// Records the program's call stream to the file of POOCH_RECORD (core/recording.h), which may be a pipe. An
// error is reported once; then the recording ends and the program goes on. The session's mutex guards it.
#pragma once

#include <memory>
#include <string>

#include "core/recording.h"

namespace pooch::runtime {

class Recorder {
 public:
  Recorder() = default;
  ~Recorder() { finish(); }
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // An empty path: nothing is recorded. A pipe must have a reader by now. A file that another process
  // records to is left to it.
  void open(const std::string& path, const RecordedSession& session);
  // In the order in which the tracker is told.
  void allocated(const RecordedAllocation& allocation) { add(allocation); }
  void freed(Address address) { add(RecordedFree{address}); }
  // A call that was launched. If the host has waited in it anyway, writes out what there is so far.
  void launched(const Call& call) {
    add(call);
    if (call.blocks) flush();
  }
  // The program ends normally.
  void finish();

 private:
  template <class What>
  void add(const What& what) {
    if (writer_ == nullptr) return;
    writer_->add(what);
    if (writer_->failure()) fail();
  }
  void flush();
  void fail();
  void close();

  std::string path_;
  int file_ = -1;
  std::unique_ptr<RecordingWriter> writer_;
};

}  // namespace pooch::runtime
