// Code, streams and limits: no memory that the program asked for, but the device's all the same. Such a call
// that the device has no memory for is made again (again.h).
#include "interpose/hooks/driver_api.h"
#include "interpose/hooks/libraries.h"
#include "interpose/kernels/code_images.h"
#include "interpose/sessions/again.h"
#include "interpose/sessions/configuration.h"

using namespace pooch::interpose;

#define POOCH_NEEDS_MEMORY(function, parameters, arguments) \
  POOCH_DRIVER_HOOK(function, parameters, arguments, return launch();)

// ... and what it loads or finds is noted: what kernels touch is read from there.
#define POOCH_LOADS_CODE(function, parameters, arguments, note)                        \
  POOCH_DRIVER_HOOK(function, parameters, arguments, const CUresult status = launch(); \
                    if (status == CUDA_SUCCESS && is_programs_own(scope)) note; return status;)

namespace {
// Not what a library loads for itself, whose launches belong to its calls.
bool is_programs_own(const Scope& scope) {
  return scope.outermost() && configuration() != nullptr;
}
}  // namespace

POOCH_LOADS_CODE(cuModuleLoad, (CUmodule * module, const char* fname), (module, fname),
                 code_loaded_from(*module, fname))
POOCH_LOADS_CODE(cuModuleLoadData, (CUmodule * module, const void* image), (module, image),
                 code_loaded(*module, image))
POOCH_LOADS_CODE(cuModuleLoadDataEx,
                 (CUmodule * module, const void* image, unsigned int numOptions, CUjit_option* options,
                  void** optionValues),
                 (module, image, numOptions, options, optionValues), code_loaded(*module, image))
POOCH_LOADS_CODE(cuModuleLoadFatBinary, (CUmodule * module, const void* fatCubin), (module, fatCubin),
                 code_loaded(*module, fatCubin))
POOCH_LOADS_CODE(cuModuleGetFunction, (CUfunction * hfunc, CUmodule hmod, const char* name),
                 (hfunc, hmod, name), kernel_found(*hfunc, hmod, name))
POOCH_LOADS_CODE(cuLibraryLoadData,
                 (CUlibrary * library, const void* code, CUjit_option* jitOptions, void** jitOptionsValues,
                  unsigned int numJitOptions, CUlibraryOption* libraryOptions, void** libraryOptionValues,
                  unsigned int numLibraryOptions),
                 (library, code, jitOptions, jitOptionsValues, numJitOptions, libraryOptions,
                  libraryOptionValues, numLibraryOptions),
                 code_loaded(*library, code))
POOCH_LOADS_CODE(cuLibraryLoadFromFile,
                 (CUlibrary * library, const char* fileName, CUjit_option* jitOptions,
                  void** jitOptionsValues, unsigned int numJitOptions, CUlibraryOption* libraryOptions,
                  void** libraryOptionValues, unsigned int numLibraryOptions),
                 (library, fileName, jitOptions, jitOptionsValues, numJitOptions, libraryOptions,
                  libraryOptionValues, numLibraryOptions),
                 code_loaded_from(*library, fileName))
POOCH_LOADS_CODE(cuLibraryGetKernel, (CUkernel * pKernel, CUlibrary library, const char* name),
                 (pKernel, library, name), kernel_found(*pKernel, library, name))
POOCH_LOADS_CODE(cuLibraryGetModule, (CUmodule * pMod, CUlibrary library), (pMod, library),
                 code_also_is(*pMod, library))
POOCH_LOADS_CODE(cuKernelGetFunction, (CUfunction * pFunc, CUkernel kernel), (pFunc, kernel),
                 code_also_is(*pFunc, kernel))
POOCH_NEEDS_MEMORY(cuFuncLoad, (CUfunction function), (function))
POOCH_NEEDS_MEMORY(cuFuncSetAttribute, (CUfunction hfunc, CUfunction_attribute attrib, int value),
                   (hfunc, attrib, value))
POOCH_NEEDS_MEMORY(cuKernelSetAttribute,
                   (CUfunction_attribute attrib, int val, CUkernel kernel, CUdevice dev),
                   (attrib, val, kernel, dev))
POOCH_NEEDS_MEMORY(cuStreamCreate, (CUstream * phStream, unsigned int Flags), (phStream, Flags))
POOCH_NEEDS_MEMORY(cuStreamCreateWithPriority, (CUstream * phStream, unsigned int flags, int priority),
                   (phStream, flags, priority))
POOCH_NEEDS_MEMORY(cuCtxSetLimit, (CUlimit limit, size_t value), (limit, value))
POOCH_NEEDS_MEMORY(cuGraphUpload, (CUgraphExec hGraphExec, CUstream hStream), (hGraphExec, hStream))
POOCH_NEEDS_MEMORY(cuGraphUpload_ptsz, (CUgraphExec hGraphExec, CUstream hStream), (hGraphExec, hStream))
