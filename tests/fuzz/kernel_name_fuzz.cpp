// Any bytes as a kernel's name, with a layout of parameters made from them: rules are looked up, and a launch
// is searched, within what was given.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "interpose/kernels/kernel_facts.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pooch::interpose;
  // The first bytes are sizes of parameters, in words, up to a zero.
  std::vector<ParamLayout> layout;
  std::uint32_t end = 0;
  std::size_t at = 0;
  for (; at < size && data[at] != 0 && layout.size() < 16; ++at) {
    const std::uint32_t bytes = data[at] * 8u;
    layout.push_back({end, bytes});
    end += bytes;
  }
  const std::string name(reinterpret_cast<const char*>(data) + std::min(at + 1, size),
                         size - std::min(at + 1, size));
  const KernelFacts facts(name.c_str(), layout);
  std::vector<std::byte> buffer(end);
  for (std::size_t i = 0; i < buffer.size() && size > 0; ++i)
    buffer[i] = static_cast<std::byte>(data[i % size]);
  std::vector<LaunchWord> words;
  const pooch::LaunchGrid grid{{1u + (size > 0 ? data[0] : 0u), 2, 1}};
  facts.find_words(
      LaunchParams(buffer.data(), buffer.size(), layout), grid,
      [](std::uint64_t word) {
        return word != 0 && word % 3 == 0 ? Memory{word & ~std::uint64_t{0xfff}, 0x1000} : Memory{};
      },
      words);
  for (const LaunchWord& word : words)
    if (word.param >= layout.size() || word.offset + 8 > layout[word.param].bytes) std::abort();
  return 0;
}
