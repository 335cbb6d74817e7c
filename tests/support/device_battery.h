// What runtime/ relies on, asked of any Device: the lazy one of the unit tests, the software GPU, silicon.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <utility>

#include "core/device.h"
#include "core/digest.h"

namespace pooch::test {

// A device under test. `make` returns nullptr where there is none.
struct DeviceUnderTest {
  const char* name;
  Device* (*make)();
};

class DeviceBattery : public testing::TestWithParam<DeviceUnderTest> {
 protected:
  static constexpr std::uint64_t page = 2 * MiB;

  void SetUp() override {
    device_ = GetParam().make();
    ASSERT_NE(device_, nullptr);
    base_ = *device_->reserve(64 * page);
    host_ = *device_->host_allocate(4 * page);
    stream_ = *device_->create_stream();
    other_ = *device_->create_stream();
    event_ = *device_->create_event();
  }
  void TearDown() override {
    if (device_ == nullptr) return;
    EXPECT_TRUE(device_->synchronize_all());
    EXPECT_TRUE(device_->destroy_event(event_));
    EXPECT_TRUE(device_->destroy_stream(stream_));
    EXPECT_TRUE(device_->destroy_stream(other_));
    EXPECT_TRUE(device_->host_free(host_));
    EXPECT_TRUE(device_->release(base_, 64 * page));
  }
  void back(Address at, PhysicalHandle handle, std::uint64_t bytes = page) {
    ASSERT_TRUE(device_->map(at, bytes, handle));
    ASSERT_TRUE(device_->set_access(at, bytes));
  }
  // The host waits for everything in `stream`.
  void finish(StreamHandle stream) {
    ASSERT_TRUE(device_->record(event_, stream));
    ASSERT_TRUE(device_->synchronize(event_));
    EXPECT_TRUE(*device_->finished(event_));
  }

