// Memory whose address a program puts into an object of the driver's or a library's: work that uses the
// object later need not show it. It stays on the device until it is freed.

// First: the other vendor headers must not pull in cuda.h without its internal names.
#include "interpose/hooks/driver_api.h"
#include "interpose/sessions/again.h"

#include <cublasLt.h>
#include <cublas_v2.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <vector>

#include "interpose/hooks/errors.h"
#include "interpose/hooks/libraries.h"
#include "interpose/sessions/context.h"
#include "interpose/sessions/served.h"

using namespace pooch;
using namespace pooch::interpose;

namespace {

// False, with a line: there is no room for it.
bool stays(const Scope& scope, const char* function, CUdeviceptr address) {
  runtime::Session* const owner = scope.outermost() ? session_owning(Address{address}) : nullptr;
  if (owner == nullptr) return true;
  const InContext there(scope, *owner);
  const Access named{Address{address}, 1, Effect::read_write};
  std::vector<runtime::Kept> held;  // never let go: until it is freed
  const Status done = owner->hold({&named, 1}, held);
  if (!done) report_refused(function, done.error());
  return static_cast<bool>(done);
}
bool stays(const Scope& scope, const char* function, const void* address) {
  return stays(scope, function, reinterpret_cast<CUdeviceptr>(address));
}

// A map is opaque. Where it has its address as it is, launches that are given the map show it.
bool shows(const CUtensorMap& map, const void* address) {
  return std::find(std::begin(map.opaque), std::end(map.opaque), reinterpret_cast<cuuint64_t>(address)) !=
         std::end(map.opaque);
}

template <class RealCall>
CUresult encode(const Scope& scope, const char* function, const CUtensorMap* map, const void* address,
                RealCall&& real) {
  const CUresult status = real();
  if (status != CUDA_SUCCESS || map == nullptr || shows(*map, address)) return status;
  return stays(scope, function, address) ? status : CUDA_ERROR_OUT_OF_MEMORY;
}

// 0 where the texture is over an array.
CUdeviceptr address_of(const CUDA_RESOURCE_DESC& what) {
  if (what.resType == CU_RESOURCE_TYPE_LINEAR) return what.res.linear.devPtr;
  return what.resType == CU_RESOURCE_TYPE_PITCH2D ? what.res.pitch2D.devPtr : 0;
}

}  // namespace

POOCH_DRIVER_HOOK(cuTensorMapEncodeTiled,
                  (CUtensorMap * tensorMap, CUtensorMapDataType tensorDataType, cuuint32_t tensorRank,
                   void* globalAddress, const cuuint64_t* globalDim, const cuuint64_t* globalStrides,
                   const cuuint32_t* boxDim, const cuuint32_t* elementStrides,
                   CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                   CUtensorMapL2promotion l2Promotion, CUtensorMapFloatOOBfill oobFill),
                  (tensorMap, tensorDataType, tensorRank, globalAddress, globalDim, globalStrides, boxDim,
                   elementStrides, interleave, swizzle, l2Promotion, oobFill),
                  return encode(scope, "cuTensorMapEncodeTiled", tensorMap, globalAddress, launch);)
POOCH_DRIVER_HOOK(cuTensorMapEncodeIm2col,
                  (CUtensorMap * tensorMap, CUtensorMapDataType tensorDataType, cuuint32_t tensorRank,
                   void* globalAddress, const cuuint64_t* globalDim, const cuuint64_t* globalStrides,
                   const int* pixelBoxLowerCorner, const int* pixelBoxUpperCorner,
                   cuuint32_t channelsPerPixel, cuuint32_t pixelsPerColumn, const cuuint32_t* elementStrides,
                   CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                   CUtensorMapL2promotion l2Promotion, CUtensorMapFloatOOBfill oobFill),
                  (tensorMap, tensorDataType, tensorRank, globalAddress, globalDim, globalStrides,
                   pixelBoxLowerCorner, pixelBoxUpperCorner, channelsPerPixel, pixelsPerColumn,
                   elementStrides, interleave, swizzle, l2Promotion, oobFill),
                  return encode(scope, "cuTensorMapEncodeIm2col", tensorMap, globalAddress, launch);)
