// What rules say of launches, by names and layouts of kernels in the wheels of PyTorch 2.11 and 2.15 (sm_90).
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "kernels_support.h"

namespace {

using namespace pooch;
using namespace pooch::interpose;

TEST(KernelName, PartsOfATemplateInAnAnonymousNamespace) {
  const KernelName name = parse_kernel_name(
      "_ZN2at6native52_GLOBAL__N__e57809e0_19_DilatedMaxPool2d_cu_6258b57421max_pool_forward_nchwIflEEvT0_"
      "PKT_"
      "llliiiiiiiiiiPS4_Pl");
  EXPECT_EQ(name.function, "at::native::max_pool_forward_nchw");
  EXPECT_EQ(name.arguments, (Words{"float", "long"}));
  ASSERT_EQ(name.params.size(), 17u);
  EXPECT_EQ(name.params[1], "float const*");
  EXPECT_EQ(name.params[15], "float*");
}

TEST(KernelName, ANameThatIsNotMangledIsItself) {
  const KernelName name = parse_kernel_name("triton_poi_fused_add_0");
  EXPECT_EQ(name.function, "triton_poi_fused_add_0");
  EXPECT_TRUE(name.params.empty() && name.arguments.empty());
}

TEST(Kernels, WordsOfAnUnknownKernelMayBeAnything) {
  Example launch("triton_poi_fused_add_0", {{0, 8}, {8, 24}, {32, 4}});
  launch.set(0, 0, a);
  launch.set(1, 8, b);
  launch.set(1, 16, std::uint64_t{12});
  EXPECT_EQ(launch.words(), (Words{"0+0 read_write a 0?", "1+8 read_write b 0?"}));
  EXPECT_EQ(launch.facts.rule(), nullptr);
  EXPECT_EQ(launch.facts.kind(), OpKind::bare_launch);
}

TEST(Kernels, ABufferWithoutALayoutIsLookedAtAsAWhole) {
  const KernelFacts facts(nullptr, {});
  const std::uint64_t buffer[] = {1, a, b};
  const ParamLayout whole{0, sizeof buffer};
  std::vector<LaunchWord> found;
  facts.find_words(LaunchParams(reinterpret_cast<const std::byte*>(buffer), sizeof buffer, {&whole, 1}),
                   one_block, find_memory, found);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[1].address, b);
}

TEST(Kernels, ABufferThatIsTooShortIsNotReadBeyondItsEnd) {
  const KernelFacts facts("k", {{0, 8}, {8, 8}});
  const std::uint64_t buffer[] = {a};
  std::vector<LaunchWord> found;
  facts.find_words(LaunchParams(reinterpret_cast<const std::byte*>(buffer), sizeof buffer, facts.layout()),
                   one_block, find_memory, found);
  EXPECT_EQ(found.size(), 1u);
}

TEST(Kernels, TheSameKernelHasTheSameIdentityAndOthersHaveOthers) {
  const KernelFacts one("k", {{0, 8}}), same("k", {{0, 8}}), other("l", {{0, 8}}), larger("k", {{0, 16}});
  EXPECT_EQ(one.identity(), same.identity());
  EXPECT_NE(one.identity(), other.identity());
  EXPECT_NE(one.identity(), larger.identity());
}

TEST(Kernels, AFillOverwritesAsManyElementsAsItIsTold) {
  Example launch(
      "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEESt5arrayIPcLm1EEEEviT0_T1_",
      {{0, 4}, {4, 4}, {8, 8}});
  launch.set(0, 0, 1000);
  launch.set(2, 0, a);
  EXPECT_EQ(launch.words(), (Words{"2+0 overwrite a 4000"}));
  EXPECT_EQ(launch.facts.kind(), OpKind::set);
  EXPECT_EQ(launch.count, 1000u);
}

