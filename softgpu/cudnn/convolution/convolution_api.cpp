// cudnnConvolution* that compute, and the size of their outputs and workspaces.
#include "softgpu/cudnn/convolution/convolution_check.h"
#include "softgpu/cudnn/descriptors/launch.h"

namespace softgpu::cudnn {
namespace {

// Shape, algorithm and workspace of a call; fills everything of `args` but alpha and beta.
cudnnStatus_t prepare(const char* function, ConvDirection direction, int algorithm,
                      const cudnnTensorStruct* x, const cudnnFilterStruct* w,
                      const cudnnConvolutionStruct* conv, const cudnnTensorStruct* y, const void* workspace,
                      std::size_t workspace_bytes, ConvArgs& args) {
  if (auto status = check_convolution(function, x, w, conv, y, args.shape); status != CUDNN_STATUS_SUCCESS) {
    return status;
  }
  const ConvAlgorithm chosen = describe_algorithm(direction, algorithm, args.shape);
  if (!chosen.supported) {
    return fail(function, CUDNN_STATUS_NOT_SUPPORTED, "the algorithm cannot do this convolution");
  }
  if (chosen.workspace > workspace_bytes || (chosen.workspace > 0 && !workspace)) {
    return fail(function, CUDNN_STATUS_BAD_PARAM, "the workspace is too small");
  }
  args.x = x->layout;
  args.w = filter_layout(*w);
  args.y = y->layout;
  args.type = CUDNN_DATA_FLOAT;
  args.workspace_bytes = chosen.workspace;
  args.flops = chosen.flops;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t workspace_size(const char* function, ConvDirection direction, int algorithm,
                             const cudnnTensorStruct* x, const cudnnFilterStruct* w,
                             const cudnnConvolutionStruct* conv, const cudnnTensorStruct* y,
                             std::size_t* bytes) {
  if (!bytes) return null_argument(function);
  *bytes = 0;
  ConvShape shape{};
  if (auto status = check_convolution(function, x, w, conv, y, shape); status != CUDNN_STATUS_SUCCESS) {
    return status;
  }
  const ConvAlgorithm chosen = describe_algorithm(direction, algorithm, shape);
  if (!chosen.supported) {
    return fail(function, CUDNN_STATUS_NOT_SUPPORTED, "the algorithm cannot do this convolution");
  }
  *bytes = chosen.workspace;
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace
}  // namespace softgpu::cudnn

using namespace softgpu::cudnn;

SOFTGPU_CUDNN cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnFilterDescriptor_t w,
    const cudnnConvolutionDescriptor_t conv, const cudnnTensorDescriptor_t y,
    cudnnConvolutionFwdAlgo_t algorithm, std::size_t* bytes) {
  if (!handle) return null_argument(__func__);
  return workspace_size(__func__, ConvDirection::forward, algorithm, x, w, conv, y, bytes);
}

SOFTGPU_CUDNN cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t w, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t conv, const cudnnTensorDescriptor_t dx,
    cudnnConvolutionBwdDataAlgo_t algorithm, std::size_t* bytes) {
  if (!handle) return null_argument(__func__);
  return workspace_size(__func__, ConvDirection::backward_data, algorithm, dx, w, conv, dy, bytes);
}

SOFTGPU_CUDNN cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t conv, const cudnnFilterDescriptor_t dw,
    cudnnConvolutionBwdFilterAlgo_t algorithm, std::size_t* bytes) {
  if (!handle) return null_argument(__func__);
  return workspace_size(__func__, ConvDirection::backward_filter, algorithm, x, dw, conv, dy, bytes);
}

SOFTGPU_CUDNN cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void* alpha,
                                                    const cudnnTensorDescriptor_t x_desc, const void* x,
                                                    const cudnnFilterDescriptor_t w_desc, const void* w,
                                                    const cudnnConvolutionDescriptor_t conv,
                                                    cudnnConvolutionFwdAlgo_t algorithm, void* workspace,
                                                    std::size_t workspace_bytes, const void* beta,
                                                    const cudnnTensorDescriptor_t y_desc, void* y) {
  if (any_null(handle, alpha, x, w, beta, y)) return null_argument(__func__);
  ConvArgs args{};
  auto status = prepare(__func__, ConvDirection::forward, algorithm, x_desc, w_desc, conv, y_desc, workspace,
                        workspace_bytes, args);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  args.alpha = scalar(alpha);
  args.beta = scalar(beta);
  return launch<ConvForward>(__func__, handle, element_count(args.y),
                             {address(x), address(w), address(y), address(workspace)}, args);
}

SOFTGPU_CUDNN cudnnStatus_t cudnnConvolutionBackwardData(
    cudnnHandle_t handle, const void* alpha, const cudnnFilterDescriptor_t w_desc, const void* w,
    const cudnnTensorDescriptor_t dy_desc, const void* dy, const cudnnConvolutionDescriptor_t conv,
    cudnnConvolutionBwdDataAlgo_t algorithm, void* workspace, std::size_t workspace_bytes, const void* beta,
    const cudnnTensorDescriptor_t dx_desc, void* dx) {
  if (any_null(handle, alpha, w, dy, beta, dx)) return null_argument(__func__);
  ConvArgs args{};
  auto status = prepare(__func__, ConvDirection::backward_data, algorithm, dx_desc, w_desc, conv, dy_desc,
                        workspace, workspace_bytes, args);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  args.alpha = scalar(alpha);
  args.beta = scalar(beta);
  return launch<ConvBackwardData>(__func__, handle, element_count(args.x),
                                  {address(w), address(dy), address(dx), address(workspace)}, args);
}

