// Host waits that end late because a test wants them to: SOFTGPU_DELAY=SEED. Threads then meet in other ways
// than this machine alone would have them.
#pragma once

#include <cstdint>
#include <string_view>

namespace softgpu {

// From now on.
void delay_waits(std::uint64_t seed);
// A call of this function begins: holds the thread up where it may be one that waits.
void delay(std::string_view function);

}  // namespace softgpu
