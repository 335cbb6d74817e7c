// Nodes made by hand: kernels, copies and sets. A node is the work that the call of the same purpose would
// put into a stream; nodes run in the order in which they were added.
#include <iterator>

#include "softgpu/driver/api/api.h"
#include "softgpu/driver/order/capture.h"

SOFTGPU_OWN(cuStreamCreate)
SOFTGPU_OWN(cuStreamDestroy_v2)
SOFTGPU_OWN(cuStreamBeginCapture_v2)
SOFTGPU_OWN(cuStreamEndCapture)
SOFTGPU_OWN(cuLaunchKernel)
SOFTGPU_OWN(cuMemsetD2D8Async)
SOFTGPU_OWN(cuMemsetD2D16Async)
SOFTGPU_OWN(cuMemsetD2D32Async)
SOFTGPU_OWN(cuMemcpy2DAsync_v2)

using namespace softgpu;

namespace {

// What `submit` puts into a stream.
template <class Submit>
CUresult captured(Submit submit, std::vector<Work>& works) {
  CUstream stream = nullptr;
  CUgraph graph = nullptr;
  CUresult status = softgpu_cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  if (status != CUDA_SUCCESS) return status;
  status = softgpu_cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  const CUresult submitted = status == CUDA_SUCCESS ? submit(stream) : status;
  if (status == CUDA_SUCCESS) status = softgpu_cuStreamEndCapture(stream, &graph);
  (void)softgpu_cuStreamDestroy_v2(stream);
  if (status != CUDA_SUCCESS || submitted != CUDA_SUCCESS)
    return submitted != CUDA_SUCCESS ? submitted : status;
  SOFTGPU_CALL("cuGraphAddNode");
  works = std::move(m.graphs.find(graph)->nodes);
  m.graphs.remove(graph);
  return CUDA_SUCCESS;
}

template <class Submit>
CUresult add(CUgraphNode* node, CUgraph graph, Submit submit) {
  std::vector<Work> works;
  if (const CUresult status = captured(submit, works); status != CUDA_SUCCESS) return status;
  SOFTGPU_CALL("cuGraphAddNode");
  Graph* const to = m.graphs.find(graph);
  if (node == nullptr || to == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *node = m.graphs.name({to->nodes.size(), works.size()});
  std::move(works.begin(), works.end(), std::back_inserter(to->nodes));
  return CUDA_SUCCESS;
}

// `graph`: one that can run, made of the node's.
template <class Submit>
CUresult change(CUgraphExec graph, CUgraphNode node, Submit submit) {
  std::vector<Work> works;
  if (const CUresult status = captured(submit, works); status != CUDA_SUCCESS) return status;
  SOFTGPU_CALL("cuGraphExecNodeSetParams");
  Graph* const in = m.graphs.find(graph);
  const GraphPart* const part = m.graphs.part(node);
  if (in == nullptr || part == nullptr || part->count != works.size() ||
      part->first + part->count > in->nodes.size())
    return CUDA_ERROR_INVALID_VALUE;
  std::move(works.begin(), works.end(), in->nodes.begin() + static_cast<std::ptrdiff_t>(part->first));
  return CUDA_SUCCESS;
}

auto launch_of(const CUDA_KERNEL_NODE_PARAMS& p) {
  return [&p](CUstream s) {
    CUfunction const function = p.func != nullptr ? p.func : reinterpret_cast<CUfunction>(p.kern);
    return softgpu_cuLaunchKernel(function, p.gridDimX, p.gridDimY, p.gridDimZ, p.blockDimX, p.blockDimY,
                                  p.blockDimZ, p.sharedMemBytes, s, p.kernelParams, p.extra);
  };
}

auto set_of(const CUDA_MEMSET_NODE_PARAMS& p) {
  return [&p](CUstream s) {
    const std::size_t pitch = p.height > 1 ? p.pitch : p.width * p.elementSize;
    switch (p.elementSize) {
      case 1:
        return softgpu_cuMemsetD2D8Async(p.dst, pitch, static_cast<unsigned char>(p.value), p.width, p.height,
                                         s);
      case 2:
        return softgpu_cuMemsetD2D16Async(p.dst, pitch, static_cast<unsigned short>(p.value), p.width,
                                          p.height, s);
      case 4:
        return softgpu_cuMemsetD2D32Async(p.dst, pitch, p.value, p.width, p.height, s);
      default:
        return CUDA_ERROR_INVALID_VALUE;
    }
  };
}

// One layer.
auto copy_of(const CUDA_MEMCPY3D& p) {
  return [&p](CUstream s) {
    if (p.Depth != 1) return CUDA_ERROR_NOT_SUPPORTED;
    CUDA_MEMCPY2D c = {};
    c.srcXInBytes = p.srcXInBytes, c.srcY = p.srcY, c.srcMemoryType = p.srcMemoryType;
    c.srcHost = p.srcHost, c.srcDevice = p.srcDevice, c.srcPitch = p.srcPitch;
    c.dstXInBytes = p.dstXInBytes, c.dstY = p.dstY, c.dstMemoryType = p.dstMemoryType;
    c.dstHost = p.dstHost, c.dstDevice = p.dstDevice, c.dstPitch = p.dstPitch;
    c.WidthInBytes = p.WidthInBytes, c.Height = p.Height;
    return softgpu_cuMemcpy2DAsync_v2(&c, s);
  };
}

}  // namespace

SOFTGPU_EXPORT(cuGraphAddKernelNode_v2)
(CUgraphNode* node, CUgraph graph, const CUgraphNode*, size_t, const CUDA_KERNEL_NODE_PARAMS* params) {
  return params == nullptr ? CUDA_ERROR_INVALID_VALUE : add(node, graph, launch_of(*params));
}
SOFTGPU_EXPORT(cuGraphAddMemcpyNode)
(CUgraphNode* node, CUgraph graph, const CUgraphNode*, size_t, const CUDA_MEMCPY3D* params, CUcontext) {
  return params == nullptr ? CUDA_ERROR_INVALID_VALUE : add(node, graph, copy_of(*params));
}
SOFTGPU_EXPORT(cuGraphAddMemsetNode)
(CUgraphNode* node, CUgraph graph, const CUgraphNode*, size_t, const CUDA_MEMSET_NODE_PARAMS* params,
 CUcontext) {
  return params == nullptr ? CUDA_ERROR_INVALID_VALUE : add(node, graph, set_of(*params));
}
SOFTGPU_EXPORT(cuGraphExecKernelNodeSetParams_v2)
(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* params) {
  return params == nullptr ? CUDA_ERROR_INVALID_VALUE : change(exec, node, launch_of(*params));
}
SOFTGPU_EXPORT(cuGraphExecMemcpyNodeSetParams)
(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D* params, CUcontext) {
  return params == nullptr ? CUDA_ERROR_INVALID_VALUE : change(exec, node, copy_of(*params));
}
SOFTGPU_EXPORT(cuGraphExecMemsetNodeSetParams)
(CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* params, CUcontext) {
  return params == nullptr ? CUDA_ERROR_INVALID_VALUE : change(exec, node, set_of(*params));
}
