#include "tracker/roles.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/chain.h"

namespace pooch::tracker {
namespace {

PhaseProfile of_kinds(const std::vector<OpKind>& kinds) {
  PhaseProfile phase;
  for (const OpKind kind : kinds) phase.ops.emplace_back().kind = kind;
  return phase;
}

TEST(Turn, IsBehindTheLastForwardOpAheadOfTheFirstBackwardOne) {
  using enum OpKind;
  EXPECT_EQ(find_turn(of_kinds({conv_forward, elementwise, conv_backward_data})), 1);
  EXPECT_EQ(find_turn(of_kinds({conv_forward, conv_backward_data, conv_forward})), 1)
      << "what comes later is done again in backward";
  EXPECT_EQ(find_turn(of_kinds({elementwise, conv_backward_data})), 0);
  EXPECT_EQ(find_turn(of_kinds({conv_forward, elementwise})), outside);
  EXPECT_EQ(find_turn(of_kinds({})), outside);
}

TEST(Turn, IsWhereMostIsAliveIfNoKindTells) {
  EXPECT_EQ(find_turn(test::chain_of(4, 100)), 4);
}

// Ops 0 and 1 make a map each, which ops 2 and 3 read; a weight is read in forward and rewritten by op 3.
class Roles : public testing::Test {
 protected:
  std::uint32_t add(ProfileVersion version) {
    version.buffer = static_cast<std::uint32_t>(phase.buffers.size());
    version.bytes = MiB;
    phase.buffers.push_back({MiB, true});
    phase.versions.push_back(version);
    return static_cast<std::uint32_t>(phase.versions.size() - 1);
  }
  Role role(std::uint32_t version) {
    assign_roles(phase, inputs);
    return phase.versions[version].role;
  }
  PhaseProfile phase = of_kinds(
      {OpKind::conv_forward, OpKind::conv_forward, OpKind::conv_backward_data, OpKind::conv_backward_filter});
  std::vector<std::uint32_t> inputs;
};

TEST_F(Roles, OfWhatForwardMakesTellWhoReadsIt) {
  EXPECT_EQ(role(add({.producer = 0, .readers = {1, 3}})), Role::feature_map);
  EXPECT_EQ(role(add({.producer = 0, .readers = {1}})), Role::activation);
  EXPECT_EQ(role(add({.producer = 0, .readers = {}})), Role::activation);
  EXPECT_EQ(role(add({.producer = 2, .readers = {3}})), Role::gradient);
}

TEST_F(Roles, OfWhatWasThereBeforeIsParameterUnlessItWasCopiedIn) {
  const std::uint32_t there = add({.producer = outside, .readers = {0}});
  EXPECT_EQ(role(there), Role::parameter);
  inputs = {there};
  EXPECT_EQ(role(there), Role::input);
}

TEST_F(Roles, OfWhatGradientsAreAddedToIsGradientThoughForwardSetsIt) {
  phase.ops[1].kind = OpKind::set;
  EXPECT_EQ(role(add({.producer = 1, .readers = {3}})), Role::gradient);
}

TEST_F(Roles, APhaseTrainsWhereBackwardRewritesWhatForwardRead) {
  const std::uint32_t weight = add({.producer = outside, .readers = {0}});
  ProfileVersion updated = phase.versions[weight];
  updated.producer = 3;
  updated.readers = {};
  phase.versions.push_back(updated);
  EXPECT_EQ(role(weight + 1), Role::parameter);
  EXPECT_EQ(phase.kind, "train");
  phase.versions[weight].readers = {3};
  assign_roles(phase, inputs);
  EXPECT_EQ(phase.kind, "accumulate") << "gradients are added up in it, and nothing is learnt";
  phase.ops.resize(2);
  phase.versions.pop_back();
  assign_roles(phase, inputs);
  EXPECT_EQ(phase.kind, "validate");
  EXPECT_EQ(phase.turn, outside);
}

}  // namespace
}  // namespace pooch::tracker
