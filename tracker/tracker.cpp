#include "tracker/tracker.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "core/hash.h"

namespace pooch::tracker {
namespace {

// The tensor that the call is about: the largest that it changes.
Shape result_shape(const Call& call) {
  const Access* largest = nullptr;
  for (const Access& access : call.accesses) {
    if (access.shape.rank == 0 || !changes_content(access.effect)) continue;
    if (largest == nullptr || access.bytes > largest->bytes) largest = &access;
  }
  return largest == nullptr ? Shape{} : largest->shape;
}

// By operand: the first one of the same allocation. A launch may have hundreds.
std::vector<std::uint32_t> first_of_same(const std::vector<Operand>& operands) {
  std::vector<std::uint32_t> order(operands.size()), first(operands.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return operands[a].allocation != operands[b].allocation ? operands[a].allocation < operands[b].allocation
                                                            : a < b;
  });
  for (std::size_t i = 0; i < order.size(); ++i) {
    const bool same = i > 0 && operands[order[i]].allocation == operands[order[i - 1]].allocation;
    first[order[i]] = same ? first[order[i - 1]] : order[i];
  }
  return first;
}

// Of the operand's allocation; nullptr where that has ended, as it may while the host waits inside of a call.
Versions* content_of(const Operand& o) {
  return o.owner->id == o.allocation ? o.owner->content : nullptr;
}

}  // namespace

[[gnu::hot]] const Allocation& Tracker::allocated(Address base, std::uint64_t bytes, bool managed,
                                                  bool by_program, void* origin, bool counts) {
  const Allocation& made = allocations_.add(base, bytes, managed, by_program, steps_, origin, counts);
  ++allocated_since_;
  if (watching_) log_.add_allocation({steps_, made.id, bytes, managed, true});
  return made;
}

[[gnu::hot]] std::optional<Allocation> Tracker::freed(Address base) {
  const auto gone = allocations_.take(base);
  if (gone && watching_) log_.add_allocation({steps_, gone->id, gone->bytes, gone->managed, false});
  return gone;
}

void Tracker::watch() {
  watching_ = true;
  allocations_.each(
      [this](const Allocation& one) { one.content->write(0, one.bytes, Producer::beside(steps_)); });
}

std::uint32_t Tracker::ordinal(StreamHandle stream) {
  const auto found = std::find(streams_.begin(), streams_.end(), stream);
  if (found != streams_.end()) return static_cast<std::uint32_t>(found - streams_.begin());
  streams_.push_back(stream);
  return static_cast<std::uint32_t>(streams_.size() - 1);
}

void Tracker::resolve(const Call& call, Op& op) {
  op.operands.clear();
  op.sources.clear();
  op.managed = false;
  for (const Access& access : call.accesses) {
    if (access.bytes == 0) continue;
    const Allocation* owner = owners_.containing(allocations_, access.address);
    if (owner == nullptr) continue;
    const std::uint64_t offset = access.address - owner->base;
    // Made where it stays: a copy that follows at once would wait for each of its parts to be written.
    Operand& operand = op.operands.emplace_back();
    operand.allocation = owner->id, operand.base = owner->base, operand.born = owner->born;
    operand.offset = offset, operand.bytes = std::min(access.bytes, owner->bytes - offset);
    operand.effect = access.effect, operand.managed = owner->managed, operand.backing = owner->backing;
    operand.owner = owner;
    op.managed |= owner->managed;
  }
  if (op.operands.empty()) return;
  op.step = !call.trial && !is_host_copy(call.kind);
  op.stream = ordinal(call.stream);
  Description& said = op.description;  // part by part, which is faster than a copy of the whole
  said.function = call.function, said.kind = call.kind, said.mode = call.mode, said.site = call.site;
  said.tried = call.tried, said.clip = call.clip, said.substitute.known = false;
  said.shape = {}, said.filter = {}, said.window = {};
  op.local_key =
      mix(mix(mix(hash(call.function), static_cast<std::uint64_t>(call.kind)), call.traits), op.stream);
  for (const Operand& o : op.operands)
    op.local_key =
        mix(op.local_key, o.offset ^ std::rotl(o.bytes, 20) ^ std::rotl(std::uint64_t(o.effect), 60));
  find_sources(op);
  if (!op.step) return;
  op.form_key = iterations_.wants_forms() ? form_of(op) : 0;
  op.description.shape = result_shape(call);
  if (call.filter != nullptr) op.description.filter = *call.filter;
  if (call.window != nullptr) op.description.window = *call.window;
}

