#include "tests/support/lazy_device.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "core/digest.h"

namespace pooch::test {

Status LazyDevice::complain(std::string what) {
  complaints_.push_back(what);
  return Error{ErrorCode::device, std::move(what), 700};
}

void LazyDevice::launch(StreamHandle stream, std::function<void()> work, double microseconds) {
  const Lock lock(mutex_);
  queues_[stream].push_back({std::move(work), {}, {}, microseconds});
}

void LazyDevice::block(StreamHandle stream) {
  const Lock lock(mutex_);
  queues_[stream].push_back({{}, gates_[stream] = std::make_shared<bool>(false), {}});
}

void LazyDevice::unblock(StreamHandle stream) {
  const Lock lock(mutex_);
  *gates_.at(stream) = true;
}

Result<std::uint64_t> LazyDevice::free_bytes() {
  const Lock lock(mutex_);
  return memory_ - created_ - outside_;
}

void LazyDevice::take_outside(std::uint64_t bytes) {
  const Lock lock(mutex_);
  outside_ += bytes;
}

Result<StreamHandle> LazyDevice::create_stream() {
  const Lock lock(mutex_);
  return StreamHandle{next_++};
}

Status LazyDevice::destroy_event(EventHandle event) {
  const Lock lock(mutex_);
  events_.erase(event);
  stamps_.erase(event);
  return Done{};
}

std::byte* LazyDevice::translate(Address at, std::uint64_t bytes) {
  const Lock lock(mutex_);
  auto after = mappings_.upper_bound(at);
  if (after != mappings_.begin()) {
    const auto& [base, mapping] = *std::prev(after);
    if (at - base + bytes <= mapping.bytes && mapping.accessible) {
      Physical& physical = physical_.at(mapping.handle);
      landed_accesses_ += physical.on_host ? 1 : 0;
      return physical.bytes.data() + (at - base);
    }
  }
  (void)complain(fmt::format("illegal access to {} bytes at {:#x}", bytes, raw(at)));
  return nullptr;
}

bool LazyDevice::step() {
  std::vector<std::deque<Task>*> ready;
  for (auto& [stream, queue] : queues_) {
    if (queue.empty() || (queue.front().wait_for && !*queue.front().wait_for)) continue;
    if (stream == first_) ready.clear();
    ready.push_back(&queue);
    if (stream == first_) break;
  }
  if (ready.empty()) return false;
  std::deque<Task>& queue = *ready[random_() % ready.size()];
  const Task task = std::move(queue.front());
  queue.pop_front();
  if (task.work) task.work();
  clock_us_ += task.microseconds;
  if (task.stamp) *task.stamp = clock_us_;
  if (task.raise) *task.raise = true;
  return true;
}

void LazyDevice::drain() {
  const Lock lock(mutex_);
  while (step()) continue;
  for (const auto& [stream, queue] : queues_)
    if (!queue.empty()) (void)complain("a stream waits for an event that nobody records");
}

Result<Address> LazyDevice::reserve(std::uint64_t bytes) {
  const Lock lock(mutex_);
  const Address base{0x100000000000 + next_ * (std::uint64_t{1} << 44)};
  ++next_;
  return base;
}

Result<PhysicalHandle> LazyDevice::create(std::uint64_t bytes) {
  const Lock lock(mutex_);
  if (created_ + outside_ + bytes > memory_) return Error{ErrorCode::out_of_memory, "out of memory", 2};
  created_ += bytes;
  peak_ = std::max(peak_, created_);
  const PhysicalHandle handle{next_++};
  physical_[handle].bytes.assign(bytes, std::byte{0xEE});
  return handle;
}

Status LazyDevice::destroy(PhysicalHandle handle) {
  const Lock lock(mutex_);
  const auto found = physical_.find(handle);
  if (found == physical_.end()) return complain("destroy of an unknown handle");
  if (found->second.mappings > 0) return complain("destroy of a mapped handle");
  created_ -= found->second.bytes.size();
  physical_.erase(found);
  return Done{};
}

Status LazyDevice::map(Address at, std::uint64_t bytes, PhysicalHandle handle) {
  const Lock lock(mutex_);
  const auto found = physical_.find(handle);
  if (found == physical_.end() || found->second.bytes.size() != bytes || raw(at) % (2 * MiB) != 0)
    return complain("map of a part of a handle, of an unknown one or at an odd address");
  const auto next = mappings_.lower_bound(at);
  if ((next != mappings_.end() && next->first < at + bytes) ||
      (next != mappings_.begin() && std::prev(next)->first + std::prev(next)->second.bytes > at))
    return complain("map over a mapping");
  mappings_[at] = {bytes, handle, false};
  ++found->second.mappings;
  return Done{};
}

Status LazyDevice::set_access(Address at, std::uint64_t bytes) {
  const Lock lock(mutex_);
  for (const Address end = at + bytes; at < end;) {
    const auto found = mappings_.find(at);
    if (found == mappings_.end()) return complain("set_access where nothing is mapped");
    found->second.accessible = true;
    at = at + found->second.bytes;
  }
  return Done{};
}

Status LazyDevice::unmap(Address at, std::uint64_t bytes) {
  const Lock lock(mutex_);
  const Address end = at + bytes;
  const auto first = mappings_.find(at);
  auto last = first;
  for (Address next = at; next < end; next = next + last++->second.bytes)
    if (last == mappings_.end() || last->first != next || next + last->second.bytes > end)
      return complain("unmap of a part of a mapping");
  if (one_by_one_ && std::distance(first, last) > 1)
    return Error{ErrorCode::internal, "one mapping at a time"};
  ++unmaps_;
  for (auto each = first; each != last; ++each) --physical_.at(each->second.handle).mappings;
  mappings_.erase(first, last);
  return Done{};
}

Result<std::byte*> LazyDevice::host_allocate(std::uint64_t bytes) {
  const Lock lock(mutex_);
  std::vector<std::byte> memory(bytes, std::byte{0xCC});
  std::byte* const start = memory.data();
  host_.emplace(start, std::move(memory));
  return start;
}

Status LazyDevice::host_free(std::byte* memory) {
  const Lock lock(mutex_);
  host_.erase(memory);
  return Done{};
}

Result<HostHandle> LazyDevice::create_host(std::uint64_t bytes) {
  const Lock lock(mutex_);
  const PhysicalHandle handle{next_++};
  Physical& made = physical_[handle];
  made.bytes.assign(bytes, std::byte{0xCC});
  made.on_host = true;
  return HostHandle{handle, made.bytes.data()};
}

Status LazyDevice::destroy_host(const HostHandle& made, std::uint64_t /*bytes*/) {
  const Lock lock(mutex_);
  const auto found = physical_.find(made.handle);
  if (found == physical_.end()) return complain("destroy of an unknown handle");
  if (found->second.mappings > 0) return complain("destroy of a mapped handle");
  physical_.erase(found);
  return Done{};
}

Result<EventHandle> LazyDevice::create_event() {
  const Lock lock(mutex_);
  const EventHandle event{next_++};
  events_[event] = std::make_shared<bool>(true);
  return event;
}

Result<EventHandle> LazyDevice::create_timing_event() {
  const Lock lock(mutex_);
  const auto event = create_event();
  stamps_[*event] = nullptr;
  return event;
}

Result<double> LazyDevice::elapsed_us(EventHandle from, EventHandle to) {
  const Lock lock(mutex_);
  for (const EventHandle event : {from, to}) {
    const auto timed = stamps_.find(event);
    if (timed == stamps_.end() || !timed->second)
      return complain("elapsed time of an event without timing, or that was never recorded").error();
    if (!*events_.at(event)) return Error{ErrorCode::device, "the event has not happened yet", 600};
  }
  // As the driver answers: in float milliseconds.
  return 1000.0 * static_cast<float>((*stamps_.at(to) - *stamps_.at(from)) / 1000);
}

Status LazyDevice::record(EventHandle event, StreamHandle stream) {
  const Lock lock(mutex_);
  ++records_;
  Flag flag = std::make_shared<bool>(false);
  events_.at(event) = flag;
  const auto timed = stamps_.find(event);
  if (timed != stamps_.end()) timed->second = std::make_shared<double>();
  queues_[stream].push_back({{}, {}, flag, 0, timed != stamps_.end() ? timed->second : nullptr});
  return Done{};
}

Status LazyDevice::wait(StreamHandle stream, EventHandle event) {
  const Lock lock(mutex_);
  ++waits_;
  queues_[stream].push_back({{}, events_.at(event), {}});
  return Done{};
}

Result<bool> LazyDevice::finished(EventHandle event) {
  const Lock lock(mutex_);
  const Flag flag = events_.at(event);
  for (unsigned steps = random_() % 3; steps > 0; --steps) step();
  return *flag;
}

Status LazyDevice::synchronize(EventHandle event) {
  const Lock lock(mutex_);
  const Flag flag = events_.at(event);
  while (!*flag)
    if (!step()) return complain("synchronize would wait for ever");
  return Done{};
}

// visit(offset, memory, bytes) for what lies behind one address after another: it may be several mappings.
// False: some is not mapped.
template <class Visit>
bool LazyDevice::each_page(Address from, std::uint64_t bytes, Visit&& visit) {
  for (std::uint64_t offset = 0; offset < bytes;) {
    const Address at = from + offset;
    const std::uint64_t piece = std::min(bytes - offset, 2 * MiB - raw(at) % (2 * MiB));
    std::byte* const memory = translate(at, piece);
    if (memory == nullptr) return false;
    visit(offset, memory, piece);
    offset += piece;
  }
  return true;
}

Status LazyDevice::copy_out(std::byte* to, Address from, std::uint64_t bytes, StreamHandle stream) {
  const auto copy = [=, this] {
    each_page(from, bytes, [to](std::uint64_t offset, const std::byte* memory, std::uint64_t piece) {
      std::memcpy(to + offset, memory, piece);
    });
  };
  launch(stream, copy, copy_us_);
  return Done{};
}

Status LazyDevice::copy_in(Address to, const std::byte* from, std::uint64_t bytes, StreamHandle stream) {
  const auto copy = [=, this] {
    each_page(to, bytes, [from](std::uint64_t offset, std::byte* memory, std::uint64_t piece) {
      std::memcpy(memory, from + offset, piece);
    });
  };
  launch(stream, copy, copy_us_);
  return Done{};
}

Status LazyDevice::normalise(const NormaliseCall& /*call*/, StreamHandle /*stream*/) {
  return Error{ErrorCode::not_supported, "it knows no batch norm"};
}

Status LazyDevice::compare(const NormaliseCall& /*call*/, std::uint32_t (* /*differs*/)[formulas],
                           StreamHandle /*stream*/) {
  return Error{ErrorCode::not_supported, "it knows no batch norm"};
}

Status LazyDevice::digest(Address from, std::uint64_t bytes, Address result, StreamHandle stream) {
  launch(stream, [=, this] {
    std::vector<std::byte> content;
    const bool whole =
        each_page(from, bytes, [&](std::uint64_t /*offset*/, const std::byte* memory, std::uint64_t piece) {
          content.insert(content.end(), memory, memory + piece);
        });
    if (!whole) return;
    const Digest made = digest_of(content);
    if (std::byte* target = translate(result, sizeof made)) std::memcpy(target, &made, sizeof made);
  });
  return Done{};
}

}  // namespace pooch::test
