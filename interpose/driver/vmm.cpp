// The program's own virtual memory management: its memory does not move, and counts against the cap as long
// as a handle or a mapping holds it.
#include <map>
#include <mutex>

#include "interpose/driver/torch_allocator.h"
#include "interpose/hooks/driver_api.h"
#include "interpose/hooks/errors.h"
#include "interpose/hooks/libraries.h"
#include "interpose/sessions/again.h"
#include "interpose/sessions/context.h"
#include "interpose/sessions/served.h"
#include "interpose/sessions/sessions.h"

using namespace pooch;
using namespace pooch::interpose;

namespace {

POOCH_REAL(cuda, cuMemCreate);
POOCH_REAL(cuda, cuMemRelease);
POOCH_REAL(cuda, cuMemMap);
POOCH_REAL(cuda, cuMemUnmap);

struct Memory {
  runtime::Session* session;
  std::uint64_t bytes;
  int holders;  // handles that were not released, and mappings
};
struct Mapping {
  std::uint64_t bytes;
  CUmemGenericAllocationHandle handle;
};
struct Book {
  std::mutex mutex;  // a leaf
  std::map<CUmemGenericAllocationHandle, Memory> memory;
  std::map<CUdeviceptr, Mapping> mappings;
};
Book& book() {
  static auto* const one = new Book;  // never destroyed, like all that hooks use
  return *one;
}

// The memory that has no holder left; nothing where it has.
std::optional<Memory> let_go(CUmemGenericAllocationHandle handle) {
  const auto found = book().memory.find(handle);
  if (found == book().memory.end() || --found->second.holders > 0) return std::nullopt;
  const Memory gone = found->second;
  book().memory.erase(found);
  return gone;
}

void give_back(const Scope& scope, const std::optional<Memory>& gone) {
  if (!gone) return;
  const InContext there(scope, *gone->session);
  gone->session->refund(gone->bytes);  // what was admitted is not there any more
}

// The session of the device that the memory is to come from; nullptr: it is nobody's business.
runtime::Session* session_for(const Scope& scope, const CUmemAllocationProp* prop) {
  if (!scope.outermost() || prop == nullptr || prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
    return nullptr;
  (void)session_for_driver_call(scope);  // opened where this is the first call
  return open_session() != nullptr ? session_on(prop->location.id) : nullptr;
}

}  // namespace

POOCH_EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t size,
                                  const CUmemAllocationProp* prop, unsigned long long flags) {
  const Scope scope;
  auto* const real = real_cuMemCreate.get(scope);
  if (real == nullptr) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
  runtime::Session* const session = session_for(scope, prop);
  if (session == nullptr) return real(handle, size, prop, flags);
  const InContext there(scope, *session);
  if (session->memory_info().fits < size) warn_of_torch_settings();
  if (const Status admitted = session->admit_pass_through(size); !admitted) return to_cuda(admitted.error());
  const auto make = [&] { return real(handle, size, prop, flags); };
  CUresult status = make();
  if (status == CUDA_ERROR_OUT_OF_MEMORY) status = ask_again(*session, size, make);
  if (status != CUDA_SUCCESS) {
    session->refund(size);
    return status;
  }
  session->passed_through(size);
  const std::lock_guard lock(book().mutex);
  book().memory.insert_or_assign(*handle, Memory{session, size, 1});
  return status;
}

POOCH_EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  const Scope scope;
  auto* const real = real_cuMemRelease.get(scope);
  if (real == nullptr) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
  const CUresult status = real(handle);
  std::optional<Memory> gone;
  if (status == CUDA_SUCCESS) {
    const std::lock_guard lock(book().mutex);
    gone = let_go(handle);
  }
  give_back(scope, gone);
  return status;
}

POOCH_EXPORT CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset,
                               CUmemGenericAllocationHandle handle, unsigned long long flags) {
  const Scope scope;
  auto* const real = real_cuMemMap.get(scope);
  if (real == nullptr) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
  const CUresult status = real(ptr, size, offset, handle, flags);
  const std::lock_guard lock(book().mutex);
  const auto found = book().memory.find(handle);
  if (status != CUDA_SUCCESS || found == book().memory.end()) return status;
  ++found->second.holders;
  book().mappings.insert_or_assign(ptr, Mapping{size, handle});
  return status;
}

POOCH_EXPORT CUresult cuMemUnmap(CUdeviceptr ptr, size_t size) {
  const Scope scope;
  auto* const real = real_cuMemUnmap.get(scope);
  if (real == nullptr) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
  const CUresult status = real(ptr, size);
  if (status != CUDA_SUCCESS) return status;
  for (;;) {  // one call may end several mappings
    std::optional<Memory> gone;
    {
      const std::lock_guard lock(book().mutex);
      const auto mapping = book().mappings.lower_bound(ptr);
      if (mapping == book().mappings.end() || mapping->first - ptr >= size) return status;
      gone = let_go(mapping->second.handle);
      book().mappings.erase(mapping);
    }
    give_back(scope, gone);
  }
}
