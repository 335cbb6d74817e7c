// From sm_80 on: copies into shared memory, groups, reductions by hardware. basic.cu says what the comments mean.
#include <cooperative_groups.h>
#include <mma.h>

#include <cstdint>

#define KERNEL extern "C" __global__ void
namespace cg = cooperative_groups;

// async_copy: p0 store, p1 load
KERNEL async_copy(float* to, const float* from) {
  __shared__ alignas(16) float part[512];
  const auto at = static_cast<unsigned>(__cvta_generic_to_shared(part + threadIdx.x * 4));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16; cp.async.commit_group; cp.async.wait_group 0;" ::"r"(at),
               "l"(from + threadIdx.x * 4)
               : "memory");
  __syncthreads();
  to[threadIdx.x] = part[511 - threadIdx.x];
}

// async_pointers: p0 load; hidden
KERNEL async_pointers(float* const* from) {
  __shared__ alignas(16) float* part[64];
  const auto at = static_cast<unsigned>(__cvta_generic_to_shared(part + threadIdx.x));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8; cp.async.commit_group; cp.async.wait_group 0;" ::"r"(at),
               "l"(from + threadIdx.x)
               : "memory");
  __syncthreads();
  part[63 - threadIdx.x][0] = 1;
}

// grid_sync: p0 load+store, p1 load
KERNEL grid_sync(float* a, const float* b, int n) {
  auto grid = cg::this_grid();
  a[grid.thread_rank()] = b[grid.thread_rank()];
  grid.sync();
  if (n != 0) a[0] += a[1];
}

// tiled: p0 store, p1 load
KERNEL tiled(float* to, const float* from) {
  auto tile = cg::tiled_partition<8>(cg::this_thread_block());
  float x = from[threadIdx.x];
  for (int k = 4; k > 0; k /= 2) x += tile.shfl_down(x, k);
  if (tile.thread_rank() == 0) to[threadIdx.x / 8] = x;
}

// coalesced: p0 update, p1 load
KERNEL coalesced(int* count, const int* from) {
  if (from[threadIdx.x] > 0) {
    auto active = cg::coalesced_threads();
    if (active.thread_rank() == 0) atomicAdd(count, static_cast<int>(active.size()));
  }
}

// reduced: p0 store, p1 load
KERNEL reduced(unsigned* to, const unsigned* from) { to[threadIdx.x] = __reduce_add_sync(~0U, from[threadIdx.x]); }

// matrices: p0 load, p1 load, p2 load+store
KERNEL matrices(const half* a, const half* b, float* c) {
  using namespace nvcuda::wmma;
  fragment<matrix_a, 16, 16, 16, half, row_major> x;
  fragment<matrix_b, 16, 16, 16, half, col_major> y;
  fragment<accumulator, 16, 16, 16, float> z;
  load_matrix_sync(x, a, 16);
  load_matrix_sync(y, b, 16);
  load_matrix_sync(z, c, 16, mem_row_major);
  mma_sync(z, x, y, z);
  store_matrix_sync(c, z, 16, mem_row_major);
}

// matrices_by_shared: p0 load, p1 store
KERNEL matrices_by_shared(const unsigned* from, unsigned* to) {
  __shared__ alignas(16) unsigned part[256];
  part[threadIdx.x] = from[threadIdx.x];
  __syncthreads();
  unsigned x, y;
  const auto at = static_cast<unsigned>(__cvta_generic_to_shared(part + (threadIdx.x & 15) * 4));
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(x), "=r"(y) : "r"(at));
  to[threadIdx.x] = x ^ y;
}

// barrier_word: p0 store
KERNEL barrier_word(uint64_t* to) {
  __shared__ uint64_t bar;
  const auto at = static_cast<unsigned>(__cvta_generic_to_shared(&bar));
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 32;" ::"r"(at) : "memory");
  __syncthreads();
  uint64_t token;
  asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(token) : "r"(at) : "memory");
  to[threadIdx.x] = token;
}