void Tracker::find_sources(Op& op) {
  for (std::uint32_t i = 0; i < op.operands.size(); ++i) {
    const Operand& o = op.operands[i];
    if (!needs_content(o.effect)) continue;
    o.owner->content->each(o.offset, o.bytes,
                           [&](std::uint64_t offset, std::uint64_t bytes, Producer producer) {
                             op.sources.push_back({i, offset, bytes, producer});
                           });
  }
}

// What the op is and which operands share memory. And which of the versions that lie there it touches, in
// their order, as a whole or in part: as long as all steps have the same forms, each finds the same versions
// where it reads and overwrites the same ones, however large they are. Kernels' names may differ with the
// size.
std::uint64_t Tracker::form_of(const Op& op) {
  std::uint64_t key =
      mix(mix(hash(op.description.function), static_cast<std::uint64_t>(op.description.kind)), op.stream);
  const std::vector<std::uint32_t> first = first_of_same(op.operands);
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    const Operand& o = op.operands[i];
    key = mix(mix(key, static_cast<std::uint64_t>(o.effect)), first[i]);
    const std::vector<Version>& there = o.owner->content->all();
    const std::uint64_t end = o.offset + o.bytes;
    const auto begin = std::partition_point(there.begin(), there.end(),
                                            [&](const Version& v) { return v.offset + v.bytes <= o.offset; });
    const auto behind =
        std::partition_point(begin, there.end(), [&](const Version& v) { return v.offset < end; });
    const bool touches = begin != behind;
    const bool cuts_first = touches && begin->offset < o.offset;
    const bool cuts_last = touches && std::prev(behind)->offset + std::prev(behind)->bytes > end;
    key = mix(mix(key, static_cast<std::uint64_t>(begin - there.begin())),
              static_cast<std::uint64_t>(behind - begin));
    key = mix(key, cuts_first * 2 + cuts_last);
  }
  return key;
}

void Tracker::launched(const Op& op) {
  if (op.operands.empty()) return;
  ++ops_;
  const Producer producer = op.step ? Producer::step(steps_) : Producer::beside(steps_);
  // Scratch first: an operand that is also written otherwise keeps its content.
  for (const Operand& o : op.operands)
    if (Versions* const content = content_of(o); content != nullptr && !leaves_content(o.effect))
      content->kill(o.offset, o.bytes);
  for (const Operand& o : op.operands)
    if (Versions* const content = content_of(o);
        content != nullptr && changes_content(o.effect) && leaves_content(o.effect))
      content->write(o.offset, o.bytes, producer);
  if (op.step) {
    log_.add_step({op.local_key, op.form_key}, op.stream, op.description, op.operands, op.sources);
    ++steps_;
    allocated_since_ = 0;
    iterations_.push(completed_);
  } else if (is_host_copy(op.description.kind)) {
    log_.add_copy({steps_, host_copies_, op.description.kind == OpKind::copy_in, op.stream, op.operands[0]});
    ++host_copies_;
  }
}

bool Tracker::live(const Operand& operand, std::uint64_t offset, std::uint64_t bytes) {
  const Versions* const content = content_of(operand);
  return content != nullptr && content->live(offset, bytes);
}

std::span<const Iteration> Tracker::take_completed() {
  taken_.clear();
  taken_.swap(completed_);
  return taken_;
}

}  // namespace pooch::tracker
