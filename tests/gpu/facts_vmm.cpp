// What the calls of virtual memory cost: by the number of handles that a call spans and by their size, with
// the device idle and with copies in flight.
#include <fmt/core.h>

#include <array>
#include <map>
#include <optional>

#include "tests/gpu/sections.h"

namespace pooch::facts {
namespace {

constexpr int repetitions = 5;

// Copies one way, kept in flight.
class Load {
 public:
  enum class Way { within_device, to_device, to_host };
  Load(Bench& bench, Way way, std::size_t bytes) : bench_(bench), way_(way), bytes_(bytes), from_(bytes_) {
    if (way == Way::within_device) {
      to_.emplace(bytes_);
    } else {
      host_.emplace(bytes_);
    }
    copies_ = std::clamp(static_cast<int>(enough_us / microseconds_of_one()), 1, most_copies);
  }
  ~Load() { driver_call(cuStreamSynchronize, bench_.work); }
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;
  // Afterwards a whole portion, tens of milliseconds of copies, is still to be done.
  void keep_up() {
    while (!in_flight(ends_[0]) || !in_flight(ends_[1])) {
      Event& end = in_flight(ends_[0]) ? ends_[1] : ends_[0];
      for (int i = 0; i < copies_; ++i) copy();
      end.record(bench_.work);
    }
  }
  bool running() const { return in_flight(ends_[0]) || in_flight(ends_[1]); }

 private:
  static constexpr double enough_us = 100e3;  // 64 handles take 67 ms beside copies to the host
  static constexpr int most_copies = 400;     // two portions are fewer than a driver queues without waiting
  static bool in_flight(const Event& end) { return driver_call(cuEventQuery, end) == CUDA_ERROR_NOT_READY; }
  void copy() {
    switch (way_) {
      case Way::within_device:
        return must_call(cuMemcpyDtoDAsync, *to_, from_, bytes_, bench_.work);
      case Way::to_device:
        return must_call(cuMemcpyHtoDAsync, from_, host_->get(), bytes_, bench_.work);
      case Way::to_host:
        return must_call(cuMemcpyDtoHAsync, host_->get(), from_, bytes_, bench_.work);
    }
  }
  double microseconds_of_one() {
    const Event begin, end;
    copy();
    begin.record(bench_.work);
    copy();
    end.record(bench_.work);
    bench_.work.finish();
    return end.microseconds_since(begin);
  }

  Bench& bench_;
  Way way_;
  std::size_t bytes_;
  DeviceMemory from_;
  std::optional<DeviceMemory> to_;
  std::optional<HostMemory> host_;
  int copies_ = 1;
  std::array<Event, 2> ends_;
};

// Handles of one size, as many as a gibibyte has and at most 64. One call makes or maps one of them; the
// others span as many as they are given. Medians in microseconds.
class Handles {
 public:
  Handles(Bench& bench, std::size_t bytes, Load* load, std::size_t most = 64)
      : clock_(bench.clock), bytes_(bytes), load_(load), handles_(std::min<std::size_t>(GiB / bytes, most)) {}

  Json measure() {
    const std::size_t all = handles_.size() * bytes_;
    Json out;
    out["reserve_us"] = clock_.microseconds(
        [&] { must_call(cuMemAddressReserve, &base_, all, std::size_t{0}, CUdeviceptr{0}, 0ULL); });
    cycle(handles_.size());  // once to warm up
    waiting_.clear();
    for (std::size_t count = 1; count <= handles_.size(); count *= 2) out["by_handles"].push_back(row(count));
    must_call(cuMemAddressFree, base_, all);
    return out;
  }
  // Calls behind which the load had ended: they waited for work on memory that is not theirs.
  const std::vector<std::string>& waiting() const { return waiting_; }

