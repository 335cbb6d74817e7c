// Kernels of known effects, for every architecture. A comment says what each touches, in the words of battery.py:
//   // NAME: p1 load, p2+8 store; table p0:24 load; module store; hidden
// p1 is what the second parameter points to, p2+8 what the word at byte 8 of the third one does; `table p0:24` is what
// some of the words in the first 24 bytes of the first parameter point to. "hidden": addresses also come from elsewhere.
#include <cstdint>
#include <cstdio>

#define KERNEL extern "C" __global__ void

// saxpy: p1 load, p2 load+store
KERNEL saxpy(float a, const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}

// copy_bytes: p0 store, p1 load
KERNEL copy_bytes(unsigned char* to, const unsigned char* from, long n) {
  for (long i = threadIdx.x; i < n; i += blockDim.x) to[i] = from[i];
}

// fill: p0 store
KERNEL fill(double* to, double value) { to[blockIdx.x * 256L + threadIdx.x] = value; }

// unused: p1 store
KERNEL unused(const float* never, float* to, float* neither) { to[threadIdx.x] = never == neither; }

// compared: p0 store
KERNEL compared(int* to, const char* a, const char* b) { to[threadIdx.x] = static_cast<int>(a - b); }

// halves: p0 load, p1 store
KERNEL halves(const unsigned short* from, unsigned short* to, int n) {
  for (int i = threadIdx.x; i < n; i += 32) to[i] = from[n - i] ^ 0x8000;
}

// vectors: p0 load, p1 store
KERNEL vectors(const float4* from, float4* to) {
  float4 v = from[threadIdx.x];
  v.x += v.w;
  to[threadIdx.x] = v;
}

template <class T, int N>
__global__ void scaled(T* to, const T* from, T factor) {
#pragma unroll
  for (int i = 0; i < N; ++i) to[threadIdx.x * N + i] = from[threadIdx.x * N + i] * factor;
}
// scaled<float, 4>: p0 store, p1 load
template __global__ void scaled<float, 4>(float*, const float*, float);
// scaled<double, 1>: p0 store, p1 load
template __global__ void scaled<double, 1>(double*, const double*, double);

struct Negate {
  __device__ float operator()(float x) const { return -x; }
};
struct Captures {
  const float* more;
  __device__ float operator()(float x) const { return x + more[0]; }
};
template <class F>
__global__ void mapped(int n, F f, float* to, const float* from) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) to[i] = f(from[i]);
}
// mapped<Negate>: p2 store, p3 load
template __global__ void mapped<Negate>(int, Negate, float*, const float*);
// mapped<Captures>: p1 load, p2 store, p3 load
template __global__ void mapped<Captures>(int, Captures, float*, const float*);

// reduce_shared: p0 store, p1 load
KERNEL reduce_shared(float* to, const float* from) {
  __shared__ float part[256];
  part[threadIdx.x] = from[blockIdx.x * 256 + threadIdx.x];
  __syncthreads();
  for (int k = 128; k > 0; k /= 2) {
    if (threadIdx.x < k) part[threadIdx.x] += part[threadIdx.x + k];
    __syncthreads();
  }
  if (threadIdx.x == 0) to[blockIdx.x] = part[0];
}

// dynamic_shared: p0 store, p1 load
KERNEL dynamic_shared(float* to, const float* from, int n) {
  extern __shared__ float dynamic[];
  for (int i = threadIdx.x; i < n; i += blockDim.x) dynamic[n - 1 - i] = from[i];
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) to[i] = dynamic[i];
}

// shared_index: p0 store, p1 load, p2 load
KERNEL shared_index(float* to, const float* from, const int* places) {
  __shared__ int at[64];
  at[threadIdx.x & 63] = places[threadIdx.x];
  __syncthreads();
  to[threadIdx.x] = from[at[(threadIdx.x + 1) & 63]];
}

