// unseen_program words|boxes|nodes|table HOW|numbers: work of the driver's that is no launch and no plain
// copy, and tables of addresses by every kind of copy, while other memory is in use. Prints hashes of what
// came out.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <string_view>
#include <vector>

#include "ok.h"
#include "softgpu/image.h"

namespace {

using softgpu::Footprint;
using softgpu::TouchKind;

constexpr std::size_t MiB = std::size_t{1} << 20;
constexpr std::size_t bytes = 8 * MiB;

CUdeviceptr filled(unsigned value, std::size_t size = bytes) {
  void* made = nullptr;
  OK(cudaMalloc(&made, size));
  OK(cuMemsetD32Async(reinterpret_cast<CUdeviceptr>(made), value, size / 4, nullptr));
  return reinterpret_cast<CUdeviceptr>(made);
}

void print(const char* name, CUdeviceptr from, std::size_t size = bytes) {
  std::vector<std::uint32_t> content(size / 4);
  OK(cudaMemcpy(content.data(), reinterpret_cast<void*>(from), size, cudaMemcpyDeviceToHost));
  std::uint64_t hash = 1;
  for (const std::uint32_t word : content) hash = (hash ^ word) * 0x100000001b3;
  std::printf("%s %016llx\n", name, static_cast<unsigned long long>(hash));
}

// Other memory of the program's, more than fits beside the rest.
struct Others {
  std::vector<CUdeviceptr> all;
  Others() {
    for (unsigned i = 0; i < 12; ++i) all.push_back(filled(i));
  }
  void work() const {
    for (std::size_t i = 1; i < all.size(); ++i)
      OK(cuMemcpyDtoDAsync_v2(all[i], all[i - 1], bytes / 2, nullptr));
  }
};

// Words that a stream writes and waits for, in memory that has left the device.
void words() {
  const CUdeviceptr flags = filled(0), more = filled(1);
  const Others others;
  others.work();
  CUstreamBatchMemOpParams ops[3] = {};
  ops[0].operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
  ops[0].writeValue.address = flags + 8, ops[0].writeValue.value64 = 7;
  ops[1].operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  ops[1].writeValue.address = more + 64, ops[1].writeValue.value = 5;
  ops[2].operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  ops[2].waitValue.address = more + 4, ops[2].waitValue.value = 1,
  ops[2].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
  OK(cuStreamBatchMemOp_v2(nullptr, 3, ops, 0));
  others.work();
  OK(cuStreamWaitValue64_v2(nullptr, flags + 8, 7, CU_STREAM_WAIT_VALUE_EQ));
  others.work();
  OK(cuStreamWaitValue32_v2(nullptr, more + 64, 5, CU_STREAM_WAIT_VALUE_GEQ));
  print("flags", flags);
  print("more", more);
}

// The other half of each row, in a box of two layers.
void boxes() {
  const CUdeviceptr to = filled(1), from = filled(2);
  const Others others;
  CUDA_MEMCPY3D_BATCH_OP op = {};
  op.src.type = op.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
  op.src.op.ptr.ptr = from;
  op.dst.op.ptr.ptr = to + 512;
  op.dst.op.ptr.rowLength = 1024, op.dst.op.ptr.layerHeight = 2048;
  op.src.op.ptr.rowLength = 512;
  op.extent = {512, 1000, 2};
  for (int round = 0; round < 3; ++round) {
    others.work();
    OK(cuMemcpy3DBatchAsync_v2(1, &op, 0, nullptr));
  }
  others.work();
  print("to", to);
  print("from", from);
}

struct Table {
  float *to, *from;
};
template <class T>
T parameter(const void* const* all, int which) {
  T value;
  std::memcpy(&value, all[which], sizeof value);
  return value;
}
const Table& table_of(const void* const* p) {
  return *parameter<const Table*>(p, 0);
}
void touch_table(const void* const* p, Footprint& out) {
  const Table& table = table_of(p);
  const auto size = parameter<std::uint64_t>(p, 1) * sizeof(float);
  out.touches.push_back({reinterpret_cast<std::uint64_t>(table.to), size, TouchKind::read_write});
  out.touches.push_back({reinterpret_cast<std::uint64_t>(table.from), size, TouchKind::read});
}
void run_table(const void* const* p) {
  for (std::uint64_t i = 0; i < parameter<std::uint64_t>(p, 1); ++i) table_of(p).to[i] += table_of(p).from[i];
}
void touch_scale(const void* const* p, Footprint& out) {
  out.touches.push_back({parameter<CUdeviceptr>(p, 0), bytes, TouchKind::read_write});
}
void run_scale(const void* const* p) {
  auto* const words = reinterpret_cast<std::uint32_t*>(parameter<CUdeviceptr>(p, 0));
  for (std::size_t i = 0; i < bytes / 4; ++i) words[i] = words[i] * 3 + 1;
}
constexpr std::uint32_t two_words[] = {8, 8}, one_word[] = {8};
constexpr softgpu::KernelEntry entries[] = {{"through_table", two_words, 2, touch_table, run_table},
                                            {"scale", one_word, 1, touch_scale, run_scale}};
constexpr softgpu::Image image{softgpu::image_magic, std::size(entries), entries};

CUfunction kernel(const char* name) {
  static CUmodule module;
  if (module == nullptr) OK(cuModuleLoadData(&module, &image));
  CUfunction found = nullptr;
  OK(cuModuleGetFunction(&found, module, name));
  return found;
}

// A graph by hand: set x, copy it to y, scale y. Then one that can run is changed to work on another.
void nodes() {
  const CUdeviceptr x = filled(1), y = filled(2), z = filled(3);
  const Others others;
  others.work();
  CUgraph graph = nullptr;
  CUgraphNode set = nullptr, copy = nullptr, scale = nullptr;
  CUDA_MEMSET_NODE_PARAMS setting = {};
  setting.dst = x, setting.value = 77, setting.elementSize = 4, setting.width = bytes / 8, setting.height = 1;
  CUDA_MEMCPY3D copying = {};
  copying.srcMemoryType = copying.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copying.srcDevice = x, copying.dstDevice = y;
  copying.WidthInBytes = bytes, copying.Height = copying.Depth = 1;
  CUdeviceptr scaled = y;
  void* params[] = {&scaled};
  CUDA_KERNEL_NODE_PARAMS scaling = {};
  scaling.func = kernel("scale"), scaling.kernelParams = params;
  scaling.gridDimX = scaling.gridDimY = scaling.gridDimZ = 1;
  scaling.blockDimX = scaling.blockDimY = scaling.blockDimZ = 1;
  OK(cuGraphCreate(&graph, 0));
  OK(cuGraphAddMemsetNode(&set, graph, nullptr, 0, &setting, nullptr));
  OK(cuGraphAddMemcpyNode(&copy, graph, &set, 1, &copying, nullptr));
  OK(cuGraphAddKernelNode_v2(&scale, graph, &copy, 1, &scaling));
  CUgraphExec exec = nullptr;
  OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
  for (int round = 0; round < 3; ++round) {
    others.work();
    OK(cuGraphLaunch(exec, nullptr));
  }
  setting.dst = z;
  OK(cuGraphExecMemsetNodeSetParams(exec, set, &setting, nullptr));
  for (int round = 0; round < 3; ++round) {
    others.work();
    OK(cuGraphLaunch(exec, nullptr));
  }
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphDestroy(graph));
  for (int round = 0; round < 2; ++round) others.work();
  for (const CUdeviceptr each : {x, y, z}) print("graph", each);
}

