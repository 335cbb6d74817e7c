// Code, streams and limits: no memory that the program asked for, but the device's all the same. Such a call
// that the device has no memory for is made again (again.h).
#include "interpose/again.h"
#include "interpose/driver_api.h"
#include "interpose/libraries.h"

#define POOCH_NEEDS_MEMORY(function, parameters, arguments) \
  POOCH_DRIVER_HOOK(function, parameters, arguments, return launch();)

POOCH_NEEDS_MEMORY(cuModuleLoad, (CUmodule * module, const char* fname), (module, fname))
POOCH_NEEDS_MEMORY(cuModuleLoadData, (CUmodule * module, const void* image), (module, image))
POOCH_NEEDS_MEMORY(cuModuleLoadDataEx,
                   (CUmodule * module, const void* image, unsigned int numOptions, CUjit_option* options,
                    void** optionValues),
                   (module, image, numOptions, options, optionValues))
POOCH_NEEDS_MEMORY(cuModuleLoadFatBinary, (CUmodule * module, const void* fatCubin), (module, fatCubin))
POOCH_NEEDS_MEMORY(cuModuleGetFunction, (CUfunction * hfunc, CUmodule hmod, const char* name),
                   (hfunc, hmod, name))
POOCH_NEEDS_MEMORY(cuLibraryLoadData,
                   (CUlibrary * library, const void* code, CUjit_option* jitOptions, void** jitOptionsValues,
                    unsigned int numJitOptions, CUlibraryOption* libraryOptions, void** libraryOptionValues,
                    unsigned int numLibraryOptions),
                   (library, code, jitOptions, jitOptionsValues, numJitOptions, libraryOptions,
                    libraryOptionValues, numLibraryOptions))
POOCH_NEEDS_MEMORY(cuLibraryLoadFromFile,
                   (CUlibrary * library, const char* fileName, CUjit_option* jitOptions,
                    void** jitOptionsValues, unsigned int numJitOptions, CUlibraryOption* libraryOptions,
                    void** libraryOptionValues, unsigned int numLibraryOptions),
                   (library, fileName, jitOptions, jitOptionsValues, numJitOptions, libraryOptions,
                    libraryOptionValues, numLibraryOptions))
POOCH_NEEDS_MEMORY(cuLibraryGetKernel, (CUkernel * pKernel, CUlibrary library, const char* name),
                   (pKernel, library, name))
POOCH_NEEDS_MEMORY(cuLibraryGetModule, (CUmodule * pMod, CUlibrary library), (pMod, library))
POOCH_NEEDS_MEMORY(cuKernelGetFunction, (CUfunction * pFunc, CUkernel kernel), (pFunc, kernel))
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
