#include "tests/support/network_profile.h"

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

namespace pooch::test {
namespace {

struct Size {
  int channels = 0, depth = 1, height = 0, width = 0;
  double positions() const { return double(depth) * height * width; }
};
struct Sliding {
  int size, stride, padding;
  int depth_stride = 0, groups = 1;
};

int slid(int n, int size, int stride, int padding) {
  return (n + 2 * padding - size) / stride + 1;
}

// Builds forward layer by layer and keeps what each layer does in backward; `finish` plays that backwards.
class Builder {
 public:
  Builder(const Machine& machine, int batch, Size image, bool three_d)
      : machine_(machine), batch_(batch), three_d_(three_d) {
    maps_.push_back({image, buffer(bytes_of(image)), 0});
    maps_[0].version = version(maps_[0].buffer, outside, Role::input);
    graph_map("input", 0);
  }

  int convolution(const std::string& name, int input, int channels, Sliding w, bool bias = false);
  int batch_norm(const std::string& name, int input);
  int relu(const std::string& name, int input);
  int add(const std::string& name, int into, int other);
  int concatenate(const std::string& name, const std::vector<int>& inputs);
  int max_pool(const std::string& name, int input, Sliding w);
  int response_norm(const std::string& name, int input);
  int global_average(const std::string& name, int input);
  int linear(const std::string& name, int input, int features);
  Size size(int map) const { return maps_[map].size; }
  Profile finish(int last);

 private:
  using List = std::vector<std::uint32_t>;
  struct Data {
    Size size;
    std::uint32_t buffer = 0;
    std::uint32_t version = 0;
    std::uint32_t graph_memory = 0;
    bool wants_gradient = true;
  };
  struct Gradient {
    std::uint32_t buffer = 0, version = 0;
    bool there = false;
  };

  double count(Size s) const { return batch_ * s.channels * s.positions(); }
  std::uint64_t bytes_of(Size s) const { return static_cast<std::uint64_t>(4 * count(s)); }

  std::uint32_t buffer(std::uint64_t bytes) {
    phase_.buffers.push_back({bytes, bytes >= (2u << 20), outside, outside});
    return static_cast<std::uint32_t>(phase_.buffers.size() - 1);
  }
  std::uint32_t version(std::uint32_t of, std::int32_t producer, Role role) {
    phase_.versions.push_back({of, 0, phase_.buffers[of].bytes, producer, {}, role});
    return static_cast<std::uint32_t>(phase_.versions.size() - 1);
  }
  std::int32_t position() const { return static_cast<std::int32_t>(phase_.ops.size()); }
  std::uint32_t write(std::uint32_t of, bool forward) {
    return version(of, position(), forward ? Role::activation : Role::gradient);
  }
  std::uint32_t weight_gradient(std::uint32_t of) {
    return weights_[of].gradient = write(buffer(phase_.buffers[weights_[of].buffer].bytes), false);
  }
  void op(OpKind kind, double flops, double bytes, List reads, List writes);
  std::uint32_t parameter(double floats);
  std::uint32_t open(int map, bool& accumulates);
  int output(const std::string& name, const char* kind, List inputs, Data made, std::int32_t first);
  void graph_map(const std::string& name, std::uint32_t memory) {
    phase_.graph.maps.push_back({name, bytes_of(maps_.back().size), false, memory, {maps_.back().version}});
  }
  void lifetimes();
  void optimiser();

