// What CUPTI's own thread delivers, until the timer fetches it. Buffers are ours; CUPTI borrows them.
#pragma once

#include <cupti.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace pooch::cupti {

// One kernel, copy or set, in device nanoseconds.
struct DeviceWork {
  enum class Kind : std::uint8_t { kernel, own_kernel, copy };
  std::uint32_t correlation;  // of the API call that launched it
  std::uint32_t stream;       // CUPTI's number of its stream
  std::uint64_t start_ns, end_ns;
  Kind kind;   // own_kernel: pooch's; copy: or a set
  bool graph;  // of a graph, which only programs launch
};
// An API call made inside an op; or, `around` it, the runtime's call that launches the op in `stream`
// (CUPTI's number).
struct OpCall {
  std::uint32_t correlation;
  std::uint64_t op;
  bool around = false;
  std::uint32_t stream = 0;
};

struct Delivery {
  std::vector<DeviceWork> work;
  std::vector<OpCall> calls;
  std::uint64_t untimed = 0;  // records for which the device had no room
  bool cut = false;           // a buffer ended in work that was still running
};

// Callbacks carry no pointer of ours, so there is one inbox, which lives as long as the process: CUPTI may
// call late. CUPTI has one subscriber, and so it has one user at a time.
class RecordInbox {
 public:
  static RecordInbox& instance();

  // External ids of this kind name ops.
  static constexpr CUpti_ExternalCorrelationKind op_kind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2;

  void open(decltype(&cuptiActivityGetNextRecord) next_record, std::size_t buffer_bytes);
  void note(const OpCall& call);
  Delivery take();
  // Later records are discarded.
  void close();

  static void CUPTIAPI request(std::uint8_t** buffer, std::size_t* bytes, std::size_t* max_records);
  static void CUPTIAPI complete(CUcontext context, std::uint32_t stream, std::uint8_t* buffer,
                                std::size_t bytes, std::size_t valid);

 private:
  struct Release {
    std::size_t bytes;
    void operator()(std::uint8_t* buffer) const;
  };
  using Buffer = std::unique_ptr<std::uint8_t, Release>;  // lent out all zero
  static Buffer make_buffer(std::size_t bytes);
  void read(const CUpti_Activity& record);

  std::mutex mutex_;
  decltype(&cuptiActivityGetNextRecord) next_record_ = nullptr;
  std::size_t buffer_bytes_ = 0;
  std::vector<Buffer> lent_, spare_;
  Delivery delivery_;
  bool open_ = false;
};

}  // namespace pooch::cupti
