// How the hooks get between the program and the driver.
//
// Programs reach the driver in three ways, and all three lead through here:
//
//   1. The CUDA runtime, shared or linked statically into cuDNN, cuBLAS and NCCL, does
//   dlopen("libcuda.so.1"),
//      dlsym(handle, "cuGetProcAddress_v2"), then asks that for everything else and keeps the pointers. So
//      `dlsym` is exported, and gives out our cuGetProcAddress, which gives out our wrappers.
//   2. Some libraries (cuBLASLt, cuFFT) take the names they want by dlsym alone.
//   3. Programs linked with -lcuda bind to our plain exports.
//
// The exported dlsym must not stand between the caller and the real one: glibc looks at the return address to
// know whose RTLD_NEXT is meant. It therefore asks `pooch_decide_dlsym` and, where that wants nothing, jumps
// to the real function with registers and stack as they came.
//
// One base name means different functions. In dlsym, a bare name is the oldest ABI, so wrappers match exact
// exported names only. In cuGetProcAddress, cudaVersion and flags choose the ABI; the real function decides,
// and its answer is replaced only where it is known to be the function that a wrapper was written for.
#include <dlfcn.h>

#include <algorithm>
#include <cstring>

#include "interpose/hooks/caller.h"
#include "interpose/hooks/driver_api.h"
#include "interpose/hooks/real_symbol.h"
#include "interpose/hooks/scope.h"
#include "interpose/hooks/wrapper_table.h"

namespace pooch::interpose {

extern constinit const std::span<const Wrapper> cublaslt_wrappers, nccl_wrappers;

namespace {

POOCH_REAL(cuda, cuGetProcAddress);
POOCH_REAL(cuda, cuGetProcAddress_v2);

const Wrapper* find_in(std::span<const Wrapper> table, std::string_view name) {
  const auto at = std::lower_bound(table.begin(), table.end(), name,
                                   [](const Wrapper& w, std::string_view n) { return w.name < n; });
  return at != table.end() && at->name == name ? &*at : nullptr;
}

bool is_library(Object object) {
  return object == Object::cudnn || object == Object::cublas;
}

// The replacement for what the real driver answered.
void* substitute(const char* base, int version, cuuint64_t flags, void* answer) {
  const bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
  const Wrapper* const expected = find_wrapper(base, version, per_thread);
  if (expected != nullptr && find_real(Library::cuda, expected->name) == answer) return expected->address();
  if (object_of(answer) != Object::driver) return answer;
  Dl_info info;
  if (dladdr(answer, &info) != 0 && info.dli_sname != nullptr && info.dli_saddr == answer) {
    const Wrapper* const named = find_in(cuda_wrappers, info.dli_sname);
    return named != nullptr && std::strcmp(named->base, base) == 0 ? named->address() : answer;
  }
  // The driver answers with functions that it does not export: the headers' versions decide.
  return expected != nullptr ? expected->address() : answer;
}

// For a look-up that may be ours.
void* decide(void* handle, const char* name, const void* caller) {
  const Wrapper* const wrapper = find_wrapper(name);
  if (wrapper == nullptr) return nullptr;
  void* const found = real_dlsym()(handle, name);
  if (found == nullptr) return nullptr;
  const Object owner = object_of(found);
  switch (wrapper->library) {
    case Library::cuda:
      if (owner != Object::driver) return nullptr;
      break;
    case Library::cudnn:
    case Library::cublas:
    case Library::cublaslt:
      // cuDNN's front library looks its parts up by name; those calls are its own business.
      if (!is_library(owner) || is_library(object_of(caller))) return nullptr;
      break;
    case Library::nccl:
      if (owner != Object::nccl || object_of(caller) == Object::nccl) return nullptr;
      break;
  }
  return wrapper->address();
}

}  // namespace

const Wrapper* find_wrapper(std::string_view name) {
  if (name.starts_with("nccl") || name.starts_with("pnccl")) return find_in(nccl_wrappers, name);
  if (name.size() < 3 || name[0] != 'c' || name[1] != 'u') return nullptr;
  if (name[2] >= 'A' && name[2] <= 'Z') return find_in(cuda_wrappers, name);
  if (name.starts_with("cudnn")) return find_in(cudnn_wrappers, name);
  if (name.starts_with("cublasLt")) return find_in(cublaslt_wrappers, name);
  if (name.starts_with("cublas")) return find_in(cublas_wrappers, name);
  return nullptr;
}

const Wrapper* find_wrapper(std::string_view base, int version, bool per_thread) {
  const Wrapper* plain = nullptr;
  // All ABIs of one base name follow it in the table's order.
  auto at = std::lower_bound(cuda_wrappers.begin(), cuda_wrappers.end(), base,
                             [](const Wrapper& w, std::string_view n) { return w.name < n; });
  for (; at != cuda_wrappers.end() && std::string_view(at->name).starts_with(base); ++at) {
    if (at->base != base || version < at->from || version >= at->to) continue;
    if (at->per_thread == per_thread) return &*at;
    if (!at->per_thread) plain = &*at;
  }
  return plain;  // asked for a per-thread ABI where there is only one
}

}  // namespace pooch::interpose

