// A program for tests of what threads do to each other under a plan, and the device that lets them meet.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/call.h"
#include "core/plan.h"
#include "core/profile.h"
#include "tests/support/lazy_device.h"

namespace pooch::test {

// Other threads get their chance wherever the host waits for an event: the session's lock is free then.
class OpenDevice : public test::LazyDevice {
 public:
  using LazyDevice::LazyDevice;
  std::function<void()> while_waiting;

  Status synchronize(EventHandle event) override {
    if (while_waiting) while_waiting();
    return LazyDevice::synchronize(event);
  }
  Status synchronize_all() override {
    if (while_waiting) while_waiting();
    return LazyDevice::synchronize_all();
  }
};

struct Rungs {
  static constexpr std::uint64_t bytes = 4 * MiB;
  static constexpr int maps = 8;
};

// A loop of eight maps. The first two are made by twins, calls of which nothing but their place tells which
// is which. Ops write a word here and there of the maps, or the whole of a small part.
template <class Session, bool small_parts = false>
class Ladder : public Rungs {
 public:
  static constexpr std::uint64_t touched = small_parts ? 4 * KiB : bytes;

  Ladder(OpenDevice& device, Session& session) : device_(device), session_(session) {
    for (Address& map : maps_) map = *session.allocate(bytes, StreamHandle::legacy);
    weights_ = *session.allocate(bytes, StreamHandle::legacy);
    sum_ = *session.allocate(bytes, StreamHandle::legacy);
    call("fill", OpKind::set, {{weights_, touched, Effect::overwrite}});
    call("fill", OpKind::set, {{sum_, touched, Effect::overwrite}});
  }

  // What comes next is in this stream, behind all that was.
  void move_to(StreamHandle stream) {
    const EventHandle event = *device_.create_event();
    EXPECT_TRUE(device_.record(event, stream_));
    EXPECT_TRUE(device_.wait(stream, event));
    EXPECT_TRUE(device_.destroy_event(event));
    stream_ = stream;
  }

  void twin(int map) {
    call("twin", OpKind::conv_forward,
         {{weights_, touched, Effect::read}, {maps_[map], touched, Effect::overwrite}});
  }
  void cousin(int map) {
    call("cousin", OpKind::conv_forward,
         {{weights_, touched, Effect::read}, {maps_[map], touched, Effect::overwrite}});
  }
  void forward(int map) {
    call("forward", OpKind::conv_forward,
         {{maps_[map - 1], touched, Effect::read},
          {maps_[map - 2], touched, Effect::read},
          {maps_[map], touched, Effect::overwrite}});
  }
  void forward() {
    for (int map = 2; map < maps; ++map) forward(map);
  }
  void backward(int map) {
    call("backward", OpKind::conv_backward_filter,
         {{maps_[map], touched, Effect::read}, {sum_, touched, Effect::read_write}});
  }
  void update() {
    call("update", OpKind::blas, {{sum_, touched, Effect::read}, {weights_, touched, Effect::read_write}});
  }
  void rest() {
    forward();
    for (int map = maps; map-- > 0;) backward(map);
    update();
  }
  void iterate() {
    twin(0);
    twin(1);
    rest();
  }
  // A copy to the host. Others may work `meanwhile`.
  void look_at(int map, const std::function<void()>& meanwhile = {}) {
    const Access whole{maps_[map], touched, Effect::read};
    const auto copy = [&] {
      if (meanwhile) meanwhile();
      return 0;
    };
    EXPECT_EQ(session_.submit({"look", OpKind::copy_out, StreamHandle::legacy, {&whole, 1}, /*blocks=*/true},
                              copy, 2),
              0);
  }
  // A copy from the host.
  void send(Address to, StreamHandle stream) {
    call("send", OpKind::copy_in, {{to, touched, Effect::overwrite}}, stream);
  }
  std::uint64_t result() {
    const Access whole{weights_, touched, Effect::read};
    std::uint64_t found = 0;
    const auto copy = [&] {
      device_.drain();
      for (std::uint64_t i = 0; i < words; ++i) found = found * 31 + *word(weights_, i);
      return 0;
    };
    EXPECT_EQ(session_.submit({"result", OpKind::copy_out, stream_, {&whole, 1}, /*blocks=*/true}, copy, 2),
              0);
    return found;
  }

 protected:
  static constexpr std::uint64_t words = small_parts ? touched / sizeof(std::uint64_t) : bytes / MiB;

