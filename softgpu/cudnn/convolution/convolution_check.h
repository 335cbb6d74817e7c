#pragma once

#include "softgpu/cudnn/convolution/convolution.h"
#include "softgpu/cudnn/descriptors/descriptors.h"

namespace softgpu::cudnn {

// Checks that the four descriptors make one convolution that can be done here, and fills `shape`.
cudnnStatus_t check_convolution(const char* function, const cudnnTensorStruct* x, const cudnnFilterStruct* w,
                                const cudnnConvolutionStruct* conv, const cudnnTensorStruct* y,
                                ConvShape& shape);

}  // namespace softgpu::cudnn
