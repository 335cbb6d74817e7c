// Communicators: made, asked, ended.
#include <unistd.h>

#include <cstring>
#include <new>

#include "softgpu/cudart/driver.h"
#include "softgpu/nccl/communicator.h"
#include "softgpu/nccl/exchange.h"

using namespace softgpu;
using namespace softgpu::nccl;

namespace {

constexpr int version = 22809;  // of the interface in softgpu/include/nccl.h

struct Ticket {
  char magic[8];
  pid_t process;
  int number;
};
constexpr char magic[8] = {'s', 'o', 'f', 't', 'n', 'c', 'c', 'l'};

struct Cliques {
  std::mutex mutex;
  int next = 0;
  std::map<int, std::shared_ptr<Clique>> by_ticket;  // those that lack ranks
};
Cliques& cliques() {
  static auto* const one = new Cliques;  // outlives every user
  return *one;
}

bool make_resources(ncclComm& comm) {
  const OnDevice here(comm.device);
  static std::once_flag once;
  static bool known = false;
  if (!here.well || kernels().load() != CUDA_SUCCESS) return false;
  std::call_once(once, [] { known = find_out_whether_kernels_run(); });
  return known && cudaMalloc(&comm.buffers, buffer_bytes) == cudaSuccess &&
         cudaEventCreateWithFlags(&comm.given, cudaEventDisableTiming) == cudaSuccess &&
         cudaEventCreateWithFlags(&comm.done, cudaEventDisableTiming) == cudaSuccess;
}

void free_resources(ncclComm& comm) {
  const OnDevice here(comm.device);
  if (!here.well) return;
  if (comm.buffers != nullptr) (void)cudaFree(comm.buffers);  // waits for the device
  if (comm.given != nullptr) (void)cudaEventDestroy(comm.given);
  if (comm.done != nullptr) (void)cudaEventDestroy(comm.done);
}

ncclResult_t join(ncclComm_t* out, const std::shared_ptr<Clique>& clique, int rank, int device) {
  auto comm = std::make_unique<ncclComm>();
  comm->clique = clique;
  comm->rank = rank;
  comm->device = device;
  if (!make_resources(*comm)) {
    free_resources(*comm);
    return ncclUnhandledCudaError;
  }
  const std::lock_guard lock(clique->mutex);
  for (const ncclComm_t other : clique->ranks)
    if (other != nullptr && other->device == device) {
      free_resources(*comm);
      return refuse(ncclInvalidUsage, "ncclCommInitRank", "two ranks on one device");
    }
  clique->ranks[static_cast<std::size_t>(rank)] = *out = comm.release();
  return ncclSuccess;
}

ncclResult_t init_rank(ncclComm_t* comm, int ranks, const ncclUniqueId& id, int rank) {
  Ticket ticket;
  std::memcpy(&ticket, id.internal, sizeof ticket);
  if (comm == nullptr || ranks < 1 || rank < 0 || rank >= ranks || std::memcmp(ticket.magic, magic, 8) != 0)
    return ncclInvalidArgument;
  *comm = nullptr;
  if (ticket.process != getpid())
    return refuse(ncclSystemError, "ncclCommInitRank", "ranks in several processes are not there");
  CUdevice device = 0;
  if (cudart::enter_context() != cudaSuccess || cudart::driver().CtxGetDevice(&device) != CUDA_SUCCESS)
    return ncclUnhandledCudaError;
  std::shared_ptr<Clique> clique;
  {
    const std::lock_guard lock(cliques().mutex);
    auto& known = cliques().by_ticket[ticket.number];
    if (known == nullptr) known = std::make_shared<Clique>(static_cast<std::size_t>(ranks));
    clique = known;
  }
  {
    const std::lock_guard lock(clique->mutex);
    const auto place = static_cast<std::size_t>(rank);
    if (clique->ranks.size() != static_cast<std::size_t>(ranks) || clique->ranks[place] != nullptr)
      return ncclInvalidUsage;
  }
  return join(comm, clique, rank, device);
}

ncclResult_t destroy(ncclComm_t comm, bool abort) {
  if (comm == nullptr) return ncclInvalidArgument;
  {
    const std::lock_guard lock(comm->clique->mutex);
    comm->clique->aborted |= abort;
    comm->clique->ranks[static_cast<std::size_t>(comm->rank)] = nullptr;
    comm->clique->launched.notify_all();
  }
  free_resources(*comm);
  delete comm;
  return ncclSuccess;
}

ncclResult_t tell(int* to, int value) {
  if (to == nullptr) return ncclInvalidArgument;
  *to = value;
  return ncclSuccess;
}

}  // namespace