// shared_pointers: p0 store, p1 store
KERNEL shared_pointers(float* a, float* b, float value) {
  __shared__ float* to[32];
  to[threadIdx.x & 31] = (threadIdx.x & 1) != 0 ? a : b;
  __syncthreads();
  to[(threadIdx.x + 1) & 31][0] = value;
}

// shared_loaded_pointers: p0 load; hidden
KERNEL shared_loaded_pointers(float* const* table) {
  __shared__ float* to[32];
  to[threadIdx.x & 31] = table[threadIdx.x];
  __syncthreads();
  to[(threadIdx.x + 1) & 31][0] = 1;
}

// taking_turns: p0 load, p1 load, p2 store
KERNEL taking_turns(const int* a, const float* b, float* to) {
  __shared__ union {
    const int* address;
    double number;
  } part[256];
  part[threadIdx.x].address = a + threadIdx.x;
  __syncthreads();
  const int* const from = part[255 - threadIdx.x].address;
  const double number = b[*from];
  __syncthreads();
  part[threadIdx.x].number = number;
  __syncthreads();
  to[threadIdx.x] = part[255 - threadIdx.x].number;
}

// taking_turns_again: p0 load, p1 load+store
KERNEL taking_turns_again(double* const a, double* b) {
  __shared__ union {
    double* address;
    double number;
  } part[256];
  part[threadIdx.x].address = a + threadIdx.x;
  __syncthreads();
  const double number = *part[255 - threadIdx.x].address;
  __syncthreads();
  part[threadIdx.x].number = number;
  __syncthreads();
  const double sum = part[255 - threadIdx.x].number + b[0];
  __syncthreads();
  part[threadIdx.x].address = b + threadIdx.x;
  __syncthreads();
  *part[255 - threadIdx.x].address = sum;
}

// generic: p0 store
KERNEL generic(float* a, int n, int which) {
  __shared__ float part[64];
  float* p = which != 0 ? a : part;
  p[threadIdx.x] = n;
  __syncthreads();
  a[threadIdx.x + 64] = part[threadIdx.x & 63];
}

// generic_opaque: p0 load+store, p1 store
KERNEL generic_opaque(float* a, float* b) {
  __shared__ float part[64];
  float* p = threadIdx.x > 5 ? part : a;
  asm volatile("" : "+l"(p));
  *p += 1;
  __syncthreads();
  b[0] = part[1];
}

// chosen: p0 load, p1 load, p2 store
KERNEL chosen(const float* a, const float* b, float* to, int which) {
  const float* from = which > 0 ? a : b;
  to[threadIdx.x] = from[threadIdx.x];
}

// chosen_by_data: p0 load+store, p1 store, p2 load
KERNEL chosen_by_data(float* a, float* b, const int* which) {
  float* to = which[threadIdx.x] != 0 ? a : b;
  to[threadIdx.x] = a[0];
}

// chosen_of_three: p0 store, p1 store, p2 store
KERNEL chosen_of_three(float* a, float* b, float* c, int which) {
  float* to = which == 0 ? a : which == 1 ? b : c;
  for (int i = 0; i < which; ++i) to[i * 32 + threadIdx.x] = i;
}

// or_nothing: p0 load, p1 store
KERNEL or_nothing(const float* maybe, float* to) { to[threadIdx.x] = maybe != nullptr ? maybe[threadIdx.x] : 0.0F; }

// swapped: p0 load+store, p1 load+store
KERNEL swapped(float* a, float* b, int rounds) {
  for (int i = 0; i < rounds; ++i) {
    b[threadIdx.x] = a[threadIdx.x] + 1;
    float* t = a;
    a = b;
    b = t;
    __syncthreads();
  }
}

// walking: p0 load, p1 store
KERNEL walking(const float* from, float* to, int n, int stride) {
  float sum = 0;
  for (int i = 0; i < n; ++i, from += stride) sum += *from;
  to[threadIdx.x] = sum;
}

