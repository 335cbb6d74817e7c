// The format of recordings: what is written is read again, a stream that was cut is read up to the cut, a
// damaged one is refused with the place.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "core/recording.h"
#include "tests/support/walk_profile.h"
#include "tracker/recorded_profile.h"

namespace pooch {
namespace {
using namespace std::string_literals;

const RecordedSession session_facts{"a device", 16 * GiB, 15 * GiB, 200 * GiB, "demand"};

// A Call with all that it points to.
struct OwnedCall {
  Call call;
  std::vector<Access> accesses;
  Window window;
  Shape filter;

  Call view() const {
    Call whole = call;
    whole.accesses = accesses;
    if (window.rank > 0) whole.window = &window;
    if (filter.rank > 0) whole.filter = &filter;
    return whole;
  }
};
using Event = std::variant<RecordedAllocation, RecordedFree, OwnedCall>;

class RandomStream {
 public:
  explicit RandomStream(unsigned seed) : random_(seed) {}

  std::vector<Event> events(int count) {
    std::vector<Event> made;
    for (int i = 0; i < count; ++i) {
      switch (below(8)) {
        case 0:
          made.push_back(RecordedAllocation{address(), 1 + below(1 << 30), below(2) == 0, below(2) == 0});
          break;
        case 1:
          made.push_back(RecordedFree{address()});
          break;
        default:
          made.push_back(call());
      }
    }
    return made;
  }

 private:
  std::uint64_t below(std::uint64_t end) { return random_() % end; }
  Address address() { return Address{random_() >> (1 + below(60))}; }
  std::int32_t size() { return static_cast<std::int32_t>(below(8) == 0 ? random_() : below(300)); }

  Shape shape() {
    Shape shape;
    shape.rank = static_cast<std::uint8_t>(below(max_rank + 1));
    if (shape.rank > 0) shape.element_bytes = static_cast<std::uint8_t>(1 + below(8));
    for (int i = 0; i < shape.rank; ++i) shape.sizes[i] = size();
    return shape;
  }

  OwnedCall call() {
    static constexpr std::string_view functions[] = {"cudnnConvolutionForward", "cublasSgemm_v2", "", "f"};
    static constexpr std::string_view modes[] = {"", "relu", "max"};
    OwnedCall made;
    made.call.function = functions[below(4)];
    made.call.mode = modes[below(3)];
    made.call.kind = OpKind{static_cast<std::uint8_t>(below(static_cast<int>(last_op_kind) + 1))};
    made.call.stream = StreamHandle{random_() >> below(64)};
    made.call.blocks = below(4) == 0;
    made.call.trial = below(4) == 0;
    made.call.traits = random_();
    if (below(2) == 0) made.filter = shape();
    if (below(2) == 0) {
      made.window.rank = static_cast<std::uint8_t>(1 + below(3));
      made.window.groups = size();
      for (int i = 0; i < made.window.rank; ++i) {
        made.window.size[i] = size(), made.window.stride[i] = size();
        made.window.padding[i] = size(), made.window.dilation[i] = size();
      }
    }
    for (std::uint64_t i = below(below(200) == 0 ? 5000 : 6); i > 0; --i)
      made.accesses.push_back(
          {address(), below(1 << 30), Effect{static_cast<std::uint8_t>(below(5))}, shape()});
    return made;
  }

