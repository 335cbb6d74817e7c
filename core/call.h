// What interpose/ hands over: one call of the program that touches device memory.
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
  Shape shape{};  // of what the operand's descriptor describes
};

// Which of the algorithms in interpose/trials.h a convolution runs with.
struct TriedAlgorithm {
  std::uint32_t trials = 0;     // index + 1; 0: the program tried none for its form
  std::uint32_t algorithm = 0;  // index + 1 into those; 0: another one
};

struct Call {
  std::string_view function;  // the API function's name; static storage
  OpKind kind;
  StreamHandle stream;
  std::span<const Access> accesses;
  bool blocks = false;       // the host waits for the device inside the call (a synchronous copy)
  bool trial = false;        // tries algorithms out: executed, but no step of the program's own work
  std::uint64_t traits = 0;  // hash of what the call says beside its operands: descriptors, modes, scalars
  std::string_view mode{};   // "relu", "max", "add": what the kind leaves open; static storage
  const Window* window = nullptr;  // both valid during the call
  const Shape* filter = nullptr;
  // Keeps a deep copy of the call; to be asked during the call only. Null: it cannot be made again.
  const FunctionRef<std::unique_ptr<Replay>()>* keep = nullptr;
  bool unforeseen = false;  // may touch memory that no operand names
  bool own = false;         // pooch's, of which the program knows nothing: who makes it says what failed
  std::uint32_t site = 0;   // where in the program: an id of interpose/callsites.h; 0: not known
  TriedAlgorithm tried{};   // of a convolution whose algorithms the program has tried
  Clip clip = Clip::none;   // it does that and nothing else
  // By what other means its result can be made again; to be asked during the call only. Null: by none.
  const FunctionRef<std::optional<Substitute>()>* substitute = nullptr;
};

}  // namespace pooch
