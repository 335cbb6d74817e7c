// pointer_arrays_program [crowded]: products of matrices whose addresses lie in arrays in device memory. 24
// matrices of 4 MiB come and go; 12 of them stay for the products, unless `crowded`: then all of them are
// there at a first call, which may be refused. Prints the status of each call and a hash of each result.
#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "ok.h"

namespace {

constexpr int side = 1024, depth = 64, batch = 4, kept = 3 * batch, matrices = 24;
constexpr std::size_t count = std::size_t{side} * side;
constexpr float one = 1, a_half = 0.5F;

std::array<float*, matrices> m;

float* make(std::uint32_t seed) {
  float* made = nullptr;
  OK(cudaMalloc(reinterpret_cast<void**>(&made), count * sizeof(float)));
  std::vector<float> host(count);
  for (float& value : host) {
    seed = seed * 1664525U + 1013904223U;
    value = static_cast<float>(static_cast<std::int32_t>(seed) >> 8) / static_cast<float>(1 << 23);
  }
  OK(cudaMemcpy(made, host.data(), count * sizeof(float), cudaMemcpyHostToDevice));
  return made;
}

void print(const char* name, int index) {
  std::vector<unsigned char> host(count * sizeof(float));
  OK(cudaMemcpy(host.data(), m[index], host.size(), cudaMemcpyDeviceToHost));
  std::uint64_t hash = 14695981039346656037U;
  for (const unsigned char byte : host) hash = (hash ^ byte) * 1099511628211U;
  std::printf("%s %d %016llx\n", name, index, static_cast<unsigned long long>(hash));
}

// Addresses of m[from] and the ones after it, in device memory.
float** addresses(int from) {
  float** made = nullptr;
  OK(cudaMalloc(reinterpret_cast<void**>(&made), batch * sizeof(float*)));
  OK(cudaMemcpy(made, &m[from], batch * sizeof(float*), cudaMemcpyHostToDevice));
  return made;
}

void fill_rest(std::uint32_t seed) {
  for (int i = kept; i < matrices; ++i) m[i] = make(seed + i);
}
void free_rest() {
  for (int i = kept; i < matrices; ++i) OK(cudaFree(m[i]));
}

}  // namespace

int main(int words, char**) {
  cublasHandle_t blas;
  OK(cublasCreate(&blas));
  for (int i = 0; i < kept; ++i) m[i] = make(i + 1);
  float **const a = addresses(0), **const b = addresses(batch), **const c = addresses(2 * batch);
  const auto multiply = [&](const char* name) {
    const int status = cublasSgemmBatched(blas, CUBLAS_OP_N, CUBLAS_OP_T, side, side, depth, &one, a, side, b,
                                          side, &a_half, c, side, batch);
    std::printf("%s %d\n", name, status);
  };
  fill_rest(100);  // under a cap the first ones go
  if (words > 1) multiply("crowded");
  for (int i = kept; i < matrices; ++i) print("rest", i);
  free_rest();
  multiply("first");
  fill_rest(200);  // and the results
  for (int i = 0; i < matrices; ++i) print("first", i);
  free_rest();
  multiply("second");
  for (int i = 0; i < kept; ++i) print("second", i);
  return 0;
}
