// Any bytes: plan_from_json refuses them with one line, or gives a plan that is the same after it was written
// and read again, and that is compiled for a phase, or refused for it, with one line.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "runtime/script/script.h"
#include "tests/support/planned_phase.h"

namespace {

void expect_one_line(const pooch::Error& error) {
  if (error.message.empty() || error.message.find('\n') != std::string::npos) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pooch;
  auto plan = plan_from_json({reinterpret_cast<const char*>(data), size});
  if (!plan) {
    expect_one_line(plan.error());
    return 0;
  }
  const std::string text = to_json(*plan);
  const auto again = plan_from_json(text);
  if (!again || to_json(*again) != text) std::abort();
  static const PhaseProfile phase = test::with_operands(test::planned_profile().phases[0]);
  plan->phase = phase.id;
  plan->structure = structure_of(phase);
  const auto script = runtime::Script::compile(*plan, phase, 1e-4);
  if (!script) expect_one_line(script.error());
  return 0;
}
