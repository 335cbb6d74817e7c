// A Device that refuses a call: the n-th of all that may fail, once or from then on. What is refused does
// nothing.
#pragma once

#include <cstdint>

#include "core/device.h"

namespace pooch::test {

struct RefusedCall {
  std::uint64_t number = 0;  // of all calls, from 1 on; 0: none
  ErrorCode code = ErrorCode::device;
  bool for_ever = false;
};

class RefusingDevice final : public Device {
 public:
  RefusingDevice(Device& inner, const RefusedCall& refused) : inner_(inner), refused_(refused) {}
  std::uint64_t calls() const { return calls_; }
  const char* struck() const { return struck_; }  // the first method that was refused; nullptr: none
  void hold_off(bool yes) { held_off_ = yes; }    // calls are neither counted nor refused

  Result<DeviceInfo> info() override { return inner_.info(); }
  Result<std::uint64_t> free_bytes() override {
    return refuses("free_bytes") ? other() : inner_.free_bytes();
  }
  Result<Address> reserve(std::uint64_t bytes) override { return inner_.reserve(bytes); }
  Status release(Address base, std::uint64_t bytes) override { return inner_.release(base, bytes); }
  Result<PhysicalHandle> create(std::uint64_t bytes) override {
    return refuses("create") ? error() : inner_.create(bytes);
  }
  Status destroy(PhysicalHandle handle) override {
    return refuses("destroy") ? Status(other()) : inner_.destroy(handle);
  }
  Status map(Address at, std::uint64_t bytes, PhysicalHandle handle) override {
    return refuses("map") ? Status(error()) : inner_.map(at, bytes, handle);
  }
  Status set_access(Address at, std::uint64_t bytes) override {
    return refuses("set_access") ? Status(error()) : inner_.set_access(at, bytes);
  }
  Status unmap(Address at, std::uint64_t bytes) override {
    return refuses("unmap") ? Status(other()) : inner_.unmap(at, bytes);
  }
  Result<std::byte*> host_allocate(std::uint64_t bytes) override {
    return refuses("host_allocate") ? error() : inner_.host_allocate(bytes);
  }
  Status host_free(std::byte* memory) override { return inner_.host_free(memory); }
  Result<HostHandle> create_host(std::uint64_t bytes) override {
    return refuses("create_host") ? error() : inner_.create_host(bytes);
  }
  Status destroy_host(const HostHandle& made, std::uint64_t bytes) override {
    return inner_.destroy_host(made, bytes);
  }
  Result<StreamHandle> create_stream() override { return inner_.create_stream(); }
  Status destroy_stream(StreamHandle stream) override { return inner_.destroy_stream(stream); }
  Result<EventHandle> create_event() override {
    return refuses("create_event") ? other() : inner_.create_event();
  }
  Result<EventHandle> create_timing_event() override { return inner_.create_timing_event(); }
  Result<double> elapsed_us(EventHandle from, EventHandle to) override { return inner_.elapsed_us(from, to); }
  Status destroy_event(EventHandle event) override { return inner_.destroy_event(event); }
  Status record(EventHandle event, StreamHandle stream) override {
    return refuses("record") ? Status(other()) : inner_.record(event, stream);
  }
  Status wait(StreamHandle stream, EventHandle event) override {
    return refuses("wait") ? Status(other()) : inner_.wait(stream, event);
  }
  Result<bool> finished(EventHandle event) override {
    return refuses("finished") ? other() : inner_.finished(event);
  }
  Status synchronize(EventHandle event) override {
    return refuses("synchronize") ? Status(other()) : inner_.synchronize(event);
  }
  Status synchronize_all() override {
    return refuses("synchronize_all") ? Status(other()) : inner_.synchronize_all();
  }
  Result<bool> capturing(StreamHandle stream) override {
    return refuses("capturing") ? other() : inner_.capturing(stream);
  }
  Status copy_out(std::byte* to, Address from, std::uint64_t bytes, StreamHandle stream) override {
    return refuses("copy_out") ? Status(other()) : inner_.copy_out(to, from, bytes, stream);
  }
  Status copy_in(Address to, const std::byte* from, std::uint64_t bytes, StreamHandle stream) override {
    return refuses("copy_in") ? Status(other()) : inner_.copy_in(to, from, bytes, stream);
  }
  Status digest(Address from, std::uint64_t bytes, Address result, StreamHandle stream) override {
    return refuses("digest") ? Status(other()) : inner_.digest(from, bytes, result, stream);
  }
  Status normalise(const NormaliseCall& call, StreamHandle stream) override {
    return refuses("normalise") ? Status(other()) : inner_.normalise(call, stream);
  }
  Status compare(const NormaliseCall& call, std::uint32_t (*differs)[formulas],
                 StreamHandle stream) override {
    return refuses("compare") ? Status(other()) : inner_.compare(call, differs, stream);
  }

 private:
  bool refuses(const char* method) {
    if (held_off_) return false;
    ++calls_;
    const bool now = refused_.for_ever ? calls_ >= refused_.number : calls_ == refused_.number;
    if (refused_.number == 0 || !now) return false;
    if (struck_ == nullptr) struck_ = method;
    return true;
  }
  // Of calls that take memory, and of others: want of memory is no answer of theirs (core/device.h).
  Error error() const { return {refused_.code, "refused for a test", 999}; }
  Error other() const { return {ErrorCode::device, "refused for a test", 999}; }

  Device& inner_;
  const RefusedCall refused_;
  std::uint64_t calls_ = 0;
  bool held_off_ = true;
  const char* struck_ = nullptr;
};

}  // namespace pooch::test
