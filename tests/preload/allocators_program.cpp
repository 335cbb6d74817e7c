// allocators_program SCENARIO: allocates as frameworks do, and checks what it finds in its memory. Prints
// what it was told, for a comparison with a run without pooch; exit code 0, or 1 with a line on stderr.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "ok.h"

namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

void expect(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "not so: %s\n", what.c_str());
  std::exit(1);
}

cudaStream_t make_stream() {
  cudaStream_t made;
  OK(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
  return made;
}

// Later work of `dependent` follows what is in `dependency` now.
void follow(cudaStream_t dependent, cudaStream_t dependency) {
  cudaEvent_t event;
  OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  OK(cudaEventRecord(event, dependency));
  OK(cudaStreamWaitEvent(dependent, event, 0));
  OK(cudaEventDestroy(event));
}

struct Tensor {
  unsigned char* data;
  std::size_t bytes;
  unsigned char value;  // of every byte
};

void check(const Tensor& tensor, const std::string& what) {
  std::vector<unsigned char> host(tensor.bytes);
  OK(cudaMemcpy(host.data(), tensor.data, tensor.bytes, cudaMemcpyDeviceToHost));
  const auto wrong =
      std::find_if(host.begin(), host.end(), [&](unsigned char b) { return b != tensor.value; });
  expect(wrong == host.end(), what + " holds what was written");
}

std::uint64_t figure(cudaMemPool_t pool, cudaMemPoolAttr attribute) {
  std::uint64_t value = 0;
  OK(cudaMemPoolGetAttribute(pool, attribute, &value));
  return value;
}

struct Info {
  std::size_t free, total;
};
Info memory_info() {
  Info info{};
  OK(cudaMemGetInfo(&info.free, &info.total));
  return info;
}

// --- pools

void print_figures(const char* when, cudaMemPool_t pool) {
  const std::uint64_t used = figure(pool, cudaMemPoolAttrUsedMemCurrent),
                      used_high = figure(pool, cudaMemPoolAttrUsedMemHigh),
                      reserved = figure(pool, cudaMemPoolAttrReservedMemCurrent),
                      reserved_high = figure(pool, cudaMemPoolAttrReservedMemHigh);
  std::printf("%s: %llu of %llu used, at most %llu of %llu\n", when, static_cast<unsigned long long>(used),
              static_cast<unsigned long long>(reserved), static_cast<unsigned long long>(used_high),
              static_cast<unsigned long long>(reserved_high));
  const Info info = memory_info();
  expect(info.free + reserved <= info.total, "what is free and what is reserved fit into the total");
}

void* allocate(std::size_t bytes, cudaStream_t stream) {
  void* made = nullptr;
  OK(cudaMallocAsync(&made, bytes, stream));
  return made;
}

void default_pool() {
  cudaMemPool_t pool, same;
  OK(cudaDeviceGetDefaultMemPool(&pool, 0));
  OK(cudaDeviceGetMemPool(&same, 0));
  expect(pool == same, "the default pool is the current one");
  std::uint64_t threshold = ~std::uint64_t{0};
  OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
  expect(figure(pool, cudaMemPoolAttrReleaseThreshold) == threshold, "the threshold is kept");
  int on = 1;
  for (const auto reuse : {cudaMemPoolReuseFollowEventDependencies, cudaMemPoolReuseAllowOpportunistic,
                           cudaMemPoolReuseAllowInternalDependencies})
    OK(cudaMemPoolSetAttribute(pool, reuse, &on));

  cudaStream_t const stream = make_stream();
  void* const tensors[] = {allocate(8 * mib, stream), allocate(6 * mib, stream), allocate(1024, stream)};
  print_figures("three", pool);
  OK(cudaFreeAsync(tensors[0], stream));
  OK(cudaStreamSynchronize(stream));
  print_figures("one freed", pool);
  std::uint64_t zero = 0, one = 1;
  OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &zero));
  OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReservedMemHigh, &zero));
  print_figures("marks reset", pool);
  std::printf("a mark set to 1: %d\n", cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &one));
  OK(cudaFree(tensors[1]));
  OK(cudaFreeAsync(tensors[2], stream));
  OK(cudaStreamSynchronize(stream));
  OK(cudaMemPoolTrimTo(pool, 0));
  print_figures("all freed", pool);
}