  // The last operand is computed from all that are read. `keeps`: the call can be made again.
  void call(std::string_view function, OpKind kind, std::vector<Access> accesses, bool keeps,
            std::optional<StreamHandle> other = {}) {
    const StreamHandle stream = other.value_or(stream_);
    const bool adds = accesses.back().effect == Effect::read_write;
    const auto work = [this, adds, salt = function.size()](std::span<const Address> at, StreamHandle in) {
      device_.launch(in, [this, adds, salt, all = std::vector(at.begin(), at.end())] {
        for (std::uint64_t i = 0; i < words; ++i) {
          std::uint64_t sum = i + salt;
          for (std::size_t o = 0; o + 1 < all.size(); ++o)
            if (const auto* const w = word(all[o], i)) sum = sum * 37 + *w;
          if (auto* const w = word(all.back(), i)) *w = adds ? *w * 41 + sum : sum;
        }
      });
    };
    const auto again = [this, work](std::span<const Address> at, StreamHandle in) {
      work(at, in);
      if (spoils_) spoils_(at.back(), in);
    };
    const auto keep = [&]() -> std::unique_ptr<Replay> { return std::make_unique<Again>(again); };
    const FunctionRef<std::unique_ptr<Replay>()> kept = keep;
    Call made{function, kind, stream, accesses};
    if (keeps) made.keep = &kept;
    std::vector<Address> at;
    for (const Access& access : accesses) at.push_back(access.address);
    const auto launch = [&] {
      work(at, stream);
      return 0;
    };
    EXPECT_EQ(session_.submit(made, launch, 2), 0);
  }
  void call(std::string_view function, OpKind kind, std::vector<Access> accesses,
            std::optional<StreamHandle> other = {}) {
    const bool adds = accesses.back().effect == Effect::read_write;
    call(function, kind, std::move(accesses), !adds, other);
  }
  Address map(int number) const { return maps_[number]; }
  Address weights() const { return weights_; }
  OpenDevice& device() { return device_; }
  std::uint64_t* word(Address at, std::uint64_t i) {
    return reinterpret_cast<std::uint64_t*>(
        device_.translate(at + i * (touched / words), sizeof(std::uint64_t)));
  }
  // Behind each replay, with where its last operand lay.
  std::function<void(Address, StreamHandle)> spoils_;

 private:
  class Again : public Replay {
   public:
    explicit Again(std::function<void(std::span<const Address>, StreamHandle)> work)
        : work_(std::move(work)) {}
    Status run(std::span<const Address> operands, StreamHandle stream) override {
      work_(operands, stream);
      return Done{};
    }

   private:
    std::function<void(std::span<const Address>, StreamHandle)> work_;
  };

  OpenDevice& device_;
  Session& session_;
  std::array<Address, maps> maps_;
  Address weights_, sum_;
  StreamHandle stream_ = StreamHandle::legacy;
};

// The map that the op at this position makes, as a plan names it.
inline PlanMap planned_map(const PhaseProfile& phase, std::uint32_t number, std::int32_t position,
                           MapClass of, std::vector<std::int32_t> by) {
  PlanMap map;
  map.map = number;
  map.name = "map " + std::to_string(number);
  map.bytes = Rungs::bytes;
  map.of = of;
  map.moved = of == MapClass::swap ? Rungs::bytes : 0;
  map.by = std::move(by);
  for (const ProfileVersion& version : phase.versions)
    if (version.producer == position) map.buffer = version.buffer;
  return map;
}

inline Plan empty_plan(const PhaseProfile& phase) {
  Plan plan;
  plan.phase = phase.id;
  plan.structure = structure_of(phase);
  plan.device = "lazy";
  plan.policy = "test";
  return plan;
}

// A plan that drops what the twins made, and makes it again.
inline Plan drop_twins(const PhaseProfile& phase) {
  Plan plan = empty_plan(phase);
  for (std::uint32_t map = 0; map < 2; ++map) {
    const auto position = static_cast<std::int32_t>(map);
    plan.maps.push_back(planned_map(phase, map, position, MapClass::recompute, {position}));
    plan.after[position + 2].push_back({PlanAction::Kind::drop, map});
    plan.before[2 * Rungs::maps - 2].push_back({PlanAction::Kind::replay, 1 - map});
  }
  return plan;
}

// For a session to find while this exists.
struct PlanFile {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("ladder-" + std::to_string(getpid()) + ".json");

  explicit PlanFile(const Plan& plan) { std::ofstream(path) << to_json(plan); }
  ~PlanFile() { std::filesystem::remove(path); }
};

// The plan also moves the fifth and the sixth map out and in.
inline Plan swap_two(Plan plan, const PhaseProfile& phase) {
  for (std::uint32_t map = 4; map < 6; ++map) {
    const auto position = static_cast<std::int32_t>(map);
    plan.maps.push_back(planned_map(phase, map, position, MapClass::swap, {}));
    plan.after[position + 2].push_back({PlanAction::Kind::evict, map});
    plan.before[2 * Rungs::maps - 2 - position].push_back({PlanAction::Kind::prefetch, map});
  }
  return plan;
}

}  // namespace pooch::test
