// cuda.h with every ABI declared under its exact exported name: cuMemcpyHtoD_v2, cuMemcpyHtoD_v2_ptds, and
// the old cuMemAlloc next to cuMemAlloc_v2. Without the internal switch the header renames them by macro.
#pragma once

#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL 1
#endif
#include <cuda.h>
