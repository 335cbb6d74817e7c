// collectives_program train|threads|kinds|registered|own|too_large: two devices that work on the same with
// NCCL, with more memory on each than the cap. Prints hashes of what came out.
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <string_view>
#include <thread>
#include <vector>

#include "ok.h"
#include "softgpu/include/nccl.h"

namespace {

constexpr std::size_t bytes = std::size_t{8} << 20, count = bytes / sizeof(float);
constexpr int layers = 6, ranks = 2;
decltype(&ncclAllReduce) reduce_all = &ncclAllReduce;

// One rank: weights and gradients on one device, a stream for computing and one for NCCL.
struct Rank {
  int number;
  cudaStream_t compute = nullptr, communicate = nullptr;
  cudaEvent_t computed = nullptr, reduced = nullptr;
  cublasHandle_t blas = nullptr;
  ncclComm_t comm = nullptr;
  std::vector<float*> weights, gradients;

  explicit Rank(int which) : number(which) {
    OK(cudaSetDevice(number));
    OK(cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking));
    OK(cudaStreamCreateWithFlags(&communicate, cudaStreamNonBlocking));
    OK(cudaEventCreateWithFlags(&computed, cudaEventDisableTiming));
    OK(cudaEventCreateWithFlags(&reduced, cudaEventDisableTiming));
    OK(cublasCreate(&blas));
    OK(cublasSetStream(blas, compute));
    for (int layer = 0; layer < layers; ++layer) {
      weights.push_back(filled(static_cast<float>(layer)));
      gradients.push_back(filled(static_cast<float>(10 * number + layer)));
    }
  }

  float* filled(float first) const {
    std::vector<float> content(count);
    for (std::size_t i = 0; i < count; ++i) content[i] = first + static_cast<float>(i % 7);
    float* made = nullptr;
    OK(cudaMalloc(reinterpret_cast<void**>(&made), bytes));
    OK(cudaMemcpyAsync(made, content.data(), bytes, cudaMemcpyHostToDevice, compute));
    OK(cudaStreamSynchronize(compute));
    return made;
  }

  // gradient += weight / 2, as a backward pass would.
  void backward(int layer) const {
    const float half = 0.5F;
    OK(cudaSetDevice(number));
    OK(cublasSaxpy(blas, static_cast<int>(count), &half, weights[layer], 1, gradients[layer], 1));
    OK(cudaEventRecord(computed, compute));
    OK(cudaStreamWaitEvent(communicate, computed, 0));
  }
  ncclResult_t all_reduce(int layer) const {
    return reduce_all(gradients[layer], gradients[layer], count, ncclFloat32, ncclAvg, comm, communicate);
  }
  void update() const {
    const float rate = -0.125F;
    OK(cudaSetDevice(number));
    OK(cudaEventRecord(reduced, communicate));
    OK(cudaStreamWaitEvent(compute, reduced, 0));
    for (int layer = 0; layer < layers; ++layer)
      OK(cublasSaxpy(blas, static_cast<int>(count), &rate, gradients[layer], 1, weights[layer], 1));
  }

  void print(const char* what, const float* memory, std::size_t length = count) const {
    OK(cudaSetDevice(number));
    OK(cudaStreamSynchronize(communicate));
    std::vector<std::uint32_t> content(length);
    OK(cudaMemcpyAsync(content.data(), memory, length * sizeof(float), cudaMemcpyDeviceToHost, compute));
    OK(cudaStreamSynchronize(compute));
    std::uint64_t hash = 1;
    for (const std::uint32_t word : content) hash = (hash ^ word) * 0x100000001b3;
    std::printf("%s %d %016llx\n", what, number, static_cast<unsigned long long>(hash));
  }
  void print_all() const {
    for (const float* each : weights) print("weights", each);
    for (const float* each : gradients) print("gradients", each);
  }
  // Everything is used once, so that whatever may leave the device does.
  void churn() const {
    for (int layer = 0; layer < layers; ++layer) backward(layer);
    OK(cudaStreamSynchronize(compute));
  }
};

