// Graphs of matrix products with pointwise operations and reductions around them, as attention comes. One
// engine does each in one kernel: its time, and every check of what it touches, but not its numerics. In
// compute mode it finds its launch refused.
#pragma once

#include <cudnn.h>

#include <array>
#include <optional>

#include "softgpu/cudart/kernel_library.h"
#include "softgpu/cudnn/elements/layout.h"

namespace softgpu::cudnn {

struct BackendDescriptor;

// Pointers: the tensors in device memory, 0 behind the last one.
struct FusedGraph {
  static constexpr const char* name = "fused_graph";
  static constexpr std::size_t pointers = 16;
  struct Tensor {
    Layout layout;
    std::uint32_t element_bytes;
    TouchKind kind;
  };
  struct Args {
    std::array<Tensor, pointers> tensors;
    double flops;  // of the matrix products
  };
  static void footprint(const Pointers<pointers>& p, const Args& a, Footprint& out);
};

struct FusedPlan {
  FusedGraph::Args args{};
  std::array<std::int64_t, FusedGraph::pointers> uids{};
  std::size_t tensors = 0;
};

// Empty: a graph of another kind, or of too many tensors.
std::optional<FusedPlan> fused_graph(const BackendDescriptor& graph);

// `pack`: a finalized variant pack.
cudnnStatus_t execute(const char* function, cudnnHandle_t handle, const FusedPlan& plan,
                      const BackendDescriptor& pack);

}  // namespace softgpu::cudnn
