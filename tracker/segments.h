// Where iterations begin: at positions where nothing is alive that the iteration itself made and still needs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tracker/op_log.h"

namespace pooch::tracker {

// The starts of the iterations in one period of a repeating stream: steps in [first, first + length), in
// ascending order, at least one. The log must hold [first, first + 2 * length) and the stream repeat there.
// Where nothing tells a beginning the first step counts as one.
std::vector<StepIndex> starts_in_period(const OpLog& log, StepIndex first, std::uint64_t length);

// Whether iterations may begin at these steps of the second period, in ascending order, at least one: of what
// forward made, little is alive there compared with the most alive within, and each has a forward op if kinds
// tell.
bool may_begin_at(std::span<const StepIndex> starts, const OpLog& log, StepIndex first, std::uint64_t length);

// The same as starts_in_period() for a stretch that does not repeat. Empty if it holds no iteration: it then
// is the end of another one, like an optimiser's step.
std::vector<StepIndex> starts_in_stretch(const OpLog& log, StepIndex first, StepIndex end);

}  // namespace pooch::tracker