void own_pool() {
  cudaMemPoolProps props{};
  props.allocType = cudaMemAllocationTypePinned;
  props.location = {cudaMemLocationTypeDevice, {0}};
  props.maxSize = 20 * mib;
  cudaMemPool_t pool, standard;
  OK(cudaMemPoolCreate(&pool, &props));
  OK(cudaDeviceGetDefaultMemPool(&standard, 0));
  cudaStream_t const stream = make_stream();
  void *first, *second, *third;
  OK(cudaMallocFromPoolAsync(&first, 8 * mib, pool, stream));
  OK(cudaDeviceSetMemPool(0, pool));
  second = allocate(10 * mib, stream);
  print_figures("own pool", pool);
  print_figures("default pool", standard);
  std::printf("beyond its size: %d\n", cudaMallocAsync(&third, 4 * mib, stream));
  CUmemoryPool told = nullptr;
  OK(cuPointerGetAttribute(&told, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, reinterpret_cast<CUdeviceptr>(first)));
  std::printf("an allocation knows its pool: %d\n", told == pool);
  // What lives survives its pool; what comes next is from the default one.
  OK(cudaMemPoolDestroy(pool));
  third = allocate(4 * mib, stream);
  print_figures("default pool again", standard);
  for (void* const each : {first, second, third}) OK(cudaFreeAsync(each, stream));
  OK(cudaStreamSynchronize(stream));
  print_figures("nothing left", standard);
}

// --- frameworks' ways, with more in memory than the cap holds

// PyTorch's stream-ordered allocator: exact sizes; what other streams used is freed in a stream of its own,
// which waits for all of them.
void stream_ordered(std::size_t unit) {
  cudaStream_t const compute = make_stream(), side = make_stream(), unifier = make_stream();
  std::deque<Tensor> live;
  std::set<void*> addresses;
  for (int i = 0; i < 200; ++i) {
    const std::size_t bytes = (3 + i % 4) * unit + 512 * (i % 3);
    const auto value = static_cast<unsigned char>(i + 1);
    Tensor made{static_cast<unsigned char*>(allocate(bytes, compute)), bytes, value};
    expect(addresses.insert(made.data).second, "no address is handed out while it lives");
    OK(cudaMemsetAsync(made.data, value, bytes, compute));
    if (!live.empty() && i % 3 == 0) {  // used beside: the other stream reads one and writes one
      Tensor& to = live[live.size() / 2];
      follow(side, compute);
      OK(cudaMemcpyAsync(to.data, made.data, std::min(to.bytes, bytes), cudaMemcpyDeviceToDevice, side));
      OK(cudaMemsetAsync(to.data, value, to.bytes, side));
      to.value = value;
      follow(compute, side);
      if (i % 2 == 0) {
        addresses.erase(made.data);
        follow(unifier, compute);
        follow(unifier, side);
        OK(cudaFreeAsync(made.data, unifier));
        continue;
      }
    }
    live.push_back(made);
    if (live.size() < 24) continue;
    addresses.erase(live.front().data);
    OK(cudaFreeAsync(live.front().data, compute));
    live.pop_front();
  }
  OK(cudaDeviceSynchronize());
  for (const Tensor& tensor : live) check(tensor, "a stream-ordered tensor");
}