TEST(Kernels, AnElementwiseKernelReadsAllButItsFirstAddress) {
  Example launch(
      "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEESt5arrayIPcLm3EEEEviT0_T1_",
      {{0, 4}, {4, 4}, {8, 24}});
  launch.set(0, 0, 64);
  launch.set(2, 0, a);
  launch.set(2, 8, b);
  launch.set(2, 16, c);
  EXPECT_EQ(launch.words(), (Words{"2+0 overwrite a 256", "2+8 read b 0", "2+16 read c 0"}));
  EXPECT_EQ(launch.facts.kind(), OpKind::elementwise);
  EXPECT_EQ(launch.facts.mode(), "add");
}

TEST(Kernels, AnAddressInAFunctorIsNotUnderstood) {
  Example launch(
      "_ZN2at6native29vectorized_elementwise_kernelILi4EZZZNS0_49_GLOBAL__N__d2ba64fb_16_TensorCompare_cu_"
      "71e06f4e19launch_clamp_scalarERNS_18TensorIteratorBaseEN3c106ScalarES6_NS0_"
      "6detail11ClampLimitsEENKUlvE_"
      "clEvENKUlvE5_clEvEUlfE_St5arrayIPcLm2EEEEviT0_T1_",
      {{0, 4}, {8, 24}, {32, 16}});
  launch.set(0, 0, 64);
  launch.set(1, 8, c);
  launch.set(2, 0, a);
  launch.set(2, 8, b);
  EXPECT_EQ(launch.words(), (Words{"2+0 write a 0", "2+8 read b 0", "1+8 read_write c 0?"}));
  EXPECT_EQ(launch.facts.kind(), OpKind::activation_forward);
}

TEST(Kernels, TheGradientOfReluIsBackward) {
  Example launch(
      "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_13BinaryFunctorIfffZNS0_67_GLOBAL__N__06c19b41_"
      "28_"
      "ActivationThresholdKernel_cu_ef1a7132_1580621threshold_kernel_implIfEEvRNS_18TensorIteratorBaseET_S7_"
      "EUlffE_EESt5arrayIPcLm3EEEEviT0_T1_",
      {{0, 4}, {8, 16}, {24, 24}});
  launch.set(0, 0, 64);
  for (std::size_t i = 0; i < 3; ++i) launch.set(2, 8 * i, a + i * 0x1000000);
  EXPECT_EQ(launch.words(), (Words{"2+0 overwrite a 256", "2+8 read b 0", "2+16 read c 0"}));
  EXPECT_EQ(direction(launch.facts.kind()), Direction::backward);
}

// The types are converted on the way, so nobody knows how large the elements of the output are.
TEST(Kernels, AConvertingCopyHasAnOutputOfUnknownSize) {
  Example launch(
      "_ZN2at6native27unrolled_elementwise_kernelIZZZNS0_23direct_copy_kernel_cudaERNS_"
      "18TensorIteratorBaseEENKUlvE1_"
      "clEvENKUlvE5_clEvEUlfE_St5arrayIPcLm2EELi4E23TrivialOffsetCalculatorILi1EjESB_NS0_"
      "6memory12LoadWithCastILi1EEE"
      "NSC_13StoreWithCastILi1EEEEEviT_T0_T2_T3_T4_T5_",
      {{0, 4}, {4, 1}, {8, 16}, {24, 1}, {25, 1}, {28, 8}, {36, 8}});
  launch.set(0, 0, 64);
  launch.set(2, 0, a);
  launch.set(2, 8, b);
  launch.set(5, 0, stale);
  EXPECT_EQ(launch.words(), (Words{"2+0 write a 0", "2+8 read b 0"}));
  EXPECT_EQ(launch.facts.mode(), "copy");
}

TEST(Kernels, OutputsOfSeveralComeFirst) {
  Example launch(
      "_ZN2at6native57_GLOBAL__N__54d86290_24_ActivationPreluKernel_cu_bc9ca66845unrolled_elementwise_kernel_"
      "for_multi_"
      "outputsILi2EZZZNS0_21prelu_backward_kernelERNS_14TensorIteratorEENKUlvE_clEvENKUlvE0_clEvEUlfffE_"
      "St5arrayIPcLm5EE"
      "16OffsetCalculatorILi3EjLb0EESB_ILi2EjLb0EEEEviT0_T1_T2_T3_",
      {{0, 4}, {4, 1}, {8, 40}, {48, 604}, {652, 504}});
  for (std::size_t i = 0; i < 3; ++i) launch.set(2, 8 * i, a + i * 0x1000000);
  launch.set(3, 104, stale);
  EXPECT_EQ(launch.words(), (Words{"2+0 write a 0", "2+8 write b 0", "2+16 read c 0"}));
}

