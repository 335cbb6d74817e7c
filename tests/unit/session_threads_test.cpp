// Threads that meet in one session while one of them waits: what a plan did for one's op must not serve
// another's.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <utility>
#include <vector>

#include "core/profile.h"
#include "runtime/session.h"
#include "tests/support/lazy_device.h"
#include "tests/support/program.h"

namespace pooch::runtime {
namespace {

constexpr int refused = 2;

using OpenDevice = test::LazyDevice;

// A loop of eight maps. The first two are made by twins, calls of which nothing but their place tells which
// is which.
class Ladder {
 public:
  static constexpr std::uint64_t bytes = 4 * MiB;
  static constexpr int maps = 8;

  Ladder(OpenDevice& device, Session& session) : device_(device), session_(session) {
    for (Address& map : maps_) map = *session.allocate(bytes, StreamHandle::legacy);
    weights_ = *session.allocate(bytes, StreamHandle::legacy);
    sum_ = *session.allocate(bytes, StreamHandle::legacy);
    call("fill", OpKind::set, {{weights_, bytes, Effect::overwrite}});
    call("fill", OpKind::set, {{sum_, bytes, Effect::overwrite}});
  }

  void twin(int map) {
    call("twin", OpKind::conv_forward,
         {{weights_, bytes, Effect::read}, {maps_[map], bytes, Effect::overwrite}});
  }
  void rest() {
    for (int map = 2; map < maps; ++map)
      call("forward", OpKind::conv_forward,
           {{maps_[map - 1], bytes, Effect::read},
            {maps_[map - 2], bytes, Effect::read},
            {maps_[map], bytes, Effect::overwrite}});
    for (int map = maps; map-- > 0;)
      call("backward", OpKind::conv_backward_filter,
           {{maps_[map], bytes, Effect::read}, {sum_, bytes, Effect::read_write}});
    call("update", OpKind::blas, {{sum_, bytes, Effect::read}, {weights_, bytes, Effect::read_write}});
  }
  // A copy to the host. Others may work `meanwhile`.
  void look_at(int map, const std::function<void()>& meanwhile = {}) {
    const Access whole{maps_[map], bytes, Effect::read};
    const auto copy = [&] {
      if (meanwhile) meanwhile();
      return 0;
    };
    EXPECT_EQ(session_.submit({"look", OpKind::copy_out, StreamHandle::legacy, {&whole, 1}, /*blocks=*/true},
                              copy, refused),
              0);
  }

 private:
  static constexpr std::uint64_t words = bytes / MiB;

  std::uint64_t* word(Address at, std::uint64_t i) {
    return reinterpret_cast<std::uint64_t*>(device_.translate(at + i * MiB, sizeof(std::uint64_t)));
  }
  // The last operand is computed from all that are read.
  void call(const char* function, OpKind kind, std::vector<Access> accesses) {
    const bool adds = accesses.back().effect == Effect::read_write;
    const auto work = [this, adds](std::span<const Address> at, StreamHandle stream) {
      device_.launch(stream, [this, adds, all = std::vector(at.begin(), at.end())] {
        for (std::uint64_t i = 0; i < words; ++i) {
          std::uint64_t sum = i + 1;
          for (std::size_t o = 0; o + 1 < all.size(); ++o)
            if (const auto* const w = word(all[o], i)) sum = sum * 37 + *w;
          if (auto* const w = word(all.back(), i)) *w = adds ? *w * 41 + sum : sum;
        }
      });
    };
    const Call made{function, kind, StreamHandle::legacy, accesses};
    std::vector<Address> at;
    for (const Access& access : accesses) at.push_back(access.address);
    const auto launch = [&] {
      work(at, StreamHandle::legacy);
      return 0;
    };
    EXPECT_EQ(session_.submit(made, launch, refused), 0);
  }

  OpenDevice& device_;
  Session& session_;
  std::array<Address, maps> maps_;
  Address weights_, sum_;
};

std::unique_ptr<Session> open(OpenDevice& device, const Config& config) {
  auto session = Session::open(config, device);
  EXPECT_TRUE(session) << session.error().message;
  return std::move(*session);
}

TEST(SessionThreads, OpsAreTimedWhileACopyBlocksAnotherThread) {
  OpenDevice device(512 * MiB);
  const auto session = open(device, test::session_config("64MiB", "256MiB"));
  Ladder ladder(device, *session);
  for (int iteration = 0; iteration < 6; ++iteration) {
    ladder.look_at(4, [&] { ladder.twin(0); });
    ladder.twin(1);
    ladder.rest();
    device.drain();
  }
  const Profile profile = session->profile();
  ASSERT_EQ(profile.phases.size(), 1u);
  EXPECT_EQ(profile.phases[0].measured, 3u);
}

}  // namespace
}  // namespace pooch::runtime