// PyTorch's own caching allocator and CuPy's: large segments that are never given back, many tensors in each.
void segments() {
  struct Segment {
    unsigned char* data;
    std::size_t bytes, taken;
  };
  std::vector<Segment> all;
  std::vector<Tensor> tensors;
  const auto tensor = [&](std::size_t bytes, unsigned char value) {
    const std::size_t rounded = (bytes + 511) / 512 * 512;
    const std::size_t segment = bytes <= mib ? 2 * mib : 20 * mib;
    auto room = std::find_if(all.begin(), all.end(), [&](const Segment& s) {
      return s.bytes == segment && s.bytes - s.taken >= rounded;
    });
    if (room == all.end()) {
      void* made = nullptr;
      OK(cudaMalloc(&made, segment));
      room = all.insert(all.end(), {static_cast<unsigned char*>(made), segment, 0});
    }
    tensors.push_back({room->data + room->taken, bytes, value});
    room->taken += rounded;
    OK(cudaMemset(tensors.back().data, value, bytes));
  };
  for (int i = 0; i < 90; ++i) tensor((1 + i % 7) * mib / 4 + 100 * i, static_cast<unsigned char>(i + 1));
  for (int i = 0; i < 30; ++i) tensor((2 + i % 5) * mib - 60, static_cast<unsigned char>(i + 101));
  for (int round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i + 7 < tensors.size(); i += 5) {
      const Tensor& from = tensors[i];
      Tensor& to = tensors[tensors.size() - 1 - i];
      if (to.bytes > from.bytes) continue;
      OK(cudaMemcpyAsync(to.data, from.data, to.bytes, cudaMemcpyDeviceToDevice, nullptr));
      to.value = from.value;
    }
  }
  for (const Tensor& each : tensors) check(each, "a tensor in a segment");
}

// PYTORCH_NO_CUDA_MEMORY_CACHING: correctness rests on cudaFree, which waits for all submitted work.
void no_caching() {
  cudaStream_t const compute = make_stream(), side = make_stream();
  std::deque<Tensor> live;
  for (int i = 0; i < 150; ++i) {
    void* data = nullptr;
    const std::size_t bytes = (2 + i % 6) * mib;
    OK(cudaMalloc(&data, bytes));
    live.push_back({static_cast<unsigned char*>(data), bytes, static_cast<unsigned char>(i + 1)});
    OK(cudaMemsetAsync(data, i + 1, bytes, i % 4 == 0 ? side : compute));
    if (live.size() < 26) continue;
    OK(cudaFree(live.front().data));
    live.pop_front();
  }
  OK(cudaDeviceSynchronize());
  for (const Tensor& tensor : live) check(tensor, "a tensor of its own");
}

// A program that takes what it is told is free, all of it, and uses all of it.
void takes_all() {
  std::vector<Tensor> tensors;
  for (std::size_t free = memory_info().free; free >= 2 * mib; free = memory_info().free) {
    const std::size_t bytes = std::min(free, 24 * mib);
    void* data = nullptr;
    OK(cudaMalloc(&data, bytes));
    tensors.push_back({static_cast<unsigned char*>(data), bytes, static_cast<unsigned char>(tensors.size())});
  }
  void* more = nullptr;
  expect(cudaMalloc(&more, 24 * mib) == cudaErrorMemoryAllocation, "there is no more than it was told");
  (void)cudaGetLastError();
  for (int round = 0; round < 3; ++round) {
    for (Tensor& each : tensors) {
      each.value += 7;
      OK(cudaMemset(each.data, each.value, each.bytes));
    }
  }
  for (const Tensor& each : tensors) check(each, "a part of all memory");
}

// A workspace is wanted while the cap is full of what could go: refusing it makes frameworks choose another
// algorithm.
void workspace() {
  cudaStream_t const stream = make_stream();
  std::vector<Tensor> tensors;
  for (int i = 0; i < 30; ++i) {
    tensors.push_back(
        {static_cast<unsigned char*>(allocate(5 * mib, stream)), 5 * mib, static_cast<unsigned char>(i + 1)});
    OK(cudaMemsetAsync(tensors.back().data, i + 1, 5 * mib, stream));
    for (const std::size_t bytes : {40 * mib, mib, 4096UL}) {
      void* const space = allocate(bytes, stream);
      OK(cudaMemsetAsync(space, 0xee, bytes, stream));
      OK(cudaFreeAsync(space, stream));
    }
  }
  OK(cudaStreamSynchronize(stream));
  for (const Tensor& each : tensors) check(each, "a tensor beside workspaces");
}

