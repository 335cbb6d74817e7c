// Kernels that no rule knows by name, for tests/effects/launches.py.

struct Scale {
  int n;
  float by;
  float* to;
  const float* from;
};
extern "C" __global__ void scale(Scale with) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < with.n) with.to[i] = with.by * with.from[i];
}

// As PyTorch's lists of tensors: a block's byte tells which of them it works on.
struct Lists {
  float* to[16];
  const float* from[16];
  unsigned char of_block[64];
  int n;
};
extern "C" __global__ void add_lists(Lists lists) {
  const int which = lists.of_block[blockIdx.x];
  for (int i = threadIdx.x; i < lists.n; i += blockDim.x) lists.to[which][i] += lists.from[which][i];
}

// Addresses that no parameter shows.
extern "C" __global__ void gather(float* const* table, float* to, int n) {
  const int i = threadIdx.x;
  if (i < n) to[i] = table[i][0];
}
