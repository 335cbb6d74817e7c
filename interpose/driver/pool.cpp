// Memory pools: their figures, and which of them pooch may serve.
#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <span>

#include "core/bytes.h"
#include "interpose/sessions/again.h"
#include "interpose/sessions/context.h"
#include "interpose/hooks/libraries.h"
#include "interpose/sessions/pool_accounts.h"
#include "interpose/process/process.h"
#include "interpose/driver/small_blocks.h"

namespace pooch::interpose {

namespace {

// A sum with its high-water mark.
class Figure {
 public:
  void add(std::uint64_t bytes) {
    const std::uint64_t now = now_.fetch_add(bytes) + bytes;
    std::uint64_t high = high_.load();
    while (high < now && !high_.compare_exchange_weak(high, now)) {
    }
  }
  void subtract(std::uint64_t bytes) { now_.fetch_sub(bytes); }
  void reset_mark() { high_.store(now_.load()); }
  std::uint64_t now() const { return now_.load(); }
  std::uint64_t high() const { return high_.load(); }

 private:
  std::atomic<std::uint64_t> now_{0}, high_{0};
};

}  // namespace

struct PoolAccount : Origin {
  PoolAccount(CUmemoryPool which, PoolMemory where, CUdevice of, std::uint64_t may_use, bool is_standard)
      : Origin{this, nullptr},
        handle(which),
        memory(where),
        device(of),
        most(may_use),
        standard(is_standard) {}

