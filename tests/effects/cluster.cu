// From sm_90 on: clusters, bulk copies and tensor copies. basic.cu says what the comments mean; `map p0` is the memory
// that the tensor map at the first parameter names.
#include <cooperative_groups.h>

#include <cstdint>

#define KERNEL extern "C" __global__ void
namespace cg = cooperative_groups;

__device__ unsigned shared_address(const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }

__device__ void wait_for(unsigned bar) {
  asm volatile("{ .reg .pred p; L%=: mbarrier.try_wait.parity.shared.b64 p, [%0], 0; @!p bra L%=; }" ::"r"(bar) : "memory");
}

// bulk_copy: p0 store, p1 load
KERNEL bulk_copy(float* to, const float* from) {
  __shared__ alignas(128) float part[512];
  __shared__ uint64_t bar;
  const unsigned data = shared_address(part), word = shared_address(&bar);
  if (threadIdx.x == 0)
    asm volatile(
        "mbarrier.init.shared.b64 [%0], 1; mbarrier.arrive.expect_tx.shared.b64 _, [%0], 2048;"
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%1], [%2], 2048, [%0];" ::"r"(word),
        "r"(data), "l"(from)
        : "memory");
  __syncthreads();
  wait_for(word);
  if (threadIdx.x == 0)
    asm volatile(
        "cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 2048; cp.async.bulk.commit_group;"
        "cp.async.bulk.wait_group 0;" ::"l"(to),
        "r"(data)
        : "memory");
}

// bulk_reduce: p0 update
KERNEL bulk_reduce(float* to) {
  __shared__ alignas(128) float part[512];
  part[threadIdx.x] = 1;
  __syncthreads();
  if (threadIdx.x == 0)
    asm volatile(
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], 2048; cp.async.bulk.commit_group;" ::"l"(to),
        "r"(shared_address(part))
        : "memory");
}

// bulk_pointers: p0 load; hidden
KERNEL bulk_pointers(float* const* from) {
  __shared__ alignas(128) float* part[64];
  __shared__ uint64_t bar;
  const unsigned data = shared_address(part), word = shared_address(&bar);
  if (threadIdx.x == 0)
    asm volatile(
        "mbarrier.init.shared.b64 [%0], 1; mbarrier.arrive.expect_tx.shared.b64 _, [%0], 512;"
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%1], [%2], 512, [%0];" ::"r"(word),
        "r"(data), "l"(from)
        : "memory");
  __syncthreads();
  wait_for(word);
  part[threadIdx.x & 63][0] = 1;
}

struct alignas(64) Map {
  char bytes[128];
};
// tensor_copy: map p0 load; map p1 store
KERNEL tensor_copy(const __grid_constant__ Map from, const __grid_constant__ Map to, int n) {
  __shared__ alignas(128) float part[512];
  __shared__ uint64_t bar;
  const unsigned data = shared_address(part), word = shared_address(&bar);
  if (threadIdx.x == 0) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %2}], [%3];" ::"r"(data),
        "l"(&from), "r"(n), "r"(word)
        : "memory");
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %1}], [%2];" ::"l"(&to), "r"(n), "r"(data)
                 : "memory");
  }
}

// tensor_reduce: map p0 update
KERNEL tensor_reduce(const __grid_constant__ Map to, int n) {
  __shared__ alignas(128) float part[512];
  if (threadIdx.x == 0)
    asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [%0, {%1, %1}], [%2];" ::"l"(&to), "r"(n),
                 "r"(shared_address(part))
                 : "memory");
}

// map_in_memory: p0 load; hidden
KERNEL map_in_memory(const Map* from, int n) {
  __shared__ alignas(128) float part[512];
  __shared__ uint64_t bar;
  if (threadIdx.x == 0)
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %2}], [%3];" ::"r"(
            shared_address(part)),
        "l"(from), "r"(n), "r"(shared_address(&bar))
        : "memory");
}

// cluster_exchange: p0 store, p1 load
extern "C" __global__ void __cluster_dims__(2, 1, 1) cluster_exchange(float* to, const float* from) {
  __shared__ float part[64];
  auto cluster = cg::this_cluster();
  part[threadIdx.x] = from[threadIdx.x];
  cluster.sync();
  const float* other = cluster.map_shared_rank(part, cluster.block_rank() ^ 1);
  to[threadIdx.x] = other[threadIdx.x];
  cluster.sync();
}

// cluster_pointers: p0 store, p1 store
extern "C" __global__ void __cluster_dims__(2, 1, 1) cluster_pointers(float* a, float* b) {
  __shared__ float* part[64];
  auto cluster = cg::this_cluster();
  float** other = cluster.map_shared_rank(part, cluster.block_rank() ^ 1);
  other[threadIdx.x] = threadIdx.x % 2 != 0 ? a : b;
  cluster.sync();
  part[threadIdx.x][0] = 1;
}

// cluster_pointers_loaded: p0 load; hidden
extern "C" __global__ void __cluster_dims__(2, 1, 1) cluster_pointers_loaded(float* const* from) {
  __shared__ float* part[64];
  auto cluster = cg::this_cluster();
  part[threadIdx.x] = from[threadIdx.x];
  cluster.sync();
  float** other = cluster.map_shared_rank(part, cluster.block_rank() ^ 1);
  other[threadIdx.x][0] = 1;
  cluster.sync();
}

// stored_matrix: p0 store, p1 load
KERNEL stored_matrix(unsigned* to, const unsigned* from) {
  __shared__ alignas(16) unsigned part[256];
  const auto at = shared_address(part + (threadIdx.x & 15) * 4);
  asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(at), "r"(from[0]), "r"(from[threadIdx.x])
               : "memory");
  __syncthreads();
  to[threadIdx.x] = part[threadIdx.x];
}
