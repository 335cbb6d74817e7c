// The collectives: tasks are collected in groups, wait for the other ranks' at their end, and are launched
// with them.
#include <algorithm>
#include <utility>

#include "softgpu/nccl/communicator.h"
#include "softgpu/nccl/exchange.h"

using namespace softgpu;
using namespace softgpu::nccl;

namespace {

struct Group {
  int depth = 0;
  ncclResult_t failed = ncclSuccess;
  std::vector<Task> tasks;
};
thread_local Group group;

bool fit(const Task& a, const Task& b) {
  const bool transfer = a.kind == Kind::send;
  return a.count == b.count && a.type == b.type &&
         (transfer ? b.kind == Kind::receive : a.kind == b.kind && a.op == b.op && a.peer == b.peer);
}

// Launches the tasks that belong together, or says that they do not fit.
void start(std::vector<Task> tasks) {
  std::vector<ncclComm_t> members;
  for (const Task& task : tasks) members.push_back(task.communicator);
  const bool well =
      std::all_of(tasks.begin() + 1, tasks.end(), [&](const Task& task) { return fit(tasks.front(), task); });
  const ncclResult_t status =
      well ? launch(std::move(tasks))
           : refuse(ncclInvalidUsage, "NCCL", "the ranks' calls do not fit together: not started");
  for (const ncclComm_t member : members) {
    --member->waiting;
    if (status != ncclSuccess) member->failed = status;
  }
}

Task taken(std::deque<Task>& from) {
  const Task task = from.front();
  from.pop_front();
  return task;
}

// Whatever is complete; with the clique's mutex held.
void advance(Clique& clique) {
  const auto all = [&](auto&& holds) {
    return std::all_of(clique.collectives.begin(), clique.collectives.end(), holds);
  };
  while (all([](const std::deque<Task>& queue) { return !queue.empty(); })) {
    std::vector<Task> tasks;
    for (auto& queue : clique.collectives) tasks.push_back(taken(queue));
    start(std::move(tasks));
  }
  for (auto& [between, sends] : clique.sends)
    for (auto& receives = clique.receives[between]; !sends.empty() && !receives.empty();)
      start({taken(sends), taken(receives)});
  clique.launched.notify_all();
}

void post(const Task& task) {
  ncclComm& comm = *task.communicator;
  const std::lock_guard lock(comm.clique->mutex);
  if (task.kind == Kind::send) {
    comm.clique->sends[{comm.rank, task.peer}].push_back(task);
  } else if (task.kind == Kind::receive) {
    comm.clique->receives[{task.peer, comm.rank}].push_back(task);
  } else {
    comm.clique->collectives[static_cast<std::size_t>(comm.rank)].push_back(task);
  }
  ++comm.waiting;
  advance(*comm.clique);
}

// Until other threads have brought what the communicator's tasks wait for.
ncclResult_t await(ncclComm& comm) {
  std::unique_lock lock(comm.clique->mutex);
  comm.clique->launched.wait(lock, [&] { return comm.waiting == 0 || comm.clique->aborted; });
  return comm.waiting == 0 ? comm.failed : ncclRemoteError;
}

ncclResult_t end() {
  const std::vector<Task> tasks = std::exchange(group.tasks, {});
  ncclResult_t status = std::exchange(group.failed, ncclSuccess);
  if (status != ncclSuccess) return status;
  for (const Task& task : tasks) post(task);
  for (const Task& task : tasks)
    if (const ncclResult_t waited = await(*task.communicator); waited != ncclSuccess) status = waited;
  return status;
}

bool captured(const Task& task) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const OnDevice here(task.communicator->device);
  return cudaStreamIsCapturing(task.stream, &status) != cudaSuccess || status != cudaStreamCaptureStatusNone;
}

ncclResult_t check(const char* function, const Task& task) {
  if (task.communicator == nullptr) return ncclInvalidArgument;
  const int ranks = static_cast<int>(task.communicator->clique->ranks.size());
  if (task.peer < 0 || task.peer >= ranks) return ncclInvalidArgument;
  if (element_bytes(task.type) == 0)
    return refuse(ncclInvalidArgument, function, "no such type of elements here");
  const auto op = task.communicator->operators.find(task.op);
  const bool known = op != task.communicator->operators.end();
  if (task.op < 0 || (task.op >= ncclNumOps && (!known || op->second.type != task.type)))
    return ncclInvalidArgument;
  if (captured(task)) return refuse(ncclInvalidUsage, function, "cannot be captured here");
  return ncclSuccess;
}

