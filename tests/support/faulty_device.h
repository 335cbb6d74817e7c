// A Device that breaks one promise, once: what a defect of pooch would look like. Tests plant such faults to
// show that they are found. Or one that refuses memory, once or from then on, which pooch has to live with.
#pragma once

#include <cstdint>
#include <map>

#include "core/device.h"

namespace pooch::test {

enum class Fault : std::uint8_t {
  lost_wait,       // the n-th wait of a stream for an event never reaches the driver
  early_free,      // the n-th host wait returns at once, so memory moves while work still uses it
  double_mapping,  // the n-th new handle is one that is in use already
  lost_drain,      // the n-th wait for everything returns at once
  hasty_reuse,     // the n-th question whether an event has finished is answered with yes, whatever the truth
  shared_slot,     // the n-th copy to the host lands in the buffer that the latest copy from the host still
                   // reads
  no_handle,       // the n-th new handle is out of memory, and all later ones with Strikes::always
  no_mapping,      // likewise for mapping one
  no_access,       // likewise for access to what was mapped
};
enum class Strikes : bool { once, always };

class FaultyDevice final : public Device {
 public:
  FaultyDevice(Device& inner, Fault fault, std::uint64_t n, Strikes how_often = Strikes::once)
      : inner_(inner), fault_(fault), countdown_(n), always_(how_often == Strikes::always) {}
  bool struck() const { return struck_; }
  // The n-th from now on.
  void strike_at(std::uint64_t n) { countdown_ = n; }

  Result<DeviceInfo> info() override { return inner_.info(); }
  Result<std::uint64_t> free_bytes() override { return inner_.free_bytes(); }
  Result<Address> reserve(std::uint64_t bytes) override { return inner_.reserve(bytes); }
  Status release(Address base, std::uint64_t bytes) override { return inner_.release(base, bytes); }
  Result<PhysicalHandle> create(std::uint64_t bytes) override {
    if (strikes(Fault::no_handle)) return out_of_memory();
    const auto last = last_created_.find(bytes);
    if (last != last_created_.end() && strikes(Fault::double_mapping)) return last->second;
    const auto made = inner_.create(bytes);
    if (made) last_created_.insert_or_assign(bytes, *made);
    return made;
  }
  Status destroy(PhysicalHandle handle) override { return inner_.destroy(handle); }
  Status map(Address at, std::uint64_t bytes, PhysicalHandle handle) override {
    return strikes(Fault::no_mapping) ? out_of_memory() : inner_.map(at, bytes, handle);
  }
  Status set_access(Address at, std::uint64_t bytes) override {
    return strikes(Fault::no_access) ? out_of_memory() : inner_.set_access(at, bytes);
  }
  Status unmap(Address at, std::uint64_t bytes) override { return inner_.unmap(at, bytes); }
  Result<std::byte*> host_allocate(std::uint64_t bytes) override { return inner_.host_allocate(bytes); }
  Status host_free(std::byte* memory) override { return inner_.host_free(memory); }
  Result<HostHandle> create_host(std::uint64_t bytes) override { return inner_.create_host(bytes); }
  Status destroy_host(const HostHandle& made, std::uint64_t bytes) override {
    return inner_.destroy_host(made, bytes);
  }
  Result<StreamHandle> create_stream() override { return inner_.create_stream(); }
  Status destroy_stream(StreamHandle stream) override { return inner_.destroy_stream(stream); }
  Result<EventHandle> create_event() override { return inner_.create_event(); }
  Result<EventHandle> create_timing_event() override { return inner_.create_timing_event(); }
  Result<double> elapsed_us(EventHandle from, EventHandle to) override { return inner_.elapsed_us(from, to); }
  Status destroy_event(EventHandle event) override { return inner_.destroy_event(event); }
  Status record(EventHandle event, StreamHandle stream) override { return inner_.record(event, stream); }
  Status wait(StreamHandle stream, EventHandle event) override {
    return strikes(Fault::lost_wait) ? Status(Done{}) : inner_.wait(stream, event);
  }
  Result<bool> finished(EventHandle event) override {
    const auto truth = inner_.finished(event);
    return truth && !*truth && strikes(Fault::hasty_reuse) ? Result<bool>(true) : truth;
  }
  Status synchronize(EventHandle event) override {
    return strikes(Fault::early_free) ? Status(Done{}) : inner_.synchronize(event);
  }
  Status synchronize_all() override {
    return strikes(Fault::lost_drain) ? Status(Done{}) : inner_.synchronize_all();
  }
  Result<bool> capturing(StreamHandle stream) override { return inner_.capturing(stream); }
  Status copy_out(std::byte* to, Address from, std::uint64_t bytes, StreamHandle stream) override {
    const bool shared = bytes == last_in_bytes_ && strikes(Fault::shared_slot);
    return inner_.copy_out(shared ? const_cast<std::byte*>(last_in_) : to, from, bytes, stream);
  }
  Status copy_in(Address to, const std::byte* from, std::uint64_t bytes, StreamHandle stream) override {
    last_in_ = from;
    last_in_bytes_ = bytes;
    return inner_.copy_in(to, from, bytes, stream);
  }
  Status digest(Address from, std::uint64_t bytes, Address result, StreamHandle stream) override {
    return inner_.digest(from, bytes, result, stream);
  }
  Status normalise(const NormaliseCall& call, StreamHandle stream) override {
    return inner_.normalise(call, stream);
  }
  Status compare(const NormaliseCall& call, std::uint32_t (*differs)[formulas],
                 StreamHandle stream) override {
    return inner_.compare(call, differs, stream);
  }

 private:
  bool strikes(Fault kind) {
    if (kind != fault_ || (struck_ && !always_) || (!struck_ && --countdown_ > 0)) return false;
    return struck_ = true;
  }
  static Error out_of_memory() { return {ErrorCode::out_of_memory, "out of memory", 2}; }

  Device& inner_;
  Fault fault_;
  std::uint64_t countdown_;
  bool struck_ = false, always_;
  std::map<std::uint64_t, PhysicalHandle> last_created_;
  const std::byte* last_in_ = nullptr;
  std::uint64_t last_in_bytes_ = 0;
};

}  // namespace pooch::test
