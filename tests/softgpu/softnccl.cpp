// The software NCCL by itself: three devices of one process.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "softgpu/include/nccl.h"

#define CUDA_OK(call) ASSERT_EQ(call, cudaSuccess)
#define NCCL_OK(call) ASSERT_EQ(call, ncclSuccess)

namespace {

constexpr int ranks = 3;

class SoftNccl : public testing::Test {
 protected:
  void SetUp() override {
    NCCL_OK(ncclCommInitAll(comms, ranks, nullptr));
    for (int rank = 0; rank < ranks; ++rank) {
      CUDA_OK(cudaSetDevice(rank));
      CUDA_OK(cudaStreamCreateWithFlags(&streams[rank], cudaStreamNonBlocking));
    }
  }
  void TearDown() override {
    for (int rank = 0; rank < ranks; ++rank) {
      NCCL_OK(ncclCommDestroy(comms[rank]));
      CUDA_OK(cudaStreamDestroy(streams[rank]));
    }
  }

  template <class T>
  T* put(int rank, const std::vector<T>& content) {
    void* made = nullptr;
    EXPECT_EQ(cudaSetDevice(rank), cudaSuccess);
    EXPECT_EQ(cudaMalloc(&made, content.size() * sizeof(T)), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(made, content.data(), content.size() * sizeof(T), cudaMemcpyHostToDevice),
              cudaSuccess);
    return static_cast<T*>(made);
  }
  template <class T>
  std::vector<T> get(int rank, const T* from, std::size_t count) {
    std::vector<T> content(count);
    EXPECT_EQ(cudaSetDevice(rank), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(streams[rank]), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(content.data(), from, count * sizeof(T), cudaMemcpyDeviceToHost), cudaSuccess);
    return content;
  }
  template <class Call>
  ncclResult_t grouped(Call call) {
    EXPECT_EQ(ncclGroupStart(), ncclSuccess);
    for (int rank = 0; rank < ranks; ++rank) (void)call(rank);
    return ncclGroupEnd();
  }
  // What every rank has after an all-reduce in place of one element each.
  template <class T>
  T reduced(const std::vector<T>& each, ncclDataType_t type, ncclRedOp_t op) {
    T* memory[ranks];
    for (int rank = 0; rank < ranks; ++rank)
      memory[rank] = put<T>(rank, std::vector<T>(5, each[static_cast<std::size_t>(rank)]));
    EXPECT_EQ(grouped([&](int rank) {
                return ncclAllReduce(memory[rank], memory[rank], 5, type, op, comms[rank], streams[rank]);
              }),
              ncclSuccess);
    const std::vector<T> first = get(0, memory[0], 5);
    for (int rank = 1; rank < ranks; ++rank) EXPECT_EQ(get(rank, memory[rank], 5), first);
    return first.back();
  }