TEST(Kernels, AStridedKernelHasItsAddressesBehindTheOffsetCalculator) {
  const char* const name =
      "_ZN2at6native18elementwise_kernelILi128ELi2EZNS0_22gpu_kernel_impl_nocastINS0_15CUDAFunctor_"
      "addIfEEEEvRNS_"
      "18TensorIteratorBaseERKT_EUliE_EEviT1_";
  Example launch(name, {{0, 4}, {8, 648}});
  launch.set(1, 608, a);
  launch.set(1, 616, b);
  launch.set(1, 624, c);
  launch.set(1, 320, stale);  // an unused stride
  EXPECT_EQ(launch.words(), (Words{"1+608 write a 0", "1+616 read b 0", "1+624 read c 0"}));
  // Where there are not as many addresses as there should be, the struct is another than it was taken for.
  Example other(name, {{0, 4}, {8, 648}});
  other.set(1, 608, a);
  EXPECT_EQ(other.words(), (Words{"1+608 read_write a 0?"}));
}

TEST(Kernels, ALambdaWhoseFunctorIsLargeTellsNotWhereItsAddressesAre) {
  const char* const name =
      "_ZN2at6native18elementwise_kernelILi128ELi2EZNS0_22gpu_kernel_impl_nocastIZZNS0_74_GLOBAL__N__"
      "ed1a17b8_35_"
      "SparseBinaryOpIntersectionKernel_cu_ef1a7132_2314942_sparse_binary_op_intersection_kernel_implINS3_"
      "18CUDAKernelLauncherENS3_36CUDAValueSelectionIntersectionKernelINS3_5MulOpEEElLl0EEEvRNS_"
      "6TensorERKS9_SC_RKSt6vectorIlSaIlEERKSt8optionalIS9_ESL_bbENKUlvE3_clEvEUllE_EEvRNS_"
      "18TensorIteratorBaseERKT_EUliE_EEviT1_";
  Example launch(name, {{0, 4}, {8, 648}});
  launch.set(1, 504, a);  // the output
  launch.set(1, 608, b);  // these the functor has
  launch.set(1, 616, b);
  launch.set(1, 624, c);
  EXPECT_EQ(launch.facts.rule(), nullptr);
  EXPECT_EQ(launch.words(), (Words{"1+504 read_write a 0?", "1+608 read_write b 0?", "1+616 read_write b 0?",
                                   "1+624 read_write c 0?"}));

  Example indices(
      "_ZN2at6native18elementwise_kernelILi128ELi2EZNS0_22gpu_kernel_impl_nocastIZZZNS0_67_GLOBAL__N__"
      "48fec485_34_ValidateCompressedIndicesKernel_cu_33a4b88b42_validate_compressed_sparse_indices_"
      "kernelILNS3_"
      "8CDimNameE0ENS3_18CUDAKernelLauncherENS3_14EmptyVecKernelENS3_8DummyVecELm8EEEvRKNS_6TensorESB_"
      "lllENKUlvE1_"
      "clEvENKUlvE0_clEvEUllllllE_EEvRNS_18TensorIteratorBaseERKT_EUliE_EEviT1_",
      {{0, 4}, {8, 1136}});
  indices.set(1, 904, a);                                               // the output
  for (std::size_t i = 0; i < 7; ++i) indices.set(1, 1008 + 8 * i, b);  // strides that the functor has
  EXPECT_EQ(indices.facts.rule(), nullptr);
  EXPECT_EQ(indices.words()[0], "1+904 read_write a 0?");
}