POOCH_DRIVER_HOOK(cuTensorMapEncodeIm2colWide,
                  (CUtensorMap * tensorMap, CUtensorMapDataType tensorDataType, cuuint32_t tensorRank,
                   void* globalAddress, const cuuint64_t* globalDim, const cuuint64_t* globalStrides,
                   int pixelBoxLowerCornerWidth, int pixelBoxUpperCornerWidth, cuuint32_t channelsPerPixel,
                   cuuint32_t pixelsPerColumn, const cuuint32_t* elementStrides,
                   CUtensorMapInterleave interleave, CUtensorMapIm2ColWideMode mode,
                   CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion,
                   CUtensorMapFloatOOBfill oobFill),
                  (tensorMap, tensorDataType, tensorRank, globalAddress, globalDim, globalStrides,
                   pixelBoxLowerCornerWidth, pixelBoxUpperCornerWidth, channelsPerPixel, pixelsPerColumn,
                   elementStrides, interleave, mode, swizzle, l2Promotion, oobFill),
                  return encode(scope, "cuTensorMapEncodeIm2colWide", tensorMap, globalAddress, launch);)
POOCH_DRIVER_HOOK(cuTensorMapReplaceAddress, (CUtensorMap * tensorMap, void* globalAddress),
                  (tensorMap, globalAddress),
                  return encode(scope, "cuTensorMapReplaceAddress", tensorMap, globalAddress, launch);)

#define POOCH_NAMES_FOR_LATER(function, parameters, arguments, address)                     \
  POOCH_DRIVER_HOOK(function, parameters, arguments,                                        \
                    if (!stays(scope, #function, address)) return CUDA_ERROR_OUT_OF_MEMORY; \
                    return launch();)
POOCH_NAMES_FOR_LATER(cuTexObjectCreate,
                      (CUtexObject * pTexObject, const CUDA_RESOURCE_DESC* pResDesc,
                       const CUDA_TEXTURE_DESC* pTexDesc, const CUDA_RESOURCE_VIEW_DESC* pResViewDesc),
                      (pTexObject, pResDesc, pTexDesc, pResViewDesc),
                      pResDesc == nullptr ? 0 : address_of(*pResDesc))
POOCH_NAMES_FOR_LATER(cuTexRefSetAddress_v2,
                      (size_t * ByteOffset, CUtexref hTexRef, CUdeviceptr dptr, size_t bytes),
                      (ByteOffset, hTexRef, dptr, bytes), dptr)
POOCH_NAMES_FOR_LATER(cuTexRefSetAddress2D_v2,
                      (CUtexref hTexRef, const CUDA_ARRAY_DESCRIPTOR* desc, CUdeviceptr dptr, size_t Pitch),
                      (hTexRef, desc, dptr, Pitch), dptr)
POOCH_NAMES_FOR_LATER(cuTexRefSetAddress2D_v3,
                      (CUtexref hTexRef, const CUDA_ARRAY_DESCRIPTOR* desc, CUdeviceptr dptr, size_t Pitch),
                      (hTexRef, desc, dptr, Pitch), dptr)

// Products write a count there that the program reads.
POOCH_HOOK(cublas, cublasStatus_t, CUBLAS_STATUS_NOT_INITIALIZED,
           cublasSetFixedPointEmulationMantissaBitCountPointer,
           (cublasHandle_t handle, int* mantissaBitCount), (handle, mantissaBitCount),
           if (!stays(scope, "cublasSetFixedPointEmulationMantissaBitCountPointer",
                      mantissaBitCount)) return CUBLAS_STATUS_ALLOC_FAILED;
           return launch();)

namespace {
const void* pointer_in(const void* buffer, std::size_t bytes) {
  const void* pointer = nullptr;
  if (buffer != nullptr && bytes == sizeof pointer) std::memcpy(&pointer, buffer, sizeof pointer);
  return pointer;
}
}  // namespace
POOCH_HOOK(cublaslt, cublasStatus_t, CUBLAS_STATUS_NOT_INITIALIZED, cublasLtEmulationDescSetAttribute,
           (cublasLtEmulationDesc_t emulationDesc, cublasLtEmulationDescAttributes_t attr, const void* buf,
            size_t sizeInBytes),
           (emulationDesc, attr, buf, sizeInBytes),
           if (attr == CUBLASLT_EMULATION_DESC_FIXEDPOINT_MANTISSA_BIT_COUNT_POINTER &&
               !stays(scope, "cublasLtEmulationDescSetAttribute",
                      pointer_in(buf, sizeInBytes))) return CUBLAS_STATUS_ALLOC_FAILED;
           return launch();)
