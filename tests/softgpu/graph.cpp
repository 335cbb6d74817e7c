// The software GPU's capture and graphs.
#include <thread>

#include "tests/softgpu/driver.h"

using namespace softgpu_test;

namespace {

constexpr const char* small = "v100-pcie3:compute:memory=64MiB";

std::uint32_t first_word(CUdeviceptr at) {
  std::uint32_t word = 0;
  EXPECT_EQ(cuMemcpyDtoH(&word, at, sizeof word), CUDA_SUCCESS);
  return word;
}

CUgraphExec instantiated(CUgraph graph) {
  CUgraphExec exec = nullptr;
  EXPECT_EQ(cuGraphInstantiate(&exec, graph, 0), CUDA_SUCCESS);
  return exec;
}

TEST(SoftgpuGraph, WhatIsCapturedHappensAtEachLaunchAndNotBefore) {
  ON_DEVICE(small, "^$", {
    const CUstream stream = new_stream();
    const CUdeviceptr sum = allocate(400), one = allocate(400);
    EXPECT_EQ(fill(sum, 100, 0, stream), CUDA_SUCCESS);
    EXPECT_EQ(fill(one, 100, 1, stream), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    EXPECT_EQ(add(sum, one, 100, stream), CUDA_SUCCESS);
    EXPECT_EQ(add(sum, one, 100, stream), CUDA_SUCCESS);
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    EXPECT_EQ(cuStreamIsCapturing(stream, &status), CUDA_SUCCESS);
    EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    CUgraph graph = nullptr;
    EXPECT_EQ(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
    EXPECT_EQ(first_word(sum), 0U);
    std::size_t nodes = 0;
    EXPECT_EQ(cuGraphGetNodes(graph, nullptr, &nodes), CUDA_SUCCESS);
    EXPECT_EQ(nodes, 2U);
    const CUgraphExec exec = instantiated(graph);
    EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(cuGraphLaunch(exec, stream), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
    EXPECT_EQ(first_word(sum), 6U);
    EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
    EXPECT_EQ(cuGraphLaunch(exec, stream), CUDA_ERROR_INVALID_VALUE);
  });
}

TEST(SoftgpuGraph, AForkedStreamIsPartOfTheGraphOnceItIsJoined) {
  ON_DEVICE(small, "^$", {
    const CUstream stream = new_stream(), fork = new_stream();
    const CUevent forked = new_event(), joined = new_event();
    const CUdeviceptr sum = allocate(400), one = allocate(400);
    EXPECT_EQ(fill(sum, 100, 0, stream), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
    for (const bool join : {false, true}) {
      EXPECT_EQ(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
      EXPECT_EQ(cuEventRecord(forked, stream), CUDA_SUCCESS);
      EXPECT_EQ(cuStreamWaitEvent(fork, forked, 0), CUDA_SUCCESS);
      EXPECT_EQ(fill(one, 100, 1, fork), CUDA_SUCCESS);
      EXPECT_EQ(cuEventRecord(joined, fork), CUDA_SUCCESS);
      if (join) {
        EXPECT_EQ(cuStreamWaitEvent(stream, joined, 0), CUDA_SUCCESS);
      }
      EXPECT_EQ(add(sum, one, 100, stream), CUDA_SUCCESS);
      CUgraph graph = nullptr;
      EXPECT_EQ(cuStreamEndCapture(stream, &graph), join ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
      if (join) {
        EXPECT_EQ(cuGraphLaunch(instantiated(graph), stream), CUDA_SUCCESS);
      }
    }
    EXPECT_EQ(cuEventQuery(joined), CUDA_ERROR_CAPTURED_EVENT);
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
    EXPECT_EQ(first_word(sum), 1U);
  });
}

// What `breach` returns while `stream` is captured, and that the capture is lost.
template <class Breach>
void spoils(CUresult expected, Breach&& breach) {
  CUstream stream = nullptr;
  EXPECT_EQ(cuStreamCreate(&stream, CU_STREAM_DEFAULT), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  EXPECT_EQ(breach(stream), expected);
  CUgraph graph = nullptr;
  EXPECT_EQ(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(graph, nullptr);
}

TEST(SoftgpuGraph, WhatMightWaitForTheDeviceSpoilsACapture) {
  ON_DEVICE(small, "^$", {
    const CUdeviceptr a = allocate(400);
    const CUstream other = new_stream();
    const CUevent before = new_event();
    EXPECT_EQ(cuEventRecord(before, other), CUDA_SUCCESS);
    CUdeviceptr made = 0;
    spoils(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
           [](CUstream stream) { return cuStreamSynchronize(stream); });
    spoils(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, [&](CUstream) { return cuMemAlloc(&made, 400); });
    spoils(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, [&](CUstream) { return cuEventQuery(before); });
    spoils(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, [&](CUstream) { return fill(a, 100, 1, nullptr); });
    spoils(CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
           [&](CUstream stream) { return cuStreamWaitEvent(stream, before, 0); });
  });
}

cuuint64_t graph_bytes() {
  cuuint64_t bytes = 0;
  EXPECT_EQ(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &bytes), CUDA_SUCCESS);
  return bytes;
}

// What it frees itself serves again in the same graph.
TEST(SoftgpuGraph, ACapturedAllocationIsThereAsLongAsAGraphHasItsNode) {
  ON_DEVICE(small, "^$", {
    const CUstream stream = new_stream();
    EXPECT_EQ(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    CUdeviceptr first = 0;
    CUdeviceptr second = 0;
    CUdeviceptr third = 0;
    EXPECT_EQ(cuMemAllocAsync(&first, 4096, stream), CUDA_SUCCESS);
    EXPECT_EQ(fill(first, 1024, 1, stream), CUDA_SUCCESS);
    EXPECT_EQ(cuMemFreeAsync(first, stream), CUDA_SUCCESS);
    EXPECT_EQ(cuMemAllocAsync(&second, 4096, stream), CUDA_SUCCESS);
    EXPECT_EQ(second, first);
    EXPECT_EQ(cuMemAllocAsync(&third, 4096, stream), CUDA_SUCCESS);
    EXPECT_NE(third, first);
    EXPECT_EQ(fill(third, 1024, 1, stream), CUDA_SUCCESS);
    CUgraph graph = nullptr;
    EXPECT_EQ(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
    const CUgraphExec exec = instantiated(graph);
    EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
    for (int i = 0; i < 2; ++i) EXPECT_EQ(cuGraphLaunch(exec, stream), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
    EXPECT_EQ(graph_bytes(), 8192U);
    EXPECT_EQ(cuMemFreeAsync(third, stream), CUDA_SUCCESS);
    EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
    EXPECT_EQ(graph_bytes(), 0U);
  });
}

TEST(SoftgpuGraph, WhatALaunchAllocatedOutlivesItsGraphUntilItIsFreed) {
  ON_DEVICE(small, "^$", {
    const CUstream stream = new_stream();
    EXPECT_EQ(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    CUdeviceptr made = 0;
    EXPECT_EQ(cuMemAllocAsync(&made, 4096, stream), CUDA_SUCCESS);
    EXPECT_EQ(fill(made, 1024, 7, stream), CUDA_SUCCESS);
    CUgraph graph = nullptr;
    EXPECT_EQ(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
    const CUgraphExec exec = instantiated(graph);
    EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
    EXPECT_EQ(cuGraphLaunch(exec, stream), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
    EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
    EXPECT_EQ(first_word(made), 7U);
    EXPECT_EQ(cuMemFreeAsync(made, stream), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  });
}

TEST(SoftgpuGraph, AGraphDoesNotFreeWhatItDidNotAllocate) {
  ON_DEVICE(small, "^$", {
    const CUstream stream = new_stream();
    const CUdeviceptr outside = allocate(4096);
    EXPECT_EQ(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    EXPECT_EQ(cuMemFreeAsync(outside, stream), CUDA_ERROR_INVALID_VALUE);
    CUgraph graph = nullptr;
    EXPECT_EQ(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
    EXPECT_EQ(fill(outside, 1024, 1, stream), CUDA_SUCCESS);
  });
}

TEST(SoftgpuGraph, GraphsOfWhichNoneAllocatesHoldNoMemory) {
  ON_DEVICE(small, "^$", {
    cuuint64_t bytes = 1;
    for (const auto attribute : {CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH}) {
      EXPECT_EQ(cuDeviceGetGraphMemAttribute(0, attribute, &bytes), CUDA_SUCCESS);
      EXPECT_EQ(bytes, 0U);
    }
    EXPECT_EQ(cuDeviceGetGraphMemAttribute(7, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &bytes),
              CUDA_ERROR_INVALID_DEVICE);
    EXPECT_EQ(cuDeviceGraphMemTrim(0), CUDA_SUCCESS);
  });
}

TEST(SoftgpuGraph, AThreadThatSaysItKnowsBetterMayCallAnything) {
  ON_DEVICE(small, "^$", {
    const CUstream stream = new_stream();
    EXPECT_EQ(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
    EXPECT_NE(allocate(400), 0U);
    CUgraph graph = nullptr;
    EXPECT_EQ(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    std::thread([] {
      CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
      EXPECT_EQ(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
      EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
      CUcontext context = nullptr;
      EXPECT_EQ(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
      EXPECT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
      EXPECT_NE(allocate(400), 0U);
    }).join();
    EXPECT_EQ(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
  });
}

}  // namespace