TEST(Kernels, AReductionReadsItsSourceAndMayAddToItsOutput) {
  Example launch(
      "_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfNS0_14func_wrapper_tIfNS0_"
      "13MaxNanFunctorIfEEEEjfLi4ELi4EEE"
      "EEvT1_",
      {{0, 1048}});
  launch.set(0, 984, a);                 // src
  launch.set(0, 992, b);                 // dst[0]
  launch.set(0, 1000, stale);            // dst[1], of which there is none
  launch.set(0, 1016, c);                // cta_buf
  launch.set(0, 1044, std::int32_t{1});  // noutputs
  EXPECT_EQ(launch.words(), (Words{"0+984 read a 0", "0+992 write b 0", "0+1016 read_write c 0"}));
  launch.set(0, 1040, true);  // accumulate
  EXPECT_EQ(launch.words()[1], "0+992 read_write b 0");
}

// PyTorch 2.15 has parameters of up to 32 KiB, so that lists are longer and blocks name tensors by two bytes.
// Learning rate, scale and the flag of an infinite gradient are read alone; so is what other functors on
// lists take as a pointer to const.
TEST(Kernels, ASignatureTellsInputsByConst) {
  Example softmax(
      "_ZN43_GLOBAL__N__b6de9c8c_10_SoftMax_cu_9f978f6320softmax_warp_forwardIfffLi7ELb1ELb0EEEvPT0_PKT_"
      "iiiPKbib",
      {{0, 8}, {8, 8}, {16, 4}, {20, 4}, {24, 4}, {32, 8}, {40, 4}, {44, 1}});
  softmax.set(0, 0, a);
  softmax.set(1, 0, b);
  softmax.set(5, 0, c);
  EXPECT_EQ(softmax.words(), (Words{"0+0 write a 0", "1+0 read b 0", "5+0 read c 0"}));
  EXPECT_EQ(softmax.facts.kind(), OpKind::softmax_forward);

  Example dropout(
      "_ZN2at6native43_GLOBAL__N__50f1b6c4_10_Dropout_cu_0e96ed3824fused_dropout_kernel_"
      "vecIffmLi1ELi2EhEEvNS_4cuda6detail"
      "10TensorInfoIKT_T1_EENS5_IS6_S8_EENS5_IT4_S8_EES8_T0_NS_15PhiloxCudaStateE",
      {{0, 416}, {416, 416}, {832, 416}, {1248, 8}, {1256, 4}, {1264, 32}});
  dropout.set(0, 0, a);
  dropout.set(1, 0, b);
  dropout.set(2, 0, c);
  dropout.set(0, 200, stale);  // an unused stride
  EXPECT_EQ(dropout.words(), (Words{"0+0 read a 0", "1+0 read_write b 0", "2+0 read_write c 0"}));
  EXPECT_EQ(dropout.facts.kind(), OpKind::dropout_forward);
}

TEST(Kernels, CubsTileStatesHoldNothingButAddresses) {
  Example scan("_ZN14at_cuda_detail3cub6detail4scan20DeviceScanInitKernelINS0_13ScanTileStateIlLb1EEEEEvT_i",
               {{0, 8}, {8, 4}});
  scan.set(0, 0, a + 64);
  EXPECT_EQ(scan.words(), (Words{"0+0 read_write a 0"}));
  // Of values that are no machine words: status, partial and inclusive sums.
  Example sums("_ZN3cub20DeviceScanInitKernelINS_13ScanTileStateI6StructLb0EEEEEvT_i", {{0, 24}, {24, 4}});
  sums.set(0, 0, a);
  sums.set(0, 16, c);
  EXPECT_EQ(sums.words(), (Words{"0+0 read_write a 0", "0+16 read_write c 0"}));
  Example other("_ZN3cub20DeviceScanInitKernelINS_9TileStateILb1EEEEEvT_i", {{0, 8}, {8, 4}});
  other.set(0, 0, a);
  EXPECT_EQ(other.words(), (Words{"0+0 read_write a 0?"}));
}

