#include "softgpu/driver/model/cost.h"

#include <algorithm>
#include <cmath>

namespace softgpu {
namespace {

double row(const std::map<std::string, double>& table, const char* kind) {
  auto found = table.find(kind);
  if (found == table.end()) found = table.find("elementwise");
  return found->second;
}

Nanoseconds seconds(double s) {
  return static_cast<Nanoseconds>(std::ceil(s * 1e9));
}

}  // namespace

Nanoseconds Cost::kernel(const char* kind, double flops, double bytes) const {
  return model_.launch_gap +
         seconds(std::max(flops / row(model_.rates, kind), bytes / row(model_.bandwidths, kind)));
}

Nanoseconds Cost::copy_to_device(std::uint64_t bytes) const {
  return model_.copy_latency + seconds(static_cast<double>(bytes) / model_.to_device);
}

Nanoseconds Cost::copy_to_host(std::uint64_t bytes) const {
  return model_.copy_latency + seconds(static_cast<double>(bytes) / model_.to_host);
}

Nanoseconds Cost::copy_device(std::uint64_t bytes) const {
  return kernel("copy_device", 0, 2.0 * static_cast<double>(bytes));
}

Nanoseconds Cost::set(std::uint64_t bytes) const {
  return kernel("set", 0, static_cast<double>(bytes));
}

Nanoseconds Cost::reach(std::uint64_t read, std::uint64_t written) const {
  return seconds(static_cast<double>(read) / model_.to_device +
                 static_cast<double>(written) / model_.to_host);
}

Nanoseconds Cost::copy_host(std::uint64_t bytes) const {
  return seconds(static_cast<double>(bytes) / model_.host_copy);
}

Nanoseconds Cost::pin(std::uint64_t bytes) const {
  return model_.pin_call + static_cast<Nanoseconds>(static_cast<double>(bytes) * model_.pin_per_byte);
}

}  // namespace softgpu