  const CUmemoryPool handle;
  const PoolMemory memory;
  const CUdevice device;                     // for what is not elsewhere
  const std::uint64_t most;                  // that may be used; 0: any
  const bool standard;                       // the device's own
  std::atomic<std::uint64_t> threshold = 0;  // up to which the program lets the pool keep what is free
  std::atomic<bool> any_own = false;         // else the driver's own figures are right
  Figure used = {}, managed = {};            // managed: whole pages
  std::atomic<std::uint64_t> holders = 1;    // the list of pools, and what is allocated
};

namespace {

POOCH_REAL(cuda, cuCtxGetDevice);
POOCH_REAL(cuda, cuDeviceGetCount);
POOCH_REAL(cuda, cuDeviceGetDefaultMemPool);
POOCH_REAL(cuda, cuDeviceGetMemPool);
POOCH_REAL(cuda, cuDeviceSetMemPool);
POOCH_REAL(cuda, cuMemSetMemPool);
POOCH_REAL(cuda, cuMemPoolCreate);
POOCH_REAL(cuda, cuMemPoolDestroy);
POOCH_REAL(cuda, cuMemPoolGetAttribute);
POOCH_REAL(cuda, cuMemPoolSetAttribute);
POOCH_REAL(cuda, cuMemPoolTrimTo);

struct Book {
  std::mutex mutex;  // a leaf
  std::map<CUmemoryPool, PoolAccount*> pools;
};
Book& book() {
  static auto* const one = new Book;  // never destroyed: programs free in their exit handlers
  return *one;
}

void let_go(PoolAccount* account) {
  if (--account->holders == 0) delete account;
}

// What is free in the driver's pools serves nobody but small allocations. PyTorch lets them keep all of it.
constexpr std::uint64_t most_kept = 64 * MiB;

// By device: which pool is its current one. nullptr: not asked yet.
constinit std::array<std::atomic<PoolAccount*>, 64> current_pools{};

// -1 without a context. The session's own is the usual one.
CUdevice current_device(const Scope& scope) {
  CUcontext const context = current_context(scope);
  if (context == nullptr) return -1;
  if (const auto served = device_served_in(context)) return *served;
  auto* const get = real_cuCtxGetDevice.get(scope);
  CUdevice device = -1;
  return get != nullptr && get(&device) == CUDA_SUCCESS ? device : -1;
}

// The driver hands out multiples of this.
std::uint64_t as_used(std::uint64_t bytes) {
  return round_up(bytes, 512);
}

PoolAccount* find(CUmemoryPool pool) {
  const std::lock_guard lock(book().mutex);
  const auto found = book().pools.find(pool);
  return found == book().pools.end() ? nullptr : found->second;
}

// A pool that the program did not create: the driver's own, or one that comes from another process.
PoolAccount* learn(const Scope& scope, CUmemoryPool pool) {
  const CUdevice device = current_device(scope);
  auto* const get_default = real_cuDeviceGetDefaultMemPool.get(scope);
  CUmemoryPool own = nullptr;
  const bool ours = get_default != nullptr && get_default(&own, device) == CUDA_SUCCESS && own == pool;
  const std::lock_guard lock(book().mutex);
  PoolAccount*& known = book().pools[pool];
  if (known == nullptr)
    known = new PoolAccount(pool, ours ? PoolMemory::manageable : PoolMemory::elsewhere, device, 0, ours);
  return known;
}

void note_destroyed(CUmemoryPool pool) {
  PoolAccount* const account = find(pool);
  if (account == nullptr) return;
  // The device's default pool takes its place.
  for (auto& current : current_pools) {
    PoolAccount* expected = account;  // overwritten where another one is current
    (void)current.compare_exchange_strong(expected, nullptr);
  }
  {
    const std::lock_guard lock(book().mutex);
    book().pools.erase(pool);
  }
  let_go(account);  // what is still allocated from it keeps it
}

void note_created(CUmemoryPool pool, const CUmemPoolProps& props) {
  PoolMemory memory = PoolMemory::manageable;
  if (props.location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
      props.allocType != CU_MEM_ALLOCATION_TYPE_PINNED) {
    memory = PoolMemory::elsewhere;
  } else if (props.handleTypes != CU_MEM_HANDLE_TYPE_NONE) {
    memory = PoolMemory::device;
  }
  note_destroyed(pool);  // whoever had the name before
  const std::lock_guard lock(book().mutex);
  book().pools[pool] = new PoolAccount(pool, memory, props.location.id, props.maxSize, false);
}

// nullptr: to be asked for when somebody wants to know.
void note_current(CUdevice device, PoolAccount* account) {
  if (device >= 0 && device < static_cast<CUdevice>(current_pools.size()))
    current_pools[static_cast<std::size_t>(device)].store(account);
}

// What the program is told, given the driver's own answer.
std::uint64_t told(const PoolAccount& account, CUmemPool_attribute attribute, std::uint64_t driver) {
  switch (attribute) {
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      return account.used.now();
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      return account.used.high();
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      return driver + account.managed.now();
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      return driver + account.managed.high();
    default:
      return driver;
  }
}

CUresult set_threshold(PoolAccount& account, std::uint64_t wanted) {
  std::uint64_t kept = std::min(wanted, most_kept);
  const CUresult status =
      real_cuMemPoolSetAttribute.known()(account.handle, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &kept);
  if (status == CUDA_SUCCESS) account.threshold = wanted;
  return status;
}

bool is_figure(CUmemPool_attribute attribute) {
  return attribute == CU_MEMPOOL_ATTR_USED_MEM_CURRENT || attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH ||
         attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT || attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH;
}

}  // namespace

[[gnu::hot]] PoolAccount* current_pool(const Scope& scope) {
  const CUdevice device = current_device(scope);
  if (device < 0 || device >= static_cast<CUdevice>(current_pools.size())) return nullptr;
  if (PoolAccount* const known = current_pools[static_cast<std::size_t>(device)].load()) return known;
  auto* const get = real_cuDeviceGetMemPool.get(scope);
  CUmemoryPool pool = nullptr;
  if (get == nullptr || get(&pool, device) != CUDA_SUCCESS) return nullptr;
  PoolAccount* const account = pool_account(scope, pool);
  note_current(device, account);
  return account;
}

PoolAccount* pool_account(const Scope& scope, CUmemoryPool pool) {
  PoolAccount* const known = find(pool);
  return known != nullptr ? known : learn(scope, pool);
}

[[gnu::hot]] PoolMemory memory_of(const Scope& scope, const PoolAccount& account) {
  return account.device == current_device(scope) ? account.memory : PoolMemory::elsewhere;
}

void trim_current_pool(const Scope& scope) {
  const PoolAccount* const current = current_pool(scope);
  release_blocks(scope);
  auto* const trim = real_cuMemPoolTrimTo.get_if_present(scope);
  if (current != nullptr && trim != nullptr) (void)trim(current->handle, 0);
}

[[gnu::hot]] bool admits(const PoolAccount& account, std::uint64_t bytes) {
  return account.most == 0 || account.used.now() + as_used(bytes) <= account.most;
}

[[gnu::hot]] void charge(PoolAccount* account, std::uint64_t bytes, ServedBy by) {
  if (account == nullptr) return;
  ++account->holders;
  account->used.add(as_used(bytes));
  if (by == ServedBy::driver) return;
  account->any_own = true;
  if (by == ServedBy::session) account->managed.add(round_up(bytes, page));
}

[[gnu::hot]] void discharge(PoolAccount* account, std::uint64_t bytes, ServedBy by) {
  if (account == nullptr) return;
  account->used.subtract(as_used(bytes));
  if (by == ServedBy::session) account->managed.subtract(round_up(bytes, page));
  let_go(account);
}

namespace {

std::optional<CUdevice> device_of_pool(const Scope& scope, CUmemoryPool pool) {
  const PoolAccount* const known = find(pool);
  if (known != nullptr && known->memory != PoolMemory::elsewhere) return known->device;
  auto* const count = real_cuDeviceGetCount.get_if_present(scope);
  auto* const get_default = real_cuDeviceGetDefaultMemPool.get_if_present(scope);
  int devices = 0;
  if (count == nullptr || get_default == nullptr || count(&devices) != CUDA_SUCCESS) return std::nullopt;
  for (CUdevice device = 0; device < devices; ++device) {
    CUmemoryPool own = nullptr;
    if (get_default(&own, device) == CUDA_SUCCESS && own == pool) return device;
  }
  return std::nullopt;
}

void note_access(const Scope& scope, CUmemoryPool pool, std::span<const CUmemAccessDesc> rights) {
  const auto device = device_of_pool(scope, pool);
  for (const CUmemAccessDesc& right : rights)
    if (device && right.location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
        right.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
      let_in(scope, *device, right.location.id);
}

}  // namespace

bool is_standard(const PoolAccount& account) {
  return account.standard;
}

Origin* origin_of(PoolAccount* account) {
  return account;
}

CUmemoryPool handle_of(const PoolAccount* account) {
  return account == nullptr ? nullptr : account->handle;
}

}  // namespace pooch::interpose

using namespace pooch;
using namespace pooch::interpose;

POOCH_EXPORT CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* poolProps) {
  const Scope scope;
  auto* const real = real_cuMemPoolCreate.get(scope);
  if (real == nullptr) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
  const CUresult status = real(pool, poolProps);
  if (status == CUDA_SUCCESS) note_created(*pool, *poolProps);
  return status;
}

