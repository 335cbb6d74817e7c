// What the software GPU says PyTorch's kernels touch, from parameters as PyTorch lays them out.
#include "tests/softgpu/pytorch_launch.h"

namespace softgpu {
namespace {

std::string vectorized(const std::string& functor, int operands) {
  return "at::native::vectorized_elementwise_kernel<4, " + functor + ", std::array<char*, " +
         std::to_string(operands) + "ul> >(int, " + functor + ", std::array<char*, " +
         std::to_string(operands) + "ul>)";
}

TEST(SoftgpuPytorch, AVectorizedKernelWritesTheFirstOperandAndReadsTheOthers) {
  const Kernel add(vectorized("at::native::CUDAFunctor_add<float>", 3), 1000, 1.0F, std::array{a, b, c});
  EXPECT_EQ(add.touches(), (Touches{{a, 4000, write}, {b, 4000, read}, {c, 4000, read}}));
  const Kernel fill(vectorized("at::native::FillFunctor<unsigned char>", 1), 1000, '\0', std::array{a});
  EXPECT_EQ(fill.touches(), (Touches{{a, 1000, write}}));
}

TEST(SoftgpuPytorch, AFunctorsNumbersAreScalarsAndWhatIsLeftBehindThemIsNot) {
  const std::string clamp = vectorized(
      ANONYMOUS
      "launch_clamp_scalar(at::TensorIteratorBase&, c10::Scalar, c10::Scalar, "
      "at::native::detail::ClampLimits)::{lambda()#1}::operator()() const::{lambda()#7}::operator()() "
      "const::{lambda(float)#1}",
      2);
  Kernel one(clamp, 8, std::array<float, 6>{0, 6}, std::array{a, b});
  const std::uint64_t scalars = one.scalars();
  ASSERT_NE(scalars, 0U);
  one.put(1, 16, 0xDEADBEEFCAFE);
  EXPECT_EQ(one.scalars(), scalars);
  one.put(1, 4, 7.0F);
  EXPECT_NE(one.scalars(), scalars);
}

TEST(SoftgpuPytorch, WhatIsNotKnownForSureIsDeclined) {
  EXPECT_FALSE(
      Kernel(vectorized("at::native::SomeFunctor<float>", 3), 8, 1.0F, std::array{a, b, c}).scalars());
  EXPECT_FALSE(
      Kernel(vectorized("at::native::CUDAFunctor_add<float>", 3), 8, 1.0, std::array{a, b, c}).scalars())
      << "a larger functor";
  EXPECT_FALSE(
      Kernel(vectorized("at::native::CUDAFunctor_add<Odd>", 3), 8, 1.0F, std::array{a, b, c}).scalars());
}

std::string strided(const std::string& functor) {
  return "at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<" + functor +
         ">(at::TensorIteratorBase&, " + functor + " const&)::{lambda(int)#1}>(int, more)";
}

// Sizes, and the strides of two operands in bytes.
void put_offsets(Kernel& kernel, std::size_t param, std::size_t at,
                 const std::vector<std::array<std::uint32_t, 3>>& dimensions, std::size_t operands) {
  kernel.put(param, at, static_cast<std::uint32_t>(dimensions.size()));
  for (std::size_t i = 0; i < dimensions.size(); ++i) {
    kernel.put(param, at + 4 + 12 * i, dimensions[i][0]);
    for (std::size_t operand = 0; operand < operands; ++operand)
      kernel.put(param, at + 304 + 4 * (operands * i + operand), dimensions[i][1 + operand]);
  }
}

TEST(SoftgpuPytorch, AStridedKernelTouchesThePiecesOfEachOperand) {
  const std::string copy =
      "at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() "
      "const::{lambda()#7}::operator()() const::{lambda(float)#1}";
  Kernel kernel(strided(copy), 32, std::array<std::byte, 536>{});
  put_offsets(kernel, 1, 0, {{8, 4, 4}, {4, 32, 100}}, 2);  // 4 rows of 8; those that are read lie apart
  kernel.put(1, 504, a);
  kernel.put(1, 512, b);
  EXPECT_EQ(
      kernel.touches(),
      (Touches{
          {a, 128, write}, {b, 32, read}, {b + 100, 32, read}, {b + 200, 32, read}, {b + 300, 32, read}}));
  const std::uint64_t scalars = kernel.scalars();
  kernel.put(1, 28, 123);  // a size that is not used
  EXPECT_EQ(kernel.scalars(), scalars);
  kernel.put(1, 312, 0);  // all rows are one
  EXPECT_TRUE(kernel.touches().empty()) << "the rows that are written lie over one another";
}

TEST(SoftgpuPytorch, ANumberHeldBesideAFunctorIsAScalar) {
  Kernel kernel(strided("at::native::BUnaryFunctor<float, float, float, "
                        "at::native::binary_internal::MulFunctor<float> >"),
                8, std::array<std::byte, 536>{});
  put_offsets(kernel, 1, 0, {{8, 4, 0}}, 2);
  kernel.put(1, 504, a);
  kernel.put(1, 512, b);
  EXPECT_EQ(kernel.touches(), (Touches{{a, 32, write}, {b, 4, read}})) << "one number for all";
  const std::uint64_t scalars = kernel.scalars();
  kernel.put(1, 520, 99);
  EXPECT_EQ(kernel.scalars(), scalars);
  kernel.put(1, 524, 0.5F);
  EXPECT_NE(kernel.scalars(), scalars);
}

TEST(SoftgpuPytorch, AListOfTensorsIsTouchedChunkByChunk) {
  // Two lists; tensor 0 has a chunk and a half, of tensor 1 there is the second chunk alone.
  Kernel kernel(ANONYMOUS "multi_tensor_apply_kernel<" ANONYMOUS "TensorListMetadata<2>, " ANONYMOUS
                          "BinaryOpListAlphaFunctor<float, 2, 2, 0>, std::plus<float>, float>(more)",
                std::array<std::byte, 3144>{}, '\1', '\2', 0.1F);
  const std::size_t elements = 2 * 64 * 8, tensors = elements + 64 * 8, chunks = tensors + 320;
  kernel.grid[0] = 3;
  kernel.put(0, 0, std::array{a, b});
  kernel.put(0, 64 * 8, std::array{c, d});
  kernel.put(0, elements, std::array{std::uint64_t{65536 + 32768}, std::uint64_t{3 * 65536}});
  kernel.put(0, tensors, std::array<std::uint8_t, 4>{0, 0, 1, 77});
  kernel.put(0, chunks, std::array{0, 1, 1, 5});
  constexpr std::uint64_t chunk = 4 * 65536;
  EXPECT_EQ(kernel.touches(), (Touches{{a, chunk * 3 / 2, read},
                                       {c, chunk * 3 / 2, read},
                                       {a, chunk * 3 / 2, write},
                                       {b + chunk, chunk, read},
                                       {d + chunk, chunk, read},
                                       {b + chunk, chunk, write}}));
  const std::uint64_t scalars = kernel.scalars();
  kernel.put(0, tensors + 3, std::uint8_t{50});  // of a block that is not launched
  kernel.put(0, 16, Address{0x7fff});
  kernel.put(1, 0, '\7');  // functors without members
  EXPECT_EQ(kernel.scalars(), scalars);
  kernel.put(3, 0, 0.2F);
  EXPECT_NE(kernel.scalars(), scalars);
}

TEST(SoftgpuPytorch, AReductionReadsItsInputsAndWritesItsOutputsAndWhatBlocksShare) {
  Kernel kernel(
      "at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, float, "
      "float, float>, unsigned int, float, 4, 4> >(more)",
      std::array<std::byte, 1048>{});
  kernel.grid = {3, 2, 1};
  const std::size_t config = 8, input = config + 64, output = input + 404, pointers = output + 504 + 4;
  kernel.put(0, config,
             std::array{4, 100, 3, 1, 1, 2, 1, 0, 50});  // 100 numbers to each of 3, by 2 blocks each
  put_offsets(kernel, 0, input, {{100, 4}}, 1);
  put_offsets(kernel, 0, output, {{3, 4, 400}}, 2);
  kernel.put(0, pointers, std::array{a, b, Address{0}, Address{0}, c, d});
  kernel.put(0, pointers + 57, true);  // the result is the last
  kernel.put(0, pointers + 60, 1);
  EXPECT_EQ(kernel.touches(),
            (Touches{{a, 1200, read}, {b, 12, write}, {c, 24, write}, {d, 12, TouchKind::update}}));
  kernel.put(0, pointers + 56, true);  // it adds to what is there
  EXPECT_EQ(kernel.touches()[1], (Touch{b, 12, TouchKind::read_write}));
  kernel.put(0, pointers + 24, d);  // sums elsewhere
  EXPECT_TRUE(kernel.touches().empty());
}

TEST(SoftgpuPytorch, ASoftmaxTouchesItsRows) {
  const Kernel forward(
      "(anonymous namespace)::softmax_warp_forward<float, float, float, 10, true, false>(more)", a, b, 32,
      1000, 1000, Address{0}, -1, false);
  EXPECT_EQ(forward.touches(), (Touches{{b, 128000, read}, {a, 128000, write}}));
  const Kernel backward(
      "(anonymous namespace)::softmax_warp_backward<float, float, float, 10, true, false>(more)", a, b, c, 32,
      1000, 1000, Address{0});
  EXPECT_EQ(backward.touches(), (Touches{{b, 128000, read}, {c, 128000, read}, {a, 128000, write}}));
}

TEST(SoftgpuPytorch, AMaxPoolTouchesAllWhereItsWindowsCoverAll) {
  using Long = std::int64_t;
  const std::string name = ANONYMOUS "max_pool_forward_nchw<float, int>(more)";
  const Kernel forward(name, 2 * 3 * 4 * 4, b, Long{3}, Long{8}, Long{8}, 4, 4, 3, 3, 2, 2, 1, 1, 1, 1, a, c);
  EXPECT_EQ(forward.touches(), (Touches{{b, 2 * 3 * 64 * 4, read}, {a, 384, write}, {c, 768, write}}));
  const Kernel gaps(name, 2 * 3 * 4 * 4, b, Long{3}, Long{8}, Long{8}, 4, 4, 1, 1, 2, 2, 0, 0, 1, 1, a, c);
  EXPECT_TRUE(gaps.touches().empty());
  const Kernel backward(ANONYMOUS "max_pool_backward_nchw<float, float, int>(more)", b, c, 2, 3, 8, 8, 4, 4,
                        3, 3, 2, 2, 1, 1, 1, 1, a);
  EXPECT_EQ(backward.touches(), (Touches{{b, 384, read}, {c, 768, read}, {a, 2 * 3 * 64 * 4, write}}));
}

TEST(SoftgpuPytorch, ALossReadsItsWeightsOnlyWhereThereAreAny) {
  using Long = std::int64_t;
  const auto forward = [](Address weights) {
    return Kernel(ANONYMOUS "nll_loss_forward_reduce_cuda_kernel_2d<float, float, long>(more)", a, a + 512, b,
                  c, weights, true, Long{32}, Long{1000}, Long{1000}, Long{-100})
        .touches();
  };
  EXPECT_EQ(forward(0), (Touches{{b, 128000, read}, {c, 256, read}, {a, 4, write}, {a + 512, 4, write}}));
  EXPECT_EQ(forward(d)[2], (Touch{d, 4000, read}));
  const Kernel backward(ANONYMOUS "nll_loss_backward_reduce_cuda_kernel_2d<float, long>(more)", a, b, c,
                        Address{0}, d, true, 32, 1000, Long{1000}, Long{-100});
  EXPECT_EQ(backward.touches(),
            (Touches{{b, 4, read}, {c, 256, read}, {d, 4, read}, {a, 128000, TouchKind::read_write}}));
}

Kernel rows(Kernel kernel, unsigned count) {
  kernel.grid[0] = count;
  return kernel;
}

TEST(SoftgpuPytorch, ALayerNormHasABlockForEachRow) {
  const auto forward = [](const std::string& rms, Address gamma) {
    return rows(Kernel(ANONYMOUS "vectorized_layer_norm_kernel<float, float, " + rms + ">(more)", 768, 1e-5F,
                       b, gamma, c + 3072, d, d + 512, a),
                100)
        .touches();
  };
  EXPECT_EQ(forward("false", c), (Touches{{b, 307200, read},
                                          {c, 3072, read},
                                          {c + 3072, 3072, read},
                                          {d, 400, write},
                                          {d + 512, 400, write},
                                          {a, 307200, write}}));
  EXPECT_EQ(forward("false", 0).size(), 5U);
  EXPECT_TRUE(forward("true", c).empty()) << "another norm";
  const Kernel backward(ANONYMOUS "layer_norm_grad_input_kernel_vectorized<float, float, false>(more)", b, c,
                        d, d + 512, Address{0}, a, 768);
  EXPECT_EQ(
      rows(backward, 100).touches(),
      (Touches{
          {b, 307200, read}, {c, 307200, read}, {d, 400, read}, {d + 512, 400, read}, {a, 307200, write}}));
  const Kernel weights(
      ANONYMOUS "GammaBetaBackwardCUDAKernelTemplate<float, float, 32u, 32u, 256u, false, true, false>(more)",
      std::int64_t{100}, std::int64_t{768}, b, c, d, d + 512, a, a + 3072);
  EXPECT_EQ(rows(weights, 24).touches(), (Touches{{b, 307200, read},
                                                  {c, 307200, read},
                                                  {d, 400, read},
                                                  {d + 512, 400, read},
                                                  {a, 3072, write},
                                                  {a + 3072, 3072, write}}));
}

TEST(SoftgpuPytorch, ALongSoftmaxHasABlockForEachRow) {
  const Kernel forward(ANONYMOUS "cunn_SoftMaxForward<4, float, float, float, " ANONYMOUS
                                 "LogSoftMaxForwardEpilogue>(more)",
                       a, b, 50304);
  EXPECT_EQ(rows(forward, 10).touches(), (Touches{{b, 2012160, read}, {a, 2012160, write}}));
  const Kernel in_registers(ANONYMOUS "cunn_SoftMaxForwardReg<float, float, float, " ANONYMOUS
                                      "LogSoftMaxForwardEpilogue, long, 8>(more)",
                            a, b, std::int64_t{8192});
  EXPECT_EQ(rows(in_registers, 10).touches(), (Touches{{b, 327680, read}, {a, 327680, write}}));
  const Kernel shared(ANONYMOUS "cunn_SoftMaxForwardSmem<4, float, float, float, " ANONYMOUS
                                "LogSoftMaxForwardEpilogue, long>(more)",
                      a, b, std::int64_t{8192});
  EXPECT_EQ(rows(shared, 10).touches(), (Touches{{b, 327680, read}, {a, 327680, write}}));
  const Kernel backward(ANONYMOUS "cunn_SoftMaxBackward<4, float, float, float, " ANONYMOUS
                                  "LogSoftMaxBackwardEpilogue>(more)",
                        a, b, c, std::int64_t{50304});
  EXPECT_EQ(rows(backward, 10).touches(),
            (Touches{{b, 2012160, read}, {c, 2012160, read}, {a, 2012160, write}}));
}

TEST(SoftgpuPytorch, GatheringRowsMayReadAnyOfTheTable) {
  using Long = std::int64_t;
  const Kernel gather("at::native::vectorized_gather_kernel<16, long>(more)", a, b, c, 64, Long{3072},
                      Long{1000}, Long{3072}, Long{3072}, false);
  EXPECT_EQ(rows(gather, 64).touches(), (Touches{{c, 512, read}, {b, 3072000, read}, {a, 196608, write}}));
}

// Of a launch of gpt.py (8 sequences of 1,024 tokens, 12 heads of 64), less addresses. Queries, keys and
// values are side by side in each row.
Kernel attention_forward() {
  Kernel kernel(
      "fmha_cutlassF_f32_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<float, "
      "cutlass::arch::Sm80, true, 64, 64, 64, true, true>::Params)",
      std::array<Address, 34>{a,
                              a + 3072,
                              a + 6144,
                              0,
                              0,
                              0,
                              0,
                              0,
                              b,
                              0,
                              c,
                              0x3e00000000000000,
                              0x4000000040,
                              0x40000000400,
                              0x7f0100000000,
                              0x90000000900,
                              0x900,
                              0x4000000300,
                              0x4000000040,
                              0,
                              0x240000,
                              0x240000,
                              0x240000,
                              0,
                              0xc00000008});
  kernel.grid = {16, 12, 8};
  return kernel;
}

TEST(SoftgpuPytorch, AttentionReadsItsInputsOnceAndWritesItsResultAndSums) {
  Kernel kernel = attention_forward();
  constexpr std::uint64_t tensor = 8 * 1024 * 12 * 64 * 4, sums = 8 * 12 * 1024 * 4;
  EXPECT_EQ(kernel.touches(), (Touches{{a, 3 * tensor, read}, {b, tensor, write}, {c, sums, write}}));
  const std::uint64_t scalars = kernel.scalars();
  kernel.put(0, 112, 17);  // set on the device
  EXPECT_EQ(kernel.scalars(), scalars);
  kernel.put(0, 92, 0.5F);  // the scale
  EXPECT_NE(kernel.scalars(), scalars);
  kernel.put(0, 80, Address{0});
  EXPECT_EQ(kernel.touches().size(), 2U) << "no sums";
}

// The same launch as 2.15 makes it: where it starts and which heads share keys stand between.
TEST(SoftgpuPytorch, AttentionOfANewerLayoutTouchesTheSame) {
  const Kernel older = attention_forward();
  constexpr std::size_t batches = 192, flags = 200;
  Kernel newer(older.name, std::array<std::byte, 280>{});
  newer.grid = older.grid;
  std::memcpy(newer.params[0].data(), older.params[0].data(), batches);
  newer.put(0, batches, std::array{8, 0, 0, 12, 1});
  EXPECT_EQ(newer.touches(), older.touches());
  EXPECT_EQ(newer.scalars(), older.scalars());
  for (const std::size_t other : {batches + 4, batches + 8, batches + 16}) {
    Kernel declined = newer;
    declined.put(0, other, 3);
    EXPECT_TRUE(declined.touches().empty()) << other;
  }
  newer.put(0, flags + 12, true);  // dropout
  EXPECT_TRUE(newer.touches().empty());
}

TEST(SoftgpuPytorch, AttentionKnowsWhichOfItsInputsIsWhich) {
  Kernel kernel = attention_forward();
  const std::uint64_t scalars = kernel.scalars();
  kernel.put(0, 0, std::array{a + 6144, a + 3072, a});  // values and queries change places
  EXPECT_NE(kernel.scalars(), scalars);
  Kernel apart = attention_forward();
  apart.put(0, 0, std::array{a, c, d});
  for (const std::size_t batch : {160, 168, 176}) apart.put(0, batch, Address{0xc0000});
  for (const std::size_t row : {120, 124, 128}) apart.put(0, row, 0x300);
  constexpr std::uint64_t tensor = 8 * 1024 * 12 * 64 * 4;
  const auto inputs = apart.touches();
  ASSERT_EQ(inputs.size(), 5U);
  EXPECT_EQ(Touches(inputs.begin(), inputs.begin() + 3),
            (Touches{{a, tensor, read}, {c, tensor, read}, {d, tensor, read}}));
}

TEST(SoftgpuPytorch, AttentionWithMoreThanItsTensorsIsDeclined) {
  for (const std::size_t offset :
       {24, 32, 40, 48, 72}) {  // bias, begins and lengths of sequences, accumulators
    Kernel kernel = attention_forward();
    kernel.put(0, offset, d);
    EXPECT_TRUE(kernel.touches().empty()) << offset;
  }
  Kernel window = attention_forward();
  window.put(0, 88, 128);
  EXPECT_TRUE(window.touches().empty());
  Kernel dropout = attention_forward();
  dropout.put(0, 200, true);
  EXPECT_TRUE(dropout.touches().empty());
}

TEST(SoftgpuPytorch, AttentionsGradientsAreAddedUpInTheWorkspace) {
  constexpr Address base = 0x7f1000000000, step = 0x10000000;
  const auto at = [](int i) { return base + static_cast<Address>(i) * step; };
  Kernel kernel(
      "fmha_cutlassB_f32_aligned_64x64_k64_sm80(PyTorchMemEffAttention::AttentionBackwardKernel<cutlass::"
      "arch::Sm80, float, true, false, false, 64, 64, 64, false>::Params)",
      std::array<Address, 58>{a,
                              a + 3072,
                              a + 6144,
                              0,
                              at(0),
                              at(1),
                              at(2),
                              at(3),
                              0,
                              0,
                              at(4),
                              at(5),
                              at(6),
                              0,
                              at(7),
                              0,
                              0,
                              0x3e00000000000000,
                              0x4000000040,
                              0x40000000400,
                              0x7f010000000c,
                              0x900,
                              0x900,
                              0x900,
                              0,
                              0x300,
                              0xffffffffffffffff,
                              0x10001,
                              0,
                              0,
                              0,
                              0,
                              0,
                              0x7f3d00000000,
                              0x40,
                              0x4000000040,
                              0x40,
                              0,
                              0xc0000,
                              0x240000,
                              0x240000,
                              0x240000,
                              0,
                              0x3000,
                              0x400,
                              0x3000,
                              0x400,
                              0x1000000008,
                              0xc0000,
                              0xc0000,
                              0xc0000,
                              0xc0000,
                              0,
                              0x40,
                              0x40,
                              0x40,
                              0x40,
                              0});
  kernel.grid = {16, 12, 8};
  constexpr std::uint64_t tensor = 8 * 1024 * 12 * 64 * 4, sums = 8 * 12 * 1024 * 4;
  const Touches all{{a, 3 * tensor, read},
                    {at(2), tensor, read},
                    {at(0), sums, read},
                    {at(3), sums, read},
                    {at(4), tensor, write},
                    {at(5), tensor, write},
                    {at(6), tensor, write},  // a tile for each 64 queries: lock, counter, 64 * 64 sums
                    {at(7), 8 * 12 * 16 * (16 + 64 * 64 * 4), TouchKind::read_write}};
  EXPECT_EQ(kernel.touches(), all) << "the result itself is not read: the program has summed its products";
  const std::uint64_t scalars = kernel.scalars();
  Kernel newer(kernel.name, std::array<std::byte, 480>{});  // the same launch as 2.15 makes it
  newer.grid = kernel.grid;
  const auto take = [&](std::size_t to, std::size_t from, std::size_t bytes) {
    std::memcpy(newer.params[0].data() + to, kernel.params[0].data() + from, bytes);
  };
  take(0, 0, 164);
  newer.put(0, 164, 1);  // heads that share keys
  take(168, 164, 1);
  take(176, 168, 212);  // up to the batches
  take(396, 380, 2);
  take(400, 384, 80);
  EXPECT_EQ(newer.touches(), all);
  EXPECT_EQ(newer.scalars(), scalars);
  newer.put(0, 392, 5);  // the first head
  EXPECT_TRUE(newer.touches().empty());
  kernel.put(0, 120, std::array{d, d});              // set on the device
  kernel.put(0, 165, std::array<char, 3>{1, 2, 3});  // between the members
  EXPECT_EQ(kernel.scalars(), scalars);
  kernel.put(0, 104, d);
  EXPECT_TRUE(kernel.touches().empty()) << "a bias";
}

TEST(SoftgpuPytorch, ConcatenationPutsItsInputsBehindOneAnother) {
  Kernel kernel(ANONYMOUS "CatArrayBatchedCopy<" ANONYMOUS "OpaqueType<4u>, unsigned int, 4, 64, 64>(more)",
                a, std::array<std::byte, 3392>{}, std::array{24, 12, 1024, 64, 786432, 64, 768, 1}, 0,
                786432);
  kernel.grid = {264, 2, 1};
  kernel.put(1, 0, std::array{b, c});
  kernel.put(1, 512, std::array{0, 8});
  kernel.put(1, 768, std::array{8, 8});
  kernel.put(1, 1024, std::array{6291456, 6291456});
  kernel.put(1, 1280, std::array<std::uint8_t, 4>{0, 0, 0, 0x87});  // the last is of no input
  for (const std::size_t input : {0, 1})
    kernel.put(1, 1344 + 32 * input, std::array{8, 12, 1024, 64, 786432, 64, 768, 1});
  constexpr std::uint64_t tensor = 8 * 12 * 1024 * 64 * 4;
  EXPECT_EQ(kernel.touches(),
            (Touches{{b, tensor, read}, {a, tensor, write}, {c, tensor, read}, {a + tensor, tensor, write}}));
  const std::uint64_t scalars = kernel.scalars();
  kernel.put(1, 1290, 77);
  EXPECT_EQ(kernel.scalars(), scalars);
  kernel.put(1, 1024, 6291455);
  EXPECT_TRUE(kernel.touches().empty()) << "another number of elements than its sizes make";
}

TEST(SoftgpuPytorch, ConcatenationWithinRowsIsTouchedRowByRow) {
  Kernel kernel(ANONYMOUS "CatArrayBatchedCopy<" ANONYMOUS "OpaqueType<2u>, unsigned int, 2, 64, 64>(more)",
                a, std::array<std::byte, 3392>{}, std::array{2, 5, 0, 0, 5, 1, 0, 0}, 1, 1);
  kernel.grid = {264, 1, 1};
  kernel.put(1, 0, b);
  kernel.put(1, 512, 2);  // behind two columns of another
  kernel.put(1, 768, 3);
  kernel.put(1, 1024, 6);
  kernel.put(1, 1280, true);
  EXPECT_EQ(kernel.touches(), (Touches{{b, 12, read}, {a + 4, 6, write}, {a + 14, 6, write}}));
}

TEST(SoftgpuPytorch, DropoutTouchesItsTensorsAndNothingThatItsRandomStateLeavesOver) {
  Kernel kernel(ANONYMOUS "fused_dropout_kernel_vec<c10::BFloat16, float, unsigned int, 1, 8, bool>(more)",
                std::array<std::byte, 216>{}, std::array<std::byte, 216>{}, std::array<std::byte, 216>{}, 64,
                0.9F, std::array<std::uint64_t, 4>{42, 8, 0, 0});
  for (const auto& [tensor, address] : {std::pair(0, a), {1, b}, {2, c}}) {
    kernel.put(tensor, 0, address);
    kernel.put(tensor, 8, 64);
    kernel.put(tensor, 108, 1);
    kernel.put(tensor, 208, 1);
  }
  EXPECT_EQ(kernel.touches(), (Touches{{a, 128, read}, {b, 128, write}, {c, 64, write}}));
  const std::uint64_t scalars = kernel.scalars();
  kernel.put(5, 24, d & ~Address{0xFF});  // behind `captured`, which is false
  EXPECT_EQ(kernel.touches().size(), 3U);
  EXPECT_EQ(kernel.scalars(), scalars);
  kernel.put(5, 8, Address{12});
  EXPECT_NE(kernel.scalars(), scalars) << "other random numbers";
  kernel.put(0, 8, 63);
  EXPECT_TRUE(kernel.touches().empty()) << "another number of elements than its sizes make";
}

}  // namespace
}  // namespace softgpu