  Device* device_ = nullptr;
  Address base_{};
  std::byte* host_ = nullptr;
  StreamHandle stream_{}, other_{};
  EventHandle event_{};
};

TEST_P(DeviceBattery, TellsWhatItIs) {
  const auto info = device_->info();
  ASSERT_TRUE(info);
  EXPECT_FALSE(info->name.empty());
  EXPECT_GE(info->total_bytes, 64 * page);
  EXPECT_EQ(page % info->granularity, 0u);
}

TEST_P(DeviceBattery, CopiesOutWhatWasCopiedIn) {
  const PhysicalHandle handle = *device_->create(2 * page);
  back(base_, handle, 2 * page);
  std::memset(host_, 0x5A, 2 * page);
  ASSERT_TRUE(device_->copy_in(base_, host_, 2 * page, stream_));
  ASSERT_TRUE(device_->copy_out(host_ + 2 * page, base_, 2 * page, stream_));
  finish(stream_);
  EXPECT_EQ(std::memcmp(host_, host_ + 2 * page, 2 * page), 0);
  ASSERT_TRUE(device_->unmap(base_, 2 * page));
  ASSERT_TRUE(device_->destroy(handle));
}

// Large ones may be made in another way.
TEST_P(DeviceBattery, LargePageLockedMemoryIsLikeSmallOneAndComesAgainOnceFreed) {
  constexpr std::uint64_t large = 64 * MiB + page / 2;
  const PhysicalHandle handle = *device_->create(page);
  back(base_, handle);
  for (int turn = 0; turn < 3; ++turn) {
    const auto host = device_->host_allocate(large);
    ASSERT_TRUE(host);
    std::memset(*host, 0x11 + turn, page);
    ASSERT_TRUE(device_->copy_in(base_, *host, page, stream_));
    ASSERT_TRUE(device_->copy_out(*host + large - page, base_, page, stream_));
    finish(stream_);
    EXPECT_EQ(std::memcmp(*host, *host + large - page, page), 0);
    ASSERT_TRUE(device_->host_free(*host));
  }
  ASSERT_TRUE(device_->unmap(base_, page));
  ASSERT_TRUE(device_->destroy(handle));
}

// Against the definition: a whole grid, a few words, tails, beginnings that are not aligned, two mappings.
TEST_P(DeviceBattery, DigestsAreThoseOfTheDefinition) {
  const PhysicalHandle first = *device_->create(page), second = *device_->create(page);
  back(base_, first);
  back(base_ + page, second);
  std::mt19937_64 random(5);
  for (std::uint64_t i = 0; i < 2 * page / 8; ++i) {
    const std::uint64_t word = random();
    std::memcpy(host_ + 8 * i, &word, sizeof word);
  }
  ASSERT_TRUE(device_->copy_in(base_, host_, page, stream_));
  ASSERT_TRUE(device_->copy_in(base_ + page, host_ + page, page, stream_));
  const Address result = base_ + 2 * page;
  const PhysicalHandle third = *device_->create(page);
  back(result, third);
  std::byte* const answer = host_ + 3 * page;
  const std::pair<std::uint64_t, std::uint64_t> pieces[] = {
      {0, 2 * page}, {0, 8},    {8, 8 * 1001}, {16, 13},
      {0, 1},        {3, 1000}, {page - 4, 8}, {4, 2 * page - 4 - 3}};
  for (const auto& [offset, bytes] : pieces) {
    Digest digest;
    ASSERT_TRUE(device_->digest(base_ + offset, bytes, result, stream_));
    ASSERT_TRUE(device_->copy_out(answer, result, sizeof digest, stream_));
    finish(stream_);
    std::memcpy(&digest, answer, sizeof digest);
    EXPECT_EQ(digest, digest_of({host_ + offset, bytes})) << bytes << " bytes at " << offset;
  }
  for (const auto& [at, handle] : {std::pair{base_, first}, {base_ + page, second}, {result, third}}) {
    ASSERT_TRUE(device_->unmap(at, page));
    ASSERT_TRUE(device_->destroy(handle));
  }
}

TEST_P(DeviceBattery, TwoAddressesOfOneHandleShowTheSameBytesOnceOrdered) {
  const PhysicalHandle handle = *device_->create(page);
  back(base_, handle);
  back(base_ + 8 * page, handle);
  std::memset(host_, 0x33, page);
  ASSERT_TRUE(device_->copy_in(base_, host_, page, stream_));
  ASSERT_TRUE(device_->record(event_, stream_));
  ASSERT_TRUE(device_->wait(other_, event_));
  ASSERT_TRUE(device_->copy_out(host_ + page, base_ + 8 * page, page, other_));
  finish(other_);
  EXPECT_EQ(std::memcmp(host_, host_ + page, page), 0);
  ASSERT_TRUE(device_->unmap(base_, page));
  ASSERT_TRUE(device_->unmap(base_ + 8 * page, page));
  ASSERT_TRUE(device_->destroy(handle));
}

TEST_P(DeviceBattery, AMovedHandleKeepsItsBytesAndItsOldAddressCanHaveAnother) {
  const PhysicalHandle first = *device_->create(page), second = *device_->create(page);
  back(base_, first);
  std::memset(host_, 0x11, page);
  ASSERT_TRUE(device_->copy_in(base_, host_, page, stream_));
  finish(stream_);
  ASSERT_TRUE(device_->unmap(base_, page));
  back(base_ + page, first);
  back(base_, second);
  std::memset(host_ + page, 0x22, page);
  ASSERT_TRUE(device_->copy_in(base_, host_ + page, page, stream_));
  ASSERT_TRUE(device_->copy_out(host_ + 2 * page, base_, page, stream_));
  ASSERT_TRUE(device_->copy_out(host_ + 3 * page, base_ + page, page, stream_));
  finish(stream_);
  EXPECT_EQ(host_[2 * page], std::byte{0x22});
  EXPECT_EQ(host_[3 * page], std::byte{0x11});
  for (const Address at : {base_, base_ + page}) ASSERT_TRUE(device_->unmap(at, page));
  for (const PhysicalHandle handle : {first, second}) ASSERT_TRUE(device_->destroy(handle));
}

TEST_P(DeviceBattery, HandlesOfHostMemoryAreThereWhereItSaysSo) {
  const auto made = device_->create_host(2 * page);
  if (!device_->info()->host_handles) {
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, ErrorCode::not_supported);
    return;
  }
  ASSERT_TRUE(made) << made.error().message;
  const PhysicalHandle on_device = *device_->create(2 * page);
  back(base_, on_device, 2 * page);
  std::memset(host_, 0x44, 2 * page);
  // As an eviction goes: copied out, unmapped, and the copy mapped in its place.
  ASSERT_TRUE(device_->copy_in(base_, host_, 2 * page, stream_));
  ASSERT_TRUE(device_->copy_out(made->memory, base_, 2 * page, stream_));
  finish(stream_);
  EXPECT_EQ(std::memcmp(made->memory, host_, 2 * page), 0);
  ASSERT_TRUE(device_->unmap(base_, 2 * page));
  back(base_, made->handle, 2 * page);
  std::memset(made->memory, 0x55, page);  // by the processor
  std::memset(host_, 0x66, page);
  ASSERT_TRUE(device_->copy_in(base_ + page, host_, page, stream_));  // by the device, at its own address
  ASSERT_TRUE(device_->copy_out(host_ + 2 * page, base_, 2 * page, stream_));
  finish(stream_);
  EXPECT_EQ(made->memory[page], std::byte{0x66});
  EXPECT_EQ(host_[2 * page], std::byte{0x55});
  EXPECT_EQ(host_[4 * page - 1], std::byte{0x66});
  // And back.
  ASSERT_TRUE(device_->unmap(base_, 2 * page));
  back(base_, on_device, 2 * page);
  ASSERT_TRUE(device_->copy_in(base_, made->memory, 2 * page, stream_));
  ASSERT_TRUE(device_->copy_out(host_ + 2 * page, base_, 2 * page, stream_));
  finish(stream_);
  EXPECT_EQ(std::memcmp(host_ + 2 * page, made->memory, 2 * page), 0);
  ASSERT_TRUE(device_->unmap(base_, 2 * page));
  EXPECT_TRUE(device_->destroy(on_device));
  EXPECT_TRUE(device_->destroy_host(*made, 2 * page));
}

