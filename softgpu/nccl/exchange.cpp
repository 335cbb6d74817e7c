#include "softgpu/nccl/exchange.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <memory>

#include "softgpu/hash.h"
#include "softgpu/nccl/communicator.h"

namespace softgpu::nccl {
namespace {

bool computing = false;  // kernels run: the device computes, and does not only keep time

void over(Exchange* exchange) {
  if (--exchange->kernels_to_run == 0) delete exchange;
}

const Operator* operator_of(const Task& task) {
  const auto found = task.communicator->operators.find(task.op);
  return found == task.communicator->operators.end() ? nullptr : &found->second;
}

void touch(Footprint& out, std::uint64_t address, std::uint64_t bytes, TouchKind kind) {
  if (address != 0 && bytes > 0) out.touches.push_back({address, bytes, kind});
}

std::uint64_t buffers_of(const Task& task) {
  return reinterpret_cast<std::uint64_t>(task.communicator->buffers);
}

// What goes into the result besides what is read, and is no address.
std::uint64_t identity_of(const Task& task) {
  const Operator* const op = operator_of(task);
  Hash hash;
  hash.add(static_cast<std::uint64_t>(task.kind)).add(static_cast<std::uint64_t>(task.type)).add(task.count);
  hash.add(op != nullptr ? std::bit_cast<std::uint64_t>(op->value) : static_cast<std::uint64_t>(task.op));
  return hash.add(static_cast<std::uint64_t>(task.peer)).value();
}

// A device that only keeps time does not run it.
struct Probe {
  static constexpr const char* name = "nccl_probe";
  static constexpr std::size_t pointers = 0;
  struct Args {
    bool* runs;
  };
  static void footprint(const Pointers<0>&, const Args&, Footprint&) {}
  static void run(const Pointers<0>&, const Args& a) { *a.runs = true; }
};

struct Give {
  static constexpr const char* name = "nccl_give";
  static constexpr std::size_t pointers = 0;
  struct Args {
    Exchange* exchange;
    std::uint64_t number;  // of the task
  };
  static void footprint(const Pointers<0>&, const Args& a, Footprint& out) {
    const Task& task = a.exchange->tasks[a.number];
    const std::uint64_t bytes = a.exchange->given_bytes(a.number);
    out.kind = "collective";
    out.scalars = identity_of(task);
    out.tells = a.exchange->told[a.number];
    touch(out, task.send, bytes, TouchKind::read);
    touch(out, buffers_of(task), std::min(bytes, buffer_bytes), TouchKind::write);
    if (const Operator* const op = operator_of(task))
      touch(out, op->address, element_bytes(op->type), TouchKind::read);
  }
  static void run(const Pointers<0>&, const Args& a) {
    const Task& task = a.exchange->tasks[a.number];
    const auto* const from = device_memory<const std::byte>(task.send);
    auto& staged = a.exchange->staged[a.number];
    staged.assign(from, from + a.exchange->given_bytes(a.number));
    if (const Operator* const op = operator_of(task))
      scale(staged, op->type,
            op->address == 0 ? op->value : number_at(device_memory<>(op->address), op->type));
    over(a.exchange);
  }
};

struct Take {
  static constexpr const char* name = "nccl_take";
  static constexpr std::size_t pointers = 0;
  using Args = Give::Args;
  static void footprint(const Pointers<0>&, const Args& a, Footprint& out) {
    const Task& task = a.exchange->tasks[a.number];
    out.kind = "collective";
    out.bytes = a.exchange->wire_bytes();
    const bool alike =
        task.kind == Kind::all_reduce || task.kind == Kind::all_gather || task.kind == Kind::broadcast;
    const auto rank = static_cast<std::uint64_t>(task.communicator->rank);
    out.scalars = Hash(identity_of(task)).add(alike ? 0 : rank).value();
    out.hears.assign(a.exchange->told.begin(), a.exchange->told.end());
    touch(out, buffers_of(task), std::min(a.exchange->given_bytes(a.number), buffer_bytes), TouchKind::read);
    touch(out, task.receive, a.exchange->taken_bytes(a.number), TouchKind::write);
    // Other devices and the network know registered memory by its address, whatever the call is about.
    for (const auto& [handle, memory] : task.communicator->registered)
      touch(out, memory.address, memory.bytes, TouchKind::reach);
  }
  static void run(const Pointers<0>&, const Args& a) {
    const Exchange& exchange = *a.exchange;
    const Task& task = exchange.tasks[a.number];
    const std::uint64_t bytes = exchange.taken_bytes(a.number);
    auto* to = device_memory<std::byte>(task.receive);
    const auto part = [&](const std::vector<std::byte>& from, std::uint64_t offset, std::uint64_t length) {
      std::memcpy(to, from.data() + offset, length);
      to += length;
    };
    const std::uint64_t one = task.count * element_bytes(task.type);
    const auto rank = static_cast<std::uint64_t>(task.communicator->rank);
    switch (bytes == 0 ? Kind::send : task.kind) {
      case Kind::send:
        break;
      case Kind::all_reduce:
      case Kind::reduce:
        reduce(exchange, 0, task.count, to);
        break;
      case Kind::reduce_scatter:
        reduce(exchange, rank * task.count, task.count, to);
        break;
      case Kind::broadcast:
        part(exchange.staged[static_cast<std::size_t>(task.peer)], 0, one);
        break;
      case Kind::scatter:
        part(exchange.staged[static_cast<std::size_t>(task.peer)], rank * one, one);
        break;
      case Kind::receive:
        part(exchange.staged.front(), 0, one);
        break;
      case Kind::all_gather:
      case Kind::gather:
        for (const auto& from : exchange.staged) part(from, 0, one);
        break;
      case Kind::all_to_all:
        for (const auto& from : exchange.staged) part(from, rank * one, one);
        break;
    }
    over(a.exchange);
  }
};

bool well(cudaError_t error) {
  return error == cudaSuccess;
}

bool give(Exchange& exchange, std::size_t number) {
  const Task& task = exchange.tasks[number];
  const ncclComm& comm = *task.communicator;
  const OnDevice here(comm.device);
  // One after the other, whatever streams they are in: they share the buffers.
  if (!here.well || !well(cudaStreamWaitEvent(task.stream, comm.done, 0))) return false;
  return kernels().launch<Give>(task.stream, 1, {}, {&exchange, number}) == CUDA_SUCCESS &&
         well(cudaEventRecord(comm.given, task.stream));
}

bool take(Exchange& exchange, std::size_t number) {
  const Task& task = exchange.tasks[number];
  const OnDevice here(task.communicator->device);
  if (!here.well) return false;
  for (const Task& other : exchange.tasks)
    if (!well(cudaStreamWaitEvent(task.stream, other.communicator->given, 0))) return false;
  return kernels().launch<Take>(task.stream, 1, {}, {&exchange, number}) == CUDA_SUCCESS &&
         well(cudaEventRecord(task.communicator->done, task.stream));
}

}  // namespace

KernelLibrary& kernels() {
  static constexpr KernelEntry entries[] = {kernel_entry<Probe>(), kernel_entry<Give>(),
                                            kernel_entry<Take>()};
  static constexpr Image image{.count = std::size(entries), .kernels = entries};
  static auto* const library = new KernelLibrary(image);  // outlives every user
  return *library;
}

bool find_out_whether_kernels_run() {
  return kernels().launch<Probe>(nullptr, 1, {}, {&computing}) == CUDA_SUCCESS &&
         well(cudaStreamSynchronize(nullptr));
}

std::uint64_t Exchange::given_bytes(std::size_t number) const {
  const Task& task = tasks[number];
  const std::uint64_t one = task.count * element_bytes(task.type);
  const bool root = task.communicator->rank == task.peer;
  switch (task.kind) {
    case Kind::receive:
      return 0;
    case Kind::broadcast:
      return root ? one : 0;
    case Kind::scatter:
      return root ? one * tasks.size() : 0;
    case Kind::reduce_scatter:
    case Kind::all_to_all:
      return one * tasks.size();
    default:
      return one;
  }
}

std::uint64_t Exchange::taken_bytes(std::size_t number) const {
  const Task& task = tasks[number];
  const std::uint64_t one = task.count * element_bytes(task.type);
  const bool root = task.communicator->rank == task.peer;
  switch (task.kind) {
    case Kind::send:
      return 0;
    case Kind::reduce:
      return root ? one : 0;
    case Kind::gather:
      return root ? one * tasks.size() : 0;
    case Kind::all_gather:
    case Kind::all_to_all:
      return one * tasks.size();
    default:
      return one;
  }
}

double Exchange::wire_bytes() const {
  const Task& task = tasks.front();
  const auto one = static_cast<double>(task.count * element_bytes(task.type));
  const auto ranks = static_cast<double>(tasks.size());
  switch (task.kind) {
    case Kind::all_reduce:
      return one * 2 * (ranks - 1) / ranks;
    case Kind::reduce_scatter:
    case Kind::all_gather:
    case Kind::all_to_all:
    case Kind::gather:
    case Kind::scatter:
      return one * (ranks - 1);
    default:
      return one;
  }
}

ncclResult_t launch(std::vector<Task> tasks) {
  auto* const exchange = new Exchange{std::move(tasks), {}};
  const std::size_t count = exchange->tasks.size();
  exchange->staged.resize(count);
  for (std::size_t i = 0; i < count; ++i) exchange->told.push_back(std::make_shared<std::uint64_t>());
  exchange->kernels_to_run = static_cast<int>(2 * count) + 1;  // and this function
  bool launched = true;
  for (std::size_t number = 0; launched && number < count; ++number) launched = give(*exchange, number);
  for (std::size_t number = 0; launched && number < count; ++number) launched = take(*exchange, number);
  // Nobody knows which kernels of a failed device still run.
  if (!computing) {
    delete exchange;
  } else if (launched) {
    over(exchange);
  }
  return launched ? ncclSuccess : ncclUnhandledCudaError;
}

}  // namespace softgpu::nccl
