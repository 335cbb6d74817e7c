// Calls functions by name, behind the real wrappers and with the session of the replay tests, and prints what
// each was announced to touch. Beneath are libraries that do nothing.
//
// stdin, a line each: `own ADDRESS BYTES`: memory of the program's, until `forget`; `mode N`: cuBLAS' pointer
// mode; `FUNCTION ARGUMENT…`: an argument is a number, `&0` or `&1` (a zero or a one on the host),
// `@u64:A,B,…` (an array on the host) or `@3d:…` (a CUDA_MEMCPY3D, its numbers as in `copy_3d`).
// stdout: `STATUS ADDRESS:BYTES:EFFECT …` for each call.
#include "tests/contract/recorded/recorded_rows.h"

#include <cuda_runtime_api.h>

#include <cstdio>
#include <deque>
#include <iostream>
#include <sstream>
#include <string>

#include "tests/unit/interpose/replay_session.h"

extern "C" int recorded_pointer_mode;

namespace {

using recorded_rows::Words;

std::deque<std::vector<std::uint64_t>> arrays;
std::deque<CUDA_MEMCPY3D> copies;

std::vector<std::uint64_t> numbers(const std::string& text) {
  std::vector<std::uint64_t> all;
  std::istringstream in(text);
  for (std::string one; std::getline(in, one, ',');) all.push_back(std::stoull(one, nullptr, 0));
  return all;
}

// to, x, y, z, pitch, height; the same of where from; width, height, depth
std::uint64_t copy_3d(const std::vector<std::uint64_t>& n) {
  CUDA_MEMCPY3D copy = {};
  copy.dstMemoryType = copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = n.at(0), copy.dstXInBytes = n.at(1), copy.dstY = n.at(2), copy.dstZ = n.at(3);
  copy.dstPitch = n.at(4), copy.dstHeight = n.at(5);
  copy.srcDevice = n.at(6), copy.srcXInBytes = n.at(7), copy.srcY = n.at(8), copy.srcZ = n.at(9);
  copy.srcPitch = n.at(10), copy.srcHeight = n.at(11);
  copy.WidthInBytes = n.at(12), copy.Height = n.at(13), copy.Depth = n.at(14);
  return reinterpret_cast<std::uintptr_t>(&copies.emplace_back(copy));
}

// Scalars of every type: the first element of zeros, and of what is zero in none.
std::uint64_t argument(const std::string& text) {
  static unsigned char zero[64] = {}, one[64];
  std::fill(std::begin(one), std::end(one), static_cast<unsigned char>(0x3c));
  if (text == "&0") return reinterpret_cast<std::uintptr_t>(zero);
  if (text == "&1") return reinterpret_cast<std::uintptr_t>(one);
  if (text.starts_with("@u64:"))
    return reinterpret_cast<std::uintptr_t>(arrays.emplace_back(numbers(text.substr(5))).data());
  if (text.starts_with("@3d:")) return copy_3d(numbers(text.substr(4)));
  return static_cast<std::uint64_t>(std::stoll(text, nullptr, 0));
}

int call(const std::string& name, const Words& words) {
  for (const recorded_rows::Function& function : recorded_rows::functions())
    if (name == function.name && words.size() == function.arguments) return function.call(words);
  std::fprintf(stderr, "no function %s with %zu arguments\n", name.c_str(), words.size());
  std::exit(2);
}

}  // namespace

int main() {
  if (cuInit(0) != CUDA_SUCCESS || cudaFree(nullptr) != cudaSuccess) return 1;
  replay_test::snapshots(false);
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream in(line);
    std::string name;
    in >> name;
    Words words;
    for (std::string word; in >> word;) words.push_back(argument(word));
    if (name == "forget") {
      replay_test::forget_owned();
    } else if (name == "mode") {
      recorded_pointer_mode = static_cast<int>(words.at(0));
    } else if (name == "own") {
      replay_test::own(reinterpret_cast<const void*>(words.at(0)), words.at(1));
    } else {
      replay_test::ops().clear();
      const int status = call(name, words);
      std::printf("%d", replay_test::ops().size() == 1 ? status : -1);
      for (const auto& op : replay_test::ops())
        for (const pooch::Access& access : op.accesses)
          std::printf(" %llu:%llu:%d", static_cast<unsigned long long>(raw(access.address)),
                      static_cast<unsigned long long>(access.bytes), static_cast<int>(access.effect));
      std::printf("\n");
      std::fflush(stdout);
      arrays.clear();
      copies.clear();
    }
  }
  return 0;
}