using namespace pooch::interpose;

extern "C" {

[[gnu::visibility("hidden")]] constinit DlsymFunction pooch_real_dlsym = nullptr;

// The wrapper to give out for dlsym(handle, name), or nullptr to go on to the real dlsym. Called by every
// dlsym of the process: quick, and without allocations, for names that are not ours.
[[gnu::visibility("hidden"), gnu::used]] POOCH_UNSANITIZED void* pooch_decide_dlsym(void* handle,
                                                                                    const char* name,
                                                                                    const void* caller) {
  // Each thread may do this; all write the same value before they jump to it.
  if (__atomic_load_n(&pooch_real_dlsym, __ATOMIC_ACQUIRE) == nullptr) {
    __atomic_store_n(&pooch_real_dlsym, real_dlsym(), __ATOMIC_RELEASE);
  }
  if (handle == RTLD_NEXT || handle == RTLD_DEFAULT || name == nullptr) return nullptr;
  const bool ours = (name[0] == 'c' && name[1] == 'u') || (name[0] == 'n' && name[1] == 'c') ||
                    (name[0] == 'p' && name[1] == 'n');
  return ours ? decide(handle, name, caller) : nullptr;
}

}  // extern "C"

#if defined(__x86_64__)
asm(R"(
  .text
  .p2align 4
  .globl dlsym
  .type dlsym, @function
dlsym:
  .cfi_startproc
  endbr64
  pushq %rdi
  .cfi_adjust_cfa_offset 8
  pushq %rsi
  .cfi_adjust_cfa_offset 8
  subq $8, %rsp
  .cfi_adjust_cfa_offset 8
  movq 24(%rsp), %rdx
  call pooch_decide_dlsym
  addq $8, %rsp
  .cfi_adjust_cfa_offset -8
  popq %rsi
  .cfi_adjust_cfa_offset -8
  popq %rdi
  .cfi_adjust_cfa_offset -8
  testq %rax, %rax
  jne 1f
  jmpq *pooch_real_dlsym(%rip)
1:
  ret
  .cfi_endproc
  .size dlsym, .-dlsym
)");
#elif defined(__aarch64__)
asm(R"(
  .text
  .p2align 4
  .globl dlsym
  .type dlsym, %function
dlsym:
  .cfi_startproc
  hint 34
  stp x29, x30, [sp, #-32]!
  .cfi_def_cfa_offset 32
  .cfi_offset x29, -32
  .cfi_offset x30, -24
  stp x0, x1, [sp, #16]
  mov x29, sp
  mov x2, x30
  bl pooch_decide_dlsym
  mov x3, x0
  ldp x0, x1, [sp, #16]
  ldp x29, x30, [sp], #32
  .cfi_restore x29
  .cfi_restore x30
  .cfi_def_cfa_offset 0
  cbnz x3, 1f
  adrp x16, pooch_real_dlsym
  ldr x16, [x16, #:lo12:pooch_real_dlsym]
  br x16
1:
  mov x0, x3
  ret
  .cfi_endproc
  .size dlsym, .-dlsym
)");
#else
#error "dlsym needs a tail jump for this processor"
#endif

// Look-ups are substituted at any depth: a library's runtime starts inside of the first call that needs it.
POOCH_EXPORT CUresult cuGetProcAddress_v2(const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags,
                                          CUdriverProcAddressQueryResult* symbolStatus) {
  const Scope scope;
  auto* const real = real_cuGetProcAddress_v2.get(scope);
  if (real == nullptr) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
  const CUresult status = real(symbol, pfn, cudaVersion, flags, symbolStatus);
  if (status == CUDA_SUCCESS && symbol != nullptr && pfn != nullptr && *pfn != nullptr) {
    *pfn = substitute(symbol, cudaVersion, flags, *pfn);
  }
  return status;
}

POOCH_EXPORT CUresult cuGetProcAddress(const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags) {
  const Scope scope;
  auto* const real = real_cuGetProcAddress.get(scope);
  if (real == nullptr) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
  const CUresult status = real(symbol, pfn, cudaVersion, flags);
  if (status == CUDA_SUCCESS && symbol != nullptr && pfn != nullptr && *pfn != nullptr) {
    *pfn = substitute(symbol, cudaVersion, flags, *pfn);
  }
  return status;
}
