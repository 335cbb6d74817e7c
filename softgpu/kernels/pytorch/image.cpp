// Families of PyTorch's kernels.
#include <iterator>

#include "softgpu/kernels/pytorch/rule.h"

namespace {

using namespace softgpu::pytorch;

#define ANONYMOUS "at::native::(anonymous namespace)::"
#define CUB "at_cuda_detail::cub::detail::"
constexpr softgpu::KernelFamily families[] = {
    {"at::native::vectorized_elementwise_kernel<", &vectorized_elementwise},
    {"at::native::elementwise_kernel<", &strided_elementwise},
    {"at::native::unrolled_elementwise_kernel<", &casting_elementwise},
    {"(anonymous namespace)::elementwise_kernel_with_index<", &indexed_elementwise},
    {ANONYMOUS "multi_tensor_apply_kernel<", &foreach},
    {"at::native::lpnorm_cleanup<", &list_norm_results},
    {"at::native::amp_update_scale_cuda_kernel(", &update_scale},
    {"at::native::reduce_kernel<", &reduce},
    {"(anonymous namespace)::softmax_warp_forward<", &softmax_forward},
    {"(anonymous namespace)::softmax_warp_backward<", &softmax_backward},
    {ANONYMOUS "max_pool_forward_nchw<", &max_pool_forward},
    {ANONYMOUS "max_pool_backward_nchw<", &max_pool_backward},
    {ANONYMOUS "max_pool_forward_nhwc<", &max_pool_forward_last},
    {ANONYMOUS "max_pool_backward_nhwc<", &max_pool_backward_last},
    {"at::native::batch_norm_collect_statistics_channels_last_kernel<", &batch_norm_statistics},
    {ANONYMOUS "unrolled_elementwise_kernel_for_multi_outputs<", &batch_norm_running},
    {"at::native::batch_norm_transform_input_channels_last_kernel<", &batch_norm_forward},
    {"at::native::batch_norm_backward_reduce_channels_last_kernel<", &batch_norm_backward_sums},
    {"at::native::batch_norm_backward_elemt_channels_last_kernel<", &batch_norm_backward},
    {ANONYMOUS "nll_loss_forward_reduce_cuda_kernel_2d<", &nll_loss_forward},
    {ANONYMOUS "nll_loss_backward_reduce_cuda_kernel_2d<", &nll_loss_backward},
    {ANONYMOUS "vectorized_layer_norm_kernel<", &layer_norm_forward},
    {ANONYMOUS "layer_norm_grad_input_kernel_vectorized<", &layer_norm_backward},
    {ANONYMOUS "GammaBetaBackwardCUDAKernelTemplate<", &layer_norm_weights},
    {ANONYMOUS "cunn_SoftMaxForward<", &long_softmax_forward},
    {ANONYMOUS "cunn_SoftMaxForwardReg<", &register_softmax_forward},
    {ANONYMOUS "cunn_SoftMaxForwardSmem<", &shared_softmax_forward},
    {ANONYMOUS "cunn_SoftMaxBackward<", &long_softmax_backward},
    {ANONYMOUS "cunn_SoftMaxBackwardSmem<", &long_softmax_backward},
    {"at::native::vectorized_gather_kernel<", &gather_rows},
    {ANONYMOUS "CatArrayBatchedCopy<", &concatenate},
    {ANONYMOUS "CatArrayBatchedCopy_contig<", &concatenate},
    {ANONYMOUS "CatArrayBatchedCopy_alignedK_contig<", &concatenate},
    {ANONYMOUS "fused_dropout_kernel<", &dropout},
    {ANONYMOUS "fused_dropout_kernel_vec<", &dropout},
    {"fmha_cutlassF_f32_", &attention_forward},
    {"fmha_cutlassB_f32_", &attention_backward},
    {"pytorch_flash::flash_fwd_kernel<", &flash_forward},
    {"pytorch_flash::flash_bwd_dot_do_o_kernel<", &flash_products},
    {"pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<", &flash_backward},
    {"pytorch_flash::flash_bwd_convert_dq_kernel<", &flash_query_gradient},
    {CUB "radix_sort::DeviceRadixSortHistogramKernel<", &sort_histogram},
    {CUB "radix_sort::DeviceRadixSortExclusiveSumKernel<", &sort_bin_sums},
    {CUB "radix_sort::DeviceRadixSortOnesweepKernel<", &sort_pass},
    {CUB "scan::DeviceScanInitKernel<", &scan_start},
    {CUB "scan::DeviceCompactInitKernel<", &compaction_start},
    {CUB "scan::DeviceScanKernel<", &scan},
    {CUB "unique_by_key::DeviceUniqueByKeySweepKernel<", &unique_keys},
    {ANONYMOUS "embedding_backward_feature_kernel<", &few_rows_gradient},
    {ANONYMOUS "krn_partials_per_segment<", &segment_parts},
    {ANONYMOUS "krn_partial_segment_offset<", &segment_part_offsets},
    {ANONYMOUS "compute_num_of_partial_segments<", &segment_part_count},
    {ANONYMOUS "compute_grad_weight<", &segment_part_sums},
    {ANONYMOUS "sum_and_scatter<", &segment_sums},
};

}  // namespace

extern "C" __attribute__((visibility("default"))) constexpr softgpu::Image softgpu_image{
    softgpu::image_magic, 0, nullptr, std::size(families), families};
