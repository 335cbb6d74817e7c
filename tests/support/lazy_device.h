// A Device for unit tests that does as little as it may, as late as it may, in any order that streams and
// events allow: work is queued and runs only when somebody must see its result, picked at random. A missing
// wait, an early unmap or a host buffer reused too soon therefore shows as a wrong byte or as an illegal
// access.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "core/device.h"

namespace pooch::test {

class LazyDevice : public Device {
 public:
  explicit LazyDevice(std::uint64_t memory, unsigned seed = 1) : memory_(memory), random_(seed) {}

  // The program's side: work in a stream, and what it did wrong so far (illegal accesses, rules broken). Work
  // takes time of a clock that all streams share.
  void launch(StreamHandle stream, std::function<void()> work, double microseconds = 1);
  // `bytes` at `at`, or nullptr (and a complaint) where they are not mapped with access by one handle.
  std::byte* translate(Address at, std::uint64_t bytes);
  void drain();
  // A host function that does not return until `unblock`.
  void block(StreamHandle stream);
  void unblock(StreamHandle stream);
  const std::vector<std::string>& complaints() const { return complaints_; }
  std::uint64_t created_bytes() const { return created_; }
  std::uint64_t peak_bytes() const { return peak_; }
  std::uint64_t waits() const { return waits_; }                      // calls of wait()
  std::uint64_t records() const { return records_; }                  // ... and of record()
  std::uint64_t landed_accesses() const { return landed_accesses_; }  // translations into host memory
  std::uint64_t unmaps() const { return unmaps_; }
  // What a copy between host and device takes from now on.
  void take_for_copies(double microseconds) { copy_us_ = microseconds; }
  // From now on this stream's work comes first wherever it may.
  void run_first(StreamHandle stream) { first_ = stream; }
  // A driver that takes no more than one mapping per call.
  void unmap_one_by_one() { one_by_one_ = true; }
  std::size_t events() const { return events_.size(); }

  Result<std::uint64_t> free_bytes() override;
  // Memory that somebody took besides, as a driver does for what it packs loosely.
  void take_outside(std::uint64_t bytes);
  Result<DeviceInfo> info() override { return DeviceInfo{"lazy", memory_, 2 * MiB, -1, true}; }
  Result<Address> reserve(std::uint64_t bytes) override;
  Status release(Address /*base*/, std::uint64_t /*bytes*/) override { return Done{}; }
  Result<PhysicalHandle> create(std::uint64_t bytes) override;
  Status destroy(PhysicalHandle handle) override;
  Status map(Address at, std::uint64_t bytes, PhysicalHandle handle) override;
  Status set_access(Address at, std::uint64_t bytes) override;
  Status unmap(Address at, std::uint64_t bytes) override;
  Result<std::byte*> host_allocate(std::uint64_t bytes) override;
  Status host_free(std::byte* memory) override;
  Result<HostHandle> create_host(std::uint64_t bytes) override;
  Status destroy_host(const HostHandle& made, std::uint64_t bytes) override;
  Result<StreamHandle> create_stream() override;
  Status destroy_stream(StreamHandle /*stream*/) override { return Done{}; }
  Result<EventHandle> create_event() override;
  Result<EventHandle> create_timing_event() override;
  Result<double> elapsed_us(EventHandle from, EventHandle to) override;
  Status destroy_event(EventHandle event) override;
  Status record(EventHandle event, StreamHandle stream) override;
  Status wait(StreamHandle stream, EventHandle event) override;
  Result<bool> finished(EventHandle event) override;
  Status synchronize(EventHandle event) override;
  Status synchronize_all() override { return drain(), Done{}; }
  Result<bool> capturing(StreamHandle /*stream*/) override { return false; }
  Status copy_out(std::byte* to, Address from, std::uint64_t bytes, StreamHandle stream) override;
  Status copy_in(Address to, const std::byte* from, std::uint64_t bytes, StreamHandle stream) override;
  Status digest(Address from, std::uint64_t bytes, Address result, StreamHandle stream) override;
  Status normalise(const NormaliseCall& call, StreamHandle stream) override;
  Status compare(const NormaliseCall& call, std::uint32_t (*differs)[formulas], StreamHandle stream) override;

 private:
  using Flag = std::shared_ptr<bool>;
  struct Task {
    std::function<void()> work;  // one of the three
    Flag wait_for;
    Flag raise;
    double microseconds = 0;
    std::shared_ptr<double> stamp = nullptr;  // gets the clock when it is raised
  };
  struct Mapping {
    std::uint64_t bytes;
    PhysicalHandle handle;
    bool accessible;
  };
  struct Physical {
    std::vector<std::byte> bytes;
    int mappings = 0;
    bool on_host = false;
  };

  bool step();  // runs one task that may run; false if there is none
  Status complain(std::string what);
  template <class Visit>
  bool each_page(Address from, std::uint64_t bytes, Visit&& visit);

  // A driver may be called from any thread. Work that runs calls `translate`: recursive.
  using Lock = std::lock_guard<std::recursive_mutex>;
  std::recursive_mutex mutex_;
  std::uint64_t memory_;
  std::mt19937 random_;
  std::uintptr_t next_ = 100;
  std::map<StreamHandle, std::deque<Task>> queues_;
  std::optional<StreamHandle> first_;
  std::map<EventHandle, Flag> events_;
  std::map<EventHandle, std::shared_ptr<double>> stamps_;  // of events with timing; null until recorded
  double clock_us_ = 0, copy_us_ = 1;
  std::map<StreamHandle, Flag> gates_;
  std::map<Address, Mapping> mappings_;
  std::map<PhysicalHandle, Physical> physical_;
  std::map<std::byte*, std::vector<std::byte>> host_;
  bool one_by_one_ = false;
  std::uint64_t landed_accesses_ = 0, unmaps_ = 0, created_ = 0, peak_ = 0, waits_ = 0, outside_ = 0;
  std::uint64_t records_ = 0;
  std::vector<std::string> complaints_;
};

}  // namespace pooch::test
