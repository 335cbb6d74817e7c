#include "softgpu/cudnn/library/kernels.h"

#include <iterator>

#include "softgpu/cudnn/backend/backend_fused.h"
#include "softgpu/cudnn/convolution/convolution.h"
#include "softgpu/cudnn/normalization/batch_norm.h"
#include "softgpu/cudnn/normalization/batch_norm_relu.h"
#include "softgpu/cudnn/ops/activation.h"
#include "softgpu/cudnn/ops/dropout.h"
#include "softgpu/cudnn/ops/elementwise.h"
#include "softgpu/cudnn/ops/lrn.h"
#include "softgpu/cudnn/ops/pooling.h"
#include "softgpu/cudnn/ops/reduce.h"
#include "softgpu/cudnn/ops/softmax.h"

namespace softgpu::cudnn {

KernelLibrary& kernels() {
  static constexpr KernelEntry entries[] = {
      kernel_entry<ConvForward>(),
      kernel_entry<ConvBackwardData>(),
      kernel_entry<ConvBackwardFilter>(),
      kernel_entry<ConvBackwardBias>(),
      kernel_entry<ConvBiasActivation>(),
      kernel_entry<BatchNormForwardTraining>(),
      kernel_entry<BatchNormForwardInference>(),
      kernel_entry<BatchNormBackward>(),
      kernel_entry<NormReluForward>(),
      kernel_entry<NormReluBackward>(),
      kernel_entry<ActivationForward>(),
      kernel_entry<ActivationBackward>(),
      kernel_entry<PoolingForward>(),
      kernel_entry<PoolingBackward>(),
      kernel_entry<SoftmaxForward>(),
      kernel_entry<SoftmaxBackward>(),
      kernel_entry<AddTensor>(),
      kernel_entry<OpTensor>(),
      kernel_entry<ScaleTensor>(),
      kernel_entry<SetTensor>(),
      kernel_entry<LrnForward>(),
      kernel_entry<LrnBackward>(),
      kernel_entry<DropoutInitialise>(),
      kernel_entry<DropoutForward>(),
      kernel_entry<DropoutBackward>(),
      kernel_entry<ReduceTensor>(),
      kernel_entry<FusedGraph>(),
  };
  static constexpr Image image{.count = std::size(entries), .kernels = entries};
  static auto* const library = new KernelLibrary(image);  // outlives every user
  return *library;
}

}  // namespace softgpu::cudnn
