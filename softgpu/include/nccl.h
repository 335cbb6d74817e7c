/* The part of NCCL's C interface that pooch follows and the software GPU serves, for machines without NCCL's
 * header: no distribution's CUDA packages bring it. Names, values and layouts are those of nccl.h in
 * NCCL 2.28.9 (https://github.com/NVIDIA/nccl, src/nccl.h.in), whose ABI is stable within libnccl.so.2.
 * tests/contract/nccl_header.py compares the two where that header is installed. Each function has a second
 * name for profilers, with a p. */
#pragma once

#include <driver_types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ncclComm* ncclComm_t;
typedef struct ncclWindow_vidmem* ncclWindow_t;
typedef struct ncclConfig_v22800 ncclConfig_t;
typedef struct ncclSimInfo_v22200 ncclSimInfo_t;

#define NCCL_UNIQUE_ID_BYTES 128
typedef struct {
  char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

typedef enum {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7
} ncclResult_t;

/* Values from ncclNumOps on name operators that ncclRedOpCreatePreMulSum made. */
typedef enum {
  ncclSum = 0,
  ncclProd = 1,
  ncclMax = 2,
  ncclMin = 3,
  ncclAvg = 4,
  ncclNumOps = 5,
  ncclMaxRedOp = 0x7fffffff
} ncclRedOp_t;

typedef enum {
  ncclInt8 = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclFloat32 = 7,
  ncclFloat64 = 8,
  ncclBfloat16 = 9,
  ncclFloat8e4m3 = 10,
  ncclFloat8e5m2 = 11
} ncclDataType_t;

typedef enum { ncclScalarDevice = 0, ncclScalarHostImmediate = 1 } ncclScalarResidence_t;

#define POOCH_NCCL(function, parameters) \
  ncclResult_t function parameters;      \
  ncclResult_t p##function parameters;

POOCH_NCCL(ncclGetVersion, (int* version))
POOCH_NCCL(ncclGetUniqueId, (ncclUniqueId * uniqueId))
const char* ncclGetErrorString(ncclResult_t result);
const char* pncclGetErrorString(ncclResult_t result);
const char* ncclGetLastError(ncclComm_t comm);
const char* pncclGetLastError(ncclComm_t comm);

POOCH_NCCL(ncclCommInitRank, (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank))
POOCH_NCCL(ncclCommInitRankConfig,
           (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank, ncclConfig_t* config))
POOCH_NCCL(ncclCommInitAll, (ncclComm_t * comm, int ndev, const int* devlist))
POOCH_NCCL(ncclCommFinalize, (ncclComm_t comm))
POOCH_NCCL(ncclCommDestroy, (ncclComm_t comm))
POOCH_NCCL(ncclCommAbort, (ncclComm_t comm))
POOCH_NCCL(ncclCommGetAsyncError, (ncclComm_t comm, ncclResult_t* asyncError))
POOCH_NCCL(ncclCommCount, (const ncclComm_t comm, int* count))
POOCH_NCCL(ncclCommCuDevice, (const ncclComm_t comm, int* device))
POOCH_NCCL(ncclCommUserRank, (const ncclComm_t comm, int* rank))

POOCH_NCCL(ncclMemAlloc, (void** ptr, size_t size))
POOCH_NCCL(ncclMemFree, (void* ptr))
POOCH_NCCL(ncclCommRegister, (const ncclComm_t comm, void* buff, size_t size, void** handle))
POOCH_NCCL(ncclCommDeregister, (const ncclComm_t comm, void* handle))
POOCH_NCCL(ncclCommWindowRegister,
           (ncclComm_t comm, void* buff, size_t size, ncclWindow_t* win, int winFlags))
POOCH_NCCL(ncclCommWindowDeregister, (ncclComm_t comm, ncclWindow_t win))
POOCH_NCCL(ncclRedOpCreatePreMulSum, (ncclRedOp_t * op, void* scalar, ncclDataType_t datatype,
                                      ncclScalarResidence_t residence, ncclComm_t comm))
POOCH_NCCL(ncclRedOpDestroy, (ncclRedOp_t op, ncclComm_t comm))

POOCH_NCCL(ncclAllReduce, (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream))
POOCH_NCCL(ncclReduce, (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream))
POOCH_NCCL(ncclReduceScatter, (const void* sendbuff, void* recvbuff, size_t recvcount,
                               ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream))
POOCH_NCCL(ncclBroadcast, (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                           int root, ncclComm_t comm, cudaStream_t stream))
POOCH_NCCL(ncclBcast, (void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                       cudaStream_t stream))
POOCH_NCCL(ncclAllGather, (const void* sendbuff, void* recvbuff, size_t sendcount, ncclDataType_t datatype,
                           ncclComm_t comm, cudaStream_t stream))
POOCH_NCCL(ncclAlltoAll, (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                          ncclComm_t comm, cudaStream_t stream))
POOCH_NCCL(ncclGather, (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                        ncclComm_t comm, cudaStream_t stream))
POOCH_NCCL(ncclScatter, (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                         int root, ncclComm_t comm, cudaStream_t stream))
POOCH_NCCL(ncclSend, (const void* sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                      cudaStream_t stream))
POOCH_NCCL(ncclRecv, (void* recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                      cudaStream_t stream))

POOCH_NCCL(ncclGroupStart, (void))
POOCH_NCCL(ncclGroupEnd, (void))
POOCH_NCCL(ncclGroupSimulateEnd, (ncclSimInfo_t * simInfo))

#undef POOCH_NCCL

#ifdef __cplusplus
}
#endif
