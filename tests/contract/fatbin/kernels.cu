// What softgpu_fatbin.cpp reads, made by nvcc 13.0:
//
//   A="-gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=[sm_90,compute_90]"
//   nvcc -rdc=true $A -compress-mode=size -fatbin kernels.cu -o zstd.fatbin
//   nvcc -gencode arch=compute_90,code=compute_90 -compress-mode=speed -fatbin kernels.cu -o lz4.fatbin
//   nvcc -rdc=true -arch=sm_90 -cubin kernels.cu -o plain.cubin
struct Slots {
  char* data[3];
  int count;
};
struct Large {
  char* data;
  char rest[20000];
};
struct alignas(16) Four {
  float x[4];
};

template <class T>
__global__ void scale(T* out, const T* in, int count, T by) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] = in[i] * by;
}
template __global__ void scale<float>(float*, const float*, int, float);

__device__ __noinline__ int helper(int* a, int b) {
  return a[b] * b + a[b + 1];
}
extern "C" __global__ void gather(Slots slots, short s) {
  if (slots.count > 0) slots.data[0][threadIdx.x] = slots.data[1][threadIdx.x] + s;
}
extern "C" __global__ void aligned(char a, Four b, long* c) {
  c[a] = b.x[a];
}
extern "C" __global__ void large(int a, Large b, char c) {
  b.data[a] = b.rest[c];
}
extern "C" __global__ void calls(int* a) {
  a[0] = helper(a, a[1]);
}
extern "C" __global__ void none() {}
