// One call of the program that touches device memory, as interpose/ hands it over.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "core/effect.h"
#include "core/function_ref.h"
#include "core/ids.h"
#include "core/op_kind.h"
#include "core/replay.h"
#include "core/shape.h"
#include "core/substitute.h"

namespace pooch {

// One operand: `bytes` bytes from `address`. Addresses that pooch does not manage are allowed and ignored.
struct Access {
  Address address;
  std::uint64_t bytes;
  Effect effect;
  Shape shape{};  // of the tensor that the operand's descriptor describes
};

// Which of the algorithms in interpose/cudnn/trials.h a convolution runs with.
struct TriedAlgorithm {
  std::uint32_t trials = 0;     // index + 1; 0: the program tried none for its form
  std::uint32_t algorithm = 0;  // index + 1 into those; 0: another one
};

struct Call {
  std::string_view function;  // the API function's name; static storage
  OpKind kind;
  StreamHandle stream;
  std::span<const Access> accesses;
  bool blocks = false;             // the host waits for the device inside the call (a synchronous copy)
  bool trial = false;              // tries an algorithm: it runs, but is not one of the program's steps
  std::uint64_t traits = 0;        // hash of the call's other arguments: descriptors, modes, scalars
  std::string_view mode{};         // "relu", "max", "add": the variant of the kind; static storage
  const Window* window = nullptr;  // this and filter: valid during the call
  const Shape* filter = nullptr;
  // Makes a deep copy of the call; ask only during the call. Null: it cannot be replayed.
  const FunctionRef<std::unique_ptr<Replay>()>* keep = nullptr;
  bool unforeseen = false;  // may touch memory that no operand names
  bool own = false;         // made by pooch, not the program; its caller reports a lack of memory
  std::uint32_t site =
      0;  // the call's place in the program: an id of interpose/callsites/callsites.h; 0: not known
  TriedAlgorithm tried{};  // of a convolution whose algorithms the program has tried
  Clip clip = Clip::none;  // if not none: all that it does
  // Returns the substitute for its result; ask only during the call. Null: none.
  const FunctionRef<std::optional<Substitute>()>* substitute = nullptr;
};

}  // namespace pooch