// walking_back: p0 load+store
KERNEL walking_back(float* p, int n) {
  for (float* at = p + n; at != p; --at) *at = at[-1];
}

// nested: p0 load, p1 load, p2 store
KERNEL nested(const float* a, const float* b, float* c, int n) {
  const int row = blockIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + column];
  c[row * n + column] = sum;
}

// aligned_up: p0 store
KERNEL aligned_up(float* p) {
  auto at = (reinterpret_cast<uintptr_t>(p) + 255) & ~uintptr_t{255};
  reinterpret_cast<float*>(at)[threadIdx.x] = 1;
}

// is_aligned: p0 load, p1 store
KERNEL is_aligned(const float* from, float* to) {
  if ((reinterpret_cast<uintptr_t>(from) & 15) == 0)
    reinterpret_cast<float4*>(to)[threadIdx.x] = reinterpret_cast<const float4*>(from)[threadIdx.x];
  else
    for (int i = 0; i < 4; ++i) to[threadIdx.x * 4 + i] = from[threadIdx.x * 4 + i];
}

// difference: p0 load, p1 store, p2 load
KERNEL difference(const float* a, float* b, const float* c) {
  const ptrdiff_t apart = reinterpret_cast<char*>(b) - reinterpret_cast<const char*>(a);
  const float* p = a + threadIdx.x;
  for (int i = 0; i < 8; ++i, p += 32)
    *reinterpret_cast<float*>(const_cast<char*>(reinterpret_cast<const char*>(p)) + apart) = *p + c[i];
}

// strided: p0 load, p1 store
KERNEL strided(const float* from, float* to, long row, long column) {
  to[threadIdx.x] = from[blockIdx.x * row + threadIdx.x * column];
}

// divided: p0 load, p1 store
KERNEL divided(const float* from, float* to, int width, int height) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  to[i] = from[i % width * height + i / width];
}

// long_divided: p0 load, p1 store
KERNEL long_divided(const float* from, float* to, long width, long height) {
  const long i = blockIdx.x * static_cast<long>(blockDim.x) + threadIdx.x;
  to[i] = from[i % width * height + i / width];
}

// rows_by_index: p0 store, p1 load, p2 load
KERNEL rows_by_index(float* to, const float* from, const long* rows, int width) {
  to[blockIdx.x * width + threadIdx.x] = from[rows[blockIdx.x] * width + threadIdx.x];
}

// atomics: p0 update, p1 load
KERNEL atomics(int* counts, const int* bins) { atomicAdd(counts + bins[threadIdx.x], 1); }

// more_atomics: p0 update, p1 update, p2 store
KERNEL more_atomics(unsigned long long* most, double* sums, int* to, double value) {
  atomicMax(most, 7ULL);
  atomicAdd(sums + threadIdx.x, value);
  to[threadIdx.x] = atomicCAS(reinterpret_cast<unsigned*>(most) + 4, 1U, 2U);
}

// atomic_shared: p0 update, p1 load
KERNEL atomic_shared(unsigned* counts, const unsigned char* from) {
  __shared__ unsigned own[256];
  own[threadIdx.x] = 0;
  __syncthreads();
  atomicAdd(own + from[blockIdx.x * 256 + threadIdx.x], 1U);
  __syncthreads();
  atomicAdd(counts + threadIdx.x, own[threadIdx.x]);
}

// atomic_exchange: p0 update, p1 store
KERNEL atomic_exchange(int* flag, int* to) { to[threadIdx.x] = atomicExch(flag, 1); }

// atomic_pointers: p0 update; hidden
KERNEL atomic_pointers(unsigned long long* list, unsigned long long mine) {
  const unsigned long long before = atomicExch(list, mine);
  if (before != 0) *reinterpret_cast<int*>(before) = 1;
}

