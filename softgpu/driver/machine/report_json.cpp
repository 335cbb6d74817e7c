#include <dlfcn.h>

#include <map>
#include <nlohmann/json.hpp>

#include "softgpu/driver/machine/machine.h"

namespace softgpu {
namespace {

using nlohmann::ordered_json;

ordered_json deed(const Deed& d) {
  return {{"name", d.by.name != nullptr ? d.by.name : "?"},
          {"agent", d.by.agent == host_agent ? "host" : "stream " + std::to_string(d.by.stream)},
          {"call", d.by.call},
          {"does", d.verb}};
}

ordered_json violation(const Violation& v) {
  ordered_json j{{"kind", v.kind}, {"a", deed(v.a)}};
  j["b"] = v.b.by ? deed(v.b) : ordered_json(nullptr);
  j["space"] = v.space;
  j["begin"] = v.begin;
  j["end"] = v.end;
  return j;
}

ordered_json calls(const Statistics& statistics) {
  std::map<std::string, std::uint64_t> by_name;
  for (const auto& [name, count] : statistics.calls) by_name[name] += count;
  return by_name;
}

// Who made the call, in terms that outlive the process: libraries, and offsets of return addresses in them.
ordered_json callers(const std::vector<void*>& stack) {
  Dl_info ours = {}, frame = {};
  dladdr(reinterpret_cast<const void*>(&report_json), &ours);
  ordered_json j = ordered_json::array();
  for (void* const address : stack) {
    if (dladdr(address, &frame) == 0 || frame.dli_fbase == ours.dli_fbase) continue;
    const auto offset = static_cast<char*>(address) - static_cast<char*>(frame.dli_fbase);
    j.push_back({{"library", frame.dli_fname}, {"offset", offset}});
  }
  return j;
}

ordered_json failed(const Failure& failure) {
  if (failure.times() == 0) return nullptr;
  const Failure::Struck& first = failure.first();
  return {{"function", first.function},
          {"call", first.call},
          {"times", failure.times()},
          {"told", first.told},
          {"callers", callers(first.stack)}};
}

ordered_json call_paths(const CallPaths& paths) {
  ordered_json j = ordered_json::array();
  for (const auto& [path, calls] : paths.all())
    j.push_back({{"function", path.first}, {"callers", callers(path.second)}, {"calls", calls}});
  return j;
}

}  // namespace

std::string report_json(const Machine& m) {
  const Statistics& s = m.statistics;
  ordered_json j{{"model", m.model().id},
                 {"mode", m.compute() ? "compute" : "timing"},
                 {"memory", m.model().memory_bytes},
                 {"peak_bytes", m.physical.peak()},
                 {"context_bytes", m.model().context_bytes},
                 {"overhead_bytes", m.physical.aside()},
                 {"peak_host_bytes", m.host.peak()},
                 {"virtual_ns", m.scheduler.now},
                 {"api_calls", s.api_calls},
                 {"calls", calls(s)},
                 {"failed", failed(m.failure)},
                 {"kernels", s.kernels},
                 {"indirect_touches", s.indirect_touches},
                 {"landed_accesses", m.checker.landed_accesses()},
                 {"copies_in", s.copies_in},
                 {"bytes_in", s.bytes_in},
                 {"copies_out", s.copies_out},
                 {"bytes_out", s.bytes_out},
                 {"copies_device", s.copies_device},
                 {"bytes_device", s.bytes_device},
                 {"vmm_calls", s.vmm_calls},
                 {"violations", ordered_json::array()}};
  for (const Violation& v : m.violations.all()) j["violations"].push_back(violation(v));
  if (m.provenance)
    j["tokens"] = {{"operations", m.provenance->operations()}, {"unknown", m.provenance->unknown()}};
  if (m.call_paths.enabled()) j["call_paths"] = call_paths(m.call_paths);
  return j.dump(1) + "\n";
}

}  // namespace softgpu
