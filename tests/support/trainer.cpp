#include "tests/support/trainer.h"

#include <utility>

#include "core/hash.h"
#include "core/replay.h"

namespace pooch::test {
namespace {
constexpr int refused = 2;
constexpr std::uint64_t map_bytes = 4 * MiB, weight_bytes = 2 * MiB;

bool in_place(int layer) {
  return layer % 2 == 1;
}
}  // namespace

// Every word that the op changes depends on all that it reads.
void Trainer::launch(std::vector<Operand> operands, std::uint64_t salt, StreamHandle stream) {
  device_.launch(stream, [this, operands = std::move(operands), salt] {
    const auto word = [&](const Tensor& tensor, std::uint64_t i) {
      const std::uint64_t words = tensor.bytes / stride;
      return reinterpret_cast<std::uint64_t*>(device_.translate(tensor.address + i % words * stride, 8));
    };
    const Tensor& out = operands.back().tensor;
    for (std::uint64_t i = 0; i < out.bytes / stride; ++i) {
      std::uint64_t value = mix(salt, i);
      for (const Operand& operand : operands) {
        if (operand.effect == Effect::overwrite) continue;
        if (const std::uint64_t* const at = word(operand.tensor, i)) value = mix(value, *at);
      }
      if (std::uint64_t* const at = word(out, i)) *at = value;
    }
  });
}

bool Trainer::op(const char* function, OpKind kind, std::vector<Operand> operands) {
  struct Again : Replay {
    Trainer& trainer;
    std::vector<Operand> operands;
    std::uint64_t salt;
    Again(Trainer& of, std::vector<Operand> with, std::uint64_t by)
        : trainer(of), operands(std::move(with)), salt(by) {}
    Status run(std::span<const Address> places, StreamHandle stream) override {
      std::vector<Operand> moved = operands;
      for (std::size_t i = 0; i < moved.size(); ++i) moved[i].tensor.address = places[i];
      trainer.launch(std::move(moved), salt, stream);
      return Done{};
    }
  };
  std::vector<Access> accesses;
  for (const Operand& operand : operands)
    accesses.push_back({operand.tensor.address, operand.tensor.bytes, operand.effect});
  const std::uint64_t salt = hash(function);
  const auto copy = [&]() -> std::unique_ptr<Replay> {
    return std::make_unique<Again>(*this, operands, salt);
  };
  const FunctionRef<std::unique_ptr<Replay>()> keep(copy);
  Call call{function, kind, stream_, accesses};
  call.traits = salt;
  call.keep = &keep;
  return session_.submit(
             call, [&] { return launch(operands, salt, stream_), 0; }, refused) == 0;
}

bool Trainer::fill(const char* function, OpKind kind, const Tensor& tensor, std::uint64_t value) {
  const Access access{tensor.address, tensor.bytes, Effect::overwrite};
  return session_.submit(
             {function, kind, stream_, {&access, 1}},
             [&] {
               return launch({{tensor, Effect::overwrite}}, value, stream_), 0;
             },
             refused) == 0;
}

bool Trainer::read(const Tensor& tensor) {
  const Access access{tensor.address, tensor.bytes, Effect::read};
  std::uint64_t sum = 0;
  const int status = session_.submit(
      {"read", OpKind::copy_out, stream_, {&access, 1}, /*blocks=*/true},
      [&] {
        device_.launch(stream_, [&] {
          for (std::uint64_t at = 0; at < tensor.bytes; at += stride)
            if (const auto* word = device_.translate(tensor.address + at, 8))
              sum = mix(sum, *reinterpret_cast<const std::uint64_t*>(word));
        });
        device_.drain();
        return 0;
      },
      refused);
  numbers_.push_back(sum);
  return status == 0;
}

bool Trainer::make(Tensor& tensor, std::uint64_t bytes) {
  const auto address = session_.allocate(bytes, stream_);
  if (!address) return false;
  tensor = {*address, bytes};
  return true;
}
bool Trainer::end(Tensor& tensor) {
  return bool(session_.free(std::exchange(tensor, {}).address, stream_));
}

bool Trainer::begin() {
  stream_ = *device_.create_stream();
  weights_.resize(layers), gradients_.resize(layers), maps_.resize(layers);
  bool good = make(input_, map_bytes);
  for (int i = 0; i < layers; ++i)
    good = good && make(weights_[i], weight_bytes) && fill("init", OpKind::set, weights_[i], 100 + i);
  return good;
}

bool Trainer::forward(std::uint64_t number) {
  bool good = fill("batch", OpKind::copy_in, input_, number);
  for (int i = 0; i < layers && good; ++i) {
    const Tensor& from = i == 0 ? input_ : maps_[i - 1];
    good = make(maps_[i], map_bytes) &&
           op("conv", OpKind::conv_forward,
              {{from, Effect::read}, {weights_[i], Effect::read}, {maps_[i], Effect::overwrite}});
    if (good && in_place(i)) good = op("relu", OpKind::activation_forward, {{maps_[i], Effect::read_write}});
  }
  return good;
}

bool Trainer::backward() {
  Tensor gradient;
  bool good = make(gradient, map_bytes) && op("loss", OpKind::softmax_forward,
                                              {{maps_.back(), Effect::read}, {gradient, Effect::overwrite}});
  for (int i = layers; i-- > 0 && good;) {
    const Tensor from = i == 0 ? input_ : maps_[i - 1];
    if (in_place(i))
      good = op("relu_back", OpKind::activation_backward,
                {{maps_[i], Effect::read}, {gradient, Effect::read_write}});
    good = good && make(gradients_[i], weight_bytes) &&
           op("conv_filter", OpKind::conv_backward_filter,
              {{from, Effect::read}, {gradient, Effect::read}, {gradients_[i], Effect::overwrite}});
    if (good && i > 0) {
      Tensor next;
      good = make(next, map_bytes) &&
             op("conv_data", OpKind::conv_backward_data,
                {{gradient, Effect::read}, {weights_[i], Effect::read}, {next, Effect::overwrite}}) &&
             end(gradient);
      gradient = next;
    }
    good = good && end(maps_[i]);
  }
  return good && end(gradient);
}

bool Trainer::iterate(std::uint64_t number) {
  bool good = forward(number) && backward();
  for (int i = 0; i < layers && good; ++i)
    good = op("update", OpKind::elementwise,
              {{gradients_[i], Effect::read}, {weights_[i], Effect::read_write}}) &&
           end(gradients_[i]);
  return good && read(weights_.back());
}

bool Trainer::train(int iterations) {
  bool good = begin();
  for (int i = 0; i < iterations && good; ++i) good = iterate(static_cast<std::uint64_t>(i));
  for (const Tensor& weight : weights_) good = good && read(weight);
  device_.drain();
  return good;
}

}  // namespace pooch::test