ncclResult_t add(const char* function, const Task& task) {
  const ncclResult_t checked = check(function, task);
  if (checked != ncclSuccess) {
    if (group.depth > 0) group.failed = checked;
    return checked;
  }
  if (task.count == 0) return ncclSuccess;
  group.tasks.push_back(task);
  return group.depth > 0 ? ncclSuccess : end();
}

std::uint64_t address(const void* pointer) {
  return reinterpret_cast<std::uint64_t>(pointer);
}

}  // namespace

SOFTGPU_NCCL_BOTH(ncclGroupStart, (), ()) {
  ++group.depth;
  return ncclSuccess;
}
SOFTGPU_NCCL_BOTH(ncclGroupEnd, (), ()) {
  if (group.depth == 0) return ncclInvalidUsage;
  return --group.depth == 0 ? end() : ncclSuccess;
}

#define SOFTGPU_COLLECTIVE(function, parameters, arguments, ...) \
  SOFTGPU_NCCL_BOTH(function, parameters, arguments) {           \
    return add(#function, __VA_ARGS__);                          \
  }

SOFTGPU_COLLECTIVE(ncclAllReduce,
                   (const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                    ncclComm_t comm, cudaStream_t stream),
                   (from, to, count, type, op, comm, stream),
                   {Kind::all_reduce, comm, address(from), address(to), count, type, op, 0, stream})
SOFTGPU_COLLECTIVE(ncclReduce,
                   (const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                    ncclComm_t comm, cudaStream_t stream),
                   (from, to, count, type, op, root, comm, stream),
                   {Kind::reduce, comm, address(from), address(to), count, type, op, root, stream})
SOFTGPU_COLLECTIVE(ncclReduceScatter,
                   (const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                    ncclComm_t comm, cudaStream_t stream),
                   (from, to, count, type, op, comm, stream),
                   {Kind::reduce_scatter, comm, address(from), address(to), count, type, op, 0, stream})
SOFTGPU_COLLECTIVE(ncclBroadcast,
                   (const void* from, void* to, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                    cudaStream_t stream),
                   (from, to, count, type, root, comm, stream),
                   {Kind::broadcast, comm, address(from), address(to), count, type, ncclSum, root, stream})
SOFTGPU_COLLECTIVE(ncclBcast,
                   (void* buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                    cudaStream_t stream),
                   (buffer, count, type, root, comm, stream),
                   {Kind::broadcast, comm, address(buffer), address(buffer), count, type, ncclSum, root,
                    stream})
SOFTGPU_COLLECTIVE(ncclAllGather,
                   (const void* from, void* to, size_t count, ncclDataType_t type, ncclComm_t comm,
                    cudaStream_t stream),
                   (from, to, count, type, comm, stream),
                   {Kind::all_gather, comm, address(from), address(to), count, type, ncclSum, 0, stream})
SOFTGPU_COLLECTIVE(ncclAlltoAll,
                   (const void* from, void* to, size_t count, ncclDataType_t type, ncclComm_t comm,
                    cudaStream_t stream),
                   (from, to, count, type, comm, stream),
                   {Kind::all_to_all, comm, address(from), address(to), count, type, ncclSum, 0, stream})
SOFTGPU_COLLECTIVE(ncclGather,
                   (const void* from, void* to, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                    cudaStream_t stream),
                   (from, to, count, type, root, comm, stream),
                   {Kind::gather, comm, address(from), address(to), count, type, ncclSum, root, stream})
SOFTGPU_COLLECTIVE(ncclScatter,
                   (const void* from, void* to, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                    cudaStream_t stream),
                   (from, to, count, type, root, comm, stream),
                   {Kind::scatter, comm, address(from), address(to), count, type, ncclSum, root, stream})
SOFTGPU_COLLECTIVE(ncclSend,
                   (const void* from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                    cudaStream_t stream),
                   (from, count, type, peer, comm, stream),
                   {Kind::send, comm, address(from), 0, count, type, ncclSum, peer, stream})
SOFTGPU_COLLECTIVE(ncclRecv,
                   (void* to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                    cudaStream_t stream),
                   (to, count, type, peer, comm, stream),
                   {Kind::receive, comm, 0, address(to), count, type, ncclSum, peer, stream})
