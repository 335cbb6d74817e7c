// Runtime functions are exported from libcudart.so.13 and hidden in the copies inside cuDNN and cuBLAS.
#pragma once

#if SOFTGPU_EXPORT_CUDART
#define SOFTGPU_EXPORT __attribute__((visibility("default")))
#else
#define SOFTGPU_EXPORT __attribute__((visibility("hidden")))
#endif
#define SOFTGPU_CUDART extern "C" SOFTGPU_EXPORT
