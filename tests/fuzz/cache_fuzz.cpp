// Any bytes: as an entry of the plan cache they are refused with one line, or are a plan for what was asked
// for.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "runtime/planning/plan_cache.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pooch;
  static const runtime::PlanIdentity identity{"9f31", "",      "v100-pcie3", "hybrid",
                                              false,  1 << 24, 1 << 26,      "1"};
  const auto plan = runtime::PlanCache::plan_in({reinterpret_cast<const char*>(data), size}, identity);
  if (!plan) {
    const std::string& message = plan.error().message;
    if (message.empty() || message.find('\n') != std::string::npos) std::abort();
  } else if (!identity.mismatch(*plan).empty() || !check(*plan)) {
    std::abort();
  }
  return 0;
}