SOFTGPU_NCCL_BOTH(ncclGetVersion, (int* to), (to)) {
  return tell(to, version);
}

SOFTGPU_NCCL_BOTH(ncclGetUniqueId, (ncclUniqueId * id), (id)) {
  if (id == nullptr) return ncclInvalidArgument;
  const std::lock_guard lock(cliques().mutex);
  Ticket ticket{{}, getpid(), cliques().next++};
  std::memcpy(ticket.magic, magic, sizeof magic);
  *id = {};
  std::memcpy(id->internal, &ticket, sizeof ticket);
  return ncclSuccess;
}

SOFTGPU_NCCL_BOTH(ncclCommInitRank, (ncclComm_t * comm, int ranks, ncclUniqueId id, int rank),
                  (comm, ranks, id, rank)) {
  return init_rank(comm, ranks, id, rank);
}
// Whatever the configuration says, calls block until the work is in its streams.
SOFTGPU_NCCL_BOTH(ncclCommInitRankConfig,
                  (ncclComm_t * comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config),
                  (comm, ranks, id, rank, config)) {
  return init_rank(comm, ranks, id, rank);
}

SOFTGPU_NCCL_BOTH(ncclCommInitAll, (ncclComm_t * comms, int count, const int* devices),
                  (comms, count, devices)) {
  if (comms == nullptr || count < 1) return ncclInvalidArgument;
  const auto clique = std::make_shared<Clique>(static_cast<std::size_t>(count));
  for (int rank = 0; rank < count; ++rank) {
    const ncclResult_t joined = join(&comms[rank], clique, rank, devices != nullptr ? devices[rank] : rank);
    if (joined == ncclSuccess) continue;
    while (rank-- > 0) (void)destroy(comms[rank], /*abort=*/false);
    return joined;
  }
  return ncclSuccess;
}

SOFTGPU_NCCL_BOTH(ncclCommFinalize, (ncclComm_t comm), (comm)) {
  return comm != nullptr ? ncclSuccess : ncclInvalidArgument;
}
SOFTGPU_NCCL_BOTH(ncclCommDestroy, (ncclComm_t comm), (comm)) {
  return destroy(comm, /*abort=*/false);
}
SOFTGPU_NCCL_BOTH(ncclCommAbort, (ncclComm_t comm), (comm)) {
  return destroy(comm, /*abort=*/true);
}

SOFTGPU_NCCL_BOTH(ncclCommGetAsyncError, (ncclComm_t comm, ncclResult_t* error), (comm, error)) {
  if (comm == nullptr || error == nullptr) return ncclInvalidArgument;
  const std::lock_guard lock(comm->clique->mutex);
  *error = comm->failed;
  return ncclSuccess;
}
SOFTGPU_NCCL_BOTH(ncclCommCount, (const ncclComm_t comm, int* count), (comm, count)) {
  return comm != nullptr ? tell(count, static_cast<int>(comm->clique->ranks.size())) : ncclInvalidArgument;
}
SOFTGPU_NCCL_BOTH(ncclCommCuDevice, (const ncclComm_t comm, int* device), (comm, device)) {
  return comm != nullptr ? tell(device, comm->device) : ncclInvalidArgument;
}
SOFTGPU_NCCL_BOTH(ncclCommUserRank, (const ncclComm_t comm, int* rank), (comm, rank)) {
  return comm != nullptr ? tell(rank, comm->rank) : ncclInvalidArgument;
}

SOFTGPU_NCCL const char* ncclGetErrorString(ncclResult_t result) {
  constexpr const char* texts[] = {"no error",
                                   "unhandled cuda error",
                                   "unhandled system error",
                                   "internal error",
                                   "invalid argument",
                                   "invalid usage",
                                   "remote process exited or there was a network error",
                                   "NCCL operation in progress"};
  return static_cast<std::size_t>(result) < std::size(texts) ? texts[result] : "unknown result code";
}
SOFTGPU_NCCL const char* pncclGetErrorString(ncclResult_t result) {
  return ncclGetErrorString(result);
}
SOFTGPU_NCCL const char* ncclGetLastError(ncclComm_t) {
  return "";
}
SOFTGPU_NCCL const char* pncclGetLastError(ncclComm_t comm) {
  return ncclGetLastError(comm);
}
