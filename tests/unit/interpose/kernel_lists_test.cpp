// The same for kernels on lists of tensors (PyTorch's MultiTensorApply.cuh).
#include <gtest/gtest.h>

#include <vector>

#include "kernels_support.h"

namespace {

using namespace pooch;
using namespace pooch::interpose;

TEST(Kernels, OnlyTensorsThatBlocksNameAreInAList) {
  Example launch(
      "_ZN2at6native55_GLOBAL__N__d25d856e_22_ForeachBinaryOpList_cu_a911ec4325multi_tensor_apply_kernelINS1_"
      "18TensorListMetadataILi2EEENS1_24BinaryOpListAlphaFunctorIfLi2ELi2ELi0EEEJSt4plusIfEfEEEvT_T0_DpT1_",
      {{0, 3144}, {3144, 1}, {3145, 1}, {3148, 4}});
  launch.set(0, 0, a);       // list 0, tensor 0
  launch.set(0, 8, a + 64);  // tensor 1
  launch.set(0, 16, stale);  // left over
  launch.set(0, 512, b);     // list 1
  launch.set(0, 520, b + 64);
  launch.set(0, 528, stale);
  launch.set(0, 1536 + 2, std::uint8_t{1});  // block 2 works on tensor 1
  launch.set(0, 1536 + 3, std::uint8_t{2});  // no such block
  EXPECT_EQ(launch.words(3),
            (Words{"0+0 read_write a 0", "0+8 read_write a 0", "0+512 read b 0", "0+520 read b 0"}));
}

TEST(Kernels, UnscalingReachesTwoNumbersThroughItsFunctor) {
  Example launch(
      "_ZN2at6native46_GLOBAL__N__1df100ae_13_AmpKernels_cu_3810c27325multi_tensor_apply_"
      "kernelINS1_18TensorListMetadataILi1EEENS1_14UnaryOpFunctorIfLi1ELi1ELi0EEEJZZZNS0_47_amp_foreach_non_"
      "finite_check_and_unscale_cuda_EN3c108ArrayRefINS_6TensorEEERS9_RKS9_ENKUlvE_clEvENKUlvE0_clEvEUlfE_"
      "EEEvT_T0_DpT1_",
      {{0, 3368}, {3368, 1}, {3376, 16}});
  launch.set(0, 0, a);
  launch.set(2, 0, b);
  launch.set(2, 8, b + 512);
  EXPECT_EQ(launch.words(1), (Words{"0+0 read_write a 0", "2+0 read_write b 0", "2+8 read_write b 0"}));
}

TEST(Kernels, ListsWithScalarsHaveTheirBlocksBehindThem) {
  Example launch(
      "_ZN2at6native61_GLOBAL__N__538ad94b_28_ForeachBinaryOpScalarList_cu_dda10a6925multi_tensor_apply_"
      "kernelINS1_"
      "28TensorListScalarListMetadataIfLi1EEENS1_25BinaryOpScalarListFunctorIfLi1ELi1ELi0EEEJNS0_"
      "7maximumIfEEEEEvT_T0_DpT1_",
      {{0, 3520}, {3520, 1}, {3521, 1}});
  launch.set(0, 0, a);
  launch.set(0, 8, stale);
  EXPECT_EQ(launch.words(1), (Words{"0+0 read_write a 0"}));
  launch.set(0, 96 * 8 * 2 + 96 * 4, std::uint8_t{1});
  EXPECT_EQ(launch.words(1).size(), 2u);
}

TEST(Kernels, ListsOfLargeParametersNameTensorsByTwoBytes) {
  Example launch(
      "_ZN2at6native55_GLOBAL__N__f86471ef_22_ForeachBinaryOpList_cu_a911ec4325multi_tensor_apply_kernelINS1_"
      "18TensorListMetadataILi2EEENS1_24BinaryOpListAlphaFunctorIfLi2ELi2ELi0EEEJSt4plusIfEfEEEvT_T0_DpT1_",
      {{0, 24200}, {24200, 1}, {24201, 1}, {24204, 4}});
  constexpr std::size_t lists = 448 * 8, blocks = 3 * lists;
  launch.set(0, 0, a);
  launch.set(0, 300 * 8, a + 64);
  launch.set(0, 301 * 8, stale);
  launch.set(0, lists, b);
  launch.set(0, blocks + 1999 * 2, std::uint16_t{300});
  launch.set(0, blocks + 2000 * 2, std::uint16_t{301});  // no such block
  EXPECT_EQ(launch.words(2000), (Words{"0+0 read_write a 0", "0+2400 read_write a 0", "0+3584 read b 0"}));
  EXPECT_EQ(launch.words(2241), (Words{"0+0 read_write a 0?", "0+2400 read_write a 0?",
                                       "0+2408 read_write stale 0?", "0+3584 read_write b 0?"}));

  Example scalars(
      "_ZN2at6native52_GLOBAL__N__913c22e1_19_ForeachTernaryOp_cu_5285c63625multi_tensor_apply_kernelINS1_"
      "28TensorListScalarListMetadataIfLi3EEENS1_26TernaryOpScalarListFunctorIN3c104HalfELi3ELi2ELi2EEEJNS0_"
      "11LerpFunctorIfEEEEEvT_T0_DpT1_",
      {{0, 25536}, {25536, 1}, {25537, 1}});
  scalars.set(0, 0, a);
  scalars.set(0, 2 * 336 * 8, c);
  scalars.set(0, 2 * 336 * 8 + 8, stale);
  EXPECT_EQ(scalars.words(1), (Words{"0+0 read a 0", "0+5376 read_write c 0"}));
  scalars.set(0, 4 * 336 * 8 + 336 * 4, std::uint16_t{1});
  EXPECT_EQ(scalars.words(1).size(), 3u);
}

TEST(Kernels, FusedOptimisersReadThroughPointers) {
  const auto adam = [](const char* name, std::uint32_t metadata, std::size_t steps) {
    Example launch(name, {{0, metadata},
                          {metadata, 1},
                          {metadata + 8, 8},
                          {metadata + 16, 8},
                          {metadata + 24, 8},
                          {metadata + 32, 8},
                          {metadata + 40, 8},
                          {metadata + 48, 8},
                          {metadata + 56, 1},
                          {metadata + 64, 8},
                          {metadata + 72, 8}});
    launch.set(0, 0, a);
    launch.set(0, steps, b);
    launch.set(2, 0, c);
    launch.set(9, 0, c + 512);
    launch.set(10, 0, c + 1024);
    return launch.words(1);
  };
  EXPECT_EQ(adam("_ZN2at6native51_GLOBAL__N__f7f2fd5f_18_fused_adam_impl_cu_454205f325multi_tensor_apply_"
                 "kernelINS1_32FusedOptimizerTensorListMetadataILi4EEENS1_20FusedAdamMathFunctorIfLi4ELNS0_"
                 "9ADAM_MODEE0ELb0EEEJPKfdddddbS9_S9_EEEvT_T0_DpT1_",
                 3336, 5 * 36 * 8),
            (Words{"0+0 read_write a 0", "0+1440 read_write b 0", "2+0 read c 0", "9+0 read c 0",
                   "10+0 read c 0"}));
  EXPECT_EQ(adam("_ZN2at6native51_GLOBAL__N__b7f847be_18_fused_adam_impl_cu_454205f325multi_tensor_apply_"
                 "kernelINS1_32FusedOptimizerTensorListMetadataILi4EEENS1_20FusedAdamMathFunctorIfLi4ELNS0_"
                 "9ADAM_MODEE0ELb0EEEJPKfdddddbS9_S9_EEEvT_T0_DpT1_",
                 25544, 5 * 252 * 8),
            (Words{"0+0 read_write a 0", "0+10080 read_write b 0", "2+0 read c 0", "9+0 read c 0",
                   "10+0 read c 0"}));
  // The learning rate is no pointer to const in FusedSgdKernel.cu, whose functor takes it as one.
  Example sgd(
      "_ZN2at6native50_GLOBAL__N__c32bc2c2_17_FusedSgdKernel_cu_a550329a25multi_tensor_apply_kernelINS1_"
      "18TensorListMetadataILi2EEENS1_19FusedSgdMathFunctorIN3c104HalfELi2EEEJddPfddbbbS9_S9_EEEvT_T0_DpT1_",
      {{0, 3144},
       {3144, 1},
       {3152, 8},
       {3160, 8},
       {3168, 8},
       {3176, 8},
       {3184, 8},
       {3192, 1},
       {3193, 1},
       {3194, 1},
       {3200, 8},
       {3208, 8}});
  sgd.set(0, 0, a);
  sgd.set(4, 0, b);
  sgd.set(11, 0, c);
  EXPECT_EQ(sgd.words(1), (Words{"0+0 read_write a 0", "4+0 read b 0", "11+0 read c 0"}));
}

TEST(Kernels, NormsOfListsWriteANumberForEachChunk) {
  Example norms(
      "_ZN2at6native51_GLOBAL__N__d9d46141_18_ForeachReduceOp_cu_b83ec48c25multi_tensor_apply_kernelINS1_"
      "18TensorListMetadataILi1EEENS0_13LpNormFunctorIfLNS0_8NormTypeE0EN3c104HalfELi1ELi1ELi0EEEJPfiEEEvT_"
      "T0_DpT1_",
      {{0, 3368}, {3368, 1}, {3376, 8}, {3384, 4}});
  norms.set(0, 0, a);
  norms.set(2, 0, b);
  EXPECT_EQ(norms.words(1), (Words{"0+0 read a 0", "2+0 read_write b 0"}));

  Example later(
      "_ZN2at6native51_GLOBAL__N__99dedba0_18_ForeachReduceOp_cu_b83ec48c25multi_tensor_apply_kernelINS1_"
      "18TensorListMetadataILi1EEENS0_13LpNormFunctorIfLNS0_8NormTypeE0EN3c104HalfELi1ELi1ELi0EEEJPfPKlEEEvT_"
      "T0_DpT1_",
      {{0, 25768}, {25768, 1}, {25776, 8}, {25784, 8}});
  later.set(0, 0, a);
  later.set(2, 0, b);
  later.set(3, 0, c);
  EXPECT_EQ(later.words(1), (Words{"0+0 read a 0", "2+0 read_write b 0", "3+0 read c 0"}));
}

TEST(Kernels, ScalingListsReadsTheScalar) {
  Example launch(
      "_ZN2at6native63_GLOBAL__N__d2244290_30_ForeachBinaryOpScalarTensor_cu_64fe0ca525multi_tensor_apply_"
      "kernelINS1_18TensorListMetadataILi1EEENS1_27BinaryOpScalarTensorFunctorIfLi1ELi1ELi0EEEJSt10multiplies"
      "IfEPffEEEvT_T0_DpT1_",
      {{0, 3368}, {3368, 1}, {3369, 1}, {3376, 8}, {3384, 4}});
  launch.set(0, 0, a);
  launch.set(3, 0, b);
  EXPECT_EQ(launch.words(1), (Words{"0+0 read_write a 0", "3+0 read b 0"}));
}

TEST(Kernels, ListsOfAddressesHaveOneForEachBlock) {
  Example launch("_ZN2at6native14lpnorm_cleanupIfLNS0_8NormTypeE0EfLb1EfEEvPKT3_NS0_19TensorListAddressesEi",
                 {{0, 8}, {8, 3200}, {3208, 4}});
  launch.set(0, 0, a);
  launch.set(1, 0, b);
  launch.set(1, 8, c);
  launch.set(1, 16, stale);
  EXPECT_EQ(launch.words(2), (Words{"0+0 read a 0", "1+0 read_write b 0", "1+8 read_write c 0"}));
}

}  // namespace
