// Walks a profile as its consumers do.
#pragma once

#include <cstdint>

#include "core/profile.h"

namespace pooch::test {

// Follows every index, in every list. Throws std::out_of_range where one leads nowhere, std::logic_error
// where the memory that is allocated would fall below nothing; gives a sum so that nothing is optimised away.
std::uint64_t walk(const Profile& profile);

}  // namespace pooch::test
