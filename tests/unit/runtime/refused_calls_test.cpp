// Every call that pooch makes on its own account may be refused: what the program then reads is right, or its
// call fails.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "runtime/session/session.h"
#include "tests/support/lazy_device.h"
#include "tests/support/program.h"
#include "tests/support/refusing_device.h"

namespace pooch::runtime {
namespace {

using test::LazyDevice;
using test::RefusedCall;
using test::RefusingDevice;
constexpr int out_of_memory = 2, failed = 3;

struct Outcome {
  std::uint64_t calls = 0;
  bool finished = false;  // every call of the program was made
  std::string wrong;      // empty: nothing is
  const char* struck = nullptr;
};

struct Kind {
  LandingUse landing;
  bool hides;  // some ops keep operands to themselves
};

Outcome run(unsigned seed, const Kind& kind, const RefusedCall& refused) {
  LazyDevice lazy(512 * MiB, seed);
  RefusingDevice device(lazy, refused);
  Config config = test::session_config("24MiB", kind.hides ? "512MiB" : "128MiB");
  config.landing = kind.landing;
  const auto session = Session::open(config, device);
  if (!session) return {0, false, session.error().message};
  device.hold_off(false);
  test::Program program(lazy, **session, seed);
  Outcome outcome;
  outcome.finished = program.run(15);
  if (kind.hides) program.hide();
  outcome.finished = outcome.finished && program.run(30) && program.check_all();
  lazy.drain();
  device.hold_off(true);
  outcome.calls = device.calls();
  outcome.struck = device.struck();
  if (program.wrong_words() > 0) outcome.wrong = std::to_string(program.wrong_words()) + " wrong words";
  // What could not land faults where somebody reaches it unseen: a GPU says so, and nothing after it counts.
  const bool faulted = kind.hides && refused.number > 0 && !lazy.complaints().empty() &&
                       lazy.complaints().front().starts_with("illegal access");
  if (faulted) return outcome.wrong.clear(), outcome;
  if (!lazy.complaints().empty()) outcome.wrong = lazy.complaints().front();
  return outcome;
}

// How many calls of a program are refused, one a run: REFUSED_CALLS in the environment.
std::uint64_t samples() {
  const char* const wanted = std::getenv("REFUSED_CALLS");
  return wanted != nullptr ? std::max(1ULL, std::strtoull(wanted, nullptr, 10)) : 12;
}

class RefusedCalls : public testing::TestWithParam<Kind> {};

TEST_P(RefusedCalls, AProgramReadsWhatItWroteOrIsToldThatItCannot) {
  int runs = 0, finished_after_one = 0, ones = 0;
  for (const unsigned seed : {1u, 2u, 3u}) {
    const Outcome undisturbed = run(seed, GetParam(), {});
    ASSERT_TRUE(undisturbed.finished);
    ASSERT_EQ(undisturbed.wrong, "");
    const std::uint64_t step = undisturbed.calls / samples() + 1;
    for (std::uint64_t number = seed; number <= undisturbed.calls; number += step) {
      for (const ErrorCode code : {ErrorCode::device, ErrorCode::out_of_memory}) {
        for (const bool for_ever : {false, true}) {
          const Outcome outcome = run(seed, GetParam(), {number, code, for_ever});
          ++runs;
          ones += for_ever ? 0 : 1;
          finished_after_one += !for_ever && outcome.finished ? 1 : 0;
          EXPECT_EQ(outcome.wrong, "")
              << "seed " << seed << ", call " << number << " (" << (outcome.struck ? outcome.struck : "none")
              << ") refused " << (for_ever ? "for ever" : "once")
              << (code == ErrorCode::device ? "" : " as out of memory");
        }
      }
    }
  }
  EXPECT_GT(runs, 100);
  RecordProperty("finished_after_one", finished_after_one);
  EXPECT_GT(finished_after_one, ones * 3 / 10) << "what was refused once may be done in another way";
}

INSTANTIATE_TEST_SUITE_P(All, RefusedCalls,
                         testing::Values(Kind{LandingUse::off, false}, Kind{LandingUse::on, false},
                                         Kind{LandingUse::on, true}),
                         [](const auto& kind) {
                           return kind.param.hides                       ? std::string("HiddenAccesses")
                                  : kind.param.landing == LandingUse::on ? "Landing"
                                                                         : "Demand";
                         });

// --- one at a time

std::vector<Address> written(LazyDevice& lazy, Session& session, StreamHandle stream, int count,
                             std::uint64_t value) {
  std::vector<Address> all;
  for (int i = 0; i < count; ++i) {
    all.push_back(*session.allocate(2 * MiB, stream));
    const Access access{all.back(), 2 * MiB, Effect::overwrite};
    EXPECT_EQ(session.submit(
                  {"write", OpKind::set, stream, {&access, 1}},
                  [&, at = all.back()] {
                    lazy.launch(stream, [&lazy, at, value] {
                      if (auto* word = lazy.translate(at, 8)) std::memcpy(word, &value, 8);
                    });
                    return 0;
                  },
                  out_of_memory),
              0);
  }
  return all;
}

std::uint64_t read(LazyDevice& lazy, Session& session, StreamHandle stream, Address at,
                   int expected_status = 0) {
  std::uint64_t value = 0;
  const Access access{at, 2 * MiB, Effect::read};
  EXPECT_EQ(session.submit({"read", OpKind::copy_out, stream, {&access, 1}, /*blocks=*/true},
                           [&] {
                             lazy.launch(stream, [&] {
                               if (auto* word = lazy.translate(at, 8)) std::memcpy(&value, word, 8);
                             });
                             lazy.drain();
                             return 0;
                           },
                           {out_of_memory, failed}),
            expected_status);
  return value;
}

// The host copy of what came back is clean, and the write that no operand names makes it worthless.
TEST(HiddenWrites, AreNotLostWhereEvictedMemoryCannotLand) {
  LazyDevice lazy(512 * MiB);
  Config config = test::session_config("16MiB", "32MiB");
  config.landing = LandingUse::off;
  const auto session = Session::open(config, lazy);
  ASSERT_TRUE(session);
  const StreamHandle stream = *lazy.create_stream();
  const auto first = written(lazy, **session, stream, 6, 1);
  const auto second = written(lazy, **session, stream, 6, 2);  // `first` leaves
  EXPECT_EQ(read(lazy, **session, stream, first[0]), 1u);      // it is back, with a copy on the host
  const Access other{second[5], 2 * MiB, Effect::read};
  Call hidden{"hidden", OpKind::bare_launch, stream, {&other, 1}};
  hidden.unforeseen = true;
  ASSERT_EQ((*session)->submit(
                hidden,
                [&] {
                  lazy.launch(stream, [&] {
                    const std::uint64_t value = 3;
                    if (auto* word = lazy.translate(first[0], 8)) std::memcpy(word, &value, 8);
                  });
                  return 0;
                },
                out_of_memory),
            0);
  (void)written(lazy, **session, stream, 8, 4);  // everything else leaves
  EXPECT_EQ(read(lazy, **session, stream, first[0]), 3u);
  EXPECT_TRUE(lazy.complaints().empty()) << lazy.complaints().front();
}

// A kernel that writes what it does not name, and that nobody suspects: POOCH_CHECK finds it and keeps the
// write.
TEST(HiddenWrites, ThatNobodySuspectsAreFoundByComparingCopies) {
  LazyDevice lazy(512 * MiB);
  Config config = test::session_config("16MiB", "32MiB");
  config.check_copies = true;
  const auto session = Session::open(config, lazy);
  ASSERT_TRUE(session);
  const StreamHandle stream = *lazy.create_stream();
  const auto first = written(lazy, **session, stream, 6, 1);
  (void)written(lazy, **session, stream, 6, 2);
  EXPECT_EQ(read(lazy, **session, stream, first[0]), 1u);
  lazy.launch(stream, [&] {
    const std::uint64_t value = 3;
    if (auto* word = lazy.translate(first[0], 8)) std::memcpy(word, &value, 8);
  });
  lazy.drain();
  testing::internal::CaptureStderr();
  (void)written(lazy, **session, stream, 8, 4);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("POOCH_CHECK"), std::string::npos) << said;
  EXPECT_EQ(said.find("POOCH_CHECK"), said.rfind("POOCH_CHECK")) << "what was not changed is not named";
  EXPECT_EQ(read(lazy, **session, stream, first[0]), 3u);
}

// One line, and no other call is made: what the program would do instead of the one that failed, nobody
// knows.
TEST(RefusedCalls, AfterAFailureThatIsNotWantOfMemoryNothingReadsManagedMemory) {
  LazyDevice lazy(512 * MiB);
  RefusingDevice device(lazy, {1, ErrorCode::device, /*for_ever=*/true});
  const auto session = Session::open(test::session_config("16MiB", "32MiB"), device);
  ASSERT_TRUE(session);
  const StreamHandle stream = *lazy.create_stream();
  const auto some = written(lazy, **session, stream, 2, 7);
  EXPECT_EQ(read(lazy, **session, stream, some[0]), 7u);
  device.hold_off(false);
  const Address more = *(*session)->allocate(2 * MiB, stream);
  (void)read(lazy, **session, stream, more, failed);
  device.hold_off(true);
  (void)read(lazy, **session, stream, some[0], failed);
  const Call plain{"plain", OpKind::bare_launch, stream, {}};
  EXPECT_EQ((*session)->submit(
                plain, [] { return 0; }, out_of_memory),
            0)
      << "it touches nothing of ours";
}

}  // namespace
}  // namespace pooch::runtime
