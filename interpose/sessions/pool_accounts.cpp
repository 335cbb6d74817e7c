#include "interpose/sessions/pool_accounts.h"

#include <array>
#include <map>
#include <mutex>

#include "core/bytes.h"
#include "interpose/hooks/libraries.h"
#include "interpose/sessions/context.h"
#include "interpose/sessions/served.h"

namespace pooch::interpose {
namespace {

POOCH_REAL(cuda, cuCtxGetDevice);
POOCH_REAL(cuda, cuDeviceGetDefaultMemPool);
POOCH_REAL(cuda, cuDeviceGetMemPool);

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

// nullptr: to be asked for when somebody wants to know.
void note_current(CUdevice device, PoolAccount* account) {
  if (device >= 0 && device < static_cast<CUdevice>(current_pools.size()))
    current_pools[static_cast<std::size_t>(device)].store(account);
}

}  // namespace

PoolAccount* find_pool(CUmemoryPool pool) {
  const std::lock_guard lock(book().mutex);
  const auto found = book().pools.find(pool);
  return found == book().pools.end() ? nullptr : found->second;
}

void note_pool_destroyed(CUmemoryPool pool) {
  PoolAccount* const account = find_pool(pool);
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

void note_pool_created(CUmemoryPool pool, const CUmemPoolProps& props) {
  PoolMemory memory = PoolMemory::manageable;
  if (props.location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
      props.allocType != CU_MEM_ALLOCATION_TYPE_PINNED) {
    memory = PoolMemory::elsewhere;
  } else if (props.handleTypes != CU_MEM_HANDLE_TYPE_NONE) {
    memory = PoolMemory::device;
  }
  note_pool_destroyed(pool);  // whoever had the name before
  const std::lock_guard lock(book().mutex);
  book().pools[pool] = new PoolAccount(pool, memory, props.location.id, props.maxSize, false);
}

void note_current_pool_changed(CUdevice device) {
  note_current(device, nullptr);
}

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
  PoolAccount* const known = find_pool(pool);
  return known != nullptr ? known : learn(scope, pool);
}

[[gnu::hot]] PoolMemory memory_of(const Scope& scope, const PoolAccount& account) {
  return account.device == current_device(scope) ? account.memory : PoolMemory::elsewhere;
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
