#include "runtime/memory/stream_order.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/support/lazy_device.h"
#include "tests/support/refusing_device.h"

namespace pooch::runtime {
namespace {

using test::LazyDevice;
using test::RefusingDevice;

TEST(StreamOrder, AWaitIsIssuedOnceAndNotWithinOneStream) {
  LazyDevice device(512 * MiB);
  StreamOrder order(device);
  const StreamIndex a = order.index(*device.create_stream()), b = order.index(*device.create_stream());
  const Mark mark = order.launched(a);
  ASSERT_TRUE(order.follow(a, mark));
  EXPECT_EQ(device.waits(), 0u);
  ASSERT_TRUE(order.follow(b, mark));
  ASSERT_TRUE(order.follow(b, mark));
  EXPECT_EQ(device.waits(), 1u);
  device.drain();
  EXPECT_TRUE(*order.finished(mark));
  EXPECT_EQ(*order.event_for(mark), EventHandle::none) << "known to be finished";
}

TEST(StreamOrder, CountsWhenTheProgramsWorkFollowsPoochs) {
  LazyDevice device(512 * MiB);
  StreamOrder order(device);
  const StreamIndex copies = order.index(*device.create_stream()), a = order.index(*device.create_stream()),
                    b = order.index(*device.create_stream());
  order.set_own(copies);
  ASSERT_TRUE(order.follow(b, order.launched(a)));
  ASSERT_TRUE(order.follow(copies, order.launched(b)));
  EXPECT_EQ(order.waits_for_own(), 0u);
  ASSERT_TRUE(order.follow(a, order.launched(copies)));
  EXPECT_EQ(order.waits_for_own(), 1u);
}

TEST(StreamOrder, ARelaxedStreamHasAnEventOnlyWhereOneIsAskedFor) {
  LazyDevice device(512 * MiB);
  StreamOrder order(device);
  const StreamIndex main = order.index(*device.create_stream()), side = order.index(*device.create_stream()),
                    copies = order.index(*device.create_stream());
  order.set_eager(true);
  order.relax(main);
  const std::uint64_t before = device.records();
  for (int i = 0; i < 5; ++i) order.launched(main);
  const Mark mark = order.launched(main);
  EXPECT_EQ(device.records(), before);
  ASSERT_TRUE(order.follow(copies, mark));
  EXPECT_EQ(device.records(), before + 1);
  order.launched(side);
  order.launched_exactly(main);
  EXPECT_EQ(device.records(), before + 3);
  order.relax(std::nullopt);
  order.launched(main);
  EXPECT_EQ(device.records(), before + 4);
}

TEST(StreamOrder, ItKeepsFewEventsOfPointsThatTheHostNeverAsksAbout) {
  for (const bool relaxed : {false, true}) {
    LazyDevice device(512 * MiB);
    StreamOrder order(device);
    const StreamIndex main = order.index(*device.create_stream()),
                      copies = order.index(*device.create_stream());
    order.set_eager(true);
    if (relaxed) order.relax(main);
    for (int i = 0; i < 1000; ++i) {
      ASSERT_TRUE(order.follow(copies, order.launched(main)));
      device.drain();
    }
    EXPECT_LE(device.events(), 70u) << relaxed;
  }
}

// A stream that is captured can be asked nothing; one that waits for the program must not be waited for.
TEST(StreamOrder, NothingIsRelaxedOnceQuestionsMayHaveToBeAnsweredWithoutAnEvent) {
  LazyDevice device(512 * MiB);
  for (const bool blocks : {false, true}) {
    StreamOrder order(device);
    const StreamIndex main = order.index(*device.create_stream());
    order.set_eager(true);
    order.relax(main);
    blocks ? order.note_host_blocking(main) : order.insist();
    const std::uint64_t before = device.records();
    order.launched(main);
    order.relax(main);
    order.launched(main);
    EXPECT_EQ(device.records(), before + 2);
  }
}

TEST(StreamOrder, MarksOfADestroyedStreamStayValid) {
  LazyDevice device(512 * MiB);
  StreamOrder order(device);
  const StreamHandle handle = *device.create_stream();
  const StreamIndex old = order.index(handle);
  const Mark mark = order.launched(old);
  order.retire(handle);
  EXPECT_NE(order.index(handle), old) << "a new stream with the same handle is another stream";
  device.drain();
  EXPECT_TRUE(*order.finished(mark));
}

// To another thread the handle of per-thread streams is another stream, in which no event of it can be
// recorded.
TEST(StreamOrder, APerThreadStreamHasItsEventsBeforeAnotherThreadAsks) {
  LazyDevice device(512 * MiB);
  StreamOrder order(device);
  Mark mark;
  std::thread([&] { mark = order.launched(order.index(StreamHandle::per_thread)); }).join();
  const std::size_t recorded = device.events();
  EXPECT_EQ(recorded, 1u);
  ASSERT_TRUE(order.follow(order.index(*device.create_stream()), mark));
  EXPECT_EQ(device.waits(), 1u);
  EXPECT_EQ(device.events(), recorded);
}

TEST(StreamOrder, APointHoldsWhereItsEventWasRefused) {
  LazyDevice lazy(512 * MiB);
  RefusingDevice device(lazy, {1, ErrorCode::device});
  StreamOrder order(device);
  const StreamHandle stream = *lazy.create_stream();
  const StreamIndex index = order.index(stream);
  bool ran = false;
  lazy.launch(stream, [&] { ran = true; });
  device.hold_off(false);
  const Mark mark = order.launched_exactly(index);
  ASSERT_STREQ(device.struck(), "create_event");
  while (!*order.finished(mark)) {
  }
  EXPECT_TRUE(ran);
}

TEST(StreamOrder, APointOfADestroyedStreamWithoutAnEventIsWaitedForWithTheWholeDevice) {
  LazyDevice lazy(512 * MiB);
  RefusingDevice device(lazy, {1, ErrorCode::device, /*for_ever=*/false});
  StreamOrder order(device);
  const StreamHandle stream = *lazy.create_stream();
  bool ran = false;
  lazy.launch(stream, [&] { ran = true; });
  const Mark mark = order.launched(order.index(stream));
  device.hold_off(false);
  order.retire(stream);
  ASSERT_STREQ(device.struck(), "create_event");
  EXPECT_TRUE(*order.finished(mark));
  EXPECT_TRUE(ran);
}

// Waiting for the whole device would be waiting for the program.
TEST(StreamOrder, APointWithoutAnEventIsNotWaitedForWhileTheProgramHoldsUpAStream) {
  LazyDevice lazy(512 * MiB);
  RefusingDevice device(lazy, {1, ErrorCode::device, /*for_ever=*/false});
  StreamOrder order(device);
  const StreamHandle gone = *lazy.create_stream(), blocked = *lazy.create_stream();
  const Mark mark = order.launched(order.index(gone));
  lazy.block(blocked);
  order.note_host_blocking(order.index(blocked));
  device.hold_off(false);
  order.retire(gone);
  device.hold_off(true);
  ASSERT_STREQ(device.struck(), "create_event");
  EXPECT_EQ(order.event_for(mark).error().code, ErrorCode::internal);
  lazy.unblock(blocked);
  lazy.drain();
  EXPECT_FALSE(*order.host_blocked());
  EXPECT_EQ(*order.event_for(mark), EventHandle::none) << "the device is idle";
}

TEST(StreamOrder, WhoFollowsAllWaitsOnceForEveryStream) {
  LazyDevice device(512 * MiB);
  StreamOrder order(device);
  const StreamHandle copies = *device.create_stream();
  const StreamIndex all = order.index(copies);
  int ran = 0, found = 0;
  for (int i = 0; i < 3; ++i) {
    const StreamHandle stream = *device.create_stream();
    device.launch(stream, [&] { ++ran; });
    (void)order.launched(order.index(stream));
  }
  ASSERT_TRUE(order.follow_all(all));
  ASSERT_TRUE(order.follow_all(all));
  EXPECT_EQ(device.waits(), 3u);
  device.launch(copies, [&] { found = ran; });
  device.drain();
  EXPECT_EQ(found, 3);
}

}  // namespace
}  // namespace pooch::runtime