 private:
  Json row(std::size_t count) {
    times_.clear();
    for (int i = 0; i < repetitions; ++i) cycle(count);
    Json out{{"handles", count}};
    for (const auto& [call, times] : times_) out[call + "_us"] = median(times);
    return out;
  }
  void cycle(std::size_t count) {
    const CUmemAllocationProp prop = property(CU_MEM_LOCATION_TYPE_DEVICE);
    const CUmemAccessDesc rights{prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    const auto each = [&](const auto& call) {
      return [&, call] {
        for (std::size_t i = 0; i < count; ++i) call(i);
      };
    };
    time("create", each([&](std::size_t i) { must_call(cuMemCreate, &handles_[i], bytes_, &prop, 0ULL); }));
    time("map", each([&](std::size_t i) {
           must_call(cuMemMap, base_ + i * bytes_, bytes_, std::size_t{0}, handles_[i], 0ULL);
         }));
    time("set_access", [&] { must_call(cuMemSetAccess, base_, count * bytes_, &rights, std::size_t{1}); });
    time("unmap", [&] { must_call(cuMemUnmap, base_, count * bytes_); });
    time("release", each([&](std::size_t i) { must_call(cuMemRelease, handles_[i]); }));
  }
  void time(const char* call, const std::function<void()>& calls) {
    if (load_ != nullptr) load_->keep_up();
    times_[call].push_back(clock_.microseconds(calls));
    if (load_ != nullptr && !load_->running() && std::ranges::find(waiting_, call) == waiting_.end())
      waiting_.emplace_back(call);
  }

  HostClock& clock_;
  std::size_t bytes_;
  Load* load_;
  std::vector<CUmemGenericAllocationHandle> handles_;
  CUdeviceptr base_ = 0;
  std::map<std::string, std::vector<double>> times_;
  std::vector<std::string> waiting_;
};

void measure_all_sizes(Bench& bench, Load* load, Json& out) {
  Json waiting = Json::array();
  for (const std::size_t mib : {2, 16, 128}) {
    Handles handles(bench, mib * MiB, load);
    const std::string size = std::to_string(mib) + "MiB";
    out[size] = handles.measure();
    for (std::string call : handles.waiting()) waiting.push_back(call.append(" of ").append(size));
  }
  if (load != nullptr) out["waited_for_other_work"] = std::move(waiting);
}

}  // namespace

void vmm_section(Bench& bench, Json& out) {
  measure_all_sizes(bench, nullptr, out["idle"]);
}

void vmm_under_load_section(Bench& bench, Json& out) {
  if (bench.software && bench.holds_bytes)
    throw NoAnswer("the software GPU copies too slowly to be kept busy where memory has content");
  struct Case {
    const char* name;
    Load::Way way;
    std::size_t bytes;  // of a copy
  };
  for (const auto& [name, way, bytes] :
       {Case{"within_device", Load::Way::within_device, GiB},
        Case{"to_device", Load::Way::to_device, 64 * MiB}, Case{"to_host", Load::Way::to_host, 64 * MiB}}) {
    Load load(bench, way, bytes);
    measure_all_sizes(bench, &load, out[name]);
  }
}

// Whether calls that have to wait for a copy wait less for small ones.
void vmm_under_small_copies_section(Bench& bench, Json& out) {
  if (bench.software && bench.holds_bytes)
    throw NoAnswer("the software GPU copies too slowly to be kept busy where memory has content");
  for (const std::size_t mib : {256, 16, 2}) {
    Load load(bench, Load::Way::to_host, mib * MiB);
    out["to_host_in_" + std::to_string(mib) + "MiB"] = Handles(bench, 2 * MiB, &load, 2).measure();
  }
}

// Reservations at places that are asked for, of as many bytes as a session's arena has and of fewer.
void places_section(Bench&, Json& out) {
  constexpr CUdeviceptr odd = 0x5a'4a40'0000;
  for (const std::size_t tib : {16, 4, 1}) {
    for (const CUdeviceptr high : {0x6a, 0x5a, 0x3a, 0x2a, 0x1a, 0x0a, 0x06, 0x03, 0x01}) {
      const CUdeviceptr asked = (high << 40) + odd;
      CUdeviceptr given = 0;
      const CUresult result =
          driver_call(cuMemAddressReserve, &given, tib << 40, std::size_t{0}, asked, 0ULL);
      if (result == CUDA_SUCCESS) must_call(cuMemAddressFree, given, tib << 40);
      out["rows"].push_back({{"tib", tib},
                             {"asked", fmt::format("{:#x}", asked)},
                             {"result", static_cast<int>(result)},
                             {"given", fmt::format("{:#x}", given)}});
    }
  }
}

}  // namespace pooch::facts
