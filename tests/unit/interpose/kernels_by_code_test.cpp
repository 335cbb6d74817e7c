// Launches that no rule understands, by what the kernel's machine code says.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "interpose/kernels/kernel_facts.h"

namespace {

using namespace pooch;
using namespace pooch::interpose;

constexpr std::uint64_t first = 0x7f0000000000, bytes = 0x1000000, memories = 8;

constexpr auto find_memory = [](std::uint64_t word) {
  return word >= first && word < first + memories * bytes ? Memory{word - (word - first) % bytes, bytes}
                                                          : Memory{};
};

std::shared_ptr<const KernelCode> code(const std::string& members) {
  auto read = KernelCode::from_json("{\"maps\":[]," + members + "}");
  EXPECT_TRUE(read) << read.error().message;
  return std::make_shared<const KernelCode>(std::move(*read));
}

// A launch whose parameters hold the addresses of memories 0, 1, 2, …, each 16 bytes into it.
class Launch {
 public:
  Launch(const char* name, std::vector<ParamLayout> layout, std::shared_ptr<const KernelCode> by)
      : facts(by == nullptr ? KernelFacts(name, layout)
                            : KernelFacts(name, layout).with_code(std::move(by))) {
    std::uint64_t number = 0;
    for (const ParamLayout& param : layout) {
      parts_.emplace_back(param.bytes);
      for (std::size_t at = 0; at + 8 <= param.bytes; at += 8)
        set(parts_.size() - 1, at, first + number++ * bytes + 16);
      each_.push_back(parts_.back().data());
    }
  }
  void set(std::size_t param, std::size_t offset, std::uint64_t word) {
    std::memcpy(parts_[param].data() + offset, &word, sizeof word);
  }
  // "1+8 read 3 whole": word 8 of parameter 1, in memory 3; '?' where nobody knows what it is.
  std::vector<std::string> words() const {
    std::vector<LaunchWord> found;
    (void)facts.find_words(LaunchParams(each_.data(), facts.layout()), {}, find_memory, found);
    std::vector<std::string> text;
    static constexpr const char* effects[] = {"read", "write", "overwrite", "read_write", "scratch"};
    for (const LaunchWord& word : found)
      text.push_back(std::to_string(word.param) + "+" + std::to_string(word.offset) + " " +
                     effects[static_cast<int>(word.effect)] + " " +
                     std::to_string((word.address - first) / bytes) + (word.whole ? " whole" : "") +
                     (word.known ? "" : "?"));
    return text;
  }

  KernelFacts facts;