void copy_box(CUdeviceptr to, const void* from, std::size_t size) {
  CUDA_MEMCPY3D_BATCH_OP op = {};
  op.src.type = op.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
  op.src.op.ptr.ptr = reinterpret_cast<CUdeviceptr>(from);
  op.dst.op.ptr.ptr = to;
  op.extent = {size / 2, 2, 1};
  OK(cuMemcpy3DBatchAsync_v2(1, &op, 0, nullptr));
}

void copy_flat(CUdeviceptr to, const void* from, std::size_t size) {
  CUDA_MEMCPY2D copy = {};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST, copy.srcHost = from, copy.srcPitch = size / 2;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE, copy.dstDevice = to, copy.dstPitch = size / 2;
  copy.WidthInBytes = size / 2, copy.Height = 2;
  OK(cuMemcpy2DAsync_v2(&copy, nullptr));
}

void carry(std::string_view how, CUdeviceptr to, const void* from, std::size_t size) {
  CUdeviceptr source = reinterpret_cast<CUdeviceptr>(from);
  CUmemcpyAttributes attributes = {};
  std::size_t first = 0;
  if (how == "async") {
    OK(cuMemcpyHtoDAsync_v2(to, from, size, nullptr));
  } else if (how == "either") {
    OK(cuMemcpy(to, source, size));
  } else if (how == "either-async") {
    OK(cuMemcpyAsync(to, source, size, nullptr));
  } else if (how == "flat") {
    copy_flat(to, from, size);
  } else if (how == "batch") {
    OK(cuMemcpyBatchAsync_v2(&to, &source, &size, 1, &attributes, &first, 1, nullptr));
  } else if (how == "box") {
    copy_box(to, from, size);
  } else {
    OK(cuMemcpyHtoD_v2(to, from, size));
  }
}

