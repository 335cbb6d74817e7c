#include "core/recording.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace pooch {
namespace {

constexpr std::uint64_t version = 1;
constexpr std::size_t longest_text = 1024;
constexpr std::size_t largest_record = 16 << 20;
constexpr std::size_t longest_varint = 10;
constexpr std::size_t longest_shape = 2 + max_rank * longest_varint;
constexpr std::size_t longest_window = 2 + (3 * 4 + 1) * longest_varint;

enum Tag : std::uint8_t { tag_allocation = 1, tag_free = 2, tag_call = 3, tag_end = 4 };
enum AllocationFlag : std::uint8_t { flag_managed = 1, flag_by_program = 2, all_allocation_flags = 3 };
enum CallFlag : std::uint8_t {
  flag_blocks = 1,
  flag_trial = 2,
  flag_window = 4,
  flag_filter = 8,
  all_call_flags = 15
};

static_assert(std::endian::native == std::endian::little, "traits are copied as they lie");

}  // namespace

// --- writing

RecordingWriter::RecordingWriter(Sink sink, const RecordedSession& session)
    : sink_(std::move(sink)), buffer_(std::make_unique<std::array<char, capacity>>()) {
  put_bytes(recording_magic);
  put_varint(version);
  put_text(session.device);
  put_varint(session.device_bytes);
  put_varint(session.cap_bytes);
  put_varint(session.host_budget_bytes);
  put_text(session.policy);
}

void RecordingWriter::flush() {
  if (!failure_ && used_ > 0)
    if (const auto taken = sink_({buffer_->data(), used_}); !taken) failure_ = taken.error();
  used_ = 0;
}

void RecordingWriter::put_varint(std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) put(static_cast<std::uint8_t>(value | 0x80));
  put(static_cast<std::uint8_t>(value));
}

void RecordingWriter::put_bytes(std::string_view bytes) {
  std::copy(bytes.begin(), bytes.end(), buffer_->data() + used_);
  used_ += bytes.size();
}

void RecordingWriter::put_text(std::string_view text) {
  text = text.substr(0, longest_text);
  reserve(text.size() + 4 * longest_varint);
  put_varint(text.size());
  put_bytes(text);
}

void RecordingWriter::put_name(std::string_view name) {
  const auto [place, fresh] = names_.try_emplace(name, names_.size() + 1);
  if (!fresh) return put_varint(place->second);
  put(0);
  put_text(name);
}

void RecordingWriter::put(const Shape& shape) {
  put(shape.rank);
  if (shape.rank == 0) return;
  put(shape.element_bytes);
  for (int i = 0; i < shape.rank; ++i) put_varint(static_cast<std::uint32_t>(shape.sizes[i]));
}

void RecordingWriter::put(const Window& window) {
  put(window.rank);
  for (int i = 0; i < window.rank; ++i)
    for (const std::int32_t value : {window.size[i], window.stride[i], window.padding[i], window.dilation[i]})
      put_varint(static_cast<std::uint32_t>(value));
  put_varint(static_cast<std::uint32_t>(window.groups));
}

void RecordingWriter::add(const RecordedAllocation& allocation) {
  reserve(2 + 2 * longest_varint);
  put(tag_allocation);
  put_varint(raw(allocation.address));
  put_varint(allocation.bytes);
  put(static_cast<std::uint8_t>((allocation.managed ? flag_managed : 0) |
                                (allocation.by_program ? flag_by_program : 0)));
}

void RecordingWriter::add(const RecordedFree& free) {
  reserve(1 + longest_varint);
  put(tag_free);
  put_varint(raw(free.address));
}

void RecordingWriter::add(const Call& call) {
  reserve(2 + 2 * longest_varint);
  put(tag_call);
  put_name(call.function);
  put_name(call.mode);
  reserve(2 + sizeof call.traits + longest_window + longest_shape + 2 * longest_varint);
  put(static_cast<std::uint8_t>(call.kind));
  put(static_cast<std::uint8_t>((call.blocks ? flag_blocks : 0) | (call.trial ? flag_trial : 0) |
                                (call.window != nullptr ? flag_window : 0) |
                                (call.filter != nullptr ? flag_filter : 0)));
  put_varint(static_cast<std::uint64_t>(call.stream));
  put_bytes({reinterpret_cast<const char*>(&call.traits), sizeof call.traits});
  if (call.window != nullptr) put(*call.window);
  if (call.filter != nullptr) put(*call.filter);
  put_varint(call.accesses.size());
  for (const Access& access : call.accesses) {
    reserve(1 + longest_shape + 2 * longest_varint);
    put_varint(raw(access.address));
    put_varint(access.bytes);
    put(static_cast<std::uint8_t>(access.effect));
    put(access.shape);
  }
}