// As DistributedDataParallel does it, but all ranks in one thread: a group per gradient.
void train(std::vector<Rank>& all) {
  for (int step = 0; step < 4; ++step) {
    for (int layer = layers; layer-- > 0;) {
      for (const Rank& rank : all) rank.backward(layer);
      OK(ncclGroupStart());
      for (const Rank& rank : all) OK(rank.all_reduce(layer));
      OK(ncclGroupEnd());
    }
    for (const Rank& rank : all) rank.update();
  }
  for (const Rank& rank : all) rank.print_all();
}

// A thread per rank, and no groups; the function looked up by the name that profilers use.
void threads() {
  void* const found = dlsym(dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL), "pncclAllReduce");
  if (found == nullptr) std::exit(1);
  reduce_all = reinterpret_cast<decltype(reduce_all)>(found);
  ncclUniqueId id;
  OK(ncclGetUniqueId(&id));
  std::vector<Rank> all;
  for (int number = 0; number < ranks; ++number) all.emplace_back(number);
  const auto work = [&](Rank& rank) {
    OK(cudaSetDevice(rank.number));
    OK(ncclCommInitRank(&rank.comm, ranks, id, rank.number));
    for (int step = 0; step < 4; ++step) {
      for (int layer = layers; layer-- > 0;) {
        rank.backward(layer);
        OK(rank.all_reduce(layer));
      }
      rank.update();
    }
    OK(cudaStreamSynchronize(rank.compute));
  };
  std::vector<std::thread> running;
  for (Rank& rank : all) running.emplace_back(work, std::ref(rank));
  for (std::thread& one : running) one.join();
  for (const Rank& rank : all) rank.print_all();
  for (const Rank& rank : all) OK(ncclCommDestroy(rank.comm));
}

template <class Call>
void grouped(std::vector<Rank>& all, Call call) {
  OK(ncclGroupStart());
  for (const Rank& rank : all) call(rank);
  OK(ncclGroupEnd());
}

// Every collective, each with operands of its own, then with the results of the one before.
void kinds(std::vector<Rank>& all) {
  constexpr std::size_t part = count / ranks;
  ncclRedOp_t third[ranks];
  float* factor[ranks];
  for (const Rank& rank : all) {
    OK(cudaSetDevice(rank.number));
    const float value = 0.25F;
    OK(cudaMalloc(reinterpret_cast<void**>(&factor[rank.number]), bytes));  // large enough to leave
    OK(cudaMemcpyAsync(factor[rank.number], &value, sizeof value, cudaMemcpyHostToDevice, rank.communicate));
    OK(cudaStreamSynchronize(rank.communicate));
    OK(ncclRedOpCreatePreMulSum(&third[rank.number], factor[rank.number], ncclFloat32, ncclScalarDevice,
                                rank.comm));
  }
  const ncclDataType_t type = ncclFloat32;
  const auto g = [](const Rank& rank, int which) { return rank.gradients[which]; };
  const auto w = [](const Rank& rank, int which) { return rank.weights[which]; };
  for (int round = 0; round < 2; ++round) {
    grouped(all, [&](const Rank& r) {
      OK(ncclReduce(g(r, 0), w(r, 0), count, type, ncclMax, 1, r.comm, r.communicate));
    });
    grouped(all, [&](const Rank& r) {
      OK(ncclReduceScatter(g(r, 1), w(r, 1), part, type, ncclSum, r.comm, r.communicate));
    });
    grouped(all, [&](const Rank& r) {
      OK(ncclAllGather(w(r, 2) + r.number * part, w(r, 2), part, type, r.comm, r.communicate));
    });
    grouped(all, [&](const Rank& r) {
      OK(ncclBroadcast(g(r, 3), w(r, 3), count, type, 1, r.comm, r.communicate));
      OK(ncclBcast(g(r, 4), count, type, 0, r.comm, r.communicate));
    });
    grouped(all,
            [&](const Rank& r) { OK(ncclAlltoAll(g(r, 5), w(r, 5), part, type, r.comm, r.communicate)); });
    grouped(all,
            [&](const Rank& r) { OK(ncclGather(g(r, 1), w(r, 4), part, type, 0, r.comm, r.communicate)); });
    grouped(all,
            [&](const Rank& r) { OK(ncclScatter(w(r, 5), g(r, 2), part, type, 1, r.comm, r.communicate)); });
    grouped(all, [&](const Rank& r) {
      OK(ncclSend(w(r, 0), count, type, 1 - r.number, r.comm, r.communicate));
      OK(ncclRecv(g(r, 0), count, type, 1 - r.number, r.comm, r.communicate));
    });
    grouped(all, [&](const Rank& r) {
      OK(ncclAllReduce(g(r, 3), w(r, 1), count, type, third[r.number], r.comm, r.communicate));
    });
  }
  for (const Rank& rank : all) {
    OK(ncclRedOpDestroy(third[rank.number], rank.comm));
    rank.print_all();
  }
}

