// Nodes of graphs that the program makes or changes itself. Their operands stay on the device as long as a
// graph names them; what a node touched before it was changed stays with its graph as well.
#include "interpose/calls/graph_memory.h"
#include "interpose/driver/operands.h"
#include "interpose/hooks/driver_api.h"
#include "interpose/hooks/errors.h"
#include "interpose/hooks/libraries.h"
#include "interpose/sessions/again.h"
#include "interpose/sessions/inside.h"
#include "interpose/sessions/served.h"
#include "interpose/sessions/sessions.h"

using namespace pooch;
using namespace pooch::interpose;

namespace {

// CUDA_KERNEL_NODE_PARAMS of any version
template <class Kernel>
CUfunction function_of(const Kernel& kernel) {
  if constexpr (requires { kernel.kern; })
    if (kernel.func == nullptr) return reinterpret_cast<CUfunction>(kernel.kern);
  return kernel.func;
}

template <class Kernel>
void add_kernel_node(CallBuilder& call, const Scope& scope, const Kernel& kernel) {
  const LaunchShape shape{function_of(kernel),
                          {kernel.gridDimX, kernel.gridDimY, kernel.gridDimZ},
                          {kernel.blockDimX, kernel.blockDimY, kernel.blockDimZ},
                          kernel.sharedMemBytes};
  add_kernel(call, scope, shape, kernel.kernelParams, kernel.extra);
}

// CUDA_BATCH_MEM_OP_NODE_PARAMS of any version
template <class Batch>
void add_values_node(CallBuilder& call, const Batch& batch) {
  if (batch.paramArray != nullptr) add_values(call, {batch.paramArray, batch.count});
}

void add_node(CallBuilder& call, const Scope& scope, const CUgraphNodeParams& node) {
  switch (node.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return add_kernel_node(call, scope, node.kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return add_copy(call, node.memcpy.copyParams);
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return add_set(call, node.memset);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return add_values_node(call, node.memOp);
    default:
      break;  // touches no memory, or only such as is never managed; or is a graph itself
  }
}

// `graph`: what names the node's operands once `real` has succeeded.
template <class Describe, class RealCall>
CUresult make(const Scope& scope, const char* function, const void* graph, Describe&& describe,
              RealCall&& real) {
  runtime::Session* const session = inside_submit() ? nullptr : session_for_driver_call(scope);
  if (session == nullptr) return real();
  CallBuilder call(scope, *session, function, OpKind::bare_launch, StreamHandle::legacy);
  describe(call);
  const auto memory = std::make_shared<GraphMemory>(*session);
  if (const Status held = memory->hold(call.accesses(), call.is_unforeseen()); !held) {
    report_refused(function, held.error());
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const CUresult status = real();
  if (status == CUDA_SUCCESS) keep_for_graph(graph, memory);
  return status;
}

template <class Describe, class RealCall>
CUresult add(const Scope& scope, const char* function, CUgraph graph, const CUgraphNode* node,
             Describe&& describe, RealCall&& real) {
  const CUresult status = make(scope, function, graph, describe, real);
  if (status == CUDA_SUCCESS && node != nullptr) note_node(*node, graph);
  return status;
}

// A node of any type may be a graph, or have some.
CUresult note_graphs_of(CUresult status, CUgraph graph, const CUgraphNodeParams& node) {
  if (status != CUDA_SUCCESS) return status;
  if (node.type == CU_GRAPH_NODE_TYPE_GRAPH) copied_graph(graph, node.graph.graph, false);
  if (node.type == CU_GRAPH_NODE_TYPE_CONDITIONAL && node.conditional.phGraph_out != nullptr)
    for (unsigned int i = 0; i < node.conditional.size; ++i)
      note_body(node.conditional.phGraph_out[i], graph);
  return status;
}

}  // namespace

// `describe`: adds what the node touches to `call`.
#define POOCH_ADD_NODE(function, parameters, arguments, params, describe)            \
  POOCH_DRIVER_HOOK(                                                                 \
      function, parameters, arguments, if (params == nullptr) return launch();       \
      const auto describing = [&]([[maybe_unused]] CallBuilder& call) { describe; }; \
      return add(scope, #function, hGraph, phGraphNode, describing, launch);)
#define POOCH_CHANGE_NODE(function, parameters, arguments, graph, params, describe)  \
  POOCH_DRIVER_HOOK(                                                                 \
      function, parameters, arguments, if (params == nullptr) return launch();       \
      const auto describing = [&]([[maybe_unused]] CallBuilder& call) { describe; }; \
      return make(scope, #function, graph, describing, launch);)

#define POOCH_KERNEL_NODES(version, Params)                                                             \
  POOCH_ADD_NODE(cuGraphAddKernelNode##version,                                                         \
                 (CUgraphNode * phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,           \
                  size_t numDependencies, const Params* nodeParams),                                    \
                 (phGraphNode, hGraph, dependencies, numDependencies, nodeParams), nodeParams,          \
                 add_kernel_node(call, scope, *nodeParams))                                             \
  POOCH_CHANGE_NODE(cuGraphKernelNodeSetParams##version, (CUgraphNode hNode, const Params* nodeParams), \
                    (hNode, nodeParams), graph_of(hNode), nodeParams,                                   \
                    add_kernel_node(call, scope, *nodeParams))                                          \
  POOCH_CHANGE_NODE(cuGraphExecKernelNodeSetParams##version,                                            \
                    (CUgraphExec hGraphExec, CUgraphNode hNode, const Params* nodeParams),              \
                    (hGraphExec, hNode, nodeParams), hGraphExec, nodeParams,                            \
                    add_kernel_node(call, scope, *nodeParams))

POOCH_KERNEL_NODES(, CUDA_KERNEL_NODE_PARAMS_v1)
POOCH_KERNEL_NODES(_v2, CUDA_KERNEL_NODE_PARAMS)

POOCH_ADD_NODE(cuGraphAddMemcpyNode,
               (CUgraphNode * phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                size_t numDependencies, const CUDA_MEMCPY3D* copyParams, CUcontext ctx),
               (phGraphNode, hGraph, dependencies, numDependencies, copyParams, ctx), copyParams,
               add_copy(call, *copyParams))
POOCH_CHANGE_NODE(cuGraphMemcpyNodeSetParams, (CUgraphNode hNode, const CUDA_MEMCPY3D* nodeParams),
                  (hNode, nodeParams), graph_of(hNode), nodeParams, add_copy(call, *nodeParams))
POOCH_CHANGE_NODE(cuGraphExecMemcpyNodeSetParams,
                  (CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_MEMCPY3D* copyParams, CUcontext ctx),
                  (hGraphExec, hNode, copyParams, ctx), hGraphExec, copyParams, add_copy(call, *copyParams))

POOCH_ADD_NODE(cuGraphAddMemsetNode,
               (CUgraphNode * phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                size_t numDependencies, const CUDA_MEMSET_NODE_PARAMS* memsetParams, CUcontext ctx),
               (phGraphNode, hGraph, dependencies, numDependencies, memsetParams, ctx), memsetParams,
               add_set(call, *memsetParams))
POOCH_CHANGE_NODE(cuGraphMemsetNodeSetParams, (CUgraphNode hNode, const CUDA_MEMSET_NODE_PARAMS* nodeParams),
                  (hNode, nodeParams), graph_of(hNode), nodeParams, add_set(call, *nodeParams))
POOCH_CHANGE_NODE(cuGraphExecMemsetNodeSetParams,
                  (CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_MEMSET_NODE_PARAMS* memsetParams,
                   CUcontext ctx),
                  (hGraphExec, hNode, memsetParams, ctx), hGraphExec, memsetParams,
                  add_set(call, *memsetParams))

POOCH_ADD_NODE(cuGraphAddBatchMemOpNode,
               (CUgraphNode * phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                size_t numDependencies, const CUDA_BATCH_MEM_OP_NODE_PARAMS* nodeParams),
               (phGraphNode, hGraph, dependencies, numDependencies, nodeParams), nodeParams,
               add_values_node(call, *nodeParams))
POOCH_CHANGE_NODE(cuGraphBatchMemOpNodeSetParams,
                  (CUgraphNode hNode, const CUDA_BATCH_MEM_OP_NODE_PARAMS* nodeParams), (hNode, nodeParams),
                  graph_of(hNode), nodeParams, add_values_node(call, *nodeParams))
POOCH_CHANGE_NODE(cuGraphExecBatchMemOpNodeSetParams,
                  (CUgraphExec hGraphExec, CUgraphNode hNode,
                   const CUDA_BATCH_MEM_OP_NODE_PARAMS* nodeParams),
                  (hGraphExec, hNode, nodeParams), hGraphExec, nodeParams, add_values_node(call, *nodeParams))

#define POOCH_ADD_ANY_NODE(function, parameters, arguments)                                       \
  POOCH_DRIVER_HOOK(                                                                              \
      function, parameters, arguments, if (nodeParams == nullptr) return launch();                \
      const auto describe = [&](CallBuilder& call) { add_node(call, scope, *nodeParams); };       \
      return note_graphs_of(add(scope, #function, hGraph, phGraphNode, describe, launch), hGraph, \
                            *nodeParams);)
POOCH_ADD_ANY_NODE(cuGraphAddNode,
                   (CUgraphNode * phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                    size_t numDependencies, CUgraphNodeParams* nodeParams),
                   (phGraphNode, hGraph, dependencies, numDependencies, nodeParams))
POOCH_ADD_ANY_NODE(cuGraphAddNode_v2,
                   (CUgraphNode * phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                    const CUgraphEdgeData* dependencyData, size_t numDependencies,
                    CUgraphNodeParams* nodeParams),
                   (phGraphNode, hGraph, dependencies, dependencyData, numDependencies, nodeParams))
POOCH_CHANGE_NODE(cuGraphNodeSetParams, (CUgraphNode hNode, CUgraphNodeParams* nodeParams),
                  (hNode, nodeParams), graph_of(hNode), nodeParams, add_node(call, scope, *nodeParams))
POOCH_CHANGE_NODE(cuGraphExecNodeSetParams,
                  (CUgraphExec hGraphExec, CUgraphNode hNode, CUgraphNodeParams* nodeParams),
                  (hGraphExec, hNode, nodeParams), hGraphExec, nodeParams, add_node(call, scope, *nodeParams))

// Where programs get nodes from that they have not made.
POOCH_DRIVER_HOOK(cuGraphGetNodes, (CUgraph hGraph, CUgraphNode* nodes, size_t* numNodes),
                  (hGraph, nodes, numNodes), const CUresult status = launch();
                  if (status == CUDA_SUCCESS && nodes != nullptr &&
                      open_session() != nullptr) for (size_t i = 0; i < *numNodes; ++i)
                      note_node(nodes[i], hGraph);
                  return status;)
POOCH_DRIVER_HOOK(cuGraphNodeFindInClone,
                  (CUgraphNode * phNode, CUgraphNode hOriginalNode, CUgraph hClonedGraph),
                  (phNode, hOriginalNode, hClonedGraph), const CUresult status = launch();
                  if (status == CUDA_SUCCESS) note_node(*phNode, hClonedGraph); return status;)