TEST(Kernels, ARangeIsWrittenAndItsFunctorHoldsNoAddress) {
  const char* const name =
      "_ZN50_GLOBAL__N__fa15d16e_17_RangeFactories_cu_38772b0829elementwise_kernel_with_"
      "indexIiZZZN2at6native15"
      "arange_cuda_outERKN3c106ScalarES6_S6_RNS1_6TensorEENKUlvE_clEvENKUlvE2_clEvEUllE_EEvT_T0_PN15function_"
      "traitsISD_E11result_typeE";
  Example range(name, {{0, 4}, {8, 16}, {24, 8}});
  range.set(2, 0, b);
  EXPECT_EQ(range.words(), (Words{"2+0 write b 0"}));
  range.set(1, 8, a);
  EXPECT_EQ(range.words(), (Words{"2+0 write b 0", "1+8 read_write a 0?"}));
}

// What only fills its outputs can be made again.
TEST(Kernels, NormalisationsWriteTheirResults) {
  Example norm(
      "_ZN2at6native47batch_norm_transform_input_channels_last_kernelIN3c104HalfEfS3_Li4EEEvPKT_S6_PKT0_S9_"
      "PKT1_"
      "SC_PS4_iib",
      {{0, 8}, {8, 8}, {16, 8}, {24, 8}, {32, 8}, {40, 8}, {48, 8}, {56, 4}, {60, 4}, {64, 1}});
  norm.set(0, 0, a);
  norm.set(2, 0, b);
  norm.set(6, 0, c);
  EXPECT_EQ(norm.words(), (Words{"0+0 read a 0", "2+0 read b 0", "6+0 write c 0"}));
  EXPECT_EQ(norm.facts.kind(), OpKind::activation_forward);

  Example rows(
      "_ZN2at6native53_GLOBAL__N__21739cd4_20_layer_norm_kernel_cu_9c5ada8a28vectorized_layer_norm_"
      "kernelIN3c104"
      "HalfEfLb0EEEviT0_PKT_S8_S8_PS5_S9_PS6_",
      {{0, 4}, {4, 4}, {8, 8}, {16, 8}, {24, 8}, {32, 8}, {40, 8}, {48, 8}});
  rows.set(2, 0, a);
  rows.set(5, 0, b);
  rows.set(6, 0, b + 512);
  rows.set(7, 0, c);
  EXPECT_EQ(rows.words(), (Words{"2+0 read a 0", "5+0 write b 0", "6+0 write b 0", "7+0 write c 0"}));
  EXPECT_EQ(rows.facts.kind(), OpKind::activation_forward);
}

TEST(Kernels, AConcatenationHasAnInputPerRowOfItsGrid) {
  Example launch(
      "_ZN2at6native40_GLOBAL__N__0f1a8107_8_Shape_cu_49f7391c19CatArrayBatchedCopyINS1_10OpaqueTypeILj4EEEj"
      "Li4ELi64ELi64EEEvPT_NS1_25CatArrInputTensorMetadataIS5_T0_XT2_EXT3_EEENS1_16TensorSizeStrideIS8_Lj4EEE"
      "iS8_",
      {{0, 8}, {8, 3392}, {3400, 32}, {3432, 4}, {3436, 4}});
  launch.set(0, 0, a);
  launch.set(1, 0, b);
  launch.set(1, 8, c);
  launch.set(1, 16, stale);
  EXPECT_EQ(launch.words(264, 2), (Words{"0+0 write a 0", "1+0 read b 0", "1+8 read c 0"}));
  EXPECT_EQ(launch.words(264, 65).size(), 4u);  // there is room for 64
  EXPECT_EQ(launch.facts.kind(), OpKind::elementwise);
}

// Found by fuzzing.
TEST(Kernels, NamesThatPromiseLessThanTheirRuleExpectsAreNotUnderstood) {
  Example concatenation("_ZN2at6native19CatArrayBatchedCopyEPi", {{0, 8}});
  concatenation.set(0, 0, a);
  EXPECT_EQ(concatenation.words(), (Words{"0+0 read_write a 0?"}));
  EXPECT_EQ(concatenation.facts.rule(), nullptr);

  Example outputs("_ZN2at6native43unrolled_elementwise_kernel_for_multi_outputsEiiSt5arrayIPcLm2EE",
                  {{0, 4}, {4, 4}, {8, 16}});
  outputs.set(2, 0, a);
  outputs.set(2, 8, b);
  EXPECT_EQ(outputs.words(), (Words{"2+0 read_write a 0?", "2+8 read_write b 0?"}));
  EXPECT_EQ(outputs.facts.rule(), nullptr);
}

