// What the software GPU says CUB's kernels touch, and those of an embedding's gradient that work on what
// these leave. Parameters are those of launches of gpt.py: 8,192 tokens, a vocabulary of as many, rows of
// 768.
#include "tests/softgpu/pytorch_launch.h"

namespace softgpu {
namespace {

#define CUB "at_cuda_detail::cub::detail::"
#define HUB(types) CUB types "::Policy1000"
#define SORT HUB("radix::policy_hub<long, at::cuda::cub::detail::OpaqueType<8>, unsigned long long>")
constexpr auto both = TouchKind::read_write;
constexpr std::int64_t tokens = 8192;
constexpr std::uint64_t all = 8 * tokens;  // bytes of a number for each
constexpr Address e = 0x7f0000800000, f = 0x7f0000a00000, g = 0x7f0000c00000;

Kernel launched(Kernel kernel, unsigned grid, unsigned block) {
  kernel.grid[0] = grid;
  kernel.block[0] = block;
  return kernel;
}

TEST(SoftgpuPytorchSort, DigitsAreCountedInOneReadingOfTheKeys) {
  Kernel count(CUB "radix_sort::DeviceRadixSortHistogramKernel<" SORT
                   ", (at_cuda_detail::cub::SortOrder)0, long, unsigned long long, " CUB
                   "identity_decomposer_t>(more)",
               a, b, tokens, 0, 64, '\0');
  EXPECT_EQ(count.touches(), (Touches{{b, all, read}, {a, 8 * 256 * 8, both}})) << "8 passes of 256 digits";
  count.put(4, 0, 12);
  EXPECT_EQ(count.touches()[1], (Touch{a, 2 * 256 * 8, both}));
  const Kernel sums(CUB "radix_sort::DeviceRadixSortExclusiveSumKernel<" SORT ", unsigned long long>(more)",
                    a);
  EXPECT_EQ(launched(sums, 8, 256).touches(), (Touches{{a, 8 * 256 * 8, both}}));
}

TEST(SoftgpuPytorchSort, APassReadsKeysAndValuesAndTheStateThatWasCleared) {
  Kernel pass(CUB "radix_sort::DeviceRadixSortOnesweepKernel<" SORT
                  ", (at_cuda_detail::cub::SortOrder)0, long, at::cuda::cub::detail::OpaqueType<8>, "
                  "unsigned long long, int, int, " CUB "identity_decomposer_t>(more)",
              a, b, Address{0}, c, d, e, f, g, 8192, 8, 8, '\0');
  pass = launched(pass, 2, 384);
  EXPECT_EQ(pass.touches(), (Touches{{a, 2 * 256 * 4, both},
                                     {b, 4, both},
                                     {c, 256 * 8, read},
                                     {e, all, read},
                                     {g, all, read},
                                     {d, all, write},
                                     {f, all, write}}));
  const std::uint64_t scalars = pass.scalars();
  pass.put(9, 0, 16);  // the digit
  EXPECT_NE(pass.scalars(), scalars);
  pass.put(2, 0, c);
  EXPECT_TRUE(pass.touches().empty()) << "one of several portions";
}

TEST(SoftgpuPytorchSort, APrefixSumBeginsWithAClearedStateOfEachTile) {
  const Kernel start(CUB "scan::DeviceScanInitKernel<at_cuda_detail::cub::ScanTileState<long, true> >(more)",
                     c, 10);
  EXPECT_EQ(start.touches(), (Touches{{c, (32 + 10) * 16, write}}));
  Kernel scan(CUB "scan::DeviceScanKernel<" HUB(
                  "scan::policy_hub<long, long, long, unsigned int, at::cuda::cub::(anonymous "
                  "namespace)::SumOp<long> >") ", long const*, long*, at_cuda_detail::cub::ScanTileState<long, true>, "
                  "at::cuda::cub::(anonymous namespace)::SumOp<long>, " CUB
                  "InputValue<long, long*>, unsigned int, long, false, long>(more)",
              a, b, c, 0, '\0', std::array<std::uint64_t, 2>{0x9306900, 0}, 8192);
  scan = launched(scan, 10, 128);
  // The last 31 may be of nobody: whoever wrote them knew their number in whole warps.
  EXPECT_EQ(scan.touches(), (Touches{{a, all - 31 * 8, read},
                                     {a + all - 31 * 8, 31 * 8, TouchKind::reach},
                                     {c, (32 + 10) * 16, both},
                                     {b, all, write}}));
  const std::uint64_t scalars = scan.scalars();
  scan.put(5, 1, std::array<char, 7>{});
  EXPECT_EQ(scan.scalars(), scalars) << "nothing sets what is behind the flag";
  scan.put(5, 0, true);
  EXPECT_TRUE(scan.touches().empty()) << "the first value is in device memory";
}

TEST(SoftgpuPytorchSort, WhatDiffersFromTheOneBeforeIsWrittenAsFarAsThereIsRoom) {
  const std::string state = "at_cuda_detail::cub::ScanTileState<unsigned long long, true>";
  const Kernel start(CUB "scan::DeviceCompactInitKernel<" + state + ", long*>(more)", f, 2, e);
  EXPECT_EQ(start.touches(), (Touches{{f, (32 + 2) * 16, write}, {e, 8, write}}));
  Kernel sweep(CUB "unique_by_key::DeviceUniqueByKeySweepKernel<" HUB("unique_by_key::policy_hub<long, int>") ", "
                   "long const*, thrust::THRUST_300001_SM_750_800_860_900_1000_1200_NS::counting_iterator<int, "
                   "a, b, c>, long*, long*, long*, " + state + ", cuda::std::__4::equal_to<void>, "
                   "unsigned long long, " CUB "unique_by_key::VSMemHelper>(more)",
               a, 0, b, c, e, f, 'x', tokens, 2, g);
  sweep = launched(sweep, 2, 640);
  EXPECT_EQ(
      sweep.touches(),
      (Touches{{a, all, read}, {f, (32 + 2) * 16, both}, {b, all, write}, {c, all, write}, {e, 8, write}}));
  const std::uint64_t scalars = sweep.scalars();
  sweep.put(6, 0, 'y');  // a class without members
  EXPECT_EQ(sweep.scalars(), scalars);
  Kernel longer = sweep;  // 2.15 counts values in 64 bits
  longer.params[1].resize(8);
  EXPECT_EQ(longer.touches(), sweep.touches());
}

TEST(SoftgpuPytorchSort, OfSegmentsTheLastBlockIsSureOfOne) {
  // 16,384 indices, 4,096 rows
  const Kernel parts(ANONYMOUS "krn_partials_per_segment<long>(more)", a, b, c, 2 * tokens);
  constexpr std::uint64_t sure = (127 * 32 + 1) * 8;  // of the last 32 there may be one
  EXPECT_EQ(launched(parts, 128, 32).touches(),
            (Touches{{b, 2 * all, read}, {c, 8, read}, {a, sure, write}}));
  const Kernel offsets(ANONYMOUS "krn_partial_segment_offset<long>(more)", a, b, c, d, e);
  EXPECT_EQ(launched(offsets, 128, 32).touches(),
            (Touches{{b, sure, read}, {c, sure, read}, {d, sure, read}, {e, 8, read}, {a, sure, write}}));
  const Kernel number(ANONYMOUS "compute_num_of_partial_segments<long>(more)", a, b, c, d);
  EXPECT_EQ(number.touches(), (Touches{{a, 8, read}, {b, 8, read}, {c, 8, read}, {d, 8, write}}));
  EXPECT_TRUE(number.footprint().scalars.has_value());
}

TEST(SoftgpuPytorchSort, AnEmbeddingsGradientAddsUpWhatEachSegmentReads) {
  const Kernel sums(ANONYMOUS "compute_grad_weight<float, long>(more)", a, b, Address{0}, tokens,
                    std::int64_t{768}, c, d, e, std::int64_t{768});
  EXPECT_EQ(launched(sums, 9011, 768).touches(), (Touches{{a, all, read},
                                                          {b, tokens * 768 * 4, read},
                                                          {c, 8, read},
                                                          {d, 8, read},
                                                          {e, 9011 * 768 * 4, write}}));
  const Kernel result(ANONYMOUS "sum_and_scatter<float, long>(more)", a, b, std::int64_t{768}, c, d, e, f, g,
                      std::int64_t{-1}, std::int64_t{768});
  EXPECT_EQ(launched(result, 8192, 768).touches(), (Touches{{a, all, read},
                                                            {c, all, read},
                                                            {f, all, read},
                                                            {d, 8, read},
                                                            {g, 8, read},
                                                            {e, 8192 * 768 * 4, read},
                                                            {b, 768 * 4, both}}));
  const Kernel few(ANONYMOUS "embedding_backward_feature_kernel<float, float, long>(more)", a, b, c, 1024,
                   std::int64_t{768}, -1);
  EXPECT_EQ(few.touches(), (Touches{{a, 8192, read}, {b, 1024 * 768 * 4, read}, {c, 768 * 4, both}}));
}

}  // namespace
}  // namespace softgpu
