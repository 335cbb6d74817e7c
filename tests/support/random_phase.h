// How random_profile makes one phase.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/hash.h"
#include "core/ids.h"
#include "core/profile.h"

namespace pooch::test {

// The same numbers with every standard library.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() { return state_ = mix(state_, 1); }
  std::uint64_t below(std::uint64_t end) { return next() % end; }
  bool one_in(std::uint64_t n) { return below(n) == 0; }
  double share() { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  std::uint64_t state_;
};

std::uint64_t bytes_of(const Shape& shape);

// Builds one phase, op by op: layers forward, then the loss, then the layers backward, then the updates.
class PhaseBuilder {
 public:
  PhaseBuilder(std::size_t ops, Dice& dice, bool trains, bool in_iteration)
      : target_(ops), dice_(dice), trains_(trains), in_iteration_(in_iteration) {}

  PhaseProfile build();

 private:
  enum class Kind { convolution, batch_norm, relu, pooling, linear, sum, concatenation };
  using Versions = std::vector<std::uint32_t>;

  struct Node {
    Kind kind;
    bool in_place = false;
    std::optional<std::uint32_t> weights;  // version
    std::optional<std::uint32_t> weight_gradient;
  };
  struct MapState {
    Shape shape;
    Versions content;
    std::optional<std::uint32_t> gradient;  // version
    bool overwritten = false;               // by a layer that works in place
  };

  std::size_t cost(Kind kind) const;
  bool add(Kind kind);
  void add_next();
  std::uint32_t add_map(const std::string& name, const Shape& shape, Versions content);
  void add_layer(Kind kind, const std::vector<std::uint32_t>& inputs, const Shape& shape);
  void concatenate(std::uint32_t input);
  std::uint32_t finish_layer(Kind kind, Layer layer, Node node, Versions content);

  void forward_op(Layer& layer, Node& node, Versions reads, Versions writes);
  void loss();
  void backward(std::size_t layer);
  void backward_op(Layer& layer, OpKind kind, Versions reads, Versions writes);
  // The version that the gradient of `map` gets now; what was there is added to `reads`.
  std::uint32_t next_gradient(std::uint32_t map, Versions& reads);
  std::optional<std::uint32_t> gradient_of(std::uint32_t map) const;
  void update(std::size_t layer);
  void fill();

  std::int32_t add_op(OpKind kind, Versions reads, Versions writes, const Shape& shape);
  std::uint32_t add_buffer(std::uint64_t bytes) {
    phase_.buffers.push_back({bytes, bytes >= 2 * MiB});
    return static_cast<std::uint32_t>(phase_.buffers.size() - 1);
  }
  std::uint32_t add_version(std::uint32_t buffer, std::uint64_t offset, std::uint64_t bytes,
                            Role role = Role::activation);
  std::uint32_t in_new_buffer(std::uint64_t bytes, Role role = Role::activation) {
    return add_version(add_buffer(bytes), 0, bytes, role);
  }
  std::uint32_t over(std::uint32_t version) {  // the same region again
    const ProfileVersion& old = phase_.versions[version];
    return add_version(old.buffer, old.offset, old.bytes);
  }

  void settle_roles();
  void settle_lifetimes();

  std::size_t target_;
  Dice& dice_;
  bool trains_, in_iteration_;
  PhaseProfile phase_;
  std::vector<Node> nodes_;                                  // by layer
  std::vector<MapState> states_;                             // by map
  std::vector<std::pair<std::int32_t, std::int32_t>> uses_;  // first and last, by buffer
  std::uint32_t last_ = 0;                                   // map
  std::size_t promised_ = 0;                                 // ops of all layers, forward to update
  std::optional<std::uint32_t> counter_;                     // version
  std::optional<std::uint32_t> workspace_;                   // buffer
};

}  // namespace pooch::test
