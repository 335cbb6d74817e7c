#include "softgpu/driver/checks/report.h"

#include <fmt/core.h>

#include <cstdio>

namespace softgpu {
namespace {

constexpr std::size_t most_violations = 100;  // kept and printed

}  // namespace

std::string describe(const Access& access) {
  const std::string agent = access.agent == host_agent ? "host" : fmt::format("stream {}", access.stream);
  return fmt::format("{}, {}, call {}", access.name != nullptr ? access.name : "?", agent, access.call);
}

void Violations::add(const Violation& v, bool fatal) {
  sticky_ = sticky_ || fatal;
  if (all_.size() >= most_violations) return;
  all_.push_back(v);
  std::string line = fmt::format("softgpu: {}: op A ({}) {}", v.kind, describe(v.a.by), v.a.verb);
  if (v.b.by) line += fmt::format(", op B ({}) {}", describe(v.b.by), v.b.verb);
  line += fmt::format(": {} addresses {:#x}-{:#x} ({} bytes)\n", v.space, v.begin, v.end, v.end - v.begin);
  std::fputs(line.c_str(), stderr);
}

}  // namespace softgpu
