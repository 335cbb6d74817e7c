// Any bytes: profile_from_json refuses them with one line, or gives a profile that can be walked and that is
// the same after it was written and read again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/profile.h"
#include "tests/support/walk_profile.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pooch;
  const auto profile = profile_from_json({reinterpret_cast<const char*>(data), size});
  if (!profile) {
    const std::string& message = profile.error().message;
    if (message.empty() || message.find('\n') != std::string::npos) std::abort();
    return 0;
  }
  (void)test::walk(*profile);  // an exception ends the program
  const std::string text = to_json(*profile);
  const auto again = profile_from_json(text);
  if (!again || to_json(*again) != text) std::abort();
  return 0;
}