  const Machine& machine_;
  int batch_;
  bool three_d_;
  PhaseProfile phase_;
  std::vector<Data> maps_;
  std::vector<Gradient> gradients_;
  std::vector<std::function<void()>> backward_;
  struct Weights {
    std::uint32_t value, momentum, buffer;
    std::uint32_t gradient = 0;
  };
  std::vector<Weights> weights_;
};

void Builder::op(OpKind kind, double flops, double bytes, List reads, List writes) {
  ProfileOp made;
  made.key = (phase_.ops.size() + 1) * 0x9e3779b97f4a7c15u;
  made.kind = kind;
  made.us = std::max(flops / machine_.flops_per_s, bytes / machine_.bytes_per_s) * 1e6;
  made.gap_us = 2;
  for (const std::uint32_t v : reads) phase_.versions[v].readers.push_back(position());
  made.reads = std::move(reads);
  made.writes = std::move(writes);
  phase_.ops.push_back(std::move(made));
}

std::uint32_t Builder::parameter(double floats) {
  const auto bytes = static_cast<std::uint64_t>(4 * floats);
  const std::uint32_t value = buffer(bytes), momentum = buffer(bytes);
  weights_.push_back(
      {version(value, outside, Role::parameter), version(momentum, outside, Role::parameter), value});
  return static_cast<std::uint32_t>(weights_.size() - 1);
}

// The gradient of a map, ready to be written; its old version is there where it accumulates.
std::uint32_t Builder::open(int map, bool& accumulates) {
  Gradient& gradient = gradients_[map];
  accumulates = gradient.there;
  if (!gradient.there) gradient.buffer = buffer(bytes_of(maps_[map].size));
  gradient.there = true;
  return gradient.buffer;
}

int Builder::output(const std::string& name, const char* kind, List inputs, Data made, std::int32_t first) {
  maps_.push_back(made);
  const auto index = static_cast<std::uint32_t>(maps_.size() - 1);
  if (made.graph_memory == 0) maps_.back().graph_memory = index;
  graph_map(name + ".out", maps_.back().graph_memory);
  Layer layer;
  layer.name = name;
  layer.kind = kind;
  layer.inputs = inputs;
  layer.output = index;
  layer.bytes = bytes_of(made.size);
  for (std::int32_t p = first; p < position(); ++p) {
    layer.forward.push_back(p);
    layer.forward_us += phase_.ops[p].us;
  }
  const auto number = phase_.graph.layers.size();
  for (const std::uint32_t input : inputs) {
    for (std::uint32_t l = 0; l < number; ++l) {
      if (phase_.graph.layers[l].output == input) phase_.graph.edges.push_back({l, std::uint32_t(number)});
    }
  }
  phase_.graph.layers.push_back(std::move(layer));
  return static_cast<int>(index);
}

int Builder::convolution(const std::string& name, int input, int channels, Sliding w, bool bias) {
  const std::int32_t first = position();
  const Size in = maps_[input].size;
  Size out{channels, in.depth, slid(in.height, w.size, w.stride, w.padding),
           slid(in.width, w.size, w.stride, w.padding)};
  if (three_d_) out.depth = slid(in.depth, w.size, w.depth_stride ? w.depth_stride : w.stride, w.padding);
  const double taps = double(w.size) * w.size * (three_d_ ? w.size : 1) * in.channels / w.groups;
  const double flops = 2 * count(out) * taps, moved = 4 * (count(in) + count(out));
  const std::uint32_t weight = parameter(channels * taps);
  const std::uint32_t x = maps_[input].version;
  Data made{out, buffer(bytes_of(out)), 0};
  made.version = write(made.buffer, true);
  op(OpKind::conv_forward, flops, moved, {x, weights_[weight].value}, {made.version});
  if (bias) {
    const std::uint32_t before = made.version;
    made.version = write(made.buffer, true);
    op(OpKind::elementwise, 0, 2 * 4 * count(out), {before}, {made.version});
  }
  const int map = output(name, "convolution", {std::uint32_t(input)}, made, first);
  backward_.push_back([=, this] {
    const std::uint32_t dy = gradients_[map].version;
    if (bias) op(OpKind::conv_backward_bias, 0, 4 * count(out), {dy}, {});
    if (maps_[input].wants_gradient && input != 0) {
      bool accumulates = false;
      const std::uint32_t place = open(input, accumulates);
      List reads{dy, weights_[weight].value};
      if (accumulates) reads.push_back(gradients_[input].version);
      const std::uint32_t dx = write(place, false);
      op(OpKind::conv_backward_data, flops, moved, reads, {dx});
      gradients_[input].version = dx;
    }
    op(OpKind::conv_backward_filter, flops, moved, {x, dy}, {weight_gradient(weight)});
  });
  return map;
}

int Builder::batch_norm(const std::string& name, int input) {
  const std::int32_t first = position();
  const Size size = maps_[input].size;
  const std::uint32_t x = maps_[input].version;
  Data made{size, buffer(bytes_of(size)), 0};
  made.version = write(made.buffer, true);
  const std::uint32_t saved = write(buffer(8 * size.channels), true);
  op(OpKind::batch_norm_forward, 0, 3 * 4 * count(size), {x}, {made.version, saved});
  const int map = output(name, "batch_norm", {std::uint32_t(input)}, made, first);
  backward_.push_back([=, this] {
    bool accumulates = false;
    const std::uint32_t place = open(input, accumulates);
    List reads{x, gradients_[map].version, saved};
    if (accumulates) reads.push_back(gradients_[input].version);
    const std::uint32_t dx = write(place, false);
    op(OpKind::batch_norm_backward, 0, 5 * 4 * count(size), reads, {dx});
    gradients_[input].version = dx;
  });
  return map;
}

int Builder::relu(const std::string& name, int input) {
  const std::int32_t first = position();
  Data made = maps_[input];
  made.version = write(made.buffer, true);
  op(OpKind::activation_forward, 0, 2 * 4 * count(made.size), {maps_[input].version}, {made.version});
  const int map = output(name, "relu", {std::uint32_t(input)}, made, first);
  backward_.push_back([=, this] {
    const std::uint32_t before = gradients_[map].version;
    const std::uint32_t after = write(gradients_[map].buffer, false);
    op(OpKind::activation_backward, 0, 3 * 4 * count(made.size), {made.version, before}, {after});
    gradients_[input] = {gradients_[map].buffer, after, true};
  });
  return map;
}

int Builder::add(const std::string& name, int into, int other) {
  const std::int32_t first = position();
  Data made = maps_[into];
  made.version = write(made.buffer, true);
  op(OpKind::elementwise, 0, 3 * 4 * count(made.size), {maps_[into].version, maps_[other].version},
     {made.version});
  const int map = output(name, "addition", {std::uint32_t(into), std::uint32_t(other)}, made, first);
  // Both branches read the one gradient.
  backward_.push_back([=, this] { gradients_[into] = gradients_[other] = gradients_[map]; });
  return map;
}

// Copies side by side, and their gradients back.
int Builder::concatenate(const std::string& name, const std::vector<int>& inputs) {
  const std::int32_t first = position();
  Size size = maps_[inputs[0]].size;
  size.channels = 0;
  List read;
  for (const int input : inputs) {
    size.channels += maps_[input].size.channels;
    read.push_back(maps_[input].version);
  }
  Data made{size, buffer(bytes_of(size)), 0};
  made.version = write(made.buffer, true);
  op(OpKind::copy_device, 0, 2 * 4 * count(size), read, {made.version});
  const int map = output(name, "concatenation", {inputs.begin(), inputs.end()}, made, first);
  backward_.push_back([=, this] {
    for (const int input : inputs) {
      bool accumulates = false;
      const std::uint32_t place = open(input, accumulates);
      List reads{gradients_[map].version};
      if (accumulates) reads.push_back(gradients_[input].version);
      const std::uint32_t dx = write(place, false);
      op(OpKind::copy_device, 0, 2 * 4 * count(maps_[input].size), reads, {dx});
      gradients_[input].version = dx;
    }
  });
  return map;
}

int Builder::max_pool(const std::string& name, int input, Sliding w) {
  const std::int32_t first = position();
  const Size in = maps_[input].size;
  Size out{in.channels, in.depth, slid(in.height, w.size, w.stride, w.padding),
           slid(in.width, w.size, w.stride, w.padding)};
  if (three_d_) out.depth = slid(in.depth, w.size, w.stride, w.padding);
  const std::uint32_t x = maps_[input].version;
  Data made{out, buffer(bytes_of(out)), 0};
  made.version = write(made.buffer, true);
  const double moved = 4 * (count(in) + count(out));
  op(OpKind::pooling_forward, 0, moved, {x}, {made.version});
  const int map = output(name, "max_pooling", {std::uint32_t(input)}, made, first);
  backward_.push_back([=, this] {
    bool accumulates = false;
    const std::uint32_t place = open(input, accumulates);
    const std::uint32_t dx = write(place, false);
    op(OpKind::pooling_backward, 0, 2 * moved, {x, made.version, gradients_[map].version}, {dx});
    gradients_[input].version = dx;
  });
  return map;
}

int Builder::response_norm(const std::string& name, int input) {
  const std::int32_t first = position();
  const Size size = maps_[input].size;
  const std::uint32_t x = maps_[input].version;
  Data made{size, buffer(bytes_of(size)), 0};
  made.version = write(made.buffer, true);
  op(OpKind::response_norm_forward, 0, 3 * 4 * count(size), {x}, {made.version});
  const int map = output(name, "response_norm", {std::uint32_t(input)}, made, first);
  backward_.push_back([=, this] {
    bool accumulates = false;
    const std::uint32_t place = open(input, accumulates);
    const std::uint32_t dx = write(place, false);
    op(OpKind::response_norm_backward, 0, 6 * 4 * count(size), {x, made.version, gradients_[map].version},
       {dx});
    gradients_[input].version = dx;
  });
  return map;
}

int Builder::global_average(const std::string& name, int input) {
  const std::int32_t first = position();
  const Size in = maps_[input].size, out{in.channels, 1, 1, 1};
  const std::uint32_t x = maps_[input].version;
  Data made{out, buffer(bytes_of(out)), 0};
  made.version = write(made.buffer, true);
  op(OpKind::pooling_forward, 0, 4 * count(in), {x}, {made.version});
  const int map = output(name, "average_pooling", {std::uint32_t(input)}, made, first);
  backward_.push_back([=, this] {
    bool accumulates = false;
    const std::uint32_t place = open(input, accumulates);
    const std::uint32_t dx = write(place, false);
    op(OpKind::pooling_backward, 0, 2 * 4 * count(in), {x, made.version, gradients_[map].version}, {dx});
    gradients_[input].version = dx;
  });
  return map;
}

int Builder::linear(const std::string& name, int input, int features) {
  const std::int32_t first = position();
  const Size in = maps_[input].size, out{features, 1, 1, 1};
  const double taps = in.channels * in.positions();
  const std::uint32_t weight = parameter(features * taps);
  const std::uint32_t x = maps_[input].version;
  Data made{out, buffer(bytes_of(out)), 0};
  made.version = write(made.buffer, true);
  const double flops = 2 * batch_ * taps * features, moved = 4 * (count(in) + taps * features);
  op(OpKind::gemm, flops, moved, {x, weights_[weight].value}, {made.version});
  const int map = output(name, "linear", {std::uint32_t(input)}, made, first);
  backward_.push_back([=, this] {
    const std::uint32_t dy = gradients_[map].version;
    op(OpKind::gemm, flops, moved, {x, dy}, {weight_gradient(weight)});
    bool accumulates = false;
    const std::uint32_t place = open(input, accumulates);
    const std::uint32_t dx = write(place, false);
    op(OpKind::gemm, flops, moved, {dy, weights_[weight].value}, {dx});
    gradients_[input].version = dx;
  });
  return map;
}

// Momentum, decay, step.
void Builder::optimiser() {
  for (Weights& w : weights_) {
    const double bytes = static_cast<double>(phase_.buffers[w.buffer].bytes);
    const std::uint32_t momentum = version(phase_.versions[w.momentum].buffer, position(), Role::parameter);
    op(OpKind::blas, 0, 3 * bytes, {w.momentum, w.gradient}, {momentum});
    const std::uint32_t value = version(w.buffer, position(), Role::parameter);
    op(OpKind::blas, 0, 3 * bytes, {momentum, w.value}, {value});
  }
}

// A buffer lives from its first op to its last; parameters and the input are there before.
void Builder::lifetimes() {
  std::vector<std::int32_t> first(phase_.buffers.size(), outside), last = first;
  std::vector<char> permanent(phase_.buffers.size(), 0), given = permanent;
  for (ProfileVersion& v : phase_.versions) {
    std::sort(v.readers.begin(), v.readers.end());
    if (v.role == Role::parameter) permanent[v.buffer] = 1;
    if (v.producer == outside) given[v.buffer] = 1;
    std::int32_t least = v.producer, most = v.producer;
    if (!v.readers.empty()) most = std::max(most, v.readers.back());
    if (least == outside) least = v.readers.empty() ? 0 : v.readers.front();
    if (first[v.buffer] == outside || least < first[v.buffer]) first[v.buffer] = least;
    last[v.buffer] = std::max(last[v.buffer], most);
    if (v.role == Role::activation && !v.readers.empty() && v.readers.back() >= phase_.turn &&
        v.producer < phase_.turn) {
      v.role = Role::feature_map;
    }
  }
  for (std::uint32_t b = 0; b < phase_.buffers.size(); ++b) {
    if (permanent[b]) continue;
    if (!given[b]) phase_.buffers[b].from = first[b];
    phase_.buffers[b].until = last[b] + 1;
    if (!given[b]) phase_.memory.push_back({first[b], b, true});
    phase_.memory.push_back({last[b] + 1, b, false});
  }
  std::stable_sort(phase_.memory.begin(), phase_.memory.end(),
                   [](const MemoryEvent& a, const MemoryEvent& b) {
                     return std::pair(a.before, a.allocated) < std::pair(b.before, b.allocated);
                   });
}

Profile Builder::finish(int last) {
  phase_.turn = position();
  gradients_.resize(maps_.size());
  gradients_[last] = {buffer(bytes_of(maps_[last].size)), 0, true};
  gradients_[last].version = write(gradients_[last].buffer, false);
  op(OpKind::elementwise, 0, 3 * 4 * count(maps_[last].size), {maps_[last].version},
     {gradients_[last].version});
  for (std::size_t i = backward_.size(); i-- > 0;) {
    const std::int32_t first = position();
    backward_[i]();
    for (std::int32_t p = first; p < position(); ++p) {
      phase_.graph.layers[i].backward.push_back(p);
      phase_.graph.layers[i].backward_us += phase_.ops[p].us;
    }
  }
  optimiser();
  lifetimes();
  for (Map& map : phase_.graph.maps) {
    for (const std::uint32_t v : map.versions) map.kept |= phase_.versions[v].role == Role::feature_map;
  }
  phase_.id = "network";
  phase_.kind = "train";
  phase_.seen = phase_.measured = 3;
  for (const ProfileOp& each : phase_.ops) phase_.iteration_us += each.us + each.gap_us;
  phase_.functions = {"call"};

  Profile profile;
  profile.device = machine_.name;
  profile.device_bytes = profile.cap_bytes = machine_.memory_bytes;
  profile.host_budget_bytes = std::uint64_t{180} << 30;
  for (const bool in : {false, true}) {
    for (const std::uint64_t bytes : {std::uint64_t{2} << 20, std::uint64_t{128} << 20}) {
      profile.link.push_back(
          {in, bytes,
           machine_.link_latency_us + static_cast<double>(bytes) / machine_.link_bytes_per_s * 1e6});
    }
  }
  for (const std::uint32_t handles : {1, 2})
    profile.moves.push_back({handles, std::uint64_t{128} << 20, 64.0 * handles});
  profile.launch_us = 5;
  profile.phases.push_back(std::move(phase_));
  return profile;
}

// A convolution, its batch norm and mostly its ReLU.
int block(Builder& b, const std::string& name, int map, int channels, Sliding w, bool activate) {
  map = b.convolution(name + ".conv", map, channels, w);
  map = b.batch_norm(name + ".bn", map);
  return activate ? b.relu(name + ".relu", map) : map;
}

Profile residual(Builder& b, std::vector<int> blocks, int channels, int expansion, int groups, Sliding stem) {
  int map = block(b, "conv1", 0, 64, stem, true);
  map = b.max_pool("pool1", map, {3, 2, 1});
  for (int stage = 0; stage < 4; ++stage, channels *= 2) {
    for (int i = 0; i < blocks[stage]; ++i) {
      const std::string name = "conv" + std::to_string(stage + 2) + "_" + std::to_string(i + 1);
      const int stride = stage > 0 && i == 0 ? 2 : 1, input = map;
      map = block(b, name + ".1", map, channels, {1, 1, 0}, true);
      map = block(b, name + ".2", map, channels, {3, stride, 1, 0, groups}, true);
      map = block(b, name + ".3", map, channels * expansion, {1, 1, 0}, false);
      const bool same = stride == 1 && b.size(input).channels == channels * expansion;
      const int around =
          same ? input : block(b, name + ".shortcut", input, channels * expansion, {1, stride, 0}, false);
      map = b.relu(name + ".relu", b.add(name + ".add", map, around));
    }
  }
  map = b.global_average("pool5", map);
  return b.finish(b.linear("fc", map, 1000));
}

int classifier(Builder& b, int map) {
  for (const char* name : {"fc6", "fc7"}) {
    map = b.relu(name + std::string(".relu"), b.linear(name, map, 4096));
  }
  return b.linear("fc8", map, 1000);
}

}  // namespace

Machine v100_pcie3() {
  return {"v100-pcie3", std::uint64_t{16} << 30, 11.1e12, 700e9, 12e9, 9};
}
Machine v100_nvlink2() {
  return {"v100-nvlink2", std::uint64_t{16} << 30, 11.1e12, 700e9, 65e9, 6};
}
Machine titanx() {
  return {"titanx", std::uint64_t{12} << 30, 4.9e12, 260e9, 12e9, 9};
}

Profile resnet_profile(const Machine& machine, int batch, std::vector<int> blocks) {
  Builder b(machine, batch, {3, 1, 224, 224}, false);
  return residual(b, std::move(blocks), 64, 4, 1, {7, 2, 3});
}

Profile resnext101_3d_profile(const Machine& machine, int batch, int height, int width, int frames) {
  Builder b(machine, batch, {3, frames, height, width}, true);
  return residual(b, {3, 4, 23, 3}, 128, 2, 32, {7, 2, 3, 1});
}

Profile vgg16_profile(const Machine& machine, int batch, int more_per_block) {
  Builder b(machine, batch, {3, 1, 224, 224}, false);
  constexpr std::array<std::pair<int, int>, 5> blocks{{{2, 64}, {2, 128}, {3, 256}, {3, 512}, {3, 512}}};
  int map = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    for (int j = 1; j <= blocks[i].first + more_per_block; ++j) {
      const std::string name = "conv" + std::to_string(i + 1) + "_" + std::to_string(j);
      map = b.relu(name + ".relu", b.convolution(name, map, blocks[i].second, {3, 1, 1}, true));
    }
    map = b.max_pool("pool" + std::to_string(i + 1), map, {2, 2, 0});
  }
  return b.finish(classifier(b, map));
}

