// What the software GPU says PyTorch's kernels touch in half precision, and with channels last. Parameters
// are those of launches of resnet50.py and gpt.py under autocast.
#include "tests/softgpu/pytorch_launch.h"

namespace softgpu {
namespace {

using Long = std::int64_t;
constexpr auto both = TouchKind::read_write, update = TouchKind::update;
constexpr Address e = 0x7f0000800000, f = 0x7f0000a00000, g = 0x7f0000c00000, h = 0x7f0000e00000;
#define LAMBDA                                                                                \
  "at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() " \
  "const::{lambda()#7}::operator()() const::{lambda(float)#1}"

Kernel launched(Kernel kernel, unsigned x, unsigned y) {
  kernel.grid = {x, y, 1};
  return kernel;
}

std::string casting(const std::string& functor, int inputs) {
  const std::string n = std::to_string(inputs);
  return "at::native::unrolled_elementwise_kernel<" + functor + ", std::array<char*, " +
         std::to_string(inputs + 1) + "ul>, 4, TrivialOffsetCalculator<" + n +
         ", unsigned int>, TrivialOffsetCalculator<1, unsigned int>, at::native::memory::LoadWithCast<" + n +
         ">, at::native::memory::StoreWithCast<1> >(more)";
}

TEST(SoftgpuPytorchHalf, ACastTouchesElementsOfTheTypesInMemory) {
  Kernel copy(casting(LAMBDA, 1), 1000, '\0', std::array{a, b}, '\x14', '\x4c', Address{0x2acaffe0f},
              Address{0x400000006});
  EXPECT_EQ(copy.touches(), (Touches{{a, 4000, write}, {b, 2000, read}}));
  const std::uint64_t scalars = copy.scalars();
  copy.put(5, 1, std::array<char, 3>{});
  EXPECT_EQ(copy.scalars(), scalars) << "nothing sets what is behind the type";
  copy.put(5, 0, '\x05');  // half in place of bfloat16
  EXPECT_NE(copy.scalars(), scalars);
  const Kernel add(casting("at::native::CUDAFunctor_add<float>", 2), 1000, 1.0F, std::array{a, b, c}, '\0',
                   '\0', std::array<std::uint32_t, 3>{0x01010f06, 4, 2}, Address{0x492a38c06});
  EXPECT_EQ(add.touches(), (Touches{{a, 4000, write}, {b, 4000, read}, {c, 2000, read}}));
  Kernel strided = copy;
  strided.name.replace(strided.name.find("TrivialOffset"), 13, "Offset");
  EXPECT_TRUE(strided.touches().empty());
}

TEST(SoftgpuPytorchHalf, AFunctorForHalfHasNumbersOfItsOwnType) {
  const auto vectorized = [](const std::string& functor) {
    return "at::native::vectorized_elementwise_kernel<8, " + functor + ", std::array<char*, 2ul> >(more)";
  };
  const Kernel copy(
      vectorized("at::native::bfloat16_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda(float)#1}"), 1000,
      '\0', std::array{a, b});
  EXPECT_EQ(copy.touches(), (Touches{{a, 2000, write}, {b, 4000, read}}));
  const Kernel clamp(
      vectorized(ANONYMOUS "launch_clamp_scalar(at::TensorIteratorBase&, c10::Scalar, c10::Scalar, "
                           "at::native::detail::ClampLimits)::{lambda()#1}::operator()() "
                           "const::{lambda()#9}::operator()() const::{lambda(c10::BFloat16)#1}"),
      1000, std::array<float, 6>{}, std::array{a, a});
  EXPECT_EQ(clamp.touches(), (Touches{{a, 2000, write}, {a, 2000, read}}));
  const Kernel threshold(
      vectorized("at::native::BinaryFunctor<c10::BFloat16, c10::BFloat16, c10::BFloat16, " ANONYMOUS
                 "threshold_kernel_impl<c10::BFloat16>(at::TensorIteratorBase&, c10::BFloat16, "
                 "c10::BFloat16)::{lambda(c10::BFloat16, c10::BFloat16)#1}>"),
      1000, std::array<Address, 2>{}, std::array{a, b, c});
  EXPECT_EQ(threshold.touches(), (Touches{{a, 2000, write}, {b, 2000, read}, {c, 2000, read}}));
}

TEST(SoftgpuPytorchHalf, AReductionReadsAndWritesItsOwnTypes) {
  const auto reduction = [](const std::string& operation, const std::string& result) {
    Kernel kernel("at::native::reduce_kernel<128, 4, at::native::ReduceOp<c10::BFloat16, " + operation +
                      ", unsigned int, " + result + ", 4, 8> >(more)",
                  std::array<std::byte, 1048>{});
    kernel.put(0, 8, std::array{4, 100, 3});  // 100 numbers to each of 3
    kernel.put(0, 72, std::array{1, 100});    // in a row
    kernel.put(0, 72 + 304, 2);
    kernel.put(0, 476, std::array{1, 3});
    const std::uint32_t bytes = result == "float" ? 4 : 2;
    kernel.put(0, 476 + 304, std::array{bytes, 200U});
    kernel.put(0, 984, std::array{a, b, Address{0}, Address{0}, Address{0}, Address{0}});
    kernel.put(0, 984 + 57, true);
    kernel.put(0, 984 + 60, 1);
    return kernel.touches();
  };
  const std::string sum =
      "at::native::func_wrapper_t<float, at::native::sum_functor<c10::BFloat16, float, "
      "float>::operator()(at::TensorIterator&)::{lambda(float, float)#1}>";
  EXPECT_EQ(reduction(sum, "float"), (Touches{{a, 600, read}, {b, 12, write}}));
  EXPECT_EQ(reduction("at::native::MeanOps<c10::BFloat16, float, float, c10::BFloat16>", "c10::BFloat16"),
            (Touches{{a, 600, read}, {b, 6, write}}));
  EXPECT_TRUE(reduction(sum, "c10::BFloat16").empty()) << "another result than its operation's";
}

TEST(SoftgpuPytorchHalf, BatchNormsStatisticsAreAddedUpBetweenBlocks) {
  Kernel statistics(
      "at::native::batch_norm_collect_statistics_channels_last_kernel<at::native::Var, "
      "c10::BFloat16, float, 4>(more)",
      a, b, c, d, e, 401408, 64, 1e-5F);
  constexpr std::uint64_t all = 401408ULL * 64 * 2;
  EXPECT_EQ(
      launched(statistics, 2, 128).touches(),
      (Touches{{a, all, read}, {d, 128 * 64 * 12, write}, {e, 8, both}, {b, 256, write}, {c, 256, write}}));
  EXPECT_EQ(launched(statistics, 2, 1).touches().size(), 3U) << "one block for each channel";
}

TEST(SoftgpuPytorchHalf, BatchNormsRunningStatisticsGoIntoThemselvesAlone) {
  Kernel running(
      ANONYMOUS
      "unrolled_elementwise_kernel_for_multi_outputs<3, " ANONYMOUS
      "batch_norm_update_stats_and_invert(at::Tensor const&, at::Tensor const&, at::Tensor const&, "
      "at::Tensor const&, double, double, long)::{lambda()#1}::operator()() "
      "const::{lambda()#2}::operator()() const::{lambda(float, float, float, float)#1}, "
      "std::array<char*, 7ul>, TrivialOffsetCalculator<4, unsigned int>, TrivialOffsetCalculator<3, "
      "unsigned int> >(more)",
      64, std::array{1.0F, 0.1F, 1e-5F, 0.0F, 0.0F, 0.0F}, std::array{a, b, c, d, c, a, b}, '\0', '\0');
  EXPECT_EQ(running.touches(), (Touches{{d, 256, read}, {c, 256, both}, {a, 256, update}, {b, 256, update}}));
  const std::uint64_t scalars = running.scalars(), momentum = running.footprint().touches[2].factor;
  running.put(1, 4, 0.2F);
  EXPECT_EQ(running.scalars(), scalars) << "the momentum matters to them alone";
  EXPECT_NE(running.footprint().touches[2].factor, momentum);
  running.put(2, 40, h);
  EXPECT_TRUE(running.touches().empty()) << "what runs comes from elsewhere";
}

TEST(SoftgpuPytorchHalf, BatchNormTouchesItsRowsAndNumbersForEachChannel) {
  constexpr std::uint64_t all = 1568ULL * 512 * 2, each = 512 * 4;
  const Kernel forward(
      "at::native::batch_norm_transform_input_channels_last_kernel<c10::BFloat16, float, float, 4>(more)", a,
      Address{0}, b, c, d, e, f, 1568, 512, false);
  EXPECT_EQ(forward.touches(), (Touches{{a, all, read},
                                        {b, each, read},
                                        {c, each, read},
                                        {d, each, read},
                                        {e, each, read},
                                        {f, all, write}}));
  const Kernel sums(
      "at::native::batch_norm_backward_reduce_channels_last_kernel<4, c10::BFloat16, float, float>(more)", a,
      b, c, d, e, f, g, h, Address{0}, Address{0}, 1568, 512);
  EXPECT_EQ(launched(sums, 16, 1).touches(), (Touches{{a, all, read},
                                                      {b, all, read},
                                                      {c, each, read},
                                                      {d, each, read},
                                                      {e, each, write},
                                                      {f, each, write},
                                                      {g, each, write},
                                                      {h, each, write}}));
  const std::string name =
      "at::native::batch_norm_backward_elemt_channels_last_kernel<4, c10::BFloat16, float, float>(more)";
  const Kernel backward(name, a, b, c, d, Address{0}, e, f, g, 6.4e-4F, 1568, 512);
  EXPECT_EQ(backward.touches(), (Touches{{a, all, read},
                                         {b, all, read},
                                         {c, each, read},
                                         {d, each, read},
                                         {e, each, read},
                                         {f, each, read},
                                         {g, all, write}}));
  EXPECT_TRUE(Kernel(name, a, b, c, d, Address{0}, e, f, h, g, Long{2}, 1568, 512).touches().empty())
      << "of several devices";
}

TEST(SoftgpuPytorchHalf, AMaxPoolWithChannelsLastTouchesAllWhereItsWindowsCoverAll) {
  Kernel forward(ANONYMOUS "max_pool_forward_nhwc<c10::BFloat16, int>(more)", a, 32, 64, 112, 112, 56, 56, 3,
                 3, 2, 2, 1, 1, 1, 1, 802816, 1, 7168, 64, 1, 2, b, c);
  constexpr std::uint64_t results = 32 * 56 * 56 * 64, inputs = 4 * results;
  EXPECT_EQ(forward.touches(),
            (Touches{{a, inputs * 2, read}, {b, results * 2, write}, {c, results * 8, write}}));
  forward.put(17, 0, 7232);
  EXPECT_TRUE(forward.touches().empty()) << "rows that lie apart";
  const Kernel backward(ANONYMOUS "max_pool_backward_nhwc<c10::BFloat16, float>(more)", a, b, 32, Long{64},
                        Long{112}, Long{112}, 56, 56, 3, 3, 2, 2, 1, 1, 1, 1, 1, 3584, 64, 1, 2, c);
  EXPECT_EQ(backward.touches(),
            (Touches{{a, results * 2, read}, {b, results * 8, read}, {c, inputs * 2, both}}));
}

}  // namespace
}  // namespace softgpu