// last_block: p0 store, p1 load, p2 update
KERNEL last_block(float* to, const float* from, unsigned* ticket) {
  __shared__ bool last;
  to[blockIdx.x] = from[blockIdx.x];
  __threadfence();
  if (threadIdx.x == 0) last = atomicInc(ticket, gridDim.x) == gridDim.x - 1;
  __syncthreads();
  if (last) to[0] = 1;
}

struct Four {
  float* p[4];
  int n;
};
// by_value: p0 load+store, p0+8 load+store, p0+16 load+store, p0+24 load+store
KERNEL by_value(Four all) {
  for (int k = 0; k < 4; ++k)
    for (int i = threadIdx.x; i < all.n; i += blockDim.x) all.p[k][i] *= 2;
}

struct Nested {
  int before;
  struct {
    const float* from;
    short size;
  } inner;
  float* to;
};
// nested_struct: p1+8 load, p1+24 store
KERNEL nested_struct(char c, Nested all) { all.to[threadIdx.x] = all.inner.from[all.inner.size] + c; }

// table_by_block: table p0:32 store
KERNEL table_by_block(const __grid_constant__ Four all) { all.p[blockIdx.x & 3][threadIdx.x] = 1; }

struct Lists {
  float* lists[3][64];
  long sizes[64];
  unsigned char tensor_of[320];
  int chunk_of[320];
};
// tensor_lists: table p0:512 load; table p0+512:512 load; table p0+1024:512 store
KERNEL tensor_lists(Lists all, float factor) {
  const int tensor = all.tensor_of[blockIdx.x];
  const long begin = all.chunk_of[blockIdx.x] * 65536L;
  const float *x = all.lists[0][tensor] + begin, *y = all.lists[1][tensor] + begin;
  float* z = all.lists[2][tensor] + begin;
  for (long i = threadIdx.x; i < all.sizes[tensor] - begin && i < 65536; i += blockDim.x) z[i] = x[i] * factor + y[i];
}

struct Wide {
  float* p[400];
  int n;
};
// table_by_number: table p0:3200 store
KERNEL table_by_number(const __grid_constant__ Wide all, int k) { all.p[k][threadIdx.x] = all.n; }

// table_in_loop: table p0:3200 load; p0+3192 store
KERNEL table_in_loop(Wide all) {
  float sum = 0;
  for (int k = 0; k < all.n; ++k) sum += all.p[k][threadIdx.x];
  all.p[399][threadIdx.x] = sum;
}

// table_by_reference: table p0:3200 load; p1 store
KERNEL table_by_reference(const __grid_constant__ Wide all, float* to) {
  const Wide* here = &all;
  asm volatile("" : "+l"(here));
  to[0] = *here->p[threadIdx.x];
}

// one_by_reference: p0+16 load, p1 store
KERNEL one_by_reference(const __grid_constant__ Four all, float* to) {
  const Four* here = &all;
  asm volatile("" : "+l"(here));
  to[threadIdx.x] = here->p[2][threadIdx.x];
}

// table_by_warp: table p0:32 load; p1 store
KERNEL table_by_warp(const __grid_constant__ Four all, float* to) {
  to[threadIdx.x] = all.p[(threadIdx.x / 32) & 3][threadIdx.x];
}

// local_table: table p0:32 store
KERNEL local_table(Four all, int k) {
  float* q[4];
  for (int i = 0; i < 4; ++i) q[i] = all.p[(i + k) & 3];
  q[threadIdx.x & 3][0] = 1;
}

// local_numbers: p0 store, p1 load
KERNEL local_numbers(float* to, const float* from, int n) {
  float kept[32];
  for (int i = 0; i < 32; ++i) kept[i] = from[i * n];
  to[threadIdx.x] = kept[(threadIdx.x * 7) & 31];
}

// local_pointer_pair: p0 store, p1 store
KERNEL local_pointer_pair(float* a, float* b, int k) {
  volatile uintptr_t pair[2] = {reinterpret_cast<uintptr_t>(a), reinterpret_cast<uintptr_t>(b)};
  *reinterpret_cast<float*>(pair[k & 1]) = 1;
}