 private:
  std::vector<std::vector<std::byte>> parts_;
  std::vector<void*> each_;
};

using Words = std::vector<std::string>;

TEST(KernelsByCode, AKernelWithoutARuleTouchesWhatItsCodeSays) {
  const Launch launch(
      "triton_poi_fused_relu_0", {{0, 8}, {8, 8}, {16, 4}, {24, 16}},
      code(R"("verdict":"foreseen","words":[{"offset":0,"effect":"load"},{"offset":32,"effect":"store"}],
                              "tables":[],"constants":[0,4,16,32,36],"all_constants":false)"));
  EXPECT_TRUE(launch.facts.foreseen());
  EXPECT_EQ(launch.facts.kind_of_launch(true, 0), OpKind::kernel);
  EXPECT_EQ(launch.words(), (Words{"0+0 read 0 whole", "3+8 write 3 whole"}));
}

TEST(KernelsByCode, WordsThatAreNoAddressesAreNoOperands) {
  Launch launch(
      "k", {{0, 8}, {8, 8}},
      code(R"("verdict":"foreseen","words":[{"offset":0,"effect":"load"},{"offset":8,"effect":"load"}],
                        "tables":[],"all_constants":false)"));
  launch.set(0, 0, 12345);
  EXPECT_EQ(launch.words(), Words{"1+0 read 1 whole"});
}

TEST(KernelsByCode, OfAHiddenKernelOnlyWordsThatItReadsCount) {
  const Launch launch("k", {{0, 24}},
                      code(R"("verdict":"hidden","words":[{"offset":0,"effect":"load"}],"tables":[],
                              "constants":[0,4,16],"all_constants":false)"));
  EXPECT_FALSE(launch.facts.foreseen());
  EXPECT_EQ(launch.facts.kind_of_launch(false, 0), OpKind::bare_launch);
  EXPECT_EQ(launch.words(), (Words{"0+0 read_write 0?", "0+16 read_write 2?"}));
}

TEST(KernelsByCode, ANameStillTellsWhichHalfItBelongsTo) {
  const auto foreseen = code(R"("verdict":"foreseen","words":[],"tables":[],"all_constants":false)");
  EXPECT_EQ(KernelFacts("my_softmax_backward", {{0, 8}}).with_code(foreseen).kind_of_launch(true, 0),
            OpKind::kernel_backward);
  EXPECT_EQ(KernelFacts("my_silu_kernel", {{0, 8}}).with_code(foreseen).kind_of_launch(true, 0),
            OpKind::kernel_forward);
}

// What torch.compile fuses into forward has parts of backward in it, and their names.
TEST(KernelsByCode, NamesOfFusedKernelsDoNotTellTheHalf) {
  const auto foreseen = code(R"("verdict":"foreseen","words":[],"tables":[],"all_constants":false)");
  const char* const name = "triton_per_fused_add_native_layer_norm_native_layer_norm_backward_view_6";
  EXPECT_EQ(KernelFacts(name, {{0, 8}}).with_code(foreseen).kind_of_launch(true, 0), OpKind::kernel);
}

// clip_grad_norm_ clamps one number; a ReLU of the same kernel is a layer.
TEST(KernelsByCode, AClampOfOneNumberIsNoActivation) {
  const KernelFacts clamp(
      "void at::native::vectorized_elementwise_kernel<4, at::native::launch_clamp_scalar(F), "
      "std::array<char*, 2ul> >(int, "
      "at::native::launch_clamp_scalar(F), std::array<char*, 2ul>)",
      {{0, 4}, {4, 4}, {8, 16}});
  EXPECT_EQ(clamp.kind_of_launch(true, 1), OpKind::elementwise);
  EXPECT_EQ(clamp.kind_of_launch(true, 2), OpKind::activation_forward);
}

TEST(KernelsByCode, ARuleThatUnderstandsALaunchIsNotAskedTwice) {
  const char* const name =
      "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char*, "
      "1ul> >(int, "
      "at::native::FillFunctor<float>, std::array<char*, 1ul>)";
  const auto foreseen = code(
      R"("verdict":"foreseen","words":[{"offset":16,"effect":"store"}],"tables":[],"all_constants":false)");
  const Launch by_rule(name, {{0, 4}, {4, 4}, {8, 8}}, foreseen);
  EXPECT_EQ(by_rule.facts.kind(), OpKind::set);
  EXPECT_EQ(by_rule.words(), Words{"2+0 write 0"}) << "the rule knows that it begins at the address";
}

// A functor that captures an address which its rule does not expect.
TEST(KernelsByCode, TheCodeDecidesWhereARuleDoesNotUnderstandAWord) {
  const char* const name =
      "void at::native::vectorized_elementwise_kernel<4, Captures, std::array<char*, 2ul> >(int, Captures, "
      "std::array<char*, 2ul>)";
  const std::vector<ParamLayout> layout{{0, 4}, {8, 8}, {16, 16}};
  EXPECT_EQ(Launch(name, layout, nullptr).words(), (Words{"2+0 write 1", "2+8 read 2", "1+0 read_write 0?"}));
  const auto foreseen =
      code(R"("verdict":"foreseen","words":[{"offset":8,"effect":"load"},{"offset":16,"effect":"store"},
                               {"offset":24,"effect":"load"}],"tables":[],"all_constants":false)");
  EXPECT_EQ(Launch(name, layout, foreseen).words(),
            (Words{"1+0 read 0 whole", "2+0 write 1 whole", "2+8 read 2 whole"}));
}

TEST(KernelsByCode, WhatPrintsIsForeseenAndNotMadeAgain) {
  const auto prints =
      code(R"("verdict":"foreseen","words":[],"tables":[],"all_constants":false,"prints":true)");
  const KernelFacts facts = KernelFacts("k", {{0, 8}}).with_code(prints);
  EXPECT_TRUE(facts.foreseen());
  EXPECT_FALSE(facts.repeatable());
}

}  // namespace