constexpr const char* attention_forward =
    "_Z39fmha_cutlassF_f32_aligned_64x64_rf_sm80N22PyTorchMemEffAttention15AttentionKernelIfN7cutlass4arch4"
    "Sm80ELb1ELi64ELi64ELi64ELb1ELb1EE6ParamsE";

TEST(Kernels, AttentionReadsAndWritesWhatTheFieldsOfItsStructName) {
  Example forward(attention_forward, {{0, 272}});
  for (const std::size_t input : {0, 8, 16}) forward.set(0, input, a + input);
  forward.set(0, 64, b);
  forward.set(0, 80, c);
  forward.set(0, 56, stale);  // a number of four bytes, and what lies behind it
  EXPECT_EQ(forward.words(),
            (Words{"0+0 read a 0", "0+8 read a 0", "0+16 read a 0", "0+64 write b 0", "0+80 write c 0"}));
  EXPECT_EQ(forward.facts.kind(), OpKind::launch_forward);

  Example backward(
      "_Z40fmha_cutlassB_f32_aligned_64x64_k64_sm80N22PyTorchMemEffAttention23AttentionBackwardKernelIN7"
      "cutlass4arch4Sm80EfLb1ELb0ELb0ELi64ELi64ELi64ELb0EE6ParamsE",
      {{0, 464}});
  backward.set(0, 48, a);
  backward.set(0, 56, b);
  backward.set(0, 80, c);
  backward.set(0, 120, stale);  // workspace_gv
  backward.set(0, 216, stale);  // a number of one byte
  EXPECT_EQ(backward.words(), (Words{"0+48 read a 0", "0+56 read_write b 0", "0+80 read_write c 0"}));
  EXPECT_EQ(backward.facts.kind(), OpKind::launch_backward);
}

// PyTorch 2.15 has one number more behind the addresses.
TEST(Kernels, AttentionsStructsAreToldByTheirSize) {
  Example forward(attention_forward, {{0, 280}});
  forward.set(0, 0, a);
  forward.set(0, 64, b);
  forward.set(0, 248, stale);
  EXPECT_EQ(forward.words(), (Words{"0+0 read a 0", "0+64 write b 0"}));
  forward.set(0, 256, true);
  EXPECT_EQ(forward.words().size(), 3u);

  Example backward(
      "_Z40fmha_cutlassB_f32_aligned_64x64_k32_sm80N22PyTorchMemEffAttention23AttentionBackwardKernelIN7"
      "cutlass4arch4Sm80EfLb1ELb0ELb0ELi64ELi64ELi32ELb0EE6ParamsE",
      {{0, 480}});
  backward.set(0, 48, a);
  backward.set(0, 80, c);
  EXPECT_EQ(backward.words(), (Words{"0+48 read a 0", "0+80 read_write c 0"}));
  backward.set(0, 256, true);
  EXPECT_EQ(backward.words(), (Words{"0+48 read_write a 0?", "0+80 read_write c 0?"}));
}

TEST(Kernels, AStructOfAnotherSizeOrWithSeedsInDeviceMemoryIsNotUnderstood) {
  Example other(attention_forward, {{0, 288}});
  other.set(0, 0, a);
  EXPECT_EQ(other.words(), (Words{"0+0 read_write a 0?"}));
  Example captured(attention_forward, {{0, 272}});
  captured.set(0, 0, a);
  captured.set(0, 248, true);
  EXPECT_EQ(captured.words(), (Words{"0+0 read_write a 0?"}));
}