__device__ __noinline__ float many(const float* p, int n) {
  float all[24];
  for (int i = 0; i < 24; ++i) all[i] = p[i * n];
  for (int k = 0; k < n; ++k)
    for (int i = 0; i < 24; ++i) all[i] = all[i] * all[(i + 5) % 24] + p[k];
  float sum = 0;
  for (int i = 0; i < 24; ++i) sum += all[i] * i;
  return sum;
}
// spilled: p0 store, p1 load, p2 load, p3 load
extern "C" __global__ void __launch_bounds__(1024, 2)
    spilled(float* to, const float* a, const float* b, const float* c, int n) {
  float x = 0;
  for (int i = 0; i < n; ++i) x += many(a + i, n) * many(b + i, n) + many(c + i, i);
  to[threadIdx.x] = x;
}

__device__ __noinline__ void callee(float* p, const float* q, int i) { p[i] = q[i] / 3.1F + p[i] * q[i + 1]; }
// called: p0 load+store, p1 load+store, p2 load
KERNEL called(float* a, float* b, const float* c, int n) {
  callee(a, c, threadIdx.x);
  if (n > 3) callee(b, c, n);
}

__device__ __noinline__ float* pick(float* a, float* b, int n) { return n > 7 ? a : b; }
// returned: p0 store, p1 store, p2 load
KERNEL returned(float* a, float* b, const int* n) { pick(a, b, n[threadIdx.x])[threadIdx.x] = 1; }

__device__ __noinline__ void inner_call(float* to, const float* from, int n) { to[n] = from[n] + 1; }
__device__ __noinline__ void outer_call(float* to, const float* from, int n) {
  inner_call(to, from, n);
  inner_call(to + 7, from + n, n * 2);
}
// called_deeply: p0 store, p1 load
KERNEL called_deeply(float* to, const float* from, int n) { outer_call(to, from, n); }

__device__ __noinline__ void store_through(float** slot, float value) { **slot = value; }
// called_by_reference: p0 store, p1 store
KERNEL called_by_reference(float* a, float* b, int n) {
  float* slot = n > 2 ? a : b;
  store_through(&slot, n);
}

__device__ __noinline__ int recursive(const int* tree, int node) {
  return node > 1000 ? 0 : tree[node] + recursive(tree, 2 * node) + recursive(tree, 2 * node + 1);
}
// recursion: p0 load, p1 store; unknown
KERNEL recursion(const int* tree, int* to) { to[threadIdx.x] = recursive(tree, threadIdx.x + 1); }

typedef void (*Function)(float*, int);
__device__ __noinline__ void first_function(float* p, int n) { p[n] = 1; }
__device__ __noinline__ void second_function(float* p, int n) { p[n] += 2; }
// by_function_pointer: p0 load+store; unknown
KERNEL by_function_pointer(float* a, int n, int k) {
  Function f = k != 0 ? first_function : second_function;
  f(a, n);
}

struct Base {
  __device__ virtual void run(float* p) = 0;
};
// virtual_call: p0 load, p1 store; unknown
KERNEL virtual_call(Base* object, float* p) { object->run(p); }

// prints: p0 load
KERNEL prints(const float* from) { printf("%f\n", from[threadIdx.x]); }

// asserts: p0 store
KERNEL asserts(float* to, int n) {
  if (n < 0) __trap();
  to[threadIdx.x] = n;
}

// allocates: p0 store
KERNEL allocates(int** out) {
  int* p = static_cast<int*>(malloc(64));
  p[0] = 1;
  out[threadIdx.x] = p;
}

// pointer_table: p0 load; hidden
KERNEL pointer_table(float** table, int n) { table[blockIdx.x][threadIdx.x] = n; }

// pointer_table_read: p0 load, p1 store, p2 load; hidden
KERNEL pointer_table_read(float* const* __restrict__ table, float* to, const int* index) {
  to[threadIdx.x] = table[index[0]][index[1]];
}

