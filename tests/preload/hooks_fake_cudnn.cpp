// Enough of a cuDNN for tests of the hooks: its own look-ups of the driver, as a static runtime does them; an
// allocation and a launch inside of one call, and an allocation outside of any.
#include <cuda.h>
#include <cudnn.h>
#include <dlfcn.h>

#define FAKE extern "C" __attribute__((visibility("default")))

namespace {

template <class Function>
Function* driver(const char* name) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  return reinterpret_cast<Function*>(dlsym(library, name));
}

void allocate_and_launch() {
  CUdeviceptr memory = 0;
  driver<CUresult(CUdeviceptr*, size_t)>("cuMemAlloc_v2")(&memory, size_t{8} << 20);
  driver<decltype(cuLaunchKernel)>("cuLaunchKernel")(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr);
  driver<CUresult(CUdeviceptr)>("cuMemFree_v2")(memory);
}

}  // namespace

FAKE cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  *handle = nullptr;
  allocate_and_launch();
  // A part of cuDNN that looks up another one by name must get that itself.
  void* const self = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_NOLOAD);
  return dlsym(self, "cudnnScaleTensor") == reinterpret_cast<void*>(dlsym(self, "fake_scale_tensor"))
             ? CUDNN_STATUS_SUCCESS
             : CUDNN_STATUS_INTERNAL_ERROR;
}
FAKE cudnnStatus_t cudnnGetStream(cudnnHandle_t, cudaStream_t* stream) {
  return *stream = nullptr, CUDNN_STATUS_SUCCESS;
}
FAKE cudnnStatus_t cudnnGetTensorSizeInBytes(const cudnnTensorDescriptor_t, size_t* bytes) {
  return *bytes = size_t{4} << 20, CUDNN_STATUS_SUCCESS;
}
FAKE cudnnStatus_t cudnnGetTensorNdDescriptor(const cudnnTensorDescriptor_t, int, cudnnDataType_t* type,
                                              int* rank, int dimensions[], int strides[]) {
  *type = CUDNN_DATA_FLOAT;
  *rank = 1;
  dimensions[0] = 1 << 20;
  strides[0] = 1;
  return CUDNN_STATUS_SUCCESS;
}
FAKE cudnnStatus_t cudnnScaleTensor(cudnnHandle_t, const cudnnTensorDescriptor_t, void*, const void*) {
  allocate_and_launch();
  return CUDNN_STATUS_SUCCESS;
}
extern "C" __attribute__((visibility("default"), alias("cudnnScaleTensor"))) cudnnStatus_t fake_scale_tensor(
    cudnnHandle_t, const cudnnTensorDescriptor_t, void*, const void*);
