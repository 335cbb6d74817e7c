// What kernels touch, read from their machine code by a process beside the program.
//
//   ask(image, name) ──▶ `pooch effects --serve` ──▶ poll(): a KernelCode, or why there is none
//                           nvdisasm, or the cache
//
// Nothing here is an error for the program: a kernel without an answer stays unknown. The process ends when
// all is answered, and is started again when more is asked. Several threads may call.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/config.h"
#include "core/kernel_code.h"
#include "core/result.h"
#include "runtime/processes/detached_process.h"

namespace pooch::runtime {

// Where a kernel's code lies: a cubin, or a fat binary with one for the device.
struct CodeImage {
  std::string file;                               // empty: in `bytes`
  std::uint64_t offset = 0;                       // into the file
  std::shared_ptr<const std::string> bytes = {};  // a copy
};

struct KernelQuestion {
  CodeImage image;
  std::string name;                // mangled
  std::uint32_t architecture = 0;  // the device's: 90 for compute capability 9.0
};

struct KernelAnswer {
  std::uint64_t ticket;     // what ask() returned
  Result<KernelCode> code;  // error not_supported: no kernel's code can be read, and a line has said so
};

class KernelReader {
 public:
  using Question = KernelQuestion;
  using Answer = KernelAnswer;

  // `packages`: a folder of Python's packages, where Triton may have a disassembler; empty: none.
  KernelReader(const Config& config, const std::string& packages, const std::string& library_folder = {});
  ~KernelReader();
  KernelReader(const KernelReader&) = delete;
  KernelReader& operator=(const KernelReader&) = delete;

  // Never waits.
  std::uint64_t ask(Question question);
  // Whether something is asked that has no answer yet.
  bool pending() const;
  // What was answered since the last time. Never waits.
  std::vector<Answer> poll();
  // Waits for all answers, up to `limit`.
  std::vector<Answer> await(std::chrono::milliseconds limit);

 private:
  struct Asked {
    std::uint64_t ticket;
    Question question;
    bool sent = false;
  };
  struct Server {
    DetachedProcess process;
    OpenFile socket;  // packets, one for each question and each answer
  };
  enum class Received : std::uint8_t { packet, nothing, end };

  const std::string& program() const { return command_.arguments.front(); }
  Status start();
  void send();
  bool send(const Asked& asked);
  Received receive(std::string& packet);
  void take(const std::string& packet, std::vector<Answer>& answers);
  void lost(std::vector<Answer>& answers);
  void give_up(const std::string& why, std::vector<Answer>& answers);
  std::vector<Answer> advance();

  mutable std::mutex mutex_;
  DetachedCommand command_;  // that starts the process, without its socket
  std::string unusable_;     // why no process can be asked; empty: one can
  bool said_ = false;
  std::optional<Server> server_;
  std::deque<Asked> asked_;  // in the order in which they are answered
  std::uint64_t tickets_ = 0;
  unsigned deaths_ = 0;
};

}  // namespace pooch::runtime
