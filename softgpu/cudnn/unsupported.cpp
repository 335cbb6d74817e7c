// Functions that frameworks link against and this library does not do. They refuse every call, so the
// parameters do not matter; cudnn.h is left out, because its prototypes would have to be repeated.
namespace softgpu::cudnn {

// Notes the reason and returns CUDNN_STATUS_NOT_SUPPORTED.
int refuse(const char* function);

}  // namespace softgpu::cudnn

#define SOFTGPU_REFUSED(name)                                       \
  extern "C" __attribute__((visibility("default"))) int name(...) { \
    return softgpu::cudnn::refuse(#name);                           \
  }

SOFTGPU_REFUSED(cudnnCTCLoss)
SOFTGPU_REFUSED(cudnnCTCLoss_v8)
SOFTGPU_REFUSED(cudnnCreateCTCLossDescriptor)
SOFTGPU_REFUSED(cudnnCreateRNNDataDescriptor)
SOFTGPU_REFUSED(cudnnCreateRNNDescriptor)
SOFTGPU_REFUSED(cudnnCreateSpatialTransformerDescriptor)
SOFTGPU_REFUSED(cudnnDestroyCTCLossDescriptor)
SOFTGPU_REFUSED(cudnnDestroyRNNDataDescriptor)
SOFTGPU_REFUSED(cudnnDestroyRNNDescriptor)
SOFTGPU_REFUSED(cudnnDestroySpatialTransformerDescriptor)
SOFTGPU_REFUSED(cudnnGetCTCLossWorkspaceSize)
SOFTGPU_REFUSED(cudnnGetCTCLossWorkspaceSize_v8)
SOFTGPU_REFUSED(cudnnGetRNNTempSpaceSizes)
SOFTGPU_REFUSED(cudnnGetRNNWeightParams)
SOFTGPU_REFUSED(cudnnGetRNNWeightSpaceSize)
SOFTGPU_REFUSED(cudnnRNNBackwardData_v8)
SOFTGPU_REFUSED(cudnnRNNBackwardWeights_v8)
SOFTGPU_REFUSED(cudnnRNNForward)
SOFTGPU_REFUSED(cudnnSetCTCLossDescriptorEx)
SOFTGPU_REFUSED(cudnnSetCTCLossDescriptor_v9)
SOFTGPU_REFUSED(cudnnSetRNNDataDescriptor)
SOFTGPU_REFUSED(cudnnSetRNNDescriptor_v8)
SOFTGPU_REFUSED(cudnnSetSpatialTransformerNdDescriptor)
SOFTGPU_REFUSED(cudnnSpatialTfGridGeneratorBackward)
SOFTGPU_REFUSED(cudnnSpatialTfGridGeneratorForward)
SOFTGPU_REFUSED(cudnnSpatialTfSamplerBackward)
SOFTGPU_REFUSED(cudnnSpatialTfSamplerForward)
