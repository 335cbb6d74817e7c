// facts [SECTION…], cudnn_facts [SECTION…]: asks the device, all sections or those named, and prints one JSON
// object. A section without an answer has `unanswered`, with the reason. Exit code 77: there is no device.
#include "tests/gpu/facts.h"

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <numeric>
#include <set>

namespace pooch::facts {

void check(CUresult result, const char* function) {
  if (result == CUDA_SUCCESS) return;
  const char* name = nullptr;
  driver_call(cuGetErrorName, result, &name);
  throw NoAnswer(std::string(function) + " gives " + (name != nullptr ? name : std::to_string(result)));
}

Stream::Stream() {
  must_call(cuStreamCreate, &stream_, CU_STREAM_NON_BLOCKING);
  must_call(cuEventCreate, &event_, CU_EVENT_DISABLE_TIMING);
}

Stream::~Stream() {
  driver_call(cuStreamSynchronize, stream_);
  driver_call(cuEventDestroy, event_);
  driver_call(cuStreamDestroy, stream_);
}

void Stream::follow(const Stream& other) {
  must_call(cuEventRecord, event_, other);
  must_call(cuStreamWaitEvent, stream_, event_, 0U);
}

double Event::microseconds_since(const Event& earlier) const {
  float milliseconds = 0;
  must_call(cuEventElapsedTime, &milliseconds, earlier, event_);
  return 1e3 * milliseconds;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

HostClock::HostClock(bool of_software) : of_software_(of_software) {
  if (of_software_) overhead_ = by_events([] {});
}

double HostClock::by_events(const std::function<void()>& call) {
  begin_.record(stream_);
  call();
  end_.record(stream_);
  stream_.finish();
  return end_.microseconds_since(begin_);
}

double HostClock::microseconds(const std::function<void()>& call) {
  if (of_software_) return std::max(0.0, by_events(call) - overhead_);
  const auto begin = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
}

double HostClock::median(int times, const std::function<void()>& call) {
  std::vector<double> each(static_cast<std::size_t>(times));
  for (double& value : each) value = microseconds(call);
  return facts::median(std::move(each));
}

Bench::Bench() : software(test::Driver::instance().software()), clock(software) {
  holds_bytes = !software || keeps_words();
  bulk = holds_bytes && software ? 16 * MiB : GiB;
}

bool Bench::keeps_words() {
  const DeviceMemory memory(MiB);
  const HostMemory host(MiB);
  // Not a set or a scalar: these come back in timing mode too.
  constexpr unsigned count = 64;
  std::iota(host.words(), host.words() + count, 12345U);
  must_call(cuMemcpyHtoDAsync, memory, host.get(), count * sizeof(unsigned), stream);
  must_call(cuMemcpyDtoHAsync, host.words() + count, memory, count * sizeof(unsigned), stream);
  stream.finish();
  return std::equal(host.words(), host.words() + count, host.words() + count);
}

namespace {

bool known(const std::string& name) {
  return std::ranges::any_of(sections(), [&](const Section& s) { return name == s.name; });
}

Json measure(const std::set<std::string>& chosen) {
  Bench bench;
  Json all{{"software", bench.software}, {"holds_bytes", bench.holds_bytes}};
  for (const Section& section : sections()) {
    if (!chosen.empty() && chosen.count(section.name) == 0) continue;
    Json found = Json::object();
    try {
      section.measure(bench, found);
    } catch (const NoAnswer& reason) {
      found["unanswered"] = reason.what();
    }
    all[section.name] = std::move(found);
  }
  return all;
}

}  // namespace
}  // namespace pooch::facts

int main(int argc, char** argv) {
  const std::set<std::string> chosen(argv + 1, argv + argc);
  for (const std::string& name : chosen) {
    if (pooch::facts::known(name)) continue;
    std::cerr << "facts: no section '" << name << "'\n";
    return 2;
  }
  if (const std::string& failure = pooch::test::Driver::instance().failure(); !failure.empty()) {
    std::cerr << "no GPU: " << failure << "\n";
    return 77;
  }
  try {
    std::cout << pooch::facts::measure(chosen).dump(1) << "\n";
  } catch (const std::exception& problem) {
    std::cerr << "facts: " << problem.what() << "\n";
    return 1;
  }
  return 0;
}
