#include "tracker/layers.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tracker/roles.h"

namespace pooch::tracker {
namespace {

constexpr std::uint64_t bytes = 4 * MiB;

// Forward ops one behind the other, each with what the former made; then backward in reverse.
class Network {
 public:
  // `in_place`: what it makes lies where its input did.
  ProfileOp& forward(OpKind kind, Shape shape, bool in_place = false) {
    const auto p = static_cast<std::int32_t>(phase.ops.size());
    ProfileOp& op = phase.ops.emplace_back();
    op.kind = kind;
    op.shape = shape;
    if (latest != no_version) read(op, latest, p);
    const std::uint32_t buffer = in_place ? phase.versions[latest].buffer : new_buffer();
    phase.versions.push_back({buffer, 0, bytes, p, {}, Role::activation});
    latest = static_cast<std::uint32_t>(phase.versions.size() - 1);
    op.writes = {latest};
    forwards.push_back(p);
    return op;
  }
  // From what each layer made.
  void backward(OpKind kind) {
    for (std::size_t i = forwards.size(); i-- > 0;) {
      const auto p = static_cast<std::int32_t>(phase.ops.size());
      ProfileOp& op = phase.ops.emplace_back();
      op.kind = kind;
      read(op, phase.ops[static_cast<std::size_t>(forwards[i])].writes[0], p);
      phase.versions.push_back({new_buffer(), 0, bytes, p, {}, Role::gradient});
      op.writes = {static_cast<std::uint32_t>(phase.versions.size() - 1)};
    }
  }
  LayerGraph graph() {
    assign_roles(phase, {});
    return build_layers(phase);
  }
  static std::vector<std::string> names(const LayerGraph& graph) {
    std::vector<std::string> all;
    for (const Layer& layer : graph.layers) all.push_back(layer.name);
    return all;
  }

  PhaseProfile phase;

 private:
  static constexpr std::uint32_t no_version = ~0U;
  std::uint32_t new_buffer() {
    phase.buffers.push_back({bytes, true});
    return static_cast<std::uint32_t>(phase.buffers.size() - 1);
  }
  void read(ProfileOp& op, std::uint32_t version, std::int32_t p) {
    op.reads.push_back(version);
    phase.versions[version].readers.push_back(p);
  }
  std::uint32_t latest = no_version;
  std::vector<std::int32_t> forwards;
};

Shape image(std::int32_t channels, std::int32_t side) {
  return {4, 4, {8, channels, side, side}};
}

TEST(Layers, AreNamedByKindSizeAndNumber) {
  Network network;
  network.forward(OpKind::conv_forward, image(64, 56)).window = {2, {3, 3}, {1, 1}, {1, 1}, {1, 1}};
  network.forward(OpKind::batch_norm_forward, image(64, 56));
  network.forward(OpKind::activation_forward, image(64, 56)).mode = "relu";
  network.forward(OpKind::conv_forward, image(64, 56));
  ProfileOp& last = network.forward(OpKind::conv_forward, image(128, 28));
  last.window = {2, {3, 1}, {2, 1}, {1, 0}, {1, 1}};
  last.filter = {4, 4, {128, 64, 3, 1}};
  const LayerGraph graph = network.graph();
  EXPECT_EQ(Network::names(graph), (std::vector<std::string>{"conv1_1 3×3/1", "bn1_1", "relu1_1", "conv1_2",
                                                             "conv2_1 3×1/2×1 64→128"}));
  EXPECT_EQ(graph.maps[graph.layers[3].output].name, "conv1_2.out");
  ASSERT_EQ(graph.edges.size(), 4u);
  for (std::uint32_t i = 0; i < 4; ++i) {
    EXPECT_EQ(graph.edges[i].from, i);
    EXPECT_EQ(graph.edges[i].to, i + 1);
  }
}

TEST(Layers, WhatWorksInPlaceLiesInItsInputsMemory) {
  Network network;
  network.forward(OpKind::conv_forward, image(64, 56));
  network.forward(OpKind::activation_forward, image(64, 56), /*in_place=*/true).mode = "relu";
  network.forward(OpKind::conv_forward, image(64, 56));
  const LayerGraph graph = network.graph();
  ASSERT_EQ(graph.layers.size(), 3u);
  const std::uint32_t conv = graph.layers[0].output, relu = graph.layers[1].output;
  EXPECT_NE(conv, relu);
  EXPECT_EQ(graph.maps[relu].memory, graph.maps[conv].memory);
  EXPECT_EQ(graph.maps[graph.layers[2].output].memory, graph.layers[2].output);
}

TEST(Layers, MapsThatBackwardReadsAreKept) {
  Network network;
  for (int i = 0; i < 3; ++i) network.forward(OpKind::conv_forward, image(64, 56));
  EXPECT_FALSE(network.graph().maps[0].kept) << "there is no backward";
  network.backward(OpKind::conv_backward_filter);
  const LayerGraph graph = network.graph();
  ASSERT_EQ(graph.layers.size(), 3u);
  for (const Layer& layer : graph.layers) {
    EXPECT_TRUE(graph.maps[layer.output].kept);
    EXPECT_EQ(layer.forward.size(), 1u);
  }
}

TEST(Layers, KindsAreThoseOfTheirModes) {
  Network network;
  network.forward(OpKind::pooling_forward, image(64, 28)).mode = "average";
  network.forward(OpKind::pooling_forward, image(64, 1)).mode = "average";
  network.forward(OpKind::pooling_forward, image(64, 1)).mode = "max";
  network.forward(OpKind::activation_forward, {2, 4, {8, 64}}).mode = "sigmoid";
  std::vector<std::string> kinds;
  for (const Layer& layer : network.graph().layers) kinds.push_back(layer.kind);
  EXPECT_EQ(kinds, (std::vector<std::string>{"average_pooling", "global_average", "max_pooling", "sigmoid"}));
}

}  // namespace
}  // namespace pooch::tracker