// Memory that NCCL knows by its address: the software NCCL reaches for it in every call.
void registered(std::vector<Rank>& all) {
  std::vector<void*> handles(ranks);
  std::vector<ncclWindow_t> windows(ranks);
  for (const Rank& rank : all) {
    OK(cudaSetDevice(rank.number));
    OK(ncclCommRegister(rank.comm, rank.gradients[0], bytes, &handles[rank.number]));
  }
  grouped(all, [&](const Rank& r) {
    OK(ncclCommWindowRegister(r.comm, r.weights[0], bytes / 2, &windows[r.number], 0));
  });
  const auto exchange = [&] {
    for (int step = 0; step < 3; ++step) {
      for (const Rank& rank : all) rank.churn();
      grouped(all, [](const Rank& r) { OK(r.all_reduce(3)); });
      for (const Rank& rank : all) rank.update();
    }
  };
  exchange();
  for (const Rank& rank : all) {
    OK(ncclCommDeregister(rank.comm, handles[rank.number]));
    OK(ncclCommWindowDeregister(rank.comm, windows[rank.number]));
  }
  exchange();
  for (const Rank& rank : all) rank.print_all();
}

// Memory that NCCL allocates.
void own(std::vector<Rank>& all) {
  std::vector<float*> memory(ranks);
  for (const Rank& rank : all) {
    OK(cudaSetDevice(rank.number));
    OK(ncclMemAlloc(reinterpret_cast<void**>(&memory[rank.number]), bytes));
    OK(cudaMemcpyAsync(memory[rank.number], rank.gradients[1], bytes, cudaMemcpyDeviceToDevice,
                       rank.communicate));
    OK(cudaStreamSynchronize(rank.communicate));
  }
  for (int step = 0; step < 3; ++step) {
    for (const Rank& rank : all) rank.churn();
    grouped(all, [&](const Rank& r) {
      OK(ncclAllReduce(memory[r.number], memory[r.number], count, ncclFloat32, ncclSum, r.comm,
                       r.communicate));
    });
  }
  for (const Rank& rank : all) {
    rank.print("NCCL's", memory[rank.number]);
    OK(cudaSetDevice(rank.number));
    OK(ncclMemFree(memory[rank.number]));
    rank.print_all();
  }
}

// A group whose operands do not fit on the device together.
void too_large(std::vector<Rank>& all) {
  OK(ncclGroupStart());
  for (const Rank& rank : all)
    for (int layer = 0; layer < layers; ++layer) {
      OK(ncclAllReduce(rank.weights[layer], rank.gradients[layer], count, ncclFloat32, ncclSum, rank.comm,
                       rank.communicate));
    }
  std::printf("the group gives %d\n", ncclGroupEnd());
  std::printf("another gives %d\n", all.front().all_reduce(0));
}

}  // namespace

int main(int words, char** word) {
  const std::string_view scenario = words == 2 ? word[1] : "";
  if (scenario == "threads") {
    threads();
  } else {
    std::vector<Rank> all;
    for (int number = 0; number < ranks; ++number) all.emplace_back(number);
    ncclComm_t comms[ranks];
    OK(ncclCommInitAll(comms, ranks, nullptr));
    for (Rank& rank : all) rank.comm = comms[rank.number];
    if (scenario == "train")
      train(all);
    else if (scenario == "kinds")
      kinds(all);
    else if (scenario == "registered")
      registered(all);
    else if (scenario == "own")
      own(all);
    else if (scenario == "too_large")
      too_large(all);
    else
      return 2;
    if (scenario != "too_large")
      for (const Rank& rank : all) OK(ncclCommDestroy(rank.comm));
  }
  std::puts("done");
  return 0;
}