SOFTGPU_CUDNN cudnnStatus_t cudnnConvolutionBackwardFilter(
    cudnnHandle_t handle, const void* alpha, const cudnnTensorDescriptor_t x_desc, const void* x,
    const cudnnTensorDescriptor_t dy_desc, const void* dy, const cudnnConvolutionDescriptor_t conv,
    cudnnConvolutionBwdFilterAlgo_t algorithm, void* workspace, std::size_t workspace_bytes, const void* beta,
    const cudnnFilterDescriptor_t dw_desc, void* dw) {
  if (any_null(handle, alpha, x, dy, beta, dw)) return null_argument(__func__);
  ConvArgs args{};
  auto status = prepare(__func__, ConvDirection::backward_filter, algorithm, x_desc, dw_desc, conv, dy_desc,
                        workspace, workspace_bytes, args);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  args.alpha = scalar(alpha);
  args.beta = scalar(beta);
  return launch<ConvBackwardFilter>(__func__, handle, element_count(args.y),
                                    {address(x), address(dy), address(dw), address(workspace)}, args);
}

SOFTGPU_CUDNN cudnnStatus_t cudnnConvolutionBackwardBias(cudnnHandle_t handle, const void* alpha,
                                                         const cudnnTensorDescriptor_t dy_desc,
                                                         const void* dy, const void* beta,
                                                         const cudnnTensorDescriptor_t db_desc, void* db) {
  if (any_null(handle, alpha, dy, beta, db)) return null_argument(__func__);
  if (auto status = check_tensors(__func__, {dy_desc, db_desc}); status != CUDNN_STATUS_SUCCESS)
    return status;
  const ConvBackwardBias::Args args{dy_desc->layout, scalar(alpha), scalar(beta)};
  if (args.dy.rank < 3 || element_count(db_desc->layout) != args.dy.dims[1] ||
      !broadcastable(db_desc->layout, args.dy)) {
    return fail(__func__, CUDNN_STATUS_BAD_PARAM, "db is not 1 x K x 1 x 1");
  }
  if (merged_stride(args.dy, 2) == 0 || merged_stride(db_desc->layout, 0) != 1) {
    return fail(__func__, CUDNN_STATUS_NOT_SUPPORTED, "dy's images or db lie in no regular order");
  }
  return launch<ConvBackwardBias>(__func__, handle, element_count(args.dy), {address(dy), address(db)}, args);
}

SOFTGPU_CUDNN cudnnStatus_t cudnnConvolutionBiasActivationForward(
    cudnnHandle_t handle, const void* alpha1, const cudnnTensorDescriptor_t x_desc, const void* x,
    const cudnnFilterDescriptor_t w_desc, const void* w, const cudnnConvolutionDescriptor_t conv,
    cudnnConvolutionFwdAlgo_t algorithm, void* workspace, std::size_t workspace_bytes, const void* alpha2,
    const cudnnTensorDescriptor_t z_desc, const void* z, const cudnnTensorDescriptor_t bias_desc,
    const void* bias, const cudnnActivationDescriptor_t activation, const cudnnTensorDescriptor_t y_desc,
    void* y) {
  if (any_null(handle, alpha1, x, w, alpha2, z, bias, activation, y)) return null_argument(__func__);
  if (!activation->set ||
      (activation->mode != CUDNN_ACTIVATION_RELU && activation->mode != CUDNN_ACTIVATION_IDENTITY)) {
    return fail(__func__, CUDNN_STATUS_NOT_SUPPORTED, "only CUDNN_ACTIVATION_RELU and IDENTITY");
  }
  ConvBiasActivation::Args args{};
  auto status = prepare(__func__, ConvDirection::forward, algorithm, x_desc, w_desc, conv, y_desc, workspace,
                        workspace_bytes, args.conv);
  if (status == CUDNN_STATUS_SUCCESS) status = check_tensors(__func__, {z_desc, bias_desc});
  if (status != CUDNN_STATUS_SUCCESS) return status;
  if (!same_dims(z_desc->layout, y_desc->layout)) {
    return fail(__func__, CUDNN_STATUS_BAD_PARAM, "z and y differ in shape");
  }
  if (element_count(bias_desc->layout) != args.conv.shape.k || merged_stride(bias_desc->layout, 0) != 1 ||
      !broadcastable(bias_desc->layout, y_desc->layout)) {
    return fail(__func__, CUDNN_STATUS_BAD_PARAM, "the bias is not a packed 1 x K x 1 x 1");
  }
  args.conv.alpha = scalar(alpha1);
  args.z = z_desc->layout;
  args.activation = {activation->mode, activation->nan == CUDNN_PROPAGATE_NAN,
                     static_cast<float>(activation->coefficient)};
  args.alpha2 = scalar(alpha2);
  return launch<ConvBiasActivation>(
      __func__, handle, element_count(args.conv.y),
      {address(x), address(w), address(z), address(bias), address(y), address(workspace)}, args);
}