  std::mt19937_64 random_;
};

struct Equal {
  void operator()(const RecordedAllocation& a, const RecordedAllocation& b) const {
    EXPECT_EQ(a.address, b.address);
    EXPECT_EQ(a.bytes, b.bytes);
    EXPECT_EQ(a.managed, b.managed);
    EXPECT_EQ(a.by_program, b.by_program);
  }
  void operator()(const RecordedFree& a, const RecordedFree& b) const { EXPECT_EQ(a.address, b.address); }
  void operator()(const OwnedCall& a, const Call& b) const {
    EXPECT_EQ(a.call.function, b.function);
    EXPECT_EQ(a.call.mode, b.mode);
    EXPECT_EQ(a.call.kind, b.kind);
    EXPECT_EQ(a.call.stream, b.stream);
    EXPECT_EQ(a.call.blocks, b.blocks);
    EXPECT_EQ(a.call.trial, b.trial);
    EXPECT_EQ(a.call.traits, b.traits);
    EXPECT_EQ(a.window, b.window != nullptr ? *b.window : Window{});
    EXPECT_EQ(a.filter, b.filter != nullptr ? *b.filter : Shape{});
    ASSERT_EQ(a.accesses.size(), b.accesses.size());
    for (std::size_t i = 0; i < a.accesses.size(); ++i) {
      const Access &x = a.accesses[i], &y = b.accesses[i];
      EXPECT_TRUE(x.address == y.address && x.bytes == y.bytes && x.effect == y.effect && x.shape == y.shape)
          << i;
    }
  }
  template <class A, class B>
  void operator()(const A&, const B&) const {
    ADD_FAILURE() << "records of two kinds";
  }
};

std::string written(const std::vector<Event>& events, bool ended = true) {
  std::string stream;
  RecordingWriter writer(
      [&](std::string_view bytes) {
        stream += bytes;
        return Status(Done{});
      },
      session_facts);
  for (const Event& event : events) {
    if (const auto* const call = std::get_if<OwnedCall>(&event))
      writer.add(call->view());
    else if (const auto* const made = std::get_if<RecordedAllocation>(&event))
      writer.add(*made);
    else
      writer.add(std::get<RecordedFree>(event));
  }
  ended ? writer.end() : writer.flush();
  return stream;
}

// Gives at most `piece` bytes at a time.
RecordingReader::Source source_of(std::string_view stream, std::size_t piece = 1 << 20) {
  return [stream, piece](std::span<char> into) mutable -> Result<std::size_t> {
    const std::size_t count = std::min({piece, into.size(), stream.size()});
    std::copy_n(stream.begin(), count, into.begin());
    stream.remove_prefix(count);
    return count;
  };
}

struct Contents {
  std::size_t records = 0;
  bool complete = false;
  std::string error;
};

Contents contents(std::string_view stream) {
  Contents found;
  auto reader = RecordingReader::open(source_of(stream));
  if (!reader) return {0, false, reader.error().message};
  for (;;) {
    const auto record = reader->next();
    if (!record) {
      found.error = record.error().message;
      return found;
    }
    if (!*record) break;
    ++found.records;
  }
  found.complete = reader->complete();
  EXPECT_FALSE((*reader->next()).has_value()) << "nothing comes after the end";
  return found;
}

TEST(Recording, RandomCallsComeBackAsTheyWereWhateverTheSourceGivesAtATime) {
  for (unsigned seed = 0; seed < 10; ++seed) {
    const auto events = RandomStream(seed).events(300);
    const std::string stream = written(events);
    for (const std::size_t piece : {std::size_t{1}, std::size_t{1000}, std::size_t{1} << 20}) {
      auto reader = RecordingReader::open(source_of(stream, piece));
      ASSERT_TRUE(reader) << reader.error().message;
      EXPECT_EQ(reader->session().device, session_facts.device);
      EXPECT_EQ(reader->session().device_bytes, session_facts.device_bytes);
      EXPECT_EQ(reader->session().cap_bytes, session_facts.cap_bytes);
      EXPECT_EQ(reader->session().host_budget_bytes, session_facts.host_budget_bytes);
      EXPECT_EQ(reader->session().policy, session_facts.policy);
      for (const Event& event : events) {
        EXPECT_FALSE(reader->complete());
        const auto record = reader->next();
        ASSERT_TRUE(record) << record.error().message;
        ASSERT_TRUE(*record);
        std::visit(Equal{}, event, **record);
        ASSERT_FALSE(HasFailure()) << "seed " << seed << ", before offset " << reader->offset();
      }
      EXPECT_FALSE((*reader->next()).has_value());
      EXPECT_TRUE(reader->complete());
    }
  }
}

TEST(Recording, ACutStreamIsReadUpToItsLastWholeRecord) {
  const auto events = RandomStream(3).events(40);
  const std::string stream = written(events);
  const std::string header = written({}, /*ended=*/false);
  std::size_t most = 0;
  for (std::size_t size = header.size(); size < stream.size(); ++size) {
    const Contents found = contents(std::string_view(stream).substr(0, size));
    ASSERT_EQ(found.error, "") << size;
    ASSERT_FALSE(found.complete) << size;
    ASSERT_TRUE(found.records == most || found.records == most + 1) << size;
    most = found.records;
  }
  EXPECT_EQ(most, events.size());
  EXPECT_TRUE(contents(stream).complete);
  for (std::size_t size = 0; size < header.size(); ++size)
    EXPECT_EQ(contents(std::string_view(header).substr(0, size)).error,
              "the recording ends within its header");
}

TEST(Recording, WhatComesAfterTheEndIsNotRead) {
  EXPECT_EQ(contents(written({}) + "\xff\xff").error, "");
  EXPECT_TRUE(contents(written({}) + "\xff\xff").complete);
}

// The stream of one record, given by its bytes.
std::string with(std::string_view record) {
  return written({}, /*ended=*/false) + std::string(record);
}
std::string error_of(std::string_view stream) {
  const std::string error = contents(stream).error;
  return error.substr(0, 7) == "offset " ? error.substr(error.find(": ") + 2) : error;
}

TEST(Recording, EveryMistakeIsNamedWithItsOffset) {
  using namespace std::string_view_literals;
  EXPECT_EQ(contents("{\"schema\":1}").error, "offset 0: this is no recording");
  EXPECT_EQ(contents("poochrec\x02"sv).error, "offset 8: version 2: this pooch reads version 1");
  EXPECT_EQ(contents(with("\x07")).error,
            "offset " + std::to_string(with("").size()) + ": record of kind 7: 1 to 4 are known");
  EXPECT_EQ(error_of(with("\0"sv)), "record of kind 0: 1 to 4 are known");
  EXPECT_EQ(error_of(with("\x01\x40\x00\x00"sv)), "an allocation of 0 bytes");
  EXPECT_EQ(error_of(with("\x01\x40\x01\x04")), "an allocation's flags is 4: at most 3 is known");
  EXPECT_EQ(error_of(with("\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02")),
            "an address has more than 64 bits");
  EXPECT_EQ(error_of(with("\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x01")),
            "a length is 1: at most 0 is possible");
  EXPECT_EQ(error_of(with("\x03\x01")), "a function's name is 1: at most 0 is possible");
  EXPECT_EQ(error_of(with("\x03\x00\x81\x08"sv)), "a function's name is 1025: at most 1024 is possible");
  const std::string call = "\x03"s + "\x00\x01"s + "f" + "\x01";  // function and mode "f"
  EXPECT_EQ(error_of(with(call + "\x1e")), "a call's kind is 30: at most 29 is known");
  EXPECT_EQ(error_of(with(call + "\x01\x10")), "a call's flags is 16: at most 15 is known");
  const std::string plain = call + "\x01" + "\x00\x01"s + "traits.."s;
  EXPECT_EQ(error_of(with(plain + "\x01\x40\x01\x05")), "an effect is 5: at most 4 is known");
  EXPECT_EQ(error_of(with(plain + "\x01\x40\x01\x00\x09"s)), "a shape's rank is 9: at most 8 is known");
  EXPECT_EQ(error_of(with(plain + "\xff\xff\xff\xff\x7f")).substr(0, 18), "a call's operands ");
  EXPECT_EQ(error_of(with(call + "\x01\x04\x01traits..\x04"s)), "a window's rank is 4: at most 3 is known");
  EXPECT_EQ(contents(with(plain + "\x00"s)).records, 1u);
}

// Two layers and their backward, over and over, with a batch that comes from the host.
std::vector<Event> iterations(int count) {
  const Address weights{0x10000000}, map{0x20000000};
  const auto call = [](const char* function, OpKind kind, std::vector<Access> accesses) {
    OwnedCall made;
    made.call.function = function;
    made.call.kind = kind;
    made.call.stream = StreamHandle::legacy;
    made.accesses = std::move(accesses);
    return made;
  };
  std::vector<Event> events = {RecordedAllocation{weights, 4 * MiB, true, true}};
  for (int i = 0; i < count; ++i) {
    events.push_back(RecordedAllocation{map, 12 * MiB, true, true});
    events.push_back(call("copy", OpKind::copy_in, {{map, 4 * MiB, Effect::overwrite}}));
    for (const std::uint64_t layer : {1, 2})
      events.push_back(call("forward", OpKind::conv_forward,
                            {{map + layer * 4 * MiB, 4 * MiB, Effect::overwrite},
                             {map + (layer - 1) * 4 * MiB, 4 * MiB, Effect::read},
                             {weights, 4 * MiB, Effect::read}}));
    for (const std::uint64_t layer : {1, 0})
      events.push_back(
          call("backward", OpKind::conv_backward_filter,
               {{map + layer * 4 * MiB, 4 * MiB, Effect::read}, {weights, 4 * MiB, Effect::read_write}}));
    events.push_back(RecordedFree{map});
  }
  return events;
}

TEST(Recording, AChangedByteNeverHurtsReaderOrTracker) {
  const std::string stream = written(iterations(8));
  std::size_t phases = 0;
  std::mt19937 random(1);
  int refused = 0, read = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string changed = stream;
    for (int n = 0; n <= i % 3; ++n) changed[random() % changed.size()] = static_cast<char>(random());
    auto reader = RecordingReader::open(source_of(changed));
    const auto profile = reader ? tracker::profile_of(*reader) : Result<Profile>(reader.error());
    if (profile) test::walk(*profile), phases += profile->phases.size();
    ++(profile ? read : refused);
  }
  EXPECT_GT(refused, 100);
  EXPECT_GT(read, 100);
  EXPECT_GT(phases, 100u) << "iterations are still found, and described";
}

TEST(Recording, AWriterGivesNothingMoreToASinkThatRefused) {
  int asked = 0;
  RecordingWriter writer(
      [&](std::string_view) {
        ++asked;
        return Status(Error{ErrorCode::invalid_argument, "full"});
      },
      session_facts);
  writer.flush();
  ASSERT_TRUE(writer.failure());
  EXPECT_EQ(writer.failure()->message, "full");
  for (int i = 0; i < 100000; ++i) writer.add(RecordedFree{Address{1}});
  writer.end();
  EXPECT_EQ(asked, 1);
}

}  // namespace
}  // namespace pooch
