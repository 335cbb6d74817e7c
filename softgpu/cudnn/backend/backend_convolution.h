// Convolutions that come as operation graphs: what one is, which engines do it, and its execution. An engine
// is one of the legacy API's algorithms, under the same number.
#pragma once

#include <cudnn.h>

#include <optional>
#include <vector>

#include "softgpu/cudnn/convolution/convolution.h"

namespace softgpu::cudnn {

struct BackendDescriptor;

// A graph of one convolution.
struct GraphConv {
  ConvDirection direction;
  ConvArgs args;                     // but for workspace and flops
  std::int64_t x_uid, w_uid, y_uid;  // of the tensors or their gradients
};

struct ConvPlan {
  GraphConv conv;  // with workspace and flops
};

// Whether this is an operation of convolution at all.
std::optional<ConvDirection> conv_direction(cudnnBackendDescriptorType_t type);
// An operation's tensors and descriptor as one convolution. BAD_PARAM where they contradict each other,
// NOT_SUPPORTED where no kernel here does it; `result` is set on success only.
cudnnStatus_t read_convolution(const BackendDescriptor& operation, GraphConv& result);
// The convolution that is all of a graph, where an engine here can do it.
std::optional<GraphConv> graph_convolution(const BackendDescriptor& graph);

// Numbers of the engines that can do it, as heuristics propose them.
std::vector<std::int64_t> proposed_engines(const GraphConv& conv, cudnnBackendHeurMode_t mode);
std::vector<cudnnBackendNumericalNote_t> numerical_notes(const GraphConv& conv, int engine);

// `pack`: a finalized variant pack.
cudnnStatus_t execute(const char* function, cudnnHandle_t handle, const ConvPlan& plan,
                      const BackendDescriptor& pack);

}  // namespace softgpu::cudnn
