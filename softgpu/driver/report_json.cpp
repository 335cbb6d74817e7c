#include <nlohmann/json.hpp>

#include "softgpu/driver/machine.h"

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

}  // namespace

std::string report_json(const Machine& m) {
  const Statistics& s = m.statistics;
  ordered_json j{{"model", m.model().id},
                 {"mode", m.compute() ? "compute" : "timing"},
                 {"memory", m.model().memory_bytes},
                 {"peak_bytes", m.physical.peak()},
                 {"context_bytes", m.model().context_bytes},
                 {"peak_host_bytes", m.host.peak()},
                 {"virtual_ns", m.scheduler.now},
                 {"api_calls", s.api_calls},
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
  return j.dump(1) + "\n";
}

}  // namespace softgpu