  ncclComm_t comms[ranks] = {};
  cudaStream_t streams[ranks] = {};
};

TEST_F(SoftNccl, ReducesInTheTypeOfTheElements) {
  const std::vector<float> f{1.5F, -2, 4};
  EXPECT_EQ(reduced(f, ncclFloat32, ncclSum), 3.5F);
  EXPECT_EQ(reduced(f, ncclFloat32, ncclProd), -12.0F);
  EXPECT_EQ(reduced(f, ncclFloat32, ncclMin), -2.0F);
  EXPECT_EQ(reduced(f, ncclFloat32, ncclMax), 4.0F);
  EXPECT_EQ(reduced(f, ncclFloat32, ncclAvg), 3.5F / 3);
  EXPECT_EQ(reduced<double>({1e-9, 1, 1}, ncclFloat64, ncclSum), 1e-9 + 1 + 1);
  EXPECT_EQ(reduced<std::int32_t>({7, -9, 1}, ncclInt32, ncclSum), -1);
  EXPECT_EQ(reduced<std::int64_t>({INT64_C(1) << 40, 2, 3}, ncclInt64, ncclProd), INT64_C(6) << 40);
  EXPECT_EQ(reduced<std::uint8_t>({200, 100, 1}, ncclUint8, ncclSum), 45) << "wraps around";
  EXPECT_EQ(reduced<std::uint16_t>({0x3c00, 0x4000, 0x4200}, ncclFloat16, ncclSum), 0x4600) << "1 + 2 + 3";
  EXPECT_EQ(reduced<std::uint16_t>({0x3f80, 0x4000, 0x4040}, ncclBfloat16, ncclSum), 0x40c0) << "1 + 2 + 3";
}

TEST_F(SoftNccl, MovesPartsWhereTheyBelong) {
  int *from[ranks], *to[ranks];
  const auto refill = [&] {
    for (int rank = 0; rank < ranks; ++rank) {
      from[rank] = put<int>(rank, {10 * rank, 10 * rank + 1, 10 * rank + 2});
      to[rank] = put<int>(rank, {-1, -1, -1});
    }
  };
  const auto expect = [&](int rank, const std::vector<int>& content) {
    EXPECT_EQ(get(rank, to[rank], 3), content) << "rank " << rank;
  };
  refill();
  NCCL_OK(grouped([&](int r) { return ncclAllGather(from[r], to[r], 1, ncclInt32, comms[r], streams[r]); }));
  for (int rank = 0; rank < ranks; ++rank) expect(rank, {0, 10, 20});
  refill();
  NCCL_OK(grouped(
      [&](int r) { return ncclReduceScatter(from[r], to[r], 1, ncclInt32, ncclSum, comms[r], streams[r]); }));
  for (int rank = 0; rank < ranks; ++rank) expect(rank, {30 + 3 * rank, -1, -1});
  refill();
  NCCL_OK(
      grouped([&](int r) { return ncclBroadcast(from[r], to[r], 2, ncclInt32, 1, comms[r], streams[r]); }));
  for (int rank = 0; rank < ranks; ++rank) expect(rank, {10, 11, -1});
  refill();
  NCCL_OK(grouped([&](int r) { return ncclAlltoAll(from[r], to[r], 1, ncclInt32, comms[r], streams[r]); }));
  for (int rank = 0; rank < ranks; ++rank) expect(rank, {rank, 10 + rank, 20 + rank});
  refill();
  NCCL_OK(grouped([&](int r) { return ncclGather(from[r], to[r], 1, ncclInt32, 2, comms[r], streams[r]); }));
  expect(0, {-1, -1, -1});
  expect(2, {0, 10, 20});
  refill();
  NCCL_OK(grouped([&](int r) { return ncclScatter(from[r], to[r], 1, ncclInt32, 1, comms[r], streams[r]); }));
  for (int rank = 0; rank < ranks; ++rank) expect(rank, {10 + rank, -1, -1});
  refill();
  NCCL_OK(grouped(
      [&](int r) { return ncclReduce(from[r], to[r], 3, ncclInt32, ncclMax, 0, comms[r], streams[r]); }));
  expect(0, {20, 21, 22});
  expect(1, {-1, -1, -1});
}

TEST_F(SoftNccl, SendsMeetReceives) {
  int *from[ranks], *to[ranks];
  for (int rank = 0; rank < ranks; ++rank) {
    from[rank] = put<int>(rank, {rank});
    to[rank] = put<int>(rank, {-1});
  }
  NCCL_OK(grouped([&](int r) {
    (void)ncclSend(from[r], 1, ncclInt32, (r + 1) % ranks, comms[r], streams[r]);
    return ncclRecv(to[r], 1, ncclInt32, (r + ranks - 1) % ranks, comms[r], streams[r]);
  }));
  for (int rank = 0; rank < ranks; ++rank)
    EXPECT_EQ(get(rank, to[rank], 1).front(), (rank + ranks - 1) % ranks);
}

TEST_F(SoftNccl, OperatorsMultiplyFirst) {
  ncclRedOp_t op[ranks];
  float *memory[ranks], factor = 0.5F;
  for (int rank = 0; rank < ranks; ++rank) {
    memory[rank] = put<float>(rank, {2});
    if (rank == 0)
      NCCL_OK(ncclRedOpCreatePreMulSum(&op[0], &factor, ncclFloat32, ncclScalarHostImmediate, comms[0]));
    else
      NCCL_OK(ncclRedOpCreatePreMulSum(&op[rank], put<float>(rank, {0.5F}), ncclFloat32, ncclScalarDevice,
                                       comms[rank]));
  }
  NCCL_OK(grouped([&](int r) {
    return ncclAllReduce(memory[r], memory[r], 1, ncclFloat32, op[r], comms[r], streams[r]);
  }));
  EXPECT_EQ(get(2, memory[2], 1).front(), 3.0F);
  NCCL_OK(ncclRedOpDestroy(op[1], comms[1]));
  EXPECT_EQ(ncclAllReduce(memory[1], memory[1], 1, ncclFloat32, op[1], comms[1], streams[1]),
            ncclInvalidArgument);
}

TEST_F(SoftNccl, TakesTheTimeOfTheWire) {
  constexpr std::size_t bytes = std::size_t{30} << 20;
  float* memory[ranks];
  cudaEvent_t begin, end;
  for (int rank = 0; rank < ranks; ++rank) memory[rank] = put<float>(rank, std::vector<float>(bytes / 4, 1));
  CUDA_OK(cudaSetDevice(0));
  CUDA_OK(cudaEventCreate(&begin));
  CUDA_OK(cudaEventCreate(&end));
  CUDA_OK(cudaEventRecord(begin, streams[0]));
  NCCL_OK(grouped([&](int r) {
    return ncclAllReduce(memory[r], memory[r], bytes / 4, ncclFloat32, ncclSum, comms[r], streams[r]);
  }));
  CUDA_OK(cudaSetDevice(0));
  CUDA_OK(cudaEventRecord(end, streams[0]));
  CUDA_OK(cudaEventSynchronize(end));
  float milliseconds = 0;
  CUDA_OK(cudaEventElapsedTime(&milliseconds, begin, end));
  EXPECT_NEAR(milliseconds, static_cast<double>(bytes) * 4 / 3 / 10e9 * 1e3, 0.1);
}

TEST_F(SoftNccl, RefusesWhatItCannotDo) {
  float* const memory = put<float>(0, {1});
  EXPECT_EQ(ncclAllReduce(memory, memory, 1, ncclFloat8e4m3, ncclSum, comms[0], streams[0]),
            ncclInvalidArgument);
  EXPECT_EQ(ncclSend(memory, 1, ncclFloat32, ranks, comms[0], streams[0]), ncclInvalidArgument);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
  EXPECT_EQ(
      grouped([&](int r) { return ncclBcast(memory, r == 0 ? 1 : 2, ncclFloat32, 0, comms[r], streams[r]); }),
      ncclInvalidUsage)
      << "counts that do not fit together";
  ncclUniqueId id;
  ncclComm_t first = nullptr, second = nullptr;
  NCCL_OK(ncclGetUniqueId(&id));
  CUDA_OK(cudaSetDevice(1));
  NCCL_OK(ncclCommInitRank(&first, 2, id, 0));
  EXPECT_EQ(ncclCommInitRank(&second, 2, id, 1), ncclInvalidUsage) << "two ranks on one device";
  NCCL_OK(ncclCommDestroy(first));
  id.internal[8] ^= 1;  // another process's
  EXPECT_EQ(ncclCommInitRank(&first, 2, id, 0), ncclSystemError);
}

}  // namespace