// Thousands of tensors too small to be managed beside large ones.
void tiny() {
  cudaStream_t const stream = make_stream();
  std::vector<Tensor> large, small;
  for (int i = 0; i < 20; ++i) {
    large.push_back(
        {static_cast<unsigned char*>(allocate(6 * mib, stream)), 6 * mib, static_cast<unsigned char>(i + 1)});
    OK(cudaMemsetAsync(large.back().data, i + 1, 6 * mib, stream));
    for (int k = 0; k < 500; ++k) {
      const std::size_t bytes = 64 + 40 * (k % 50);
      small.push_back({static_cast<unsigned char*>(allocate(bytes, stream)), bytes,
                       static_cast<unsigned char>(k % 251 + 1)});
      OK(cudaMemsetAsync(small.back().data, small.back().value, bytes, stream));
      if (small.size() < 3000) continue;
      for (std::size_t n = 0; n < 1000; ++n) OK(cudaFreeAsync(small[n].data, stream));
      small.erase(small.begin(), small.begin() + 1000);
    }
  }
  OK(cudaStreamSynchronize(stream));
  for (const Tensor& each : large) check(each, "a large tensor");
  for (std::size_t i = 0; i < small.size(); i += 37) check(small[i], "a small tensor");
  cudaMemPool_t pool;
  OK(cudaDeviceGetDefaultMemPool(&pool, 0));
  print_figures("large and small", pool);
}

// A loop that is bound by its launches: small tensors come and go, some of them stay a while.
void churn() {
  cudaStream_t const stream = make_stream();
  std::vector<void*> live(64);
  for (int i = 0; i < 20000; ++i) {
    void*& place = live[i % live.size()];
    if (place != nullptr) OK(cudaFreeAsync(place, stream));
    const std::size_t bytes = 512 + 100 * (i % 90);
    place = allocate(bytes, stream);
    OK(cudaMemsetAsync(place, 1, bytes, stream));
  }
  OK(cudaStreamSynchronize(stream));
}

// Small tensors of many sizes in streams that come and go; what frees one may be another stream or none.
void small() {
  cudaMemPool_t pool;
  OK(cudaDeviceGetDefaultMemPool(&pool, 0));
  std::mt19937 random(7);
  const auto below = [&](std::size_t bound) { return random() % bound; };
  struct Placed {
    Tensor tensor;
    cudaStream_t stream;  // behind whose work it may be used
  };
  std::vector<cudaStream_t> streams{make_stream(), make_stream(), make_stream(), cudaStreamLegacy};
  std::vector<Placed> live;
  const auto end = [&](std::size_t which) {
    const Placed gone = live[which];
    live.erase(live.begin() + static_cast<std::ptrdiff_t>(which));
    const std::size_t way = below(8);
    cudaStream_t const other = streams[below(streams.size())];
    OK(cudaStreamSynchronize(gone.stream));
    check(gone.tensor, "a small tensor");
    OK(cudaMemsetAsync(gone.tensor.data, 0, gone.tensor.bytes, gone.stream));
    if (way == 0) {
      OK(cudaFree(gone.tensor.data));
    } else if (way > 3) {
      OK(cudaFreeAsync(gone.tensor.data, gone.stream));
    } else {
      follow(other, gone.stream);  // which then uses it alone
      OK(cudaMemsetAsync(gone.tensor.data, 2, gone.tensor.bytes, other));
      OK(cudaFreeAsync(gone.tensor.data, other));
    }
  };
  for (int i = 0; i < 3000; ++i) {
    if (i % 500 == 499) {  // a stream is replaced; another follows what it did
      cudaStream_t const old = streams[0];
      follow(streams[1], old);
      for (Placed& each : live)
        if (each.stream == old) each.stream = streams[1];
      OK(cudaStreamDestroy(old));
      streams[0] = make_stream();
    }
    if (live.size() > 150 || (!live.empty() && below(5) == 0)) {
      end(below(live.size()));
      continue;
    }
    cudaStream_t const stream = streams[below(streams.size())];
    const std::size_t bytes = 1 + below(std::size_t{1} << (6 + below(14)));
    const auto value = static_cast<unsigned char>(1 + below(255));
    auto* const data = static_cast<unsigned char*>(allocate(bytes, stream));
    for (const Placed& each : live)
      expect(data + bytes <= each.tensor.data || each.tensor.data + each.tensor.bytes <= data,
             "tensors are apart");
    OK(cudaMemsetAsync(data, value, bytes, stream));
    live.push_back({{data, bytes, value}, stream});
  }
  const Placed& one = live.front();
  CUdeviceptr base = 0;
  std::size_t size = 0;
  OK(cuMemGetAddressRange(&base, &size,
                          reinterpret_cast<CUdeviceptr>(one.tensor.data + one.tensor.bytes - 1)));
  std::printf("a range begins at the tensor: %d\n", base == reinterpret_cast<CUdeviceptr>(one.tensor.data));
  expect(size >= one.tensor.bytes, "a range is as long as its tensor");
  CUmemoryPool told = nullptr;
  OK(cuPointerGetAttribute(&told, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, base));
  std::printf("it knows its pool: %d\n", told == pool);
  std::printf("%zu live\n", live.size());
  while (!live.empty()) end(live.size() - 1);
  OK(cudaDeviceSynchronize());
  OK(cudaMemPoolTrimTo(pool, 0));
  std::printf("trimmed: %llu of %llu used, at most %llu\n",
              static_cast<unsigned long long>(figure(pool, cudaMemPoolAttrUsedMemCurrent)),
              static_cast<unsigned long long>(figure(pool, cudaMemPoolAttrReservedMemCurrent)),
              static_cast<unsigned long long>(figure(pool, cudaMemPoolAttrUsedMemHigh)));
}

