// Memory that somebody uses unseen stays: what graphs name, and what addresses that kernels wrote lead to.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "runtime/session/session.h"
#include "tests/support/lazy_device.h"
#include "tests/support/program.h"

namespace pooch::runtime {
namespace {

using test::LazyDevice;
constexpr int refused = 2;
constexpr std::uint64_t bytes = 6 * MiB;

// Copies out of some memory may be refused.
struct Shy final : LazyDevice {
  using LazyDevice::LazyDevice;
  Address refuses{};
  Status copy_out(std::byte* to, Address from, std::uint64_t size, StreamHandle stream) override {
    if (from == refuses) return Error{ErrorCode::device, "refused for a test", 999};
    return LazyDevice::copy_out(to, from, size, stream);
  }
};

// Under a cap that three of its buffers fit below.
class Pinned : public testing::Test {
 protected:
  Pinned() {
    auto opened = Session::open(test::session_config("20MiB", "256MiB"), device);
    EXPECT_TRUE(opened) << opened.error().message;
    session = std::move(*opened);
    for (int i = 0; i < 4; ++i) {
      buffers.push_back(*session->allocate(bytes, stream));
      EXPECT_EQ(touch(buffers.back(), Effect::overwrite), 0);
    }
  }
  ~Pinned() override {
    device.drain();
    EXPECT_TRUE(device.complaints().empty()) << device.complaints().front();
  }
  int submit(OpKind kind, Access access, const std::function<void()>& work, StreamHandle in) {
    return session->submit(
        {"work", kind, in, {&access, 1}}, [&] { return device.launch(in, work), 0; }, refused);
  }
  int touch(Address at, Effect effect) {
    return submit(
        OpKind::elementwise, {at, bytes, effect}, [] {}, stream);
  }
  // All but the first are used in turn.
  void use_others() {
    for (int round = 0; round < 3; ++round)
      for (std::size_t i = 1; i < buffers.size(); ++i) EXPECT_EQ(touch(buffers[i], Effect::read_write), 0);
  }
  bool first_stays() {
    use_others();
    const std::uint64_t before = session->summary().bytes_in;
    EXPECT_EQ(touch(buffers[0], Effect::read), 0);
    return session->summary().bytes_in == before;
  }
  // A kernel writes the address of the first buffer into memory of its own.
  Address table(StreamHandle in) {
    const Address at = *session->allocate(2 * MiB, in);
    EXPECT_EQ(submit(
                  OpKind::bare_launch, {at, 2 * MiB, Effect::read_write},
                  [this, at] {
                    if (auto* const word = reinterpret_cast<std::uint64_t*>(device.translate(at, 8)))
                      *word = raw(buffers[0]);
                  },
                  in),
              0);
    return at;
  }
  std::vector<Access> access(const std::vector<Address>& of) {
    std::vector<Access> all;
    for (const Address at : of) all.push_back({at, 1, Effect::read_write});
    return all;
  }

  Shy device{512 * MiB};
  const StreamHandle stream = *device.create_stream();
  std::unique_ptr<Session> session;
  std::vector<Address> buffers;
};

TEST_F(Pinned, WhatAGraphNamesStaysUntilAllWhoNamedItLetItGo) {
  EXPECT_FALSE(first_stays());
  std::vector<Kept> one, other;
  session->capture_begins();
  ASSERT_TRUE(session->hold(access({buffers[0], buffers[0] + bytes / 2}), one));
  ASSERT_EQ(one.size(), 1u) << "an allocation is named once";
  EXPECT_EQ(one[0].memory.base, buffers[0]);
  EXPECT_EQ(one[0].memory.bytes, bytes);
  ASSERT_TRUE(session->hold(access({buffers[0]}), other));
  EXPECT_EQ(session->summary().pinned_bytes, bytes);
  EXPECT_TRUE(first_stays());
  session->let_go(one);
  EXPECT_TRUE(first_stays());
  session->let_go(other);
  EXPECT_FALSE(first_stays());
}

TEST_F(Pinned, WhatIsFreedIsNotLetGoForWhoeverLiesThereNext) {
  std::vector<Kept> gone;
  ASSERT_TRUE(session->hold(access({buffers[0]}), gone));
  ASSERT_TRUE(session->free(buffers[0], stream));
  ASSERT_EQ(*session->allocate(bytes, stream), buffers[0]);
  EXPECT_EQ(touch(buffers[0], Effect::overwrite), 0);
  std::vector<Kept> next;
  ASSERT_TRUE(session->hold(access({buffers[0]}), next));
  session->let_go(gone);
  EXPECT_TRUE(first_stays());
}

TEST_F(Pinned, MoreThanTheCapCannotStay) {
  std::vector<Kept> kept;
  testing::internal::CaptureStderr();
  const Status held = session->hold(access(buffers), kept);
  testing::internal::GetCapturedStderr();
  ASSERT_FALSE(held);
  EXPECT_EQ(held.error().code, ErrorCode::out_of_memory);
  EXPECT_EQ(held.error().message,
            "it needs memory that stays on the device, and 6.00 MiB more do not fit under the cap");
  EXPECT_EQ(kept.size(), 3u) << "what was kept until then is the caller's to let go";
  session->let_go(kept);
  EXPECT_FALSE(first_stays());
}

TEST_F(Pinned, MemoryOfNobodyOrOfTheDriverIsNotKept) {
  ASSERT_TRUE(session->free(buffers[1], stream));
  std::vector<Kept> kept;
  ASSERT_TRUE(session->hold(access({Address{0x7000}, buffers[1]}), kept));
  EXPECT_TRUE(kept.empty());
}

TEST_F(Pinned, WhatAnAddressThatAKernelWroteLeadsToStays) {
  (void)table(stream);
  EXPECT_TRUE(first_stays());
  EXPECT_EQ(session->summary().pinned_allocations, 1u);
}

TEST_F(Pinned, AnAddressIsLookedForOnceTheProgramHoldsUpNoStream) {
  const StreamHandle other = *device.create_stream();
  (void)table(other);
  device.drain();
  device.block(other);
  session->note_host_blocking(other);
  use_others();
  EXPECT_EQ(session->summary().pinned_allocations, 0u) << "who waits for the device might wait for ever";
  device.unblock(other);
  device.drain();
  use_others();
  EXPECT_EQ(session->summary().pinned_allocations, 1u);
  EXPECT_TRUE(first_stays());
}

TEST_F(Pinned, WhereNobodyCouldLookForAddressesAnyOpMayReachAnyMemory) {
  device.refuses = table(stream);
  testing::internal::CaptureStderr();
  EXPECT_EQ(touch(buffers[1], Effect::read), 0);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("looking for addresses: refused for a test"), std::string::npos) << said;
  EXPECT_NE(said.find("any op may reach memory that it does not name"), std::string::npos) << said;
  use_others();
  EXPECT_EQ(session->summary().pinned_allocations, 0u);
}

}  // namespace
}  // namespace pooch::runtime
