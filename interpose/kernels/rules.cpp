#include "interpose/kernels/rules.h"

namespace pooch::interpose {
namespace {

using enum KernelForm;

// Files are PyTorch 2.11's and 2.15's, below aten/src/ATen/.
constexpr KernelRule rules[] = {
    {"at::native::vectorized_elementwise_kernel", "", tensor_iterator, true,
     "native/cuda/CUDALoops.cuh: launch_vectorized_kernel takes data[0] for the result and the others for "
     "arguments, which the functor gets by value"},
    {"at::native::unrolled_elementwise_kernel", "", tensor_iterator, true,
     "native/cuda/CUDALoops.cuh and MemoryAccess.cuh, policies::unroll: loads from data[1] on, stores to "
     "data[0]"},
    {"at::native::vectorized_templated_elementwise_kernel", "", tensor_iterator, true,
     "native/cuda/CUDALoops.cuh, policies::vectorized_templated: as above, with types that differ"},
    {"at::native::unrolled_elementwise_kernel_for_multi_outputs", "", tensor_iterator, true,
     "native/cuda/Loops.cuh, policies::multi_outputs_unroll: the first template argument is the number of "
     "outputs, which come first"},
    {"at::native::elementwise_kernel", "_sparse_binary_op_intersection_kernel_impl", unknown, false,
     "by its machine code (docs/effects.md) the functor has addresses, and more than 108 bytes, so the size "
     "of "
     "the lambda does not tell how many addresses come before it"},
    {"at::native::elementwise_kernel", "_flatten_indices_impl", unknown, false, "as above"},
    {"at::native::elementwise_kernel", "_validate_compressed_sparse_indices_kernel", unknown, false,
     "as above"},
    {"at::native::elementwise_kernel", "gpu_kernel_impl", offset_lambda, true,
     "native/cuda/CUDALoops.cuh, gpu_kernel_impl and gpu_kernel_impl_nocast: the lambda captures "
     "offset_calc, "
     "data and f in this order, writes through data[0] and reads through the others; nvcc 13 places data "
     "behind the calculator's 304 + 100 n bytes"},
    {"at::native::reduce_kernel", "", reduction, true,
     "native/cuda/Reduce.cuh, ReduceOp: src, dst[2], acc_buf, cta_buf, semaphores, base_idx, accumulate, "
     "final_output, noutputs are its last members; dst is read where accumulate is set"},
    {"at::native::multi_tensor_apply_kernel", "_amp_foreach_non_finite_check_and_unscale_cuda_", tensor_list,
     false,
     "as below, and native/cuda/AmpKernels.cu: the lambda captures found_inf_ptr, which it may set, and "
     "inv_scale_ptr",
     true},
    {"at::native::multi_tensor_apply_kernel", "BinaryOpScalarTensorFunctor<", tensor_list, false,
     "as below, and native/cuda/ForeachFunctors.cuh: operator() only reads *scalar", false, Effect::read},
    {"at::native::multi_tensor_apply_kernel", "::Fused", tensor_list, false,
     "as below, and native/cuda/fused_adam_utils.cuh, FusedSgdKernel.cu, FusedAdagradKernel.cu: operator() "
     "takes "
     "lr_ptr, grad_scale_ptr and found_inf_ptr as pointers to const",
     false, Effect::read},
    {"at::native::multi_tensor_apply_kernel", "", tensor_list, false,
     "native/cuda/MultiTensorApply.cuh: TensorListMetadata and its kin; blocks name the tensors that are in "
     "use, entries behind those are left over from the stack. Pointers that a functor is called with are "
     "written where they are no const: ForeachReduceOp.cu"},
    {"at::native::CatArrayBatchedCopy*", "", concatenation, true,
     "native/cuda/Shape.cu: block y copies from input[y] of CatArrInputTensorMetadata, to const, into its "
     "part "
     "of output; entries behind the grid's rows are left over from the stack"},
    {"at::native::batch_norm_transform_input_channels_last_kernel", "", signature, true,
     "native/cuda/Normalization.cuh: out is written at every row and channel, the others are const"},
    {"at::native::vectorized_layer_norm_kernel", "", signature, true,
     "native/cuda/layer_norm_kernel.cu: mean, rstd and Y are written at every row, X, gamma and beta are "
     "const"},
    {"elementwise_kernel_with_index", "at::native::", signature, true,
     "native/cuda/RangeFactories.cu: data[index] = f(index); the functors capture a start and a step"},
    {"softmax_warp_forward", "", signature, true,
     "native/cuda/PersistentSoftmax.cuh: dst is written, src and mask are const"},
    {"softmax_warp_backward", "", signature, true,
     "native/cuda/PersistentSoftmax.cuh: gradInput is written, grad, output and mask are const"},
    {"at::native::cunn_SoftMax*", "", signature, true,
     "native/cuda/SoftMax.cu: output or gradInput is written, the others are const"},
    {"at::native::max_pool_forward*", "", signature, true,
     "native/cuda/DilatedMaxPool2d.cu: top_data and top_mask are written at every position, bottom_data is "
     "const"},
    {"fmha_cutlassF_*", "PyTorchMemEffAttention::", fields, true,
     "native/transformers/cuda/mem_eff_attention/kernel_forward.h, AttentionKernel::Params: the inputs are "
     "const; "
     "output_ptr and logsumexp_ptr are stored to before anything is loaded from them (kIsFirst), "
     "output_accum_ptr is where partial sums go"},
    {"fmha_cutlassB_*", "PyTorchMemEffAttention::", fields, false,
     "native/transformers/cuda/mem_eff_attention/kernel_backward.h, AttentionBackwardKernel::Params: the "
     "inputs "
     "are const; delta_ptr is written here or before; gradients may be summed up in place; the kernel itself "
     "works out workspace_gv and workspace_gq"},
    {"at::native::*", "", signature, false,
     "PyTorch passes what a kernel only reads as pointer to const, or as TensorInfo or accessor of const: "
     "its "
     "kernels' sources cast no const away"},
    {"at::cuda::*", "", signature, false, "as above"},
    {"at_cuda_detail::cub::*", "", signature, false,
     "cub/agent and cub/device/dispatch/kernels of CUDA 13.0: the only const that is cast away there is for "
     "a load; "
     "iterators that are no pointers may hold any address; single_pass_scan_operators.cuh and "
     "util_vsmem.cuh: "
     "tile states and vsmem_t hold addresses in temporary storage and nothing else"},
    {"cub::*", "", signature, false, "as above"},
};

constexpr KernelField attention_forward[] = {
    {0, Effect::read},         // query_ptr
    {8, Effect::read},         // key_ptr
    {16, Effect::read},        // value_ptr
    {24, Effect::read},        // attn_bias_ptr
    {32, Effect::read},        // seqstart_q_ptr
    {40, Effect::read},        // seqstart_k_ptr
    {48, Effect::read},        // seqlen_k_ptr
    {64, Effect::write},       // output_ptr
    {72, Effect::read_write},  // output_accum_ptr
    {80, Effect::write},       // logsumexp_ptr
};

constexpr KernelField attention_backward[] = {
    {0, Effect::read},          // query_ptr
    {8, Effect::read},          // key_ptr
    {16, Effect::read},         // value_ptr
    {24, Effect::read},         // bias_ptr
    {32, Effect::read},         // logsumexp_ptr
    {40, Effect::read},         // output_ptr
    {48, Effect::read},         // grad_output_ptr
    {56, Effect::read_write},   // delta_ptr
    {64, Effect::read},         // cu_seqlens_q_ptr
    {72, Effect::read},         // cu_seqlens_k_ptr
    {80, Effect::read_write},   // grad_query_ptr
    {88, Effect::read_write},   // grad_key_ptr
    {96, Effect::read_write},   // grad_value_ptr
    {104, Effect::read_write},  // grad_bias_ptr
    {112, Effect::read_write},  // workspace
};

constexpr KernelStruct structs[] = {
    {"fmha_cutlassF_*", 272, 248, attention_forward},   // PyTorch 2.11
    {"fmha_cutlassB_*", 464, 248, attention_backward},  // likewise
    {"fmha_cutlassF_*", 280, 256, attention_forward},   // 2.15, with q_heads_per_kv behind the addresses
    {"fmha_cutlassB_*", 480, 256, attention_backward},  // likewise
};

constexpr KernelKind kinds[] = {
    // Inductor names a kernel after all operations that it does a part of; parts of backward come in forward.
    {"triton_", OpKind::bare_launch, ""},
    // Normalisation, losses, embeddings: names without a direction in them.
    {"layer_norm_grad_input", OpKind::activation_backward, "layer_norm"},
    {"layer_norm_kernel", OpKind::activation_forward, "layer_norm"},
    {"RowwiseMomentsCUDAKernel", OpKind::launch_forward, ""},
    {"batch_norm_collect_statistics", OpKind::launch_forward, ""},
    {"batch_norm_transform_input_channels_last", OpKind::activation_forward, "normalise"},
    {"batch_norm_transform_input", OpKind::launch_forward, ""},
    {"compute_grad_weight", OpKind::launch_backward, ""},
    {"softmax_warp_forward", OpKind::softmax_forward, ""},
    {"cunn_SoftMaxForward", OpKind::softmax_forward, ""},
    {"softmax_warp_backward", OpKind::softmax_backward, ""},
    {"cunn_SoftMaxBackward", OpKind::softmax_backward, ""},
    {"max_pool_forward", OpKind::pooling_forward, "max"},
    {"max_pool_backward", OpKind::pooling_backward, "max"},
    {"avg_pool2d_out_cuda_frame", OpKind::pooling_forward, "average"},
    {"avg_pool2d_backward_out_cuda_frame", OpKind::pooling_backward, "average"},
    {"fmha_cutlassF_", OpKind::launch_forward, ""},
    {"fmha_cutlassB_", OpKind::launch_backward, ""},
    {"fused_dropout_kernel", OpKind::dropout_forward, ""},
    {"masked_scale_kernel", OpKind::dropout_backward, ""},
    // TensorIterator. The gradient of ReLU goes through threshold; ReLU itself is a clamp.
    {"threshold_kernel_impl", OpKind::activation_backward, ""},
    {"launch_clamp_scalar", OpKind::activation_forward, "clamp"},
    {"GeluBackward", OpKind::activation_backward, ""},
    {"GeluCUDAKernelImpl", OpKind::activation_forward, "gelu"},
    {"silu_backward", OpKind::activation_backward, ""},
    {"silu_kernel", OpKind::activation_forward, "silu"},
    {"sigmoid_backward", OpKind::activation_backward, ""},
    {"sigmoid_kernel_cuda", OpKind::activation_forward, "sigmoid"},
    {"tanh_backward", OpKind::activation_backward, ""},
    {"tanh_kernel_cuda", OpKind::activation_forward, "tanh"},
    {"FillFunctor", OpKind::set, ""},
    {"CUDAFunctor_add", OpKind::elementwise, "add"},
    {"CUDAFunctorOnSelf_add", OpKind::elementwise, "add"},
    {"direct_copy_kernel_cuda", OpKind::elementwise, "copy"},
    {"CatArrayBatchedCopy", OpKind::elementwise, "copy"},
    // What no line above knows, by the words that sources use.
    {"backward", OpKind::launch_backward, ""},
    {"Backward", OpKind::launch_backward, ""},
    {"flash_bwd", OpKind::launch_backward, ""},
    {"nll_loss_forward", OpKind::launch_forward, ""},
    {"flash_fwd", OpKind::launch_forward, ""},
};

// native/cuda/Loops.cuh, BinaryInternal.h, Fill: what operator() returns.
constexpr FunctorResult results[] = {
    {"at::native::FillFunctor<", 0},           {"at::native::CUDAFunctor_add<", 0},
    {"at::native::CUDAFunctorOnSelf_add<", 0}, {"at::native::BinaryFunctor<", 2},
    {"at::native::AUnaryFunctor<", 2},         {"at::native::BUnaryFunctor<", 2},
};

}  // namespace

std::span<const KernelRule> kernel_rules() {
  return rules;
}
std::span<const KernelStruct> kernel_structs() {
  return structs;
}
std::span<const KernelKind> kernel_kinds() {
  return kinds;
}
std::span<const FunctorResult> functor_results() {
  return results;
}

}  // namespace pooch::interpose
