// Threads that meet in one session while one of them waits: what a plan did for one's op must not serve
// another's.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "runtime/execution/executor.h"
#include "runtime/observe/profiler.h"
#include "runtime/session/session.h"
#include "tests/support/ladder.h"
#include "tests/support/program.h"
#include "tracker/phase_profile.h"

namespace pooch::runtime {
namespace {

using test::OpenDevice;
using test::PlanFile;
using Ladder = test::Ladder<Session>;

// Starts the work in another thread when the device is first waited for, and lets it go on for a while.
class Meeting {
 public:
  Meeting(OpenDevice& device, std::function<void()> work) : device_(device) {
    device_.while_waiting = [this, work = std::move(work)] {
      if (met_.exchange(true)) return;
      other_ = std::async(std::launch::async, work);
      came_through_ = other_.wait_for(std::chrono::milliseconds(200)) == std::future_status::ready;
    };
  }
  // Was the device waited for? Then the other thread has ended.
  bool end() {
    if (met_) other_.get();
    device_.while_waiting = nullptr;
    return met_;
  }
  bool came_through() const { return came_through_; }  // while this thread waited

 private:
  OpenDevice& device_;
  std::atomic<bool> met_{false};
  std::future<void> other_;
  bool came_through_ = false;
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

// Made by a session that has all the memory.
struct InCore {
  std::optional<PlanFile> plan;
  std::uint64_t result = 0;

  explicit InCore(int iterations) {
    OpenDevice device(512 * MiB);
    const auto session = open(device, test::session_config("64MiB", "256MiB"));
    Ladder ladder(device, *session);
    for (int iteration = 0; iteration < iterations; ++iteration) ladder.iterate();
    result = ladder.result();
    const Profile profile = session->profile();
    EXPECT_EQ(profile.phases.size(), 1u);
    plan.emplace(test::drop_twins(profile.phases.at(0)));
  }
};

TEST(SessionThreads, AnOpThatIsOvertakenWhileItWaitsIsNotKeptForAnothersPosition) {
  constexpr int iterations = 16;
  const InCore in_core(iterations);
  for (unsigned seed = 0; seed < 4; ++seed) {
    OpenDevice device(512 * MiB, seed);
    Config config = test::session_config("16MiB", "256MiB");
    config.plan_file = in_core.plan->path;
    config.verify = Verify::off;
    const auto session = open(device, config);
    Ladder ladder(device, *session);
    for (int iteration = 0; iteration < iterations - 4; ++iteration) ladder.iterate();
    const Summary before = session->summary();
    EXPECT_GT(before.replays, 4u);
    int overtook = 0;
    for (int iteration = iterations - 4; iteration < iterations; ++iteration) {
      // The second twin's memory is away, the first one's is there.
      ladder.look_at(6);
      ladder.look_at(0);
      Meeting meeting(device, [&] { ladder.twin(0); });
      ladder.twin(1);
      if (!meeting.end()) ladder.twin(0);
      overtook += meeting.came_through();
      ladder.rest();
    }
    EXPECT_GT(overtook, 0) << "seed " << seed;
    EXPECT_EQ(ladder.result(), in_core.result) << "seed " << seed;
    EXPECT_TRUE(device.complaints().empty()) << device.complaints().front();
    const Summary after = session->summary();
    EXPECT_EQ(after.plans_left, before.plans_left) << "seed " << seed;
    EXPECT_EQ(after.planned_iterations, before.planned_iterations + 4) << "seed " << seed;
  }
}

// A thread of a program in which thread i makes map i, and reads it again in backward, in a stream of its
// own.
class Climber {
 public:
  Climber(OpenDevice& device, Session& session, Ladder& ladder, int map)
      : device_(device),
        session_(session),
        ladder_(ladder),
        map_(map),
        stream_(*device.create_stream()),
        own_(*session.allocate(2 * MiB, stream_)) {}

  // `turn`: of all threads, the next that may work.
  void climb(std::atomic<int>& turn, int iterations) {
    const auto in_turn = [&](int mine, const auto& work) {
      while (turn != mine) std::this_thread::sleep_for(std::chrono::microseconds(20));
      ladder_.move_to(stream_);
      work();
      ++turn;
    };
    for (int iteration = 0; iteration < iterations; ++iteration) {
      const int first = 2 * Ladder::maps * iteration;
      in_turn(first + map_, [&] { map_ < 2 ? ladder_.twin(map_) : ladder_.forward(map_); });
      in_turn(first + 2 * Ladder::maps - 1 - map_, [&] {
        ladder_.backward(map_);
        if (map_ == 0) ladder_.update();
      });
      beside(static_cast<std::uint64_t>(first + map_));
    }
  }

