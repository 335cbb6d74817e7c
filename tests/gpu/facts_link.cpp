// How fast bytes move: over the link by size and direction, within the device, and into page-locked memory.
#include <sys/mman.h>

#include <cstring>
#include <thread>

#include "tests/gpu/sections.h"

namespace pooch::facts {
namespace {

struct Mapping {
  explicit Mapping(std::size_t size, int populate = MAP_POPULATE) : bytes(size) {
    address = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | populate, -1, 0);
    if (address == MAP_FAILED) throw NoAnswer("the host has no memory for it");
  }
  ~Mapping() { munmap(address, bytes); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  void* address;
  std::size_t bytes;
};

class Link {
 public:
  explicit Link(Bench& bench)
      : bench_(bench),
        largest_(std::min(bench.bulk, 256 * MiB)),
        out_(largest_),
        in_(largest_),
        device_out_(largest_),
        device_in_(largest_) {
    must_call(cuMemsetD8Async, device_out_, static_cast<unsigned char>(1), largest_, bench.stream);
    bench.stream.finish();
  }
  std::size_t largest() const { return largest_; }

  // Bytes per second in each direction that is asked for.
  double rate(std::size_t bytes, bool out, bool in) {
    const std::size_t times = std::clamp<std::size_t>(bench_.bulk / bytes, 4, most());
    const double us = timed([&] {
      for (std::size_t i = 0; i < times; ++i) {
        if (out) must_call(cuMemcpyDtoHAsync, out_.get(), device_out_, bytes, bench_.stream);
        if (in) must_call(cuMemcpyHtoDAsync, device_in_, in_.get(), bytes, bench_.other);
      }
    });
    return static_cast<double>(times * bytes) / us * 1e6;
  }
  // What one more copy takes that carries next to nothing.
  double latency_us() {
    const auto copies = [this](std::size_t times) {
      return timed([&] {
        for (std::size_t i = 0; i < times; ++i)
          must_call(cuMemcpyHtoDAsync, device_in_, in_.get(), std::size_t{64}, bench_.other);
      });
    };
    const double few = copies(most());
    return (copies(2 * most()) - few) / static_cast<double>(most());
  }

 private:
  // Copies in a row. The software GPU compares each with all that it is not ordered behind.
  std::size_t most() const { return bench_.software ? 16 : 1024; }
  double timed(const std::function<void()>& submit) {
    begin_.record(bench_.stream);
    bench_.other.follow(bench_.stream);
    submit();
    bench_.stream.follow(bench_.other);
    end_.record(bench_.stream);
    bench_.stream.finish();
    return end_.microseconds_since(begin_);
  }
  Bench& bench_;
  std::size_t largest_;
  HostMemory out_, in_;
  DeviceMemory device_out_, device_in_;
  Event begin_, end_;
};

// By so many threads, each its part.
void touch(const Mapping& mapping, std::size_t bytes, unsigned threads) {
  std::vector<std::jthread> at_work;
  const std::size_t part = bytes / threads;
  for (unsigned t = 0; t < threads; ++t)
    at_work.emplace_back([&, t] { std::memset(static_cast<char*>(mapping.address) + t * part, 1, part); });
}

// Bytes per second of copies in both directions, one after the other.
Json copies_with(Bench& bench, void* host, std::size_t bytes) {
  const DeviceMemory device(bytes);
  const Event begin, middle, end;
  constexpr int times = 4;
  const auto out = [&] { must_call(cuMemcpyDtoHAsync, host, device, bytes, bench.stream); };
  const auto in = [&] { must_call(cuMemcpyHtoDAsync, device, host, bytes, bench.stream); };
  out();
  begin.record(bench.stream);
  for (int i = 0; i < times; ++i) out();
  middle.record(bench.stream);
  for (int i = 0; i < times; ++i) in();
  end.record(bench.stream);
  bench.stream.finish();
  const double all = times * static_cast<double>(bytes) * 1e6;
  return {{"out_bytes_per_s", all / middle.microseconds_since(begin)},
          {"in_bytes_per_s", all / end.microseconds_since(middle)}};
}

// Page-locked memory in another way than by cuMemHostAlloc: large pages where the system gives them, touched
// by several threads, then registered.
Json pin_by_hand(Bench& bench, std::size_t bytes) {
  Json rows = Json::array();
  for (const bool large : {false, true}) {
    for (const unsigned threads : {1U, 4U, 8U}) {
      const Mapping mapping(bytes, 0);
      if (large) madvise(mapping.address, bytes, MADV_HUGEPAGE);
      const double touch_us = bench.clock.microseconds([&] { touch(mapping, bytes, threads); });
      const double register_us =
          bench.clock.microseconds([&] { must_call(cuMemHostRegister, mapping.address, bytes, 0U); });
      const Json copies = copies_with(bench, mapping.address, bytes);
      must_call(cuMemHostUnregister, mapping.address);
      rows.push_back({{"large_pages", large},
                      {"copies", copies},
                      {"threads", threads},
                      {"touch_us", touch_us},
                      {"register_us", register_us}});
    }
  }
  return rows;
}

}  // namespace

void link_section(Bench& bench, Json& out) {
  Link link(bench);
  link.rate(link.largest(), true, true);  // clocks up, pages touched
  for (std::size_t bytes = 64 * KiB; bytes <= link.largest(); bytes *= 4) {
    out["by_size"].push_back({{"bytes", bytes},
                              {"out_bytes_per_s", link.rate(bytes, true, false)},
                              {"in_bytes_per_s", link.rate(bytes, false, true)},
                              {"each_when_both_bytes_per_s", link.rate(bytes, true, true)}});
  }
  out["latency_us"] = link.latency_us();
}

void device_copy_section(Bench& bench, Json& out) {
  const std::size_t bytes = bench.bulk;
  constexpr int times = 20;
  const DeviceMemory from(bytes), to(bytes);
  const Event begin, end;
  const auto rate = [&](const std::function<void()>& submit) {
    submit();
    begin.record(bench.stream);
    for (int i = 0; i < times; ++i) submit();
    end.record(bench.stream);
    bench.stream.finish();
    return times * static_cast<double>(bytes) / end.microseconds_since(begin) * 1e6;
  };
  out["set_bytes_per_s"] = rate([&] { must_call(cuMemsetD32Async, from, 1U, bytes / 4, bench.stream); });
  out["copy_bytes_per_s"] = rate([&] { must_call(cuMemcpyDtoDAsync, to, from, bytes, bench.stream); });
}

void pinning_section(Bench& bench, Json& out) {
  const auto allocate = [&](std::size_t bytes) {
    void* memory = nullptr;
    const double us = bench.clock.microseconds([&] { must_call(cuMemHostAlloc, &memory, bytes, 0U); });
    if (bytes > 2 * MiB) out["copies"] = copies_with(bench, memory, bytes);
    must_call(cuMemFreeHost, memory);
    return us;
  };
  out["allocate_2MiB_us"] = allocate(2 * MiB);
  const std::size_t bytes = bench.software ? 256 * MiB : 2 * GiB;
  out["bytes"] = bytes;
  out["allocate_us"] = allocate(bytes);
  const Mapping mapping(bytes);
  out["register_us"] =
      bench.clock.microseconds([&] { must_call(cuMemHostRegister, mapping.address, bytes, 0U); });
  must_call(cuMemHostUnregister, mapping.address);
  if (!bench.software) out["by_hand"] = pin_by_hand(bench, bytes);
}

}  // namespace pooch::facts