void RecordingWriter::end() {
  reserve(1);
  put(tag_end);
  flush();
}

// --- reading

// Reads one thing that may lie incomplete in the buffer, or be wrong; after either it yields zeros.
class RecordingReader::Cursor {
 public:
  Cursor(const char* begin, const char* end, std::uint64_t offset)
      : begin_(begin), at_(begin), end_(end), offset_(offset) {}

  bool good() const { return !incomplete_ && wrong_.empty(); }
  bool incomplete() const { return incomplete_; }
  const std::string& wrong() const { return wrong_; }
  std::size_t taken() const { return static_cast<std::size_t>(at_ - begin_); }
  std::size_t left() const { return static_cast<std::size_t>(end_ - at_); }

  // Nothing after the first complaint counts, nor one about bytes that are not there.
  template <class... Args>
  void complain(fmt::format_string<Args...> format, Args&&... args) {
    if (good())
      wrong_ = fmt::format("offset {}: {}", offset_ + static_cast<std::uint64_t>(start_ - begin_),
                           fmt::format(format, std::forward<Args>(args)...));
  }

  std::string_view bytes(std::size_t count) {
    start_ = at_;
    if (!good() || left() < count) {
      incomplete_ |= good();
      return {};
    }
    at_ += count;
    return {start_, count};
  }

  std::uint8_t byte() {
    const std::string_view one = bytes(1);
    return one.empty() ? 0 : static_cast<std::uint8_t>(one[0]);
  }

  // One of 0 … most.
  std::uint8_t byte(const char* what, std::uint8_t most) {
    const std::uint8_t value = byte();
    if (value <= most) return value;
    complain("{} is {}: at most {} is known", what, value, most);
    return 0;
  }

  std::uint64_t varint(const char* what, std::uint64_t most = ~std::uint64_t{0}) {
    const char* const first = at_;
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const std::uint8_t part = byte();
      if (!good()) return 0;
      start_ = first;
      if (shift == 63 && part > 1) return complain("{} has more than 64 bits", what), 0;
      value |= static_cast<std::uint64_t>(part & 0x7f) << shift;
      if ((part & 0x80) == 0) break;
    }
    if (value <= most) return value;
    complain("{} is {}: at most {} is possible", what, value, most);
    return 0;
  }

  std::string_view text(const char* what) { return bytes(varint(what, longest_text)); }

  std::int32_t size(const char* what) {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(varint(what, 0xffffffffu)));
  }

  Shape shape() {
    Shape shape;
    shape.rank = byte("a shape's rank", max_rank);
    if (shape.rank == 0) return shape;
    shape.element_bytes = byte();
    for (int i = 0; i < shape.rank; ++i) shape.sizes[i] = size("a shape's size");
    return shape;
  }

  Window window() {
    Window window;
    window.rank = byte("a window's rank", static_cast<std::uint8_t>(window.size.size()));
    for (int i = 0; i < window.rank; ++i)
      for (std::int32_t* const value :
           {&window.size[i], &window.stride[i], &window.padding[i], &window.dilation[i]})
        *value = size("a window's size");
    window.groups = size("a window's groups");
    return window;
  }

  // The last byte must be one that can be addressed.
  std::uint64_t extent(Address address) { return varint("a length", ~raw(address)); }

 private:
  const char* const begin_;
  const char* at_;
  const char* const end_;
  const char* start_ = at_;  // of what was read last
  const std::uint64_t offset_;
  bool incomplete_ = false;
  std::string wrong_;
};

Result<RecordingReader> RecordingReader::open(Source source) {
  RecordingReader reader(std::move(source));
  const auto header = reader.read_whole([&](Cursor& in) { reader.parse_header(in); });
  if (!header) return header.error();
  if (!*header) return Error{ErrorCode::invalid_argument, "the recording ends within its header"};
  return reader;
}

// At least as much again of the stream behind what is there, so that a long record is not parsed too often.
// False where the stream has nothing more.
Result<bool> RecordingReader::refill() {
  const std::size_t before = filled_ - at_, wanted = std::max<std::size_t>(64 << 10, 2 * before);
  if (at_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + at_, before);
    consumed_ += at_;
    filled_ = before;
    at_ = 0;
  }
  if (buffer_.size() < wanted) buffer_.resize(wanted);
  while (!exhausted_ && filled_ < wanted) {
    const auto got = source_({buffer_.data() + filled_, wanted - filled_});
    if (!got) return got.error();
    filled_ += *got;
    exhausted_ = *got == 0;
  }
  return filled_ > before;
}