TEST_P(DeviceBattery, RefusesToUnmapAPartOfAMapping) {
  const PhysicalHandle handle = *device_->create(2 * page);
  back(base_, handle, 2 * page);
  EXPECT_FALSE(device_->unmap(base_, page));
  EXPECT_TRUE(device_->unmap(base_, 2 * page));
  EXPECT_TRUE(device_->destroy(handle));
}

TEST_P(DeviceBattery, RefusesToMapOverAMappingOrAPartOfAHandle) {
  const PhysicalHandle small = *device_->create(page), large = *device_->create(2 * page);
  back(base_, small);
  EXPECT_FALSE(device_->map(base_, 2 * page, large));
  EXPECT_FALSE(device_->map(base_ + 4 * page, 4 * page, large));
  EXPECT_TRUE(device_->unmap(base_, page));
  for (const PhysicalHandle handle : {small, large}) EXPECT_TRUE(device_->destroy(handle));
}

TEST_P(DeviceBattery, SaysSoWhenMemoryIsExhausted) {
  const auto handle = device_->create(std::uint64_t{1} << 50);
  ASSERT_FALSE(handle);
  EXPECT_EQ(handle.error().code, ErrorCode::out_of_memory);
}

TEST_P(DeviceBattery, AnEventThatWasNeverRecordedIsFinished) {
  EXPECT_TRUE(*device_->finished(event_));
}

TEST_P(DeviceBattery, TimingEventsMeasureWhatLiesBetweenThem) {
  const PhysicalHandle handle = *device_->create(page);
  back(base_, handle);
  const EventHandle begin = *device_->create_timing_event(), end = *device_->create_timing_event();
  EXPECT_TRUE(device_->record(begin, stream_));
  EXPECT_TRUE(device_->copy_in(base_, host_, page, stream_));
  EXPECT_TRUE(device_->record(end, stream_));
  finish(stream_);
  const auto forwards = device_->elapsed_us(begin, end), backwards = device_->elapsed_us(end, begin);
  ASSERT_TRUE(forwards && backwards);
  EXPECT_GT(*forwards, 0);
  EXPECT_NEAR(*forwards, -*backwards, 1);
  for (const EventHandle event : {begin, end}) EXPECT_TRUE(device_->destroy_event(event));
  EXPECT_TRUE(device_->unmap(base_, page));
  EXPECT_TRUE(device_->destroy(handle));
}

TEST_P(DeviceBattery, NothingIsBeingCaptured) {
  EXPECT_FALSE(*device_->capturing(stream_));
}

}  // namespace pooch::test
