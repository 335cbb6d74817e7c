#include "runtime/execution/known_places.h"

#include <gtest/gtest.h>

#include "tests/support/lazy_device.h"

namespace pooch::runtime {
namespace {

constexpr std::uint64_t bytes = 4 * MiB;
using Indices = std::vector<std::uint32_t>;

// Ranges at places 0, 1, 2, in the order of their addresses.
class Places : public testing::Test {
 protected:
  static Address at(std::uint64_t place) { return Address{(std::uint64_t{1} << 45) + place * 64 * MiB}; }
  Range& open(std::uint64_t place, std::uint64_t size = bytes) {
    return residency.open(at(place), size, AllocationId{place + 1}, size);
  }
  // A buffer that was at this place in the latest iteration, and at `earlier` in the one before.
  void add(std::uint64_t place, std::uint64_t earlier, std::uint64_t size = bytes) {
    phase.profile.buffers.push_back({size, true});
    phase.bases.push_back(at(place));
    phase.earlier.push_back(at(earlier));
    phase.quiet.push_back(true);
    phase.fixed.push_back(place == earlier);
    phase.alternates.push_back(false);
  }

  test::LazyDevice device{512 * MiB};
  StreamOrder order{device};
  HandlePool pool{device, 64 * MiB};
  HostArena host{device, order, 64 * MiB};
  Residency residency{device, order, pool, host, *device.create_stream(), *device.create_stream()};
  const AddressSpace temporaries{Address{std::uint64_t{1} << 46}, 64 * MiB};
  AddressSpace space{at(0), 64 * 64 * MiB};
  OwnPlaces own{space, residency};
  KnownPhase phase;
};

TEST_F(Places, AreTheProgramsRangesByAddress) {
  Range &third = open(2, 6 * MiB), &first = open(0);
  residency.open(Address{std::uint64_t{1} << 46}, bytes, AllocationId{9}, bytes);  // a replay's
  residency.close(first, {});
  const KnownPlaces places(residency, temporaries, own);
  EXPECT_EQ(places.ranges(), (std::vector<Range*>{&first, &third}));
  EXPECT_EQ(places.described(), (std::vector<ProfileRange>{{4 * MiB, false}, {6 * MiB, true}}));
}

TEST_F(Places, OfABufferIsWhereItAlwaysIs) {
  open(0), open(1);
  add(1, 1), add(0, 1);
  EXPECT_EQ(KnownPlaces(residency, temporaries, own).of(phase), (std::vector<Indices>{{1}, {}}))
      << "the second one was elsewhere before, where nobody keeps to a place";
}

TEST_F(Places, OfABufferInTurnAreTwo) {
  open(0), open(1);
  add(1, 0);
  phase.alternates[0] = true;
  EXPECT_EQ(KnownPlaces(residency, temporaries, own).of(phase), (std::vector<Indices>{{1, 0}}));
}

TEST_F(Places, OfABufferThatMovedCountWhereOthersAlwaysAre) {
  open(0), open(1);
  add(1, 1), add(1, 0);
  EXPECT_EQ(KnownPlaces(residency, temporaries, own).of(phase), (std::vector<Indices>{{1}, {1}}));
}

TEST_F(Places, OfABufferAreInNoRangeThatIsGoneOrTooSmall) {
  open(0);
  add(1, 1), add(0, 0, bytes + 1);
  EXPECT_EQ(KnownPlaces(residency, temporaries, own).of(phase), (std::vector<Indices>{{}, {}}));
}

}  // namespace
}  // namespace pooch::runtime