// Two tensors whose addresses come in a table: alone, or in a large one.
void table(std::string_view how) {
  const CUdeviceptr to = filled(0), from = filled(0x3f800000);
  const Others others;
  const Table two{reinterpret_cast<float*>(to), reinterpret_cast<float*>(from)};
  std::vector<Table> content(how == "large" ? 3 * MiB / sizeof(Table) : 1, two);
  const std::size_t size = content.size() * sizeof(Table);
  void* there = nullptr;
  OK(cudaMalloc(&there, size));
  carry(how, reinterpret_cast<CUdeviceptr>(there), content.data(), size);
  std::uint64_t count = bytes / sizeof(float);
  void* params[] = {&there, &count};
  for (int round = 0; round < 3; ++round) {
    others.work();
    OK(cuLaunchKernel(kernel("through_table"), 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr));
  }
  print("to", to);
}

// No tables: token ids, small numbers, pairs of a large and a small one, bytes of dark pictures, by copies of
// 64 KiB and of 4 MiB.
void numbers() {
  const Others others;
  const CUdeviceptr to = filled(0);
  std::uint64_t state = 1;
  const auto next = [&] {
    return static_cast<std::uint32_t>((state = state * 6364136223846793005u + 1) >> 33);
  };
  std::vector<std::uint32_t> tokens(4 * MiB / 4), small(4 * MiB / 4), pairs(4 * MiB / 4);
  std::vector<std::uint8_t> dark(4 * MiB);
  for (std::uint32_t& each : tokens) each = next() % 65536;
  for (std::uint32_t& each : small) each = next() % 64;
  for (std::size_t i = 0; i < pairs.size(); ++i) pairs[i] = i % 2 == 0 ? next() : next() % 64;
  for (std::uint8_t& each : dark) each = next() % 4 == 0 ? next() % 256 : 0;
  for (const std::size_t size : {std::size_t{64} << 10, 4 * MiB})
    for (const void* data : {static_cast<const void*>(tokens.data()), static_cast<const void*>(small.data()),
                             static_cast<const void*>(pairs.data()), static_cast<const void*>(dark.data())})
      for (std::size_t at = 0; at + size <= 4 * MiB; at += size)
        OK(cuMemcpyHtoD_v2(to + at, static_cast<const std::byte*>(data) + at, size));
  others.work();
  print("to", to);
}

}  // namespace

int main(int count, char** arguments) {
  const std::string_view scenario = count > 1 ? arguments[1] : "";
  OK(cudaFree(nullptr));
  if (scenario == "words") {
    words();
  } else if (scenario == "boxes") {
    boxes();
  } else if (scenario == "nodes") {
    nodes();
  } else if (scenario == "table" && count == 3) {
    table(arguments[2]);
  } else if (scenario == "numbers") {
    numbers();
  } else {
    return 2;
  }
  return 0;
}