 private:
  // Memory of the thread's own, while others have their turns. Trials are no part of an iteration, so that
  // these are all alike.
  void beside(std::uint64_t value) {
    const auto word = [this] { return reinterpret_cast<std::uint64_t*>(device_.translate(own_, 8)); };
    const Access whole[] = {{own_, 2 * MiB, Effect::overwrite}}, read[] = {{own_, 2 * MiB, Effect::read}};
    const auto write = [&] {
      device_.launch(stream_, [=] {
        if (auto* const at = word()) *at = value;
      });
      return 0;
    };
    std::uint64_t found = 0;
    const auto look = [&] {
      const EventHandle done = *device_.create_event();
      device_.launch(stream_, [&found, word] {
        if (const auto* const at = word()) found = *at;
      });
      EXPECT_TRUE(device_.record(done, stream_));
      EXPECT_TRUE(device_.synchronize(done));
      return 0;
    };
    const bool blocks = true, trial = true;
    EXPECT_EQ(session_.submit({"write", OpKind::set, stream_, whole, !blocks, trial}, write, 2), 0);
    EXPECT_EQ(session_.submit({"look", OpKind::blas, stream_, read, blocks, trial}, look, 2), 0);
    EXPECT_EQ(found, value);
  }

  OpenDevice& device_;
  Session& session_;
  Ladder& ladder_;
  const int map_;
  const StreamHandle stream_;
  const Address own_;
};

std::uint64_t climb(OpenDevice& device, Session& session, int iterations) {
  Ladder ladder(device, session);
  std::vector<std::unique_ptr<Climber>> climbers;
  for (int map = 0; map < Ladder::maps; ++map)
    climbers.push_back(std::make_unique<Climber>(device, session, ladder, map));
  std::atomic<int> turn{0};
  std::vector<std::thread> threads;
  for (const auto& climber : climbers) threads.emplace_back([&] { climber->climb(turn, iterations); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(device.complaints().empty()) << device.complaints().front();
  return ladder.result();
}

TEST(SessionThreads, EightInTurnFollowAPlanWhereverTheyMeet) {
  constexpr int iterations = 100;
  OpenDevice ample(512 * MiB);
  const auto in_core = open(ample, test::session_config("128MiB", "256MiB"));
  const std::uint64_t result = climb(ample, *in_core, iterations);
  const Profile profile = in_core->profile();
  ASSERT_EQ(profile.phases.size(), 1u);
  const PlanFile plan(test::swap_two(test::drop_twins(profile.phases[0]), profile.phases[0]));
  OpenDevice device(512 * MiB);
  device.while_waiting = [] {
    static std::atomic<unsigned> seed{1};
    thread_local std::minstd_rand random(seed++);
    if (random() % 4 == 0)
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
    else
      std::this_thread::yield();
  };
  Config config = test::session_config("28MiB", "256MiB");
  config.plan_file = plan.path;
  config.verify = Verify::off;  // ops write a word here and there of what they say that they overwrite
  const auto session = open(device, config);
  EXPECT_EQ(climb(device, *session, iterations), result);
  const Summary summary = session->summary();
  EXPECT_GE(summary.planned_iterations, iterations - 8u);
  EXPECT_GE(summary.replays, iterations - 8u);
}

// A session's stages around an executor, for plans to be adopted at any moment.
class Stages {
 public:
  explicit Stages(OpenDevice& device, std::uint64_t cap)
      : device_(device),
        limits_{cap, 256 * MiB},
        order_(device),
        pool_(device, cap),
        host_(device, order_, limits_.host_budget),
        space_(Address{std::uint64_t{1} << 47}, 64 * MiB),
        temporaries_(Address{std::uint64_t{1} << 46}, 64 * MiB),
        residency_(device, order_, pool_, host_, *device.create_stream(), *device.create_stream()),
        demand_(device, order_, pool_, host_, residency_, foresight_, Policy::demand),
        departures_(device, order_, pool_, residency_),
        placement_(limits_, pool_, residency_, departures_, demand_),
        verification_(Verify::off, limits_.host_budget,
                      {device, order_, residency_, host_, placement_, temporaries_}),
        executor_({order_, pool_, residency_, departures_, placement_, space_, temporaries_, tracker_, device,
                   verification_}) {}

  std::optional<Address> allocate(std::uint64_t bytes, StreamHandle /*stream*/) {
    const Address at{(std::uint64_t{1} << 45) + 16 * MiB * allocated_++};
    const AllocationId id = tracker_.allocated(at, bytes, true, true).id;
    tracker_.set_backing(at, &residency_.open(at, bytes, id, bytes));
    return at;
  }
  int submit(const Call& call, FunctionRef<int()> launch, int refused) {
    Held held(mutex_);
    tracker::Op op;
    tracker_.resolve(call, op);
    std::vector<ChunkUse> uses;
    Executor::Readied readied;
    do {
      const auto before = executor_.before(op, call.stream, held);
      if (!before || !placement_.place(call.function, op.operands, uses, held)) return refused;
      readied = *before;
    } while (executor_.overtaken(readied));
    const StreamIndex stream = order_.index(call.stream);
    for (const ChunkUse& use : uses) EXPECT_TRUE(order_.follow(stream, use.chunk->before));
    if (readied.position && executor_.wants_copy(*readied.position) && call.keep != nullptr)
      executor_.keep(*readied.position, call, op, (*call.keep)());
    if (launch() != 0) return refused;
    tracker_.launched(op);
    residency_.used(uses, order_.launched(stream), placement_.clock());
    for (const ChunkUse& use : uses)
      if (use.changes) use.chunk->live = true;
    if (readied.position) {
      EXPECT_TRUE(executor_.after(*readied.position, op));
    }
    return 0;
  }
  void free(Address at) {
    Held held(mutex_);
    Range& range = *residency_.find(at);
    EXPECT_TRUE(executor_.freeing(range, tracker_.allocations().starting_at(at)->id, held));
    residency_.close(range, {});
    EXPECT_TRUE(executor_.freed(range));
    tracker_.freed(at);
  }
  // A plan for the latest iteration's phase.
  void adopt() {
    Held held(mutex_);
    for (const tracker::Iteration& iteration : tracker_.take_completed()) {
      phase_ = iteration.phase;
      known_.profile = tracker::describe_iteration(tracker_.log(), iteration.start, iteration.end);
      known_.profile.id = phase_id(tracker_.iterations().phase(phase_));
    }
    const Plan plan = test::drop_twins(known_.profile);
    const auto adopted = executor_.adopt(phase_, {plan, known_, 0, /*placed=*/false}, held);
    EXPECT_TRUE(adopted) << adopted.error().message;
  }
  ExecutorCounts counts() const { return executor_.counts(); }

 private:
  OpenDevice& device_;
  Limits limits_;
  StreamOrder order_;
  HandlePool pool_;
  HostArena host_;
  AddressSpace space_, temporaries_;
  Residency residency_;
  Foresight foresight_;
  Demand demand_;
  Departures departures_;
  Placement placement_;
  Verification verification_;
  tracker::Tracker tracker_;
  Executor executor_;
  SessionMutex mutex_;
  std::uint64_t allocated_ = 0;
  tracker::PhaseIndex phase_{};
  KnownPhase known_;
};

TEST(SessionThreads, APlanIsReplacedWhileAnotherThreadGoesOn) {
  for (unsigned seed = 0; seed < 2; ++seed) {
    std::uint64_t results[2];
    for (const bool short_of_memory : {false, true}) {
      OpenDevice device(512 * MiB, seed);
      Stages stages(device, short_of_memory ? 16 * MiB : 64 * MiB);
      test::Ladder<Stages> ladder(device, stages);
      const StreamHandle copies = *device.create_stream();
      const auto iterate = [&] {
        ladder.twin(0);
        ladder.cousin(1);
        ladder.rest();
      };
      for (int iteration = 0; iteration < 3; ++iteration) iterate();
      stages.adopt();
      iterate();
      EXPECT_EQ(stages.counts().planned_iterations, 1u);
      EXPECT_EQ(stages.counts().replays, 2u);
      ladder.twin(0);
      ladder.cousin(1);
      ladder.forward();
      for (int map = ladder.maps; map-- > 2;) ladder.backward(map);
      ladder.result();
      const Address batch = *stages.allocate(ladder.bytes, copies);
      device.block(copies);
      ladder.send(batch, copies);
      stages.free(batch);
      // The first two maps are gone, and memory comes free soon. The plan is left, so they are made again;
      // the next op would have them too, and finds the memory free before this thread has noticed.
      Meeting meeting(device, [&] {
        device.unblock(copies);
        device.drain();
        ladder.backward(1);
      });
      stages.adopt();
      EXPECT_EQ(meeting.end(), short_of_memory);
      device.unblock(copies);
      if (!short_of_memory) ladder.backward(1);
      ladder.backward(0);
      ladder.update();
      iterate();
      results[short_of_memory] = ladder.result();
      EXPECT_TRUE(device.complaints().empty()) << device.complaints().front();
      EXPECT_EQ(stages.counts().replays, 6u);
    }
    EXPECT_EQ(results[0], results[1]) << "seed " << seed;
  }
}

}  // namespace
}  // namespace pooch::runtime