Profile alexnet_profile(const Machine& machine, int batch) {
  Builder b(machine, batch, {3, 1, 224, 224}, false);
  const auto conv = [&](const char* name, int map, int channels, Sliding w) {
    return b.relu(name + std::string(".relu"), b.convolution(name, map, channels, w, true));
  };
  int map = conv("conv1", 0, 64, {11, 4, 2});
  map = b.max_pool("pool1", b.response_norm("norm1", map), {3, 2, 0});
  map = conv("conv2", map, 192, {5, 1, 2});
  map = b.max_pool("pool2", b.response_norm("norm2", map), {3, 2, 0});
  map = conv("conv3", map, 384, {3, 1, 1});
  map = conv("conv4", map, 256, {3, 1, 1});
  map = conv("conv5", map, 256, {3, 1, 1});
  map = b.max_pool("pool5", map, {3, 2, 0});
  return b.finish(classifier(b, map));
}

Profile googlenet_profile(const Machine& machine, int batch) {
  Builder b(machine, batch, {3, 1, 224, 224}, false);
  const auto conv = [&](const std::string& name, int map, int channels, Sliding w) {
    return b.relu(name + ".relu", b.convolution(name, map, channels, w, true));
  };
  int map = b.max_pool("pool1", conv("conv1", 0, 64, {7, 2, 3}), {3, 2, 1});
  map = conv("conv2.reduce", b.response_norm("norm1", map), 64, {1, 1, 0});
  map = b.response_norm("norm2", conv("conv2", map, 192, {3, 1, 1}));
  map = b.max_pool("pool2", map, {3, 2, 1});
  // 1x1; 3x3 after its reduction; 5x5 likewise; behind the pooling
  constexpr std::array<std::array<int, 6>, 9> modules{{{64, 96, 128, 16, 32, 32},
                                                       {128, 128, 192, 32, 96, 64},
                                                       {192, 96, 208, 16, 48, 64},
                                                       {160, 112, 224, 24, 64, 64},
                                                       {128, 128, 256, 24, 64, 64},
                                                       {112, 144, 288, 32, 64, 64},
                                                       {256, 160, 320, 32, 128, 128},
                                                       {256, 160, 320, 32, 128, 128},
                                                       {384, 192, 384, 48, 128, 128}}};
  for (std::size_t i = 0; i < modules.size(); ++i) {
    const std::string name = "inception" + std::to_string(i + 1);
    const auto& wide = modules[i];
    if (i == 2 || i == 7) map = b.max_pool(name + ".before", map, {3, 2, 1});
    const int one = conv(name + ".1x1", map, wide[0], {1, 1, 0});
    const int three =
        conv(name + ".3x3", conv(name + ".3x3.reduce", map, wide[1], {1, 1, 0}), wide[2], {3, 1, 1});
    const int five =
        conv(name + ".5x5", conv(name + ".5x5.reduce", map, wide[3], {1, 1, 0}), wide[4], {5, 1, 2});
    const int pooled =
        conv(name + ".pool.1x1", b.max_pool(name + ".pool", map, {3, 1, 1}), wide[5], {1, 1, 0});
    map = b.concatenate(name, {one, three, five, pooled});
  }
  return b.finish(b.linear("fc", b.global_average("pool5", map), 1000));
}

Profile chain_profile(const Machine& machine, int batch, int layers, int channels, int side) {
  Builder b(machine, batch, {channels, 1, side, side}, false);
  int map = 0;
  for (int i = 1; i <= layers; ++i) {
    const std::string name = "conv" + std::to_string(i);
    map = b.relu(name + ".relu", b.convolution(name, map, channels, {3, 1, 1}));
  }
  return b.finish(map);
}

}  // namespace pooch::test
