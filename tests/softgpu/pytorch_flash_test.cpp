// Attention in half precision as PyTorch brings it along, and what else programs launch around it.
#include "tests/softgpu/pytorch_launch.h"

namespace softgpu {
namespace {

constexpr auto read_write = TouchKind::read_write;

// Of a launch with 4 sequences of 200 tokens, 2 heads of 64. Queries, keys and values are side by side in
// each row.
constexpr std::uint64_t rows = 4 * 200, heads = 2, width = 64, tensor = rows * heads * width * 2;
constexpr std::array<Address, 59> forward_words{a,
                                                a + 256,
                                                a + 512,
                                                76800,
                                                76800,
                                                76800,
                                                384,
                                                384,
                                                384,
                                                64,
                                                64,
                                                64,
                                                0x200000002,
                                                1,
                                                b,
                                                0,
                                                25600,
                                                128,
                                                64,
                                                0,
                                                c,
                                                0,
                                                0xc800000004,
                                                200,
                                                0x10000000040,
                                                0x4000000100,
                                                0,
                                                0x3e38aa3b3e000000};

void start(Kernel& kernel, unsigned blocks) {
  kernel.put(0, 0, forward_words);
  kernel.grid = {blocks, 4, heads};
}

Kernel forward() {
  Kernel kernel(
      "pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, "
      "cutlass::bfloat16_t, "
      "Flash_kernel_traits<64, 128, 128, 4, cutlass::bfloat16_t> >, false, true, false, false, false, true, "
      "false, "
      "false>(pytorch_flash::Flash_fwd_params)",
      std::array<std::byte, 472>{});
  start(kernel, 2);
  return kernel;
}

constexpr Address at(int i) {
  return 0x7f1000000000 + static_cast<Address>(i) * 0x10000000;
}

#define BACKWARD_TRAITS                                                                 \
  "Flash_bwd_kernel_traits<64, 64, 128, 8, 2, 4, 4, true, false, cutlass::bfloat16_t, " \
  "Flash_kernel_traits<64, "                                                            \
  "64, 128, 8, cutlass::bfloat16_t> >"

// at(0): the result's gradient; from at(1) on those of queries, keys and values; sums for the queries',
// products of rows
template <class... More>
Kernel backward(const std::string& name, unsigned blocks, More... more) {
  Kernel kernel("pytorch_flash::" + name + "(pytorch_flash::Flash_bwd_params)", std::array<std::byte, 648>{},
                more...);
  start(kernel, blocks);
  kernel.put(0, 472, std::array<Address, 20>{at(0), at(1), at(2), at(3), at(4), 0,   0,  25600, 128, 64,
                                             25600, 25600, 25600, 128,   128,   128, 64, 64,    64,  at(5)});
  return kernel;
}

TEST(SoftgpuPytorchFlash, ForwardReadsItsInputsOnceAndWritesItsResultAndSums) {
  Kernel kernel = forward();
  EXPECT_EQ(kernel.touches(),
            (Touches{{a, 3 * tensor, read}, {b, tensor, write}, {c, rows * heads * 4, write}}));
  const std::uint64_t scalars = kernel.scalars();
  kernel.put(0, 464, Address{77});  // behind the last member
  EXPECT_EQ(kernel.scalars(), scalars);
  kernel.put(0, 216, 0.5F);  // the scale
  EXPECT_NE(kernel.scalars(), scalars);
}

TEST(SoftgpuPytorchFlash, OtherProblemsAreDeclined) {
  for (const std::size_t word : {152, 224, 232, 240, 248}) {  // scores, begins and lengths of sequences
    Kernel kernel = forward();
    kernel.put(0, word, d);
    EXPECT_TRUE(kernel.touches().empty()) << word;
  }
  Kernel shared = forward();
  shared.put(0, 100, 1);  // heads of keys
  EXPECT_TRUE(shared.touches().empty());
  Kernel dropout = forward();
  const std::string flags = "> >, false, true", other = "> >, true, true";
  dropout.name.replace(dropout.name.find(flags), flags.size(), other);
  EXPECT_TRUE(dropout.touches().empty());
}

TEST(SoftgpuPytorchFlash, GradientsAreAddedUpInTilesAndThenConverted) {
  // Tiles of 64 rows end at 256, as far as there is room.
  constexpr std::uint64_t products = 4 * heads * 256 * 4, sums = 4 * 256 * heads * width * 4;
  const Kernel first = backward("flash_bwd_dot_do_o_kernel<true, " BACKWARD_TRAITS " >", 4);
  EXPECT_EQ(
      first.touches(),
      (Touches{{at(0), tensor, read}, {b, tensor, read}, {at(5), products, write}, {at(4), sums, write}}));
  const Kernel loop = backward("flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<" BACKWARD_TRAITS
                               ", false, true, false, false, false, true, false>",
                               2);
  EXPECT_EQ(loop.touches(), (Touches{{a, 3 * tensor, read},
                                     {at(0), tensor, read},
                                     {c, rows * heads * 4, read},
                                     {at(5), products, read},
                                     {at(4), sums, read_write},
                                     {at(2), tensor, write},
                                     {at(3), tensor, write}}));
  const Kernel last = backward("flash_bwd_convert_dq_kernel<" BACKWARD_TRAITS " >", 4, 1);
  EXPECT_EQ(last.touches(), (Touches{{at(4), sums, read}, {at(1), tensor, write}}));
  const Kernel parts = backward("flash_bwd_convert_dq_kernel<" BACKWARD_TRAITS " >", 4, 3);
  EXPECT_TRUE(parts.touches().empty());
}

// 2.15 tells how much a thread does, and has one template for all conversions.
TEST(SoftgpuPytorchFlash, ConversionsToHalfPrecisionAndBack) {
  const auto kernel = [](const std::string& functor) {
    return Kernel("at::native::vectorized_elementwise_kernel<8, at::native::" + functor +
                      ", std::array<char*, 2ul>, false>(more)",
                  1000, '\0', std::array{a, b});
  };
  EXPECT_EQ(
      kernel("converting_copy_kernel_cuda<float, c10::Half>(at::TensorIteratorBase&)::{lambda(float)#1}")
          .touches(),
      (Touches{{a, 2000, write}, {b, 4000, read}}));
  EXPECT_EQ(
      kernel("converting_copy_kernel_cuda<c10::Half, float>(at::TensorIteratorBase&)::{lambda(c10::Half)#1}")
          .touches(),
      (Touches{{a, 4000, write}, {b, 2000, read}}));
  EXPECT_EQ(kernel("float16_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda(float)#1}").touches(),
            (Touches{{a, 2000, write}, {b, 4000, read}}));
  EXPECT_TRUE(
      kernel("converting_copy_kernel_cuda<double, c10::Half>(at::TensorIteratorBase&)::{lambda(float)#1}")
          .touches()
          .empty());
}

TEST(SoftgpuPytorchFlash, ManyNumbersBecomeOneArray) {
  Kernel kernel(ANONYMOUS "CatArrayBatchedCopy_alignedK_contig<" ANONYMOUS
                          "OpaqueType<4u>, unsigned int, 1, 128, 1, 16>(more)",
                a, std::array<std::byte, 2720>{}, std::array{2, 0, 0, 0, 1, 0, 0, 0}, 0, 1);
  kernel.grid = {1, 2, 1};
  kernel.put(1, 0, std::array{b, c});
  kernel.put(1, 1024, std::array{0, 1});  // offsets
  kernel.put(1, 1536, std::array{1, 1});  // sizes along the dimension
  kernel.put(1, 2048, std::array{1, 1});  // elements
  EXPECT_EQ(kernel.touches(), (Touches{{b, 4, read}, {a, 4, write}, {c, 4, read}, {a + 4, 4, write}}));
}

}  // namespace
}  // namespace softgpu
