// What an operation graph of cuDNN's backend API does to its tensors.
#pragma once

#include <vector>

#include "core/call.h"
#include "interpose/calls/extent.h"
#include "interpose/cudnn/backend_shadow.h"

namespace pooch::interpose {

// A tensor of a graph that a variant pack gives a pointer for.
struct BackendTensor {
  std::int64_t uid;
  Extent extent;
  Effect effect;
  std::size_t value_bytes;  // of one that is given by value, in host memory; else 0
};

struct BackendGraph {
  // False: nobody knows the operations, and each pointer of a pack may be to anything.
  bool known = false;
  // What it does, it does again to the same bits.
  bool replayable = false;
  OpKind kind = OpKind::bare_launch;
  Window window{};
  std::uint64_t traits = 0;            // of operations, modes, tensors and their numbers
  std::vector<BackendTensor> tensors;  // each uid once
};

// `graph`: an OPERATIONGRAPH's shadow; null: nothing is known.
BackendGraph describe_graph(const BackendPart& graph);

}  // namespace pooch::interpose
