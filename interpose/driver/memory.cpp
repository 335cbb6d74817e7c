// Allocations: managed by the session, or passed through and counted against the cap.
#include <fmt/core.h>

#include <atomic>
#include <limits>

#include "core/log.h"
#include "interpose/calls/capture.h"
#include "interpose/driver/pool.h"
#include "interpose/driver/small_blocks.h"
#include "interpose/driver/torch_allocator.h"
#include "interpose/hooks/caller.h"
#include "interpose/hooks/captures.h"
#include "interpose/hooks/driver_api.h"
#include "interpose/hooks/errors.h"
#include "interpose/hooks/libraries.h"
#include "interpose/hooks/stream.h"
#include "interpose/sessions/again.h"
#include "interpose/sessions/context.h"
#include "interpose/sessions/inside.h"
#include "interpose/sessions/pool_accounts.h"
#include "interpose/sessions/served.h"
#include "interpose/sessions/sessions.h"

using namespace pooch;
using namespace pooch::interpose;

namespace {

POOCH_REAL(cuda, cuMemAlloc_v2);
POOCH_REAL(cuda, cuMemAllocPitch_v2);
POOCH_REAL(cuda, cuMemFree_v2);
POOCH_REAL(cuda, cuMemAllocAsync);
POOCH_REAL(cuda, cuMemAllocAsync_ptsz);
POOCH_REAL(cuda, cuMemAllocFromPoolAsync);
POOCH_REAL(cuda, cuMemAllocFromPoolAsync_ptsz);
POOCH_REAL(cuda, cuMemFreeAsync);
POOCH_REAL(cuda, cuMemFreeAsync_ptsz);

// Where a managed row begins: no driver promises more, and every texture and copy engine accepts it.
constexpr std::uint64_t pitch_unit = 512;

// A device in trouble fails every call after the first, which is the one that gets a line.
bool first_in_trouble() {
  static constinit std::atomic<bool> reported{false};
  return !reported.exchange(true);
}

// The session itself says when memory is exhausted.
CUresult refuse(const Error& error) {
  if (error.code != ErrorCode::out_of_memory && first_in_trouble())
    log::failure("an allocation failed: " + error.message);
  return to_cuda(error);
}

// `real` allocates from the pool, if from one, and writes `*address`.
template <class RealCall>
CUresult pass_through(const Scope& scope, CUdeviceptr* address, std::uint64_t bytes, bool by_program,
                      PoolAccount* pool, RealCall&& real) {
  if (directly_inside_submit(scope)) {
    const CUresult status = with_memory(scope, real);
    if (status == CUDA_SUCCESS) note_allocated_inside(Address{*address}, bytes, pool);
    return status;
  }
  runtime::Session* const session = scope.outermost() ? session_for_driver_call(scope) : nullptr;
  if (session == nullptr) return real();
  Status admitted = session->admit_pass_through(bytes);
  if (!admitted && admitted.error().code == ErrorCode::out_of_memory) {
    trim_current_pool(scope);
    admitted = session->admit_pass_through(bytes);
  }
  if (!admitted) return refuse(admitted.error());
  CUresult status = real();
  if (status == CUDA_ERROR_OUT_OF_MEMORY) status = ask_again(*session, bytes, real);
  if (status != CUDA_SUCCESS) {
    session->refund(bytes);
    return status;
  }
  charge(pool, bytes, ServedBy::driver);
  session->passed_through(Address{*address}, bytes, by_program, origin_of(pool));
  return status;
}

// An allocation of `bytes`; `stream` where it is ordered by one, `pool` where it is from one. `real` is the
// driver's own way to do it, and the only one where the memory is not `manageable`.
template <class RealCall>
CUresult allocate(const Scope& scope, CUdeviceptr* address, std::uint64_t bytes,
                  std::optional<StreamHandle> stream, PoolAccount* pool, bool manageable,
                  const void* return_address, RealCall&& real) {
  if (address == nullptr || bytes == 0) return real();
  const bool by_program = scope.outermost() && !called_from_library(return_address);
  runtime::Session* const session = by_program ? session_for_driver_call(scope) : nullptr;
  if (session == nullptr || !manageable) return pass_through(scope, address, bytes, by_program, pool, real);
  if (!session->manages(bytes)) {
    const auto block =
        pool != nullptr && stream ? take_block(scope, *session, *pool, bytes, *stream) : std::nullopt;
    if (!block) return pass_through(scope, address, bytes, by_program, pool, real);
    *address = *block;
    return CUDA_SUCCESS;
  }
  const runtime::MemoryInfo info = session->memory_info();
  if (info.granted < bytes) trim_current_pool(scope);
  if (info.fits < bytes) warn_of_torch_settings();
  const auto allocated = session->allocate(bytes, stream, origin_of(pool));
  if (!allocated) return refuse(allocated.error());
  charge(pool, bytes, ServedBy::session);
  *address = raw(*allocated);
  return CUDA_SUCCESS;
}

// What is allocated without a stream while one is being captured is there for the graph, which knows its
// memory by physical place.
template <class RealCall>
CUresult allocate_plain(const Scope& scope, CUdeviceptr* address, std::uint64_t bytes,
                        const void* return_address, RealCall&& real) {
  return allocate(scope, address, bytes, std::nullopt, /*pool=*/nullptr, !any_capture(), return_address,
                  real);
}

template <class RealCall>
CUresult allocate_from(const Scope& scope, PoolAccount* pool, CUdeviceptr* address, std::uint64_t bytes,
                       StreamHandle stream, const void* return_address, RealCall&& real) {
  // A captured allocation is a node of the graph: it happens when that runs.
  if (address == nullptr || bytes == 0 || pool == nullptr || captured(scope, stream)) return real();
  const PoolMemory memory = memory_of(scope, *pool);
  if (memory == PoolMemory::elsewhere) return real();
  if (!admits(*pool, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  return allocate(scope, address, bytes, stream, pool, memory == PoolMemory::manageable, return_address,
                  real);
}

CUresult refuse_free(const runtime::Session& session, CUdeviceptr address, const Error& why) {
  const CUresult status = to_cuda(why);
  const bool is_news = !session.failed() && !(status == CUDA_ERROR_OUT_OF_MEMORY && session.said_shortage());
  // The program's mistake gets a line each time.
  if (why.code == ErrorCode::invalid_argument || (is_news && first_in_trouble()))
    log::failure(fmt::format("freeing {:#x}: {}", address, why.message));
  return status;
}

CUresult release_managed(const Scope& scope, runtime::Session& session, CUdeviceptr address,
                         std::optional<StreamHandle> stream) {
  if (stream && captured(scope, *stream)) return CUDA_ERROR_INVALID_VALUE;  // a graph frees what it allocated
  const InContext there(scope, session);
  const auto freed = session.free(Address{address}, stream);
  if (freed) {
    if (const auto* const origin = static_cast<const Origin*>(freed->origin))
      discharge(origin->account, freed->bytes, ServedBy::session);
    return CUDA_SUCCESS;
  }
  return refuse_free(session, address, freed.error());
}

// Memory of the driver's goes off the account before the driver may hand out its address again.
template <class RealCall>
CUresult release(const Scope& scope, CUdeviceptr address, std::optional<StreamHandle> stream,
                 RealCall&& real) {
  if (address == 0 || open_session() == nullptr) return real();
  if (runtime::Session* const owner = session_owning(Address{address}))
    return release_managed(scope, *owner, address, stream);
  if (inside_submit()) {
    if (directly_inside_submit(scope)) note_freed_inside(Address{address});
    return real();
  }
  // A graph frees what it allocated.
  if (stream && captured(scope, *stream)) {
    if (session_of_block(address) != nullptr) return CUDA_ERROR_INVALID_VALUE;
    note_captured_free(scope, *stream);
  }
  runtime::Session* knows = nullptr;
  runtime::Freed gone{};
  CUresult refused = CUDA_SUCCESS;
  each_session(scope, [&](runtime::Session& each) {
    if (knows != nullptr || refused != CUDA_SUCCESS) return;
    const auto freed = each.pass_through_freed(Address{address});
    if (!freed) {
      refused = refuse_free(each, address, freed.error());
    } else if (*freed) {
      knows = &each, gone = **freed;
    }
  });
  if (refused != CUDA_SUCCESS) return refused;
  const auto* const origin = static_cast<const Origin*>(gone.origin);
  const bool is_block = origin != nullptr && origin->blocks != nullptr;
  if (knows == nullptr && session_of_block(address) != nullptr)
    return CUDA_ERROR_INVALID_VALUE;  // no block's start
  const CUresult status = is_block ? give_block(scope, *origin, address, gone.bytes, stream) : real();
  if (knows == nullptr) return status;
  if (status == CUDA_SUCCESS) {
    if (origin != nullptr && !is_block) discharge(origin->account, gone.bytes, ServedBy::driver);
  } else {
    knows->pass_through_kept(Address{address}, gone);
  }
  return status;
}

}  // namespace

POOCH_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr* dptr, size_t bytesize) {
  const Scope scope;
  auto* const real = real_cuMemAlloc_v2.get(scope);
  if (real == nullptr) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
  return allocate_plain(scope, dptr, bytesize, __builtin_return_address(0),
                        [&] { return real(dptr, bytesize); });
}

POOCH_EXPORT CUresult cuMemAllocPitch_v2(CUdeviceptr* dptr, size_t* pPitch, size_t WidthInBytes,
                                         size_t Height, unsigned int ElementSizeBytes) {
  const Scope scope;
  auto* const real = real_cuMemAllocPitch_v2.get(scope);
  if (real == nullptr) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
  const auto launch = [&] { return real(dptr, pPitch, WidthInBytes, Height, ElementSizeBytes); };
  const bool sound = pPitch != nullptr && WidthInBytes != 0 && Height != 0 &&
                     (ElementSizeBytes == 4 || ElementSizeBytes == 8 || ElementSizeBytes == 16) &&
                     WidthInBytes <= std::numeric_limits<std::uint64_t>::max() / Height - pitch_unit;
  if (!sound) return launch();
  const std::uint64_t pitch = round_up(WidthInBytes, pitch_unit);
  size_t given = 0;
  const CUresult status = allocate_plain(scope, dptr, pitch * Height, __builtin_return_address(0), [&] {
    const CUresult real_status = launch();
    given = *pPitch;
    return real_status;
  });
  if (status == CUDA_SUCCESS && given == 0) *pPitch = pitch;
  return status;
}

POOCH_EXPORT CUresult cuMemFree_v2(CUdeviceptr dptr) {
  const Scope scope;
  auto* const real = real_cuMemFree_v2.get(scope);
  if (real == nullptr) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
  return release(scope, dptr, std::nullopt, [&] { return real(dptr); });
}

#define POOCH_STREAM_ORDERED(suffix, for_zero)                                                              \
  POOCH_HOT_EXPORT CUresult cuMemAllocAsync##suffix(CUdeviceptr* dptr, size_t bytesize, CUstream hStream) { \
    const Scope scope;                                                                                      \
    auto* const real = real_cuMemAllocAsync##suffix.get(scope);                                             \
    if (real == nullptr) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;                                       \
    return allocate_from(scope, current_pool(scope), dptr, bytesize, stream_of(hStream, for_zero),          \
                         __builtin_return_address(0), [&] { return real(dptr, bytesize, hStream); });       \
  }                                                                                                         \
  POOCH_EXPORT CUresult cuMemAllocFromPoolAsync##suffix(CUdeviceptr* dptr, size_t bytesize,                 \
                                                        CUmemoryPool pool, CUstream hStream) {              \
    const Scope scope;                                                                                      \
    auto* const real = real_cuMemAllocFromPoolAsync##suffix.get(scope);                                     \
    if (real == nullptr) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;                                       \
    return allocate_from(scope, pool_account(scope, pool), dptr, bytesize, stream_of(hStream, for_zero),    \
                         __builtin_return_address(0), [&] { return real(dptr, bytesize, pool, hStream); }); \
  }                                                                                                         \
  POOCH_HOT_EXPORT CUresult cuMemFreeAsync##suffix(CUdeviceptr dptr, CUstream hStream) {                    \
    const Scope scope;                                                                                      \
    auto* const real = real_cuMemFreeAsync##suffix.get(scope);                                              \
    if (real == nullptr) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;                                       \
    return release(scope, dptr, stream_of(hStream, for_zero), [&] { return real(dptr, hStream); });         \
  }

POOCH_STREAM_ORDERED(, StreamHandle::legacy)
POOCH_STREAM_ORDERED(_ptsz, StreamHandle::per_thread)
