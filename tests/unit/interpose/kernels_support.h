// Launches that tests make up, and what the rules say of them.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "interpose/kernels/kernel_facts.h"

namespace pooch::interpose {

inline constexpr std::uint64_t a = 0x7f0000000000, b = a + 0x1000000, c = b + 0x1000000,
                               stale = c + 0x1000000;

inline constexpr auto find_memory = [](std::uint64_t word) {
  return word >= a && word < stale + 0x1000000 ? Memory{word & ~std::uint64_t{0xffffff}, 0x1000000}
                                               : Memory{};
};

inline constexpr LaunchGrid one_block;

// One launch with zeros in all parameters, to be filled in.
class Example {
 public:
  Example(const char* name, std::vector<ParamLayout> layout) : facts(name, layout) {
    for (const ParamLayout& param : layout) {
      parts_.emplace_back(param.bytes);
      each_.push_back(parts_.back().data());
    }
  }
  template <class T>
  void set(std::size_t param, std::size_t offset, T value) {
    ASSERT_LE(offset + sizeof value, parts_[param].size());
    std::memcpy(parts_[param].data() + offset, &value, sizeof value);
  }
  // "2+8 read 7f0001000000 +0", a word each, in order; '?' where no rule stands behind it.
  std::vector<std::string> words(unsigned blocks = 1, unsigned rows = 1) {
    std::vector<LaunchWord> found;
    count =
        facts.find_words(LaunchParams(each_.data(), facts.layout()), {{blocks, rows, 1}}, find_memory, found);
    std::vector<std::string> text;
    static constexpr const char* effects[] = {"read", "write", "overwrite", "read_write", "scratch"};
    for (const LaunchWord& word : found)
      text.push_back(std::to_string(word.param) + "+" + std::to_string(word.offset) + " " +
                     effects[static_cast<int>(word.effect)] + " " + letter(word.address) + " " +
                     std::to_string(word.bytes) + (word.known ? "" : "?"));
    return text;
  }

  KernelFacts facts;
  std::uint64_t count = 0;

 private:
  static std::string letter(std::uint64_t address) {
    return address < b ? "a" : address < c ? "b" : address < stale ? "c" : "stale";
  }
  std::vector<std::vector<std::byte>> parts_;
  std::vector<void*> each_;
};

using Words = std::vector<std::string>;

}  // namespace pooch::interpose
