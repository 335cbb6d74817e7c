#include "runtime/observe/any_size.h"

#include <gtest/gtest.h>

namespace pooch::runtime {
namespace {

// Op 0 reads a weight and makes a map of so many bytes; op 1 makes another map of it, half as large.
KnownPhase phase_of(std::uint64_t bytes) {
  KnownPhase phase;
  phase.any_size = true;
  PhaseProfile& profile = phase.profile;
  profile.buffers = {{4 * MiB, true, outside, outside, {}}, {bytes, true, 0, 2, {}}, {bytes / 2, true, 1, 2, {}}};
  profile.versions = {{0, 0, 4 * MiB, outside, {0}, Role::parameter},
                      {1, 0, bytes, 0, {1}, Role::feature_map},
                      {2, 0, bytes / 2, 1, {}, Role::feature_map}};
  profile.ops.resize(2);
  profile.ops[0].reads = {0}, profile.ops[0].writes = {1}, profile.ops[0].operands = {0, 1};
  profile.ops[1].reads = {1}, profile.ops[1].writes = {2}, profile.ops[1].operands = {1, 2};
  profile.memory = {{0, 1, true}, {1, 2, true}};
  phase.volumes = {4 * MiB + bytes, bytes + bytes / 2};
  phase.local_keys = {bytes, bytes};
  for (const ProfileBuffer& buffer : profile.buffers) phase.seen_bytes.push_back({buffer.bytes, buffer.bytes});
  return phase;
}

tracker::Operand operand(std::uint64_t offset, std::uint64_t bytes) {
  tracker::Operand made{};
  made.offset = offset, made.bytes = bytes;
  return made;
}

TEST(AnySize, ThereIsRoomForTheLargestAndSomeMore) {
  for (const bool larger_first : {true, false}) {
    KnownPhase latest = phase_of(larger_first ? 32 * MiB : 64 * MiB);
    cover(latest, phase_of(larger_first ? 64 * MiB : 32 * MiB), 16);
    EXPECT_EQ(latest.profile.buffers[0].bytes, 4 * MiB) << "weights keep their size";
    EXPECT_EQ(latest.profile.buffers[1].bytes, 72 * MiB);
    EXPECT_EQ(latest.profile.buffers[2].bytes, 36 * MiB);
    EXPECT_EQ(latest.profile.versions[1].bytes, 64 * MiB) << "what the larger one did";
    EXPECT_EQ(latest.volumes[1], 96 * MiB);
    EXPECT_EQ(latest.local_keys[0], 64 * MiB);
    const tracker::Operand fits[] = {operand(36 * MiB, 36 * MiB), operand(0, MiB)};
    const tracker::Operand larger[] = {operand(36 * MiB, 36 * MiB + 1), operand(0, MiB)};
    EXPECT_TRUE(has_room(latest.profile, 1, fits));
    EXPECT_FALSE(has_room(latest.profile, 1, larger));
  }
}

TEST(AnySize, TheMoreIterationsThereWereTheLessRoomIsLeft) {
  KnownPhase latest = phase_of(64 * MiB);
  cover(latest, phase_of(32 * MiB), 1000);
  EXPECT_EQ(latest.profile.buffers[1].bytes, 66 * MiB);
  // Room is left beside what was seen, not beside that room.
  KnownPhase again = phase_of(48 * MiB);
  cover(again, latest, 1000);
  EXPECT_EQ(again.profile.buffers[1].bytes, 66 * MiB);
}

TEST(AnySize, WhatWasFreedElsewhereByChanceIsNoOtherPhase) {
  KnownPhase latest = phase_of(32 * MiB), before = phase_of(64 * MiB);
  latest.profile.buffers[1].until = outside;
  cover(latest, before, 16);
  EXPECT_EQ(latest.profile.buffers[1].bytes, 64 * MiB) << "the larger one counts";
  EXPECT_EQ(latest.profile.buffers[1].until, 2);
}

TEST(AnySize, OpsTakeAsLongAsTheirBytes) {
  EXPECT_EQ(scales(phase_of(64 * MiB).volumes, phase_of(32 * MiB).volumes, 2), (std::vector<double>{68.0 / 36, 2}));
  EXPECT_EQ(scales({}, {}, 2), (std::vector<double>{1, 1})) << "where sizes are always the same";
}

}  // namespace
}  // namespace pooch::runtime
