#include <algorithm>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "interpose/calls/capture.h"
#include "interpose/driver/block_heap.h"
#include "interpose/driver/small_blocks.h"
#include "interpose/hooks/captures.h"
#include "interpose/hooks/libraries.h"
#include "interpose/sessions/context.h"

namespace pooch::interpose {

// What a stream keeps of idle memory, beside what is cut too small to be given back.
constexpr std::uint64_t most_idle = 64 * MiB;

// The blocks of one stream.
struct StreamBlocks : Origin {
  StreamBlocks(runtime::Session& owner, PoolAccount& from, StreamHandle of)
      : Origin{&from, this}, session(owner), stream(of) {}

  runtime::Session& session;
  const StreamHandle stream;
  BlockHeap heap;
  // Freed in other streams, behind these events.
  struct Pending {
    CUevent behind;
    Address block;
    std::uint64_t bytes;
  };
  std::deque<Pending> pending;
  std::uint64_t too_much = most_idle;  // idle bytes
  bool left = false;                   // the stream is no more
  CUevent last = nullptr;  // then: behind all work on its blocks; nullptr: unknown, they are never used again
};

namespace {

POOCH_REAL(cuda, cuMemAllocFromPoolAsync);
POOCH_REAL(cuda, cuMemFreeAsync);
POOCH_REAL(cuda, cuEventCreate);
POOCH_REAL(cuda, cuEventRecord);
POOCH_REAL(cuda, cuEventQuery);
POOCH_REAL(cuda, cuEventDestroy_v2);
POOCH_REAL(cuda, cuStreamWaitEvent);
POOCH_REAL(cuda, cuStreamQuery);
POOCH_REAL(cuda, cuStreamSynchronize);
POOCH_REAL(cuda, cuCtxSynchronize);

CUstream raw_stream(StreamHandle stream) {
  return reinterpret_cast<CUstream>(stream);
}

struct Book {
  std::mutex mutex;  // a leaf: a library may ask about an address inside of a call, with the session's held
  std::vector<std::unique_ptr<StreamBlocks>> all;
};
Book& book() {
  static auto* const one = new Book;  // never destroyed: programs free in their exit handlers
  return *one;
}

// All that is needed, or nothing is served.
bool driver_has_all(const Scope& scope) {
  static const bool has = [&] {
    return real_cuMemAllocFromPoolAsync.get_if_present(scope) != nullptr &&
           real_cuMemFreeAsync.get_if_present(scope) != nullptr &&
           real_cuEventCreate.get_if_present(scope) != nullptr &&
           real_cuEventRecord.get_if_present(scope) != nullptr &&
           real_cuEventQuery.get_if_present(scope) != nullptr &&
           real_cuEventDestroy_v2.get_if_present(scope) != nullptr &&
           real_cuStreamWaitEvent.get_if_present(scope) != nullptr &&
           real_cuStreamQuery.get_if_present(scope) != nullptr &&
           real_cuStreamSynchronize.get_if_present(scope) != nullptr &&
           real_cuCtxSynchronize.get_if_present(scope) != nullptr;
  }();
  return has;
}

// With the mutex held, as all below.
StreamBlocks& blocks_of(runtime::Session& session, PoolAccount& pool, StreamHandle stream) {
  auto& all = book().all;
  for (const auto& one : all)
    if (one->stream == stream && one->account == &pool && !one->left) return *one;
  return *all.emplace_back(std::make_unique<StreamBlocks>(session, pool, stream));
}

// While a stream is being captured nothing can be asked.
void collect_pending(StreamBlocks& blocks) {
  while (!blocks.pending.empty() && !any_capture()) {
    const auto [behind, block, bytes] = blocks.pending.front();
    if (real_cuEventQuery.known()(behind) != CUDA_SUCCESS) return;
    (void)real_cuEventDestroy_v2.known()(behind);
    blocks.heap.give(block, bytes);
    blocks.pending.pop_front();
  }
}

// A new event behind what the stream has been given; nullptr where the driver refuses.
CUevent event_behind(StreamHandle stream) {
  CUevent event = nullptr;
  if (real_cuEventCreate.known()(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) return nullptr;
  if (real_cuEventRecord.known()(event, raw_stream(stream)) == CUDA_SUCCESS) return event;
  (void)real_cuEventDestroy_v2.known()(event);
  return nullptr;
}

// Bytes that are the driver's again: to be told to their session, once the mutex is free.
struct Returned {
  runtime::Session* session = nullptr;
  std::uint64_t bytes = 0;

  void tell() const {
    if (bytes > 0) session->refund(bytes);
  }
};

Returned free_slabs(StreamBlocks& blocks, StreamHandle in) {
  Returned all{&blocks.session, 0};
  for (const Address slab : blocks.heap.release())
    if (real_cuMemFreeAsync.known()(raw(slab), raw_stream(in)) == CUDA_SUCCESS) all.bytes += BlockHeap::slab;
  return all;
}

// Frees what is idle of a stream that is no more, in `in`, behind all that ever used it.
Returned end_blocks(StreamBlocks& blocks, StreamHandle in) {
  if (blocks.last == nullptr ||
      real_cuStreamWaitEvent.known()(raw_stream(in), blocks.last, 0) != CUDA_SUCCESS)
    return {};
  const Returned returned = free_slabs(blocks, in);
  if (!blocks.heap.empty()) {
    (void)real_cuEventRecord.known()(blocks.last, raw_stream(in));
    return returned;
  }
  (void)real_cuEventDestroy_v2.known()(blocks.last);
  std::erase_if(book().all, [&](const auto& one) { return one.get() == &blocks; });
  return returned;
}

// A further slab for the stream; false where there is no room for one. Where memory may be short the driver
// packs more tightly.
bool add_slab(runtime::Session& session, PoolAccount& pool, StreamHandle stream) {
  if (session.passing().on() || !session.admit_pass_through(BlockHeap::slab)) return false;
  CUdeviceptr slab = 0;
  const CUresult made =
      real_cuMemAllocFromPoolAsync.known()(&slab, BlockHeap::slab, handle_of(&pool), raw_stream(stream));
  if (made != CUDA_SUCCESS) {
    session.refund(BlockHeap::slab);
    return false;
  }
  session.passed_through(BlockHeap::slab);
  const std::lock_guard lock(book().mutex);
  blocks_of(session, pool, stream).heap.add_slab(Address{slab});
  return true;
}

// Freed in `stream`; without one the device has been waited for.
Returned put_back(StreamBlocks& blocks, Address block, std::uint64_t bytes,
                  std::optional<StreamHandle> stream) {
  const StreamHandle in = stream.value_or(StreamHandle::legacy);
  if (stream && in != blocks.stream && !blocks.left) {
    // Without an event nobody can tell when it may be used again.
    if (CUevent const behind = event_behind(in)) blocks.pending.push_back({behind, block, bytes});
    return {};
  }
  blocks.heap.give(block, bytes);
  if (blocks.left) return end_blocks(blocks, in);
  if (blocks.heap.idle_bytes() < blocks.too_much) return {};
  const Returned returned = free_slabs(blocks, blocks.stream);
  blocks.too_much = blocks.heap.idle_bytes() + most_idle;
  return returned;
}

}  // namespace

[[gnu::hot]] std::optional<CUdeviceptr> take_block(const Scope& scope, runtime::Session& session,
                                                   PoolAccount& pool, std::uint64_t bytes,
                                                   StreamHandle stream) {
  // The handle of a thread's own stream says nothing about which one it is.
  if (bytes > BlockHeap::largest || stream == StreamHandle::per_thread || !is_standard(pool))
    return std::nullopt;
  if (!driver_has_all(scope)) return std::nullopt;
  for (bool again = true;; again = false) {
    StreamBlocks* from = nullptr;
    std::optional<Address> block;
    {
      const std::lock_guard lock(book().mutex);
      from = &blocks_of(session, pool, stream);
      block = from->heap.take(bytes);
      if (!block) {
        collect_pending(*from);
        block = from->heap.take(bytes);
      }
    }
    if (block) {
      charge(&pool, bytes, ServedBy::block);
      session.placed(*block, bytes, /*by_program=*/true, static_cast<Origin*>(from));
      return raw(*block);
    }
    if (!again || !add_slab(session, pool, stream)) return std::nullopt;
  }
}

[[gnu::hot]] CUresult give_block(const Scope& scope, const Origin& origin, CUdeviceptr block,
                                 std::uint64_t bytes, std::optional<StreamHandle> stream) {
  const InContext there(scope, origin.blocks->session);
  if (!stream)
    if (const CUresult idle = real_cuCtxSynchronize.known()(); idle != CUDA_SUCCESS) return idle;
  StreamBlocks& blocks = *origin.blocks;
  discharge(blocks.account, bytes, ServedBy::block);
  Returned returned;
  {
    const std::lock_guard lock(book().mutex);
    returned = put_back(blocks, Address{block}, bytes, stream);
  }
  returned.tell();
  return CUDA_SUCCESS;
}

runtime::Session* session_of_block(CUdeviceptr address) {
  const std::lock_guard lock(book().mutex);
  for (const auto& one : book().all)
    if (one->heap.contains(Address{address})) return &one->session;
  return nullptr;
}

void release_blocks(const Scope& scope) {
  if (any_capture()) return;
  std::vector<Returned> all;
  {
    const std::lock_guard lock(book().mutex);
    for (const auto& one : book().all) {
      if (one->left) continue;
      const InContext there(scope, one->session);
      collect_pending(*one);
      const bool idle = real_cuStreamQuery.known()(raw_stream(one->stream)) == CUDA_SUCCESS;
      all.push_back(free_slabs(*one, one->stream));
      // The pool has it back at once where nothing is on its way.
      if (idle) (void)real_cuStreamSynchronize.known()(raw_stream(one->stream));
    }
  }
  for (const Returned& one : all) one.tell();
}

void stream_leaves_blocks(const Scope& scope, StreamHandle stream) {
  Returned returned;
  {
    const std::lock_guard lock(book().mutex);
    const auto found = std::find_if(book().all.begin(), book().all.end(),
                                    [&](const auto& one) { return one->stream == stream && !one->left; });
    if (found == book().all.end()) return;
    StreamBlocks& blocks = **found;
    const InContext there(scope, blocks.session);
    for (const auto& [behind, block, bytes] : blocks.pending) {
      if (real_cuStreamWaitEvent.known()(raw_stream(stream), behind, 0) == CUDA_SUCCESS)
        blocks.heap.give(block, bytes);
      (void)real_cuEventDestroy_v2.known()(behind);
    }
    blocks.pending.clear();
    blocks.left = true;
    blocks.last = event_behind(stream);
    returned = end_blocks(blocks, stream);
  }
  returned.tell();
}

}  // namespace pooch::interpose
