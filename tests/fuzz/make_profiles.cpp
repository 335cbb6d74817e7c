// Writes a few small random profiles into a folder, as the first inputs of a fuzzer: make_profiles FOLDER
#include <fmt/core.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <utility>

#include "tests/support/random_profile.h"

namespace {

using namespace pooch;

// Everything that a random one leaves at its default.
Profile unusual() {
  Profile profile = test::random_profile(12, 1);
  ProfileOp& op = profile.phases[0].ops[0];
  op.stream = 1;
  op.outlier = true;
  op.gap_us = 0.25;
  op.scratch = {0};
  op.window = {3, {3, 4, 5}, {1, 2, 3}, {0, 1, 2}, {1, 1, 2}, 32};
  profile.phases[0].copies[0].stream = 1;
  const std::vector<std::uint32_t> made = profile.phases[0].ops[2].writes;
  op.substitute = {{{0}, made, 2, Clip::keeps_nan, Formula::one_fma, 1.5}};
  return profile;
}

bool write(const std::string& path, const Profile& profile) {
  std::ofstream out(path);
  out << to_json(profile);
  return static_cast<bool>(out.flush());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: make_profiles FOLDER\n");
    return 2;
  }
  const std::string folder = argv[1];
  bool good = write(folder + "/empty.json", Profile{}) && write(folder + "/unusual.json", unusual());
  for (const auto& [ops, seed] : {std::pair{0, 1}, {1, 1}, {12, 3}, {12, 4}, {24, 1}, {30, 2}, {60, 3}})
    good =
        good && write(fmt::format("{}/ops{}-seed{}.json", folder, ops, seed),
                      test::random_profile(static_cast<std::size_t>(ops), static_cast<std::uint64_t>(seed)));
  if (!good) fmt::print(stderr, "make_profiles: {} cannot be written\n", folder);
  return good ? 0 : 1;
}
