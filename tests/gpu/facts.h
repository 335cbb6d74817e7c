// What only a device can tell: numbers and answers that pooch, and the software GPU's models, rest on. Each
// section is a function that measures and puts what it found into a JSON object.
#pragma once

#include <cuda.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/driver.h"

namespace pooch::facts {

using Json = nlohmann::ordered_json;

constexpr std::size_t KiB = 1 << 10, MiB = 1 << 20, GiB = 1 << 30;

// The section has no answer on this device; what() is one line that says why.
struct NoAnswer : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Throws NoAnswer for every result but success.
void check(CUresult result, const char* function);
// must_call(cuMemMap, …): the driver's function, checked.
#define must_call(name, ...) ::pooch::facts::check(driver_call(name, __VA_ARGS__), #name)

// Objects of the driver, each given back at the end of its life; what the driver answers then is not looked
// at.
class Stream {
 public:
  Stream();
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator CUstream() const { return stream_; }
  void finish() const { must_call(cuStreamSynchronize, stream_); }
  // What comes next waits for what `other` has been given.
  void follow(const Stream& other);

 private:
  CUstream stream_ = nullptr;
  CUevent event_ = nullptr;
};

class Event {
 public:
  Event() { must_call(cuEventCreate, &event_, CU_EVENT_DEFAULT); }
  ~Event() { driver_call(cuEventDestroy, event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  operator CUevent() const { return event_; }
  void record(CUstream stream) const { must_call(cuEventRecord, event_, stream); }
  // Both must have happened.
  double microseconds_since(const Event& earlier) const;

 private:
  CUevent event_ = nullptr;
};

class DeviceMemory {
 public:
  explicit DeviceMemory(std::size_t bytes) { must_call(cuMemAlloc, &address_, bytes); }
  ~DeviceMemory() { driver_call(cuMemFree, address_); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  operator CUdeviceptr() const { return address_; }

 private:
  CUdeviceptr address_ = 0;
};

// Page-locked.
class HostMemory {
 public:
  explicit HostMemory(std::size_t bytes) { must_call(cuMemHostAlloc, &address_, bytes, 0U); }
  ~HostMemory() { driver_call(cuMemFreeHost, address_); }
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
  void* get() const { return address_; }
  unsigned* words() const { return static_cast<unsigned*>(address_); }

 private:
  void* address_ = nullptr;
};

// What cuMemCreate and cuMemSetAccess are told of a place.
inline CUmemAllocationProp property(CUmemLocationType where) {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = where;
  return prop;
}

// How long the host is in a call: by the host's clock; on the software GPU by its virtual one, which only
// events tell.
class HostClock {
 public:
  explicit HostClock(bool of_software);
  double microseconds(const std::function<void()>& call);
  // The median of `times` calls.
  double median(int times, const std::function<void()>& call);

 private:
  double by_events(const std::function<void()>& call);
  bool of_software_;
  double overhead_ = 0;
  Stream stream_;
  Event begin_, end_;
};

double median(std::vector<double> values);

// Device 0, and how much work a section gives it.
struct Bench {
  Bench();
  bool software = false;
  bool holds_bytes = false;  // false: the software GPU in timing mode, where memory has no content
  std::size_t bulk = 0;      // bytes of a large copy
  HostClock clock;
  Stream stream, other, work;

 private:
  bool keeps_words();
};

struct Section {
  const char* name;
  void (*measure)(Bench&, Json&);
};
// Of the program that facts.cpp is linked into.
std::span<const Section> sections();

}  // namespace pooch::facts