POOCH_EXPORT CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  const Scope scope;
  auto* const real = real_cuMemPoolDestroy.get(scope);
  if (real == nullptr) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
  const CUresult status = real(pool);
  if (status == CUDA_SUCCESS) note_destroyed(pool);
  return status;
}

POOCH_EXPORT CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool) {
  const Scope scope;
  auto* const real = real_cuDeviceSetMemPool.get(scope);
  if (real == nullptr) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
  const CUresult status = real(dev, pool);
  if (status == CUDA_SUCCESS) note_current(dev, nullptr);
  return status;
}

POOCH_EXPORT CUresult cuMemSetMemPool(CUmemLocation* location, CUmemAllocationType type, CUmemoryPool pool) {
  const Scope scope;
  auto* const real = real_cuMemSetMemPool.get(scope);
  if (real == nullptr) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
  const CUresult status = real(location, type, pool);
  if (status == CUDA_SUCCESS && location->type == CU_MEM_LOCATION_TYPE_DEVICE &&
      type == CU_MEM_ALLOCATION_TYPE_PINNED)
    note_current(location->id, nullptr);
  return status;
}

POOCH_EXPORT CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void* value) {
  const Scope scope;
  auto* const real = real_cuMemPoolGetAttribute.get(scope);
  if (real == nullptr) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
  const CUresult status = real(pool, attr, value);
  if (status != CUDA_SUCCESS || (!is_figure(attr) && attr != CU_MEMPOOL_ATTR_RELEASE_THRESHOLD))
    return status;
  const PoolAccount* const account = find(pool);
  if (account == nullptr) return status;
  auto* const figure = static_cast<cuuint64_t*>(value);
  if (attr == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) *figure = std::max<cuuint64_t>(*figure, account->threshold);
  if (account->any_own) *figure = told(*account, attr, *figure);
  return status;
}

// Who is let into a pool is let into what is managed of its device.
POOCH_DRIVER_HOOK(cuMemPoolSetAccess, (CUmemoryPool pool, const CUmemAccessDesc* map, size_t count),
                  (pool, map, count), const CUresult status = launch();
                  if (status == CUDA_SUCCESS) note_access(scope, pool, {map, count}); return status;)

// What pooch keeps of the pool goes first.
POOCH_EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep) {
  const Scope scope;
  auto* const real = real_cuMemPoolTrimTo.get(scope);
  if (real == nullptr) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
  if (open_session() != nullptr) release_blocks(scope);
  return real(pool, minBytesToKeep);
}

// A high-water mark that is set to zero, the only value there is, becomes the current figure.
POOCH_EXPORT CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void* value) {
  const Scope scope;
  auto* const real = real_cuMemPoolSetAttribute.get(scope);
  if (real == nullptr) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
  if (attr == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD && value != nullptr && configuration() != nullptr) {
    PoolAccount& account = *pool_account(scope, pool);
    if (memory_of(scope, account) == PoolMemory::manageable)
      return set_threshold(account, *static_cast<const cuuint64_t*>(value));
  }
  const CUresult status = real(pool, attr, value);
  PoolAccount* const account = status == CUDA_SUCCESS ? find(pool) : nullptr;
  if (account == nullptr) return status;
  if (attr == CU_MEMPOOL_ATTR_USED_MEM_HIGH) account->used.reset_mark();
  if (attr == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) account->managed.reset_mark();
  return status;
}
