// batch_norm(x, y, scale, bias, mean, inverse, rows, row, channels, how, differs): y by one of the formulas
// of core/substitute.h, one pass over x. Tensors are packed: `rows` of `row` elements each. Bits of `how`: 0,
// a row belongs to one channel, else each of its elements does; 1, x and y are half precision; 2, what is
// below zero becomes zero; 3, so does what is no number; from bit 4 on the formula.
// With `differs`, y is compared in place of being written: the word of each formula that makes other bits
// becomes 1. It is page-locked host memory, and in most blocks most formulas differ, so a block writes there
// once, at its end, and the grid has few blocks: some for each multiprocessor, whatever the tensor. Any
// one-dimensional grid of fewer than 2^29 threads.
//
// interpose/device/compile_ptx.py makes batch_norm.ptx of it. That is checked in: who builds pooch has no nvcc.
#include "interpose/device/batch_norm_vector.h"

// With 40 registers for a thread 1536 threads fit on a multiprocessor, of 2048 that it takes at most. Each
// has 16 bytes under way, 32 where it compares: 24 or 48 KiB. An H200 reads 4.8 TB/s with a latency of about
// 0.7 us, so 26 KB of each multiprocessor are to be under way, half as many where as much is written. With 32
// registers some would be spilled.
extern "C" __global__ void __maxnreg__(40)
    batch_norm(const void* x, void* y, const float* scale, const float* bias, const float* mean,
               const float* inverse, unsigned long long rows, unsigned row, unsigned channels, unsigned how,
               unsigned* differs) {
  using namespace pooch::batch_norm;
  const Call call{x, y, scale, bias, mean, inverse, rows, row, channels, how};
  const u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
  Differences found;
  if (differs == nullptr) {
    run_thread<Writer>(call, thread, threads, found);
    return;
  }
  run_thread<Comparer>(call, thread, threads, found);
  for (u32 formula = 0; formula < 4; ++formula) {
    const bool any = __syncthreads_or(found.by[formula] != 0) != 0;
    if (any && threadIdx.x == 0) differs[formula] = 1;
  }
}