TEST(Kernels, ALayoutThatTheNameDoesNotPromiseIsNotUnderstood) {
  Example launch(
      "_ZN43_GLOBAL__N__b6de9c8c_10_SoftMax_cu_9f978f6320softmax_warp_forwardIfffLi7ELb1ELb0EEEvPT0_PKT_"
      "iiiPKbib",
      {{0, 8}, {8, 8}});
  launch.set(0, 0, a);
  launch.set(1, 0, b);
  EXPECT_EQ(launch.words(), (Words{"0+0 read_write a 0?", "1+0 read_write b 0?"}));
}

TEST(Kernels, ANameAloneTellsNoMoreThanTheHalf) {
  EXPECT_EQ(KernelFacts("my_FillFunctor", {{0, 8}}).kind(), OpKind::bare_launch);
  EXPECT_EQ(KernelFacts("my_silu_kernel", {{0, 8}}).kind(), OpKind::launch_forward);
  EXPECT_EQ(KernelFacts("my_silu_kernel", {{0, 8}}).mode(), "");
  EXPECT_EQ(KernelFacts("my_softmax_backward", {{0, 8}}).kind(), OpKind::launch_backward);
}

TEST(Kernels, EveryRuleHasEvidence) {
  for (const KernelRule& rule : kernel_rules()) {
    EXPECT_GT(rule.evidence.size(), 5u) << rule.function;
    // Without a form it takes some kernels out of a later one.
    if (rule.form != KernelForm::unknown) continue;
    EXPECT_FALSE(rule.inside.empty()) << rule.function;
    EXPECT_TRUE(std::any_of(&rule + 1, kernel_rules().data() + kernel_rules().size(),
                            [&](const KernelRule& later) { return later.function == rule.function; }))
        << rule.function;
  }
}

// However made up a name is: what cannot be spelled out stays as it is.
TEST(KernelName, NothingBehindItIsWithoutEnd) {
  const auto stays = [](const std::string& name) {
    const KernelName parsed = parse_kernel_name(name.c_str());
    EXPECT_TRUE(parsed.text == name) << name.substr(0, 60);
  };
  for (const char nested : {'P', 'R', 'K', 'I', 'N', 'F', 'M', 'Z', 'J', 'A'})
    for (const std::size_t depth : {500, 1000, 100'000}) stays("_Z1f" + std::string(depth, nested) + "i");
  std::string templates = "_Z1f";
  for (int i = 0; i < 100; ++i) templates += "1aI";
  stays(templates + "i" + std::string(100, 'E'));
  // Each part is the one before it, twice: 2^35 words.
  std::string doubled = "_Z1f1aIiiE";
  const std::string digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
  for (std::size_t i = 0; i + 1 < digits.size(); ++i)
    doubled += std::string("S_IS") + digits[i] + "_S" + digits[i] + "_E";
  stays(doubled);
  stays("_Z1fIT_EvS0_");
  stays("_Z1fI1aIT_EEvT_");
  stays("_Z99999999999999999999f");
  stays("_ZS1ZZZZZZZZZ_f");
  stays("_Z");
  stays("");
  stays("i");  // no mangled name, so not "int"
}

TEST(KernelName, WhatCompilersMakeIsSpelledOut) {
  const auto reads = [](const char* name, const char* text) {
    EXPECT_EQ(parse_kernel_name(name).text, text);
  };
  reads("_Z5scaleIfEvPT_PKS0_iS0_", "void scale<float>(float*, float const*, int, float)");
  reads("_ZN1aL1bILi4ELb1EEEvPi", "void a::b<4, true>(int*)");
  reads("_Z1fISt5arrayIPcLm2EEEvT_", "void f<std::array<char*, 2ul> >(std::array<char*, 2ul>)");
  reads("_Z6kernelIZ3fooIiEvT_EUlvE_EvS1_",
        "void kernel<foo<int>(int)::{lambda()#1}>(foo<int>(int)::{lambda()#1})");
  reads("_ZN12_GLOBAL__N_11fEPfi", "(anonymous namespace)::f(float*, int)");
  reads("_Z1fIXadL_Z1giEEEvv", "void f<&(g(int))>()");
  reads("_Z1fPFviERA3_d", "f(void (*)(int), double (&) [3])");
}

}  // namespace
