// A program with a bug: it frees one pointer twice and another that was never allocated. It must see CUDA's
// own error and be able to go on.
#include <cuda_runtime_api.h>

#include <cstdio>

int main() {
  char* memory = nullptr;
  const std::size_t bytes = std::size_t{4} << 20;
  if (cudaMalloc(reinterpret_cast<void**>(&memory), bytes) != cudaSuccess) return 10;
  if (cudaFree(memory + 256) != cudaErrorInvalidValue) return 11;
  if (cudaFree(memory) != cudaSuccess) return 12;
  if (cudaFree(memory) != cudaErrorInvalidValue) return 13;
  if (cudaFree(nullptr) != cudaSuccess) return 14;
  (void)cudaGetLastError();
  if (cudaMalloc(reinterpret_cast<void**>(&memory), bytes) != cudaSuccess) return 15;
  if (cudaMemset(memory, 7, bytes) != cudaSuccess) return 16;
  unsigned char last = 0;
  if (cudaMemcpy(&last, memory + bytes - 1, 1, cudaMemcpyDeviceToHost) != cudaSuccess) return 17;
  if (last != 7) return 18;
  std::puts("went on");
  return cudaFree(memory) == cudaSuccess ? 0 : 19;
}
