// The port to a call that was kept: a deep copy (cloned descriptors, host scalars) that can be made again
// when the program's own descriptors are long gone. interpose/ makes them; runtime/ runs them.
#pragma once

#include <cstdint>
#include <span>

#include "core/ids.h"
#include "core/result.h"

namespace pooch {

class Replay {
 public:
  virtual ~Replay() = default;

  // Makes the call again in `stream`. `operands[i]` is where the i-th of the call's accesses lies this time;
  // all their regions must be mapped, scratch ones included. The call writes the bits that it wrote then,
  // provided that its inputs have their bits of then; state that a second run would move along (running
  // statistics) is left alone. Error: device, with the library's own status.
  virtual Status run(std::span<const Address> operands, StreamHandle stream) = 0;
};

}  // namespace pooch