// Lets `parse` have one thing, from its beginning again until it is there as a whole. False where the stream
// ends before that.
template <class Parse>
Result<bool> RecordingReader::read_whole(Parse&& parse) {
  for (const std::size_t names = names_.size();;) {
    Cursor in(buffer_.data() + at_, buffer_.data() + filled_, offset());
    parse(in);
    if (in.good()) {
      at_ += in.taken();
      return true;
    }
    names_.resize(names);
    if (!in.incomplete()) return Error{ErrorCode::invalid_argument, in.wrong()};
    if (filled_ - at_ > largest_record)
      return Error{ErrorCode::invalid_argument,
                   fmt::format("offset {}: a record of more than {} bytes", offset(), largest_record)};
    const auto more = refill();
    if (!more || !*more) return more;
  }
}

void RecordingReader::parse_header(Cursor& in) {
  if (in.bytes(recording_magic.size()) != recording_magic) return in.complain("this is no recording");
  if (const std::uint64_t found = in.varint("the version"); found != version)
    return in.complain("version {}: this pooch reads version {}", found, version);
  session_.device = in.text("a name's length");
  session_.device_bytes = in.varint("a size");
  session_.cap_bytes = in.varint("a size");
  session_.host_budget_bytes = in.varint("a size");
  session_.policy = in.text("a name's length");
}

Result<std::optional<Record>> RecordingReader::next() {
  if (ended_) return std::optional<Record>{};
  const auto read = read_whole([&](Cursor& in) { parse_record(in); });
  if (!read) return read.error();
  if (!*read || ended_) return std::optional<Record>{};
  return std::optional<Record>{record_};
}

void RecordingReader::parse_record(Cursor& in) {
  switch (const std::uint8_t tag = in.byte(); tag) {
    case tag_allocation: {
      RecordedAllocation made;
      made.address = Address{in.varint("an address")};
      made.bytes = in.extent(made.address);
      if (made.bytes == 0) in.complain("an allocation of 0 bytes");
      const std::uint8_t flags = in.byte("an allocation's flags", all_allocation_flags);
      made.managed = (flags & flag_managed) != 0;
      made.by_program = (flags & flag_by_program) != 0;
      record_ = made;
      return;
    }
    case tag_free:
      record_ = RecordedFree{Address{in.varint("an address")}};
      return;
    case tag_call:
      return parse_call(in);
    case tag_end:
      ended_ = in.good();
      return;
    default:
      return in.complain("record of kind {}: 1 to 4 are known", tag);
  }
}

std::string_view RecordingReader::parse_name(Cursor& in, const char* what) {
  const std::uint64_t number = in.varint(what, names_.size());
  if (number > 0) return names_[number - 1];
  return names_.emplace_back(in.text(what));
}

void RecordingReader::parse_call(Cursor& in) {
  Call call;
  call.function = parse_name(in, "a function's name");
  call.mode = parse_name(in, "a mode's name");
  call.kind = OpKind{in.byte("a call's kind", static_cast<std::uint8_t>(last_op_kind))};
  const std::uint8_t flags = in.byte("a call's flags", all_call_flags);
  call.blocks = (flags & flag_blocks) != 0;
  call.trial = (flags & flag_trial) != 0;
  call.stream = StreamHandle{in.varint("a stream")};
  if (const std::string_view traits = in.bytes(sizeof call.traits); !traits.empty())
    std::memcpy(&call.traits, traits.data(), sizeof call.traits);
  if ((flags & flag_window) != 0) {
    window_ = in.window();
    call.window = &window_;
  }
  if ((flags & flag_filter) != 0) {
    filter_ = in.shape();
    call.filter = &filter_;
  }
  const std::uint64_t count = in.varint("a call's operands", largest_record);
  accesses_.clear();
  for (std::uint64_t i = 0; i < count && in.good(); ++i) parse_access(in);
  call.accesses = accesses_;
  record_ = call;
}

void RecordingReader::parse_access(Cursor& in) {
  Access access;
  access.address = Address{in.varint("an address")};
  access.bytes = in.extent(access.address);
  access.effect = Effect{in.byte("an effect", static_cast<std::uint8_t>(Effect::scratch))};
  access.shape = in.shape();
  accesses_.push_back(access);
}

}  // namespace pooch
