// Op times by CUPTI's activity records: what ran on the device, with an op's number as external id of the API
// calls made between begin() and end().
#pragma once

#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cupti/cupti_library.h"
#include "cupti/op_timer.h"
#include "cupti/record_inbox.h"

namespace pooch::cupti {

class CuptiTimer final : public OpTimer {
 public:
  // Errors: not_supported (no CUPTI, taken by another profiler, not allowed), with the reason.
  static Result<std::unique_ptr<OpTimer>> open(std::size_t buffer_bytes = std::size_t{1} << 18);
  ~CuptiTimer() override;
  CuptiTimer(const CuptiTimer&) = delete;
  CuptiTimer& operator=(const CuptiTimer&) = delete;

  std::string_view source() const override { return "cupti"; }
  Status begin(std::uint64_t op, StreamHandle stream) override;
  Status end(std::uint64_t op, StreamHandle stream) override;
  Status collect(std::vector<OpTime>& into) override;
  Status stop(std::vector<OpTime>& last) override;

 private:
  // What is known of an op's work so far.
  struct Span {
    std::uint64_t start_ns, end_ns;
    std::uint32_t stream;
    unsigned round;      // of collect(), in which it last grew
    bool given = false;  // to the caller
  };

  explicit CuptiTimer(const CuptiLibrary& cupti) : cupti_(cupti) {}
  Status start(std::size_t buffer_bytes);
  void set(CUpti_ActivityAttribute attribute, std::uint8_t value);
  void disable();
  void fetch();
  void match();
  bool belongs(const DeviceWork& work);
  std::vector<std::pair<std::uint64_t, Span>>::iterator span_of(std::uint64_t op);
  std::vector<OpCall>::iterator next_within(std::vector<OpCall>::iterator call);
  std::uint32_t number_of(StreamHandle stream) const;
  bool followed(const Span& span) const;
  void give(std::uint64_t op, Span& span, std::vector<OpTime>& into);

  const CuptiLibrary& cupti_;
  CUpti_SubscriberHandle subscriber_ = nullptr;
  std::vector<CUpti_ActivityKind> enabled_;
  bool stopped_ = false;

  std::vector<OpCall> calls_;  // by correlation
  std::size_t next_call_ = 0;  // where the next one looked for is likely to be
  std::vector<DeviceWork> unmatched_;
  std::vector<std::pair<std::uint64_t, Span>> spans_;           // by op
  std::unordered_map<std::uint32_t, std::uint64_t> newest_ns_;  // latest start of work per stream
  unsigned round_ = 0;
  std::optional<std::uint64_t>
      zero_ns_;  // of our clock: CUPTI's is too far from 0 for a double's microseconds
  std::uint64_t untimed_ = 0, late_ = 0;
  bool cut_ = false;
};

}  // namespace pooch::cupti
