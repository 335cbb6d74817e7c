// Lists of tensors in PyTorch 2.11 and 2.15: norms, optimizers in one kernel, gradients of a scaled loss.
// Layouts are those of native/cuda/MultiTensorApply.cuh.
#include "tests/softgpu/pytorch_launch.h"

namespace softgpu {
namespace {

constexpr auto read_write = TouchKind::read_write;
constexpr std::uint64_t chunk = 65536;

// Where the parts of a table lie.
struct Places {
  std::size_t tensors, blocks, index_bytes, lists, more;

  std::size_t address(std::size_t list, std::size_t tensor) const { return (list * tensors + tensor) * 8; }
  std::size_t sizes() const { return lists * tensors * 8; }
  std::size_t steps() const { return sizes() + tensors * 8; }
  std::size_t block_tensors() const { return steps() + tensors * more; }
  std::size_t block_chunks() const { return block_tensors() + blocks * index_bytes; }
  std::size_t first_tensor() const { return block_chunks() + blocks * 4; }

  // Tensor 0 has a chunk and a half, tensor 1 ten numbers.
  void fill(Kernel& kernel, const std::vector<std::array<Address, 2>>& addresses) const {
    for (std::size_t list = 0; list < addresses.size(); ++list)
      kernel.put(0, address(list, 0), addresses[list]);
    kernel.put(0, sizes(), std::array{chunk * 3 / 2, std::uint64_t{10}});
    if (index_bytes == 1) {
      kernel.put(0, block_tensors(), std::array<std::uint8_t, 4>{0, 0, 1, 99});
    } else {
      kernel.put(0, block_tensors(), std::array<std::uint16_t, 4>{0, 0, 1, 999});
    }
    kernel.put(0, block_chunks(), std::array{0, 1, 0, 7});
    kernel.grid[0] = 3;
  }
};
constexpr Places older_one{110, 320, 1, 1, 0}, newer_one{770, 2240, 2, 1, 0}, newer_two{448, 2240, 2, 2, 0},
    older_fused{36, 320, 1, 4, 8}, newer_fused{252, 2240, 2, 4, 8};

#define TABLES(kind, lists) ANONYMOUS kind "<" #lists ">"

TEST(SoftgpuPytorchLists, TablesOf32KibAreReadAsThoseOf4) {
  Kernel kernel(
      ANONYMOUS "multi_tensor_apply_kernel<" TABLES(
          "TensorListMetadata", 2) ", " ANONYMOUS
                                   "BinaryOpListAlphaFunctor<float, 2, 2, 0>, std::plus<float>, float>(more)",
      std::array<std::byte, 24200>{}, '\1', '\2', 0.1F);
  newer_two.fill(kernel, {{a, b}, {c, d}});
  EXPECT_EQ(kernel.touches(), (Touches{{a, chunk * 6, read},
                                       {c, chunk * 6, read},
                                       {a, chunk * 6, write},
                                       {b, 40, read},
                                       {d, 40, read},
                                       {b, 40, write}}));
  const std::uint64_t scalars = kernel.scalars();
  kernel.put(0, newer_two.address(0, 2), Address{0x7fff});  // of no tensor
  EXPECT_EQ(kernel.scalars(), scalars);
}

TEST(SoftgpuPytorchLists, AFactorMayLieInMemory) {
  Kernel kernel(
      ANONYMOUS "multi_tensor_apply_kernel<" TABLES(
          "TensorListMetadata",
          1) ", " ANONYMOUS
             "BinaryOpScalarTensorFunctor<float, 1, 1, 0>, std::multiplies<float>, float*, float>(more)",
      std::array<std::byte, 25768>{}, '\1', '\2', d, 1.0F);
  newer_one.fill(kernel, {{a, b}});
  EXPECT_EQ(
      kernel.touches(),
      (Touches{{d, 4, read}, {a, chunk * 6, read}, {a, chunk * 6, write}, {b, 40, read}, {b, 40, write}}));
  const std::uint64_t scalars = kernel.scalars();
  kernel.put(3, 0, c);
  EXPECT_EQ(kernel.scalars(), scalars);
  kernel.put(4, 0, 2.0F);
  EXPECT_NE(kernel.scalars(), scalars);
}

#define NORM "at::native::LpNormFunctor<float, (at::native::NormType)1, float, 1, 1, 0>"

TEST(SoftgpuPytorchLists, NormsOfChunksLieInRowsOfTensors) {
  Kernel kernel(ANONYMOUS "multi_tensor_apply_kernel<" TABLES("TensorListMetadata", 1) ", " NORM
                                                                                       ", float*, int>(more)",
                std::array<std::byte, 3368>{}, '\1', c, 8);
  older_one.fill(kernel, {{a, b}});
  kernel.put(0, older_one.first_tensor(), 5);
  EXPECT_EQ(
      kernel.touches(),
      (Touches{{a, chunk * 6, read}, {b, 40, read}, {c + 5 * 8 * 4, 8, write}, {c + 6 * 8 * 4, 4, write}}));
  kernel.put(3, 0, 1);
  EXPECT_TRUE(kernel.touches().empty()) << "a row is shorter than what is written to it";
}

TEST(SoftgpuPytorchLists, NormsOfChunksBeginWhereATableSays) {
  Kernel kernel(ANONYMOUS "multi_tensor_apply_kernel<" TABLES("TensorListMetadata",
                                                              1) ", " NORM ", float*, long const*>(more)",
                std::array<std::byte, 25768>{}, '\1', c, d);
  newer_one.fill(kernel, {{a, b}});
  const Touches inputs{{a, chunk * 6, read}, {b, 40, read}};
  Touches first = inputs;
  first.insert(first.end(), {{d, 16, read}, {c, 12, write}});
  EXPECT_EQ(kernel.touches(), first);
  // Of a later launch nobody knows the place.
  kernel.put(0, newer_one.first_tensor(), 770);
  Touches later = inputs;
  later.insert(later.end(), {{d + 770 * 8, 16, read}, {c, 4, read_write}});
  EXPECT_EQ(kernel.touches(), later);
}

TEST(SoftgpuPytorchLists, ANormOfEachTensorIsMadeFromThoseOfItsChunks) {
  constexpr auto* name =
      "at::native::lpnorm_cleanup<float, (at::native::NormType)1, float, true, float>(more)";
  Kernel older(name, c, std::array<Address, 400>{a, b}, 8);
  older.grid[0] = 2;
  EXPECT_EQ(older.touches(), (Touches{{c, 64, read}, {a, 4, write}, {b, 4, write}}));
  Kernel newer(name, c, std::array<Address, 400>{a, b}, d, 400);
  newer.grid[0] = 2;
  EXPECT_EQ(newer.touches(), (Touches{{d + 3200, 16, read}, {c, 4, read}, {a, 4, write}, {b, 4, write}}));
}

#define UNSCALE                                                                                          \
  "at::native::_amp_foreach_non_finite_check_and_unscale_cuda_(c10::ArrayRef<at::Tensor>, at::Tensor&, " \
  "at::Tensor const&)::"

TEST(SoftgpuPytorchLists, GradientsAreDividedByTheScaleAndLookedAt) {
  Kernel kernel(
      ANONYMOUS "multi_tensor_apply_kernel<" TABLES(
          "TensorListMetadata",
          1) ", " ANONYMOUS "UnaryOpFunctor<float, 1, 1, 0>, " UNSCALE
             "{lambda()#1}::operator()() const::{lambda()#2}::operator()() const::{lambda(float)#1}>(more)",
      std::array<std::byte, 3368>{}, '\1', std::array<Address, 3>{c, d, 77});
  older_one.fill(kernel, {{a, b}});
  EXPECT_EQ(kernel.touches(), (Touches{{d, 4, read},
                                       {c, 4, read_write},
                                       {a, chunk * 6, read},
                                       {a, chunk * 6, write},
                                       {b, 40, read},
                                       {b, 40, write}}));
  Kernel update("at::native::amp_update_scale_cuda_kernel(float*, int*, float const*, double, double, int)",
                a, b, c, 2.0, 0.5, 2000);
  EXPECT_EQ(update.touches(), (Touches{{a, 4, read_write}, {b, 4, read_write}, {c, 4, read}}));
}

Kernel fused_adam(bool newer) {
  const std::string name = ANONYMOUS "multi_tensor_apply_kernel<" TABLES(
      "FusedOptimizerTensorListMetadata", 4) ", " ANONYMOUS
                                             "FusedAdamMathFunctor<float, 4, (at::native::ADAM_MODE)1, "
                                             "false>, float const*, double, double, double, "
                                             "double, double, bool, float const*, float const*>(more)";
  const auto with = [&](auto tables) {
    return Kernel(name, tables, '\1', Address{0}, 3e-4, 0.9, 0.999, 0.01, 1e-8, false, Address{0},
                  Address{0});
  };
  Kernel kernel = newer ? with(std::array<std::byte, 25544>{}) : with(std::array<std::byte, 3336>{});
  const Places& places = newer ? newer_fused : older_fused;
  places.fill(kernel, {{a, a + 0x100000}, {b, b + 0x100000}, {c, c + 0x100000}, {d, d + 0x100000}});
  kernel.put(0, places.steps(), std::array<Address, 2>{1000, 2000});
  return kernel;
}

TEST(SoftgpuPytorchLists, AnOptimizerInOneKernelChangesWeightsAndMoments) {
  for (const bool newer : {false, true}) {
    Kernel kernel = fused_adam(newer);
    EXPECT_EQ(kernel.touches(), (Touches{{1000, 4, read},
                                         {a, chunk * 6, read_write},
                                         {b, chunk * 6, read},
                                         {c, chunk * 6, read_write},
                                         {d, chunk * 6, read_write},
                                         {2000, 4, read},
                                         {a + 0x100000, 40, read_write},
                                         {b + 0x100000, 40, read},
                                         {c + 0x100000, 40, read_write},
                                         {d + 0x100000, 40, read_write}}));
    const std::uint64_t scalars = kernel.scalars();
    kernel.put(3, 0, 1e-4);
    EXPECT_NE(kernel.scalars(), scalars) << "another learning rate";
    // Under a scaled loss it divides the gradients too, or leaves all as it is.
    kernel.put(9, 0, Address{3000});
    kernel.put(10, 0, Address{4000});
    const Touches scaled = kernel.touches();
    ASSERT_EQ(scaled.size(), 12U);
    EXPECT_EQ(Touches(scaled.begin(), scaled.begin() + 2), (Touches{{3000, 4, read}, {4000, 4, read}}));
    EXPECT_EQ(scaled[4], (Touch{b, chunk * 6, read_write}));
  }
}

}  // namespace
}  // namespace softgpu
