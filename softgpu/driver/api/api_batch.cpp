// Batches: each is the calls that it stands for, one after the other.
#include "softgpu/driver/api/api.h"

SOFTGPU_OWN(cuStreamWaitValue32_v2)
SOFTGPU_OWN(cuStreamWaitValue32_v2_ptsz)
SOFTGPU_OWN(cuStreamWaitValue64_v2)
SOFTGPU_OWN(cuStreamWaitValue64_v2_ptsz)
SOFTGPU_OWN(cuStreamWriteValue32_v2)
SOFTGPU_OWN(cuStreamWriteValue32_v2_ptsz)
SOFTGPU_OWN(cuStreamWriteValue64_v2)
SOFTGPU_OWN(cuStreamWriteValue64_v2_ptsz)
SOFTGPU_OWN(cuMemcpyAsync)
SOFTGPU_OWN(cuMemcpyAsync_ptsz)
SOFTGPU_OWN(cuMemcpy2DAsync_v2)
SOFTGPU_OWN(cuMemcpy2DAsync_v2_ptsz)

using namespace softgpu;

namespace {

CUresult batch_of_values(bool per_thread, CUstream s, unsigned count, CUstreamBatchMemOpParams* ops) {
  if (ops == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUresult status = CUDA_SUCCESS;
  for (unsigned i = 0; i < count && status == CUDA_SUCCESS; ++i) {
    const auto& wait = ops[i].waitValue;
    const auto& write = ops[i].writeValue;
    switch (ops[i].operation) {
      case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        status = (per_thread ? softgpu_cuStreamWaitValue32_v2_ptsz : softgpu_cuStreamWaitValue32_v2)(
            s, wait.address, wait.value, wait.flags);
        break;
      case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        status = (per_thread ? softgpu_cuStreamWaitValue64_v2_ptsz : softgpu_cuStreamWaitValue64_v2)(
            s, wait.address, wait.value64, wait.flags);
        break;
      case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        status = (per_thread ? softgpu_cuStreamWriteValue32_v2_ptsz : softgpu_cuStreamWriteValue32_v2)(
            s, write.address, write.value, write.flags);
        break;
      case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        status = (per_thread ? softgpu_cuStreamWriteValue64_v2_ptsz : softgpu_cuStreamWriteValue64_v2)(
            s, write.address, write.value64, write.flags);
        break;
      case CU_STREAM_MEM_OP_BARRIER:
      case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
        break;
      default:
        status = CUDA_ERROR_INVALID_VALUE;
    }
  }
  return status;
}

CUresult batch_of_copies(bool per_thread, CUdeviceptr* to, CUdeviceptr* from, size_t* sizes, size_t count,
                         CUstream s) {
  if (to == nullptr || from == nullptr || sizes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUresult status = CUDA_SUCCESS;
  for (size_t i = 0; i < count && status == CUDA_SUCCESS; ++i)
    status = (per_thread ? softgpu_cuMemcpyAsync_ptsz : softgpu_cuMemcpyAsync)(to[i], from[i], sizes[i], s);
  return status;
}

// Each layer is a copy of two dimensions. Arrays there are none.
CUresult batch_of_boxes(bool per_thread, size_t count, CUDA_MEMCPY3D_BATCH_OP* ops, CUstream s) {
  if (ops == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    const CUDA_MEMCPY3D_BATCH_OP& op = ops[i];
    if (op.src.type != CU_MEMCPY_OPERAND_TYPE_POINTER || op.dst.type != CU_MEMCPY_OPERAND_TYPE_POINTER)
      return CUDA_ERROR_NOT_SUPPORTED;
    const auto &from = op.src.op.ptr, &to = op.dst.op.ptr;
    CUDA_MEMCPY2D layer = {};
    layer.srcMemoryType = layer.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
    layer.WidthInBytes = op.extent.width;
    layer.Height = op.extent.height;
    layer.srcPitch = from.rowLength == 0 ? op.extent.width : from.rowLength;
    layer.dstPitch = to.rowLength == 0 ? op.extent.width : to.rowLength;
    for (size_t z = 0; z < op.extent.depth; ++z) {
      layer.srcDevice =
          from.ptr + z * layer.srcPitch * (from.layerHeight == 0 ? op.extent.height : from.layerHeight);
      layer.dstDevice =
          to.ptr + z * layer.dstPitch * (to.layerHeight == 0 ? op.extent.height : to.layerHeight);
      const CUresult status =
          (per_thread ? softgpu_cuMemcpy2DAsync_v2_ptsz : softgpu_cuMemcpy2DAsync_v2)(&layer, s);
      if (status != CUDA_SUCCESS) return status;
    }
  }
  return CUDA_SUCCESS;
}

}  // namespace

#define SOFTGPU_VALUES(function, per_thread)                                                      \
  SOFTGPU_EXPORT(function)(CUstream s, unsigned count, CUstreamBatchMemOpParams* ops, unsigned) { \
    return batch_of_values(per_thread, s, count, ops);                                            \
  }
SOFTGPU_VALUES(cuStreamBatchMemOp, false)
SOFTGPU_VALUES(cuStreamBatchMemOp_ptsz, true)
SOFTGPU_VALUES(cuStreamBatchMemOp_v2, false)
SOFTGPU_VALUES(cuStreamBatchMemOp_v2_ptsz, true)

#define SOFTGPU_COPIES(suffix, per_thread)                                                                   \
  SOFTGPU_EXPORT(cuMemcpyBatchAsync_v2##suffix)                                                              \
  (CUdeviceptr * to, CUdeviceptr * from, size_t * sizes, size_t count, CUmemcpyAttributes*, size_t*, size_t, \
   CUstream s) {                                                                                             \
    return batch_of_copies(per_thread, to, from, sizes, count, s);                                           \
  }                                                                                                          \
  SOFTGPU_EXPORT(cuMemcpy3DBatchAsync_v2##suffix)                                                            \
  (size_t count, CUDA_MEMCPY3D_BATCH_OP * ops, unsigned long long, CUstream s) {                             \
    return batch_of_boxes(per_thread, count, ops, s);                                                        \
  }
SOFTGPU_COPIES(, false)
SOFTGPU_COPIES(_ptsz, true)