// The program maps memory of its own beside what it allocates.
void own_mappings() {
  cudaStream_t const stream = make_stream();
  std::vector<Tensor> all;
  for (unsigned char i = 0; i < 8; ++i)
    all.push_back({static_cast<unsigned char*>(allocate(8 * mib, stream)), 8 * mib, i});
  const auto use_all = [&] {
    for (const Tensor& each : all) OK(cudaMemsetAsync(each.data, each.value, each.bytes, stream));
    OK(cudaStreamSynchronize(stream));
    for (const Tensor& each : all) check(each, "a tensor");
  };
  use_all();
  CUmemAllocationProp prop = {};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemAccessDesc access = {};
  access.location = prop.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  // What is given back can be had again.
  for (int round = 0; round < 3; ++round) {
    CUdeviceptr base = 0;
    OK(cuMemAddressReserve(&base, 32 * mib, 0, 0, 0));
    for (const CUdeviceptr at : {base, base + 16 * mib}) {
      CUmemGenericAllocationHandle handle = 0;
      OK(cuMemCreate(&handle, 16 * mib, &prop, 0));
      OK(cuMemMap(at, 16 * mib, 0, handle, 0));
      OK(cuMemRelease(handle));  // the mapping keeps it
    }
    OK(cuMemSetAccess(base, 32 * mib, &access, 1));
    const Tensor own{reinterpret_cast<unsigned char*>(base), 32 * mib, 9};
    OK(cudaMemset(own.data, own.value, own.bytes));
    use_all();
    check(own, "mapped memory");
    OK(cuMemUnmap(base, 32 * mib));
    OK(cuMemAddressFree(base, 32 * mib));
  }
  use_all();
}

}  // namespace

int main(int count, char** words) {
  const std::map<std::string, std::function<void()>> scenarios = {
      {"default_pool", default_pool},
      {"own_pool", own_pool},
      {"stream_ordered", [] { stream_ordered(mib); }},
      {"small_stream_ordered", [] { stream_ordered(mib / 64); }},
      {"small", small},
      {"segments", segments},
      {"no_caching", no_caching},
      {"takes_all", takes_all},
      {"workspace", workspace},
      {"tiny", tiny},
      {"churn", churn},
      {"own_mappings", own_mappings},
  };
  const auto scenario = scenarios.find(count == 2 ? words[1] : "");
  if (scenario == scenarios.end()) return 2;
  scenario->second();
  std::printf("done\n");
  return 0;
}
