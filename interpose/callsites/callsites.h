// Where in the program tracked calls come from, with POOCH_CALLSITES=1: native stacks by libunwind, and
// Python frames where the interpreter shows them (docs/callsites.md).
#pragma once

#include <cstdint>

#include "core/profile.h"

namespace pooch::interpose {

// The id of this thread's stack as it is now, above libpooch; 0: it cannot be taken. Equal stacks have equal
// ids. Takes the dynamic linker's lock: never call it with the session's mutex held.
std::uint32_t call_site();

// Fills the profile's sites and modules with those that its ops name by such ids; the ops' ids become indices
// of them.
void describe_sites(Profile& profile);

}  // namespace pooch::interpose
