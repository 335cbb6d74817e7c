// Virtual memory: what one handle at two addresses, one address of two handles and host memory behind a
// device address do.
#include "tests/gpu/sections.h"

namespace pooch::facts {
namespace {

class Handle {
 public:
  explicit Handle(std::size_t bytes, CUmemLocationType where = CU_MEM_LOCATION_TYPE_DEVICE) {
    const CUmemAllocationProp prop = property(where);
    must_call(cuMemCreate, &handle_, bytes, &prop, 0ULL);
  }
  ~Handle() { driver_call(cuMemRelease, handle_); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  operator CUmemGenericAllocationHandle() const { return handle_; }

 private:
  CUmemGenericAllocationHandle handle_ = 0;
};

// A range of addresses; what is mapped there at the end is unmapped, once all work is done.
class Range {
 public:
  explicit Range(std::size_t bytes) : bytes_(bytes) {
    must_call(cuMemAddressReserve, &base_, bytes, std::size_t{0}, CUdeviceptr{0}, 0ULL);
  }
  ~Range() {
    driver_call(cuCtxSynchronize);
    if (mapped_) driver_call(cuMemUnmap, base_, bytes_);
    driver_call(cuMemAddressFree, base_, bytes_);
  }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
  operator CUdeviceptr() const { return base_; }
  void back(CUmemGenericAllocationHandle handle, const std::vector<CUmemLocationType>& readers) {
    must_call(cuMemMap, base_, bytes_, std::size_t{0}, handle, 0ULL);
    mapped_ = true;
    allow(readers);
  }
  void back(CUmemGenericAllocationHandle handle) { back(handle, {CU_MEM_LOCATION_TYPE_DEVICE}); }
  void unmap() {
    must_call(cuMemUnmap, base_, bytes_);
    mapped_ = false;
  }

 private:
  void allow(const std::vector<CUmemLocationType>& readers) {
    std::vector<CUmemAccessDesc> rights;
    for (const CUmemLocationType where : readers)
      rights.push_back({property(where).location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE});
    must_call(cuMemSetAccess, base_, bytes_, rights.data(), rights.size());
  }
  CUdeviceptr base_ = 0;
  std::size_t bytes_ = 0;
  bool mapped_ = false;
};

void need_bytes_held(const Bench& bench) {
  if (!bench.holds_bytes) throw NoAnswer("the software GPU's memory has no content in timing mode");
}

void host_backed(Bench& bench, CUmemLocationType where, Json& out) {
  constexpr std::size_t bytes = 512 * MiB;
  const CUmemAllocationProp prop = property(where);
  CUmemGenericAllocationHandle raw = 0;
  const double created = bench.clock.microseconds([&] { must_call(cuMemCreate, &raw, bytes, &prop, 0ULL); });
  must_call(cuMemRelease, raw);
  const Handle handle(bytes, where);
  Range range(bytes);
  range.back(handle, {CU_MEM_LOCATION_TYPE_DEVICE, where});
  const DeviceMemory device(bytes);
  const auto rate = [&](const std::function<void()>& submit) {
    const Event begin, end;
    begin.record(bench.stream);
    submit();
    end.record(bench.stream);
    bench.stream.finish();
    return bytes / end.microseconds_since(begin) * 1e6;
  };
  const auto set = [&] { must_call(cuMemsetD32Async, range, 7U, bytes / 4, bench.stream); };
  set();
  bench.stream.finish();
  out["create_512MiB_us"] = created;
  // Allowed above: the processor reads what the device wrote, at the device's address.
  if (bench.holds_bytes)
    out["word_read_by_processor"] =
        *reinterpret_cast<const volatile unsigned*>(static_cast<CUdeviceptr>(range) + 4096);
  out["set_bytes_per_s"] = rate(set);
  out["copy_in_bytes_per_s"] =
      rate([&] { must_call(cuMemcpyDtoDAsync, device, range, bytes, bench.stream); });
  out["copy_out_bytes_per_s"] =
      rate([&] { must_call(cuMemcpyDtoDAsync, range, device, bytes, bench.stream); });
}

}  // namespace

// One handle at two addresses: what is written through one is read through the other, in the order of events.
void alias_section(Bench& bench, Json& out) {
  need_bytes_held(bench);
  constexpr std::size_t bytes = 64 * MiB;
  const unsigned rounds = bench.software ? 6 : 50;
  const Handle handle(bytes);
  Range a(bytes), b(bytes);
  a.back(handle);
  b.back(handle);
  const HostMemory host(bytes);
  std::uint64_t wrong = 0;
  for (unsigned round = 1; round <= rounds; ++round) {
    const bool odd = round % 2 == 1;
    must_call(cuMemsetD32Async, odd ? a : b, round, bytes / 4, bench.stream);
    bench.other.follow(bench.stream);
    must_call(cuMemcpyDtoHAsync, host.get(), odd ? b : a, bytes, bench.other);
    bench.other.finish();
    for (std::size_t i = 0; i < bytes / 4; i += 4099) wrong += host.words()[i] != round ? 1 : 0;
  }
  out = {{"rounds", rounds}, {"wrong_words", wrong}};
}

// Two handles in turn at one address.
void remap_section(Bench& bench, Json& out) {
  constexpr std::size_t bytes = 64 * MiB;
  const unsigned rounds = bench.software ? 10 : 100;
  const Handle handles[] = {Handle(bytes), Handle(bytes)};
  const HostMemory host(MiB);
  Range range(bytes);
  for (unsigned i = 0; i < 2; ++i) {
    range.back(handles[i]);
    must_call(cuMemsetD32Async, range, 100 + i, bytes / 4, bench.stream);
    bench.stream.finish();
    range.unmap();
  }
  std::vector<double> cycles;
  int wrong = 0;
  for (unsigned i = 0; i < rounds; ++i) {
    double cycle = bench.clock.microseconds([&] { range.back(handles[i % 2]); });
    must_call(cuMemcpyDtoHAsync, host.get(), range, sizeof(unsigned), bench.stream);
    bench.stream.finish();
    wrong += *host.words() != 100 + i % 2 ? 1 : 0;
    cycle += bench.clock.microseconds([&] { range.unmap(); });
    cycles.push_back(cycle);
  }
  out["cycle_64MiB_us"] = median(cycles);
  if (bench.holds_bytes) out["wrong_words"] = wrong;
}

void host_numa_backed_section(Bench& bench, Json& out) {
  host_backed(bench, CU_MEM_LOCATION_TYPE_HOST_NUMA, out);
}
void host_backed_section(Bench& bench, Json& out) {
  host_backed(bench, CU_MEM_LOCATION_TYPE_HOST, out);
}

}  // namespace pooch::facts