struct Link {
  Link* next;
  int value;
};
// linked_list: p0 load, p1 store; hidden
KERNEL linked_list(const Link* list, int* to) {
  int sum = 0;
  for (; list != nullptr; list = list->next) sum += list->value;
  to[threadIdx.x] = sum;
}

// from_two_halves: p0 load; hidden
KERNEL from_two_halves(const unsigned* halves) {
  const uint64_t p = static_cast<uint64_t>(halves[threadIdx.x * 7 + 1]) << 32 | halves[threadIdx.x * 3];
  *reinterpret_cast<float*>(p) = 1;
}

// from_four_quarters: p0 load; hidden
KERNEL from_four_quarters(const unsigned short* quarters) {
  uint64_t p = 0;
  for (int i = 0; i < 4; ++i) p |= static_cast<uint64_t>(quarters[threadIdx.x * 5 + i * 3]) << (16 * i);
  *reinterpret_cast<float*>(p) = 1;
}

// from_bytes: p0 load; hidden
KERNEL from_bytes(const unsigned char* bytes) {
  uint64_t p = 0;
  for (int i = 0; i < 8; ++i) p |= static_cast<uint64_t>(bytes[threadIdx.x * 9 + i * 3]) << (8 * i);
  *reinterpret_cast<float*>(p) = 1;
}

// from_double: p0 load; hidden
KERNEL from_double(const double* numbers) {
  const double d = numbers[threadIdx.x];
  *reinterpret_cast<float*>(__double_as_longlong(d)) = 1;
}

// parameter_halves: p0 store
KERNEL parameter_halves(unsigned low, unsigned high) {
  *reinterpret_cast<float*>(static_cast<uint64_t>(high) << 32 | low) = 1;
}

// integer_address: p0 store
KERNEL integer_address(uint64_t p) { reinterpret_cast<float*>(p)[threadIdx.x] = 1; }

// tagged: p0 store
KERNEL tagged(uint64_t p) { *reinterpret_cast<float*>(p & ~uint64_t{7}) = static_cast<float>(p & 7); }

// shifted_twice: p0 store
KERNEL shifted_twice(uint64_t p, int by) {
  const uint64_t at = p >> by << by;
  *reinterpret_cast<float*>(at) = 1;
}

// scaled_offset: p0 store
KERNEL scaled_offset(char* p, long i) { *reinterpret_cast<float*>(p + i * 12) = 1; }

// xored: p0 store, p1 store
KERNEL xored(uint64_t a, uint64_t b, int which) {
  const uint64_t both = a ^ b;
  const uint64_t at = which != 0 ? both ^ a : both ^ b;
  *reinterpret_cast<float*>(at) = 1;
}

// shuffled: p0 store, p1 store
KERNEL shuffled(float* a, float* b) {
  auto mine = reinterpret_cast<uintptr_t>(threadIdx.x % 2 != 0 ? a : b);
  mine = __shfl_xor_sync(~0U, mine, 1);
  reinterpret_cast<float*>(mine)[threadIdx.x] = 1;
}

// shuffled_loaded: p0 load; hidden
KERNEL shuffled_loaded(uint64_t* table) {
  const uint64_t mine = __shfl_down_sync(~0U, table[threadIdx.x], 3);
  *reinterpret_cast<float*>(mine) = 1;
}

// warp_sums: p0 store, p1 load
KERNEL warp_sums(float* to, const float* from) {
  float x = from[blockIdx.x * 32 + threadIdx.x];
  for (int k = 16; k > 0; k /= 2) x += __shfl_xor_sync(~0U, x, k);
  if (threadIdx.x == 0) to[blockIdx.x] = x;
}

// votes: p0 store, p1 load
KERNEL votes(unsigned* to, const int* from) {
  const unsigned all = __ballot_sync(~0U, from[threadIdx.x] > 3);
  to[threadIdx.x] = __popc(all) + __match_any_sync(~0U, from[threadIdx.x + 32]);
}

