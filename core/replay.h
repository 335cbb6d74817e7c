// The interface to a call that was kept: a deep copy (cloned descriptors, host scalars) that can be replayed
// after the program's own descriptors are gone. interpose/ makes them; runtime/ runs them.
#pragma once

#include <cstdint>
#include <span>

#include "core/ids.h"
#include "core/result.h"

namespace pooch {

class Replay {
 public:
  virtual ~Replay() = default;

  // Runs the call again in `stream`. `operands[i]` is the current address of the call's i-th access; all
  // these regions must be mapped, scratch ones included. If the inputs have their original bits, the outputs
  // get theirs; state that a second run would advance (running statistics) is left alone. Error: device, with
  // the library's own status.
  virtual Status run(std::span<const Address> operands, StreamHandle stream) = 0;
};

}  // namespace pooch
