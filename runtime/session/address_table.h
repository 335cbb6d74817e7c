// Tables of addresses in memory that is about to be on the device: kernels reach from there what no call
// names.
//
// Nothing says which words are addresses. Numbers that happen to look like one occur in data: pairs of small
// integers where the arena lies low, token ids in a range of 16 TiB, bytes of dark pictures. So a word has to
// point into a live allocation, and there has to be more that speaks for a table:
//
// - A table is dense: it has an address in every 512 bytes or so. In memory of more than a window, two words
//   of one window must be addresses.
// - The lower half of an address is a large number. A word whose lower half is small, as it is in pairs of
//   small integers, counts only beside others that are addresses, or where an allocation begins.
// - A large table is dense everywhere. Of more than a MiB one window in 16 is looked at, all of it where one
//   of those has addresses. So copies of data cost a sixteenth of what it takes to read them.
//
// docs/decisions/0056-tables-of-addresses.md has what this costs and what it misses.
#pragma once

#include <cstdint>

#include "core/function_ref.h"
#include "core/host_block.h"
#include "core/ids.h"

namespace pooch::runtime {

// How much there must be for a table: a single word will do for what is looked at once.
enum class Evidence : std::uint8_t { word, table };

enum class PointsTo : std::uint8_t { nothing, inside, begin };  // of a live allocation

// visit(word) for each word that is taken for an address in [base, base + bytes).
void find_addresses(const HostBlock& memory, Evidence evidence, Address base, std::uint64_t bytes,
                    FunctionRef<PointsTo(Address)> points_to, FunctionRef<void(Address)> visit);

}  // namespace pooch::runtime