__constant__ float factors[64];
// constant_numbers: p0 store, p1 load
KERNEL constant_numbers(float* to, const float* from) { to[threadIdx.x] = from[threadIdx.x] * factors[threadIdx.x & 63]; }

__constant__ float* pointers[64];
// constant_pointers: hidden
KERNEL constant_pointers() { pointers[threadIdx.x & 63][blockIdx.x] = 1; }

__device__ float variable[1024];
// module_variable: p0 load; module store
KERNEL module_variable(const float* from) { variable[threadIdx.x] = from[threadIdx.x]; }

__device__ float* variable_pointer;
// module_pointer: module load; hidden
KERNEL module_pointer() { variable_pointer[threadIdx.x] = 1; }

__device__ const int lookup[8] = {3, 1, 4, 1, 5, 9, 2, 6};
// module_lookup: p0 store
KERNEL module_lookup(int* to, int k) { to[threadIdx.x] = lookup[(threadIdx.x + k) & 7]; }

// switched: p0 store, p1 store, p2 store, p3 load
KERNEL switched(float* a, float* b, float* c, const float* d, int which) {
  switch (which) {
    case 0: a[threadIdx.x] = d[1]; break;
    case 1: b[threadIdx.x] = sinf(d[2]); break;
    case 2: c[threadIdx.x] = d[3] / d[4]; break;
    case 3: a[threadIdx.x * 2] = expf(d[5]); break;
    case 4: b[threadIdx.x * 3] = d[6] * 5; break;
    case 5: c[threadIdx.x * 4] = sqrtf(d[7]); break;
    case 6: a[threadIdx.x * 5] = d[8] + threadIdx.x; break;
    case 7: b[threadIdx.x * 6] = logf(d[9]); break;
    default: c[0] = d[0];
  }
}

// diverging: p0 load+store, p1 store
KERNEL diverging(float* a, float* b, int n) {
  float* at = a;
  for (int i = threadIdx.x; i < n; i += 3) {
    if (at[i] > 0) {
      at = b + i;
      break;
    }
    if (i % 5 == 0) continue;
    a[i] = 2;
  }
  __syncwarp();
  at[0] = 1;
}

// cached_and_volatile: p0 load, p1 load, p2 store
KERNEL cached_and_volatile(const float* a, const volatile float* b, float* to) {
  __stcs(to + threadIdx.x, __ldg(a + threadIdx.x) + b[threadIdx.x] + __ldcg(a + 64));
}

// prefetches: p1 store
KERNEL prefetches(const float* a, float* to) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(a + threadIdx.x));
  to[threadIdx.x] = 1;
}

// half_precision: p0 load, p1 store
KERNEL half_precision(const unsigned* from, unsigned* to) {
  unsigned x = from[threadIdx.x];
  asm("{ .reg .b32 t; mul.f16x2 t, %0, %0; add.f16x2 %0, t, %0; }" : "+r"(x));
  to[threadIdx.x] = x;
}

// early_exit: p0 store, p1 load
KERNEL early_exit(float* to, const float* from, const int* count) {
  if (threadIdx.x >= 17) return;
  if (from[0] < 0) return;
  to[threadIdx.x] = from[1];
}

// conditional_pointer: p0 store, p1 load, p2 load
KERNEL conditional_pointer(float* to, const float* from, const float* bias, int n) {
  float x = from[threadIdx.x];
  if (bias) x += bias[n];
  if (n > 5) x *= 2;
  if (bias) x -= bias[n + 1];
  to[threadIdx.x] = x;
}

// texture: p1 store; hidden
KERNEL texture(cudaTextureObject_t from, float* to) { to[threadIdx.x] = tex1Dfetch<float>(from, threadIdx.x); }

// clock_value: p0 store
KERNEL clock_value(long long* to) { to[threadIdx.x] = clock64(); }
