#include "softgpu/driver/checks/checker.h"

#include <algorithm>

namespace softgpu {

Checker::Fault Checker::fault_at(std::uint64_t address, std::uint64_t end, const Object* before) {
  Fault fault;
  fault.begin = address;
  fault.end = end;
  if (before != nullptr && before->kind != ObjectKind::mapping) {
    fault.kind = "out-of-bounds";
    return fault;
  }
  fault.kind = "unmapped";
  if (const Tombstone* gone = addresses_.tombstone(address); gone != nullptr) {
    fault.kind = gone->freed ? "freed" : "unmapped";
    fault.by = gone->by;
    fault.verb = gone->freed ? "freed it" : "unmapped it";
    fault.end = std::min(end, gone->end);
  }
  return fault;
}

bool Checker::resolve(std::uint64_t address, std::uint64_t bytes, bool write, std::vector<Span>& out,
                      Fault& fault) {
  out.clear();
  const std::uint64_t end = address + bytes;
  Object* object = addresses_.find(address);
  if (object == nullptr) {
    const Pinned* pinned = host_.find(address);
    if (pinned != nullptr && bytes <= pinned->base + pinned->bytes - address) {
      out.push_back({&host_shadow_, address, end, address, nullptr});
      return true;
    }
    fault = fault_at(address, end, nullptr);
    if (!addresses_.tombstone(address)) {
      // Past an allocation's end, but within its padding.
      const Object* near = addresses_.before(address);
      if (near != nullptr && address < near->padded_end()) fault = fault_at(address, end, near);
    }
    return false;
  }
  for (std::uint64_t at = address; at < end;) {
    if (!(write ? object->writable : object->readable)) {
      fault = Fault{"unmapped", {}, "", at, std::min(end, object->end())};
      return false;
    }
    const std::uint64_t stop = std::min(end, object->end());
    object->for_pieces(at, stop, [&](std::uint64_t low, std::uint64_t high, std::uint64_t where) {
      out.push_back({&device_shadow_, low, high, where, object});
    });
    at = stop;
    if (at >= end) break;
    Object* next = object->kind == ObjectKind::mapping ? addresses_.after(*object) : nullptr;
    if (next == nullptr || next->kind != ObjectKind::mapping) {
      fault = fault_at(at, end, object);
      return false;
    }
    object = next;
  }
  return true;
}

bool Checker::report(const Fault& fault, const char* verb, const Access& by, bool fatal) {
  Violation v{fault.kind, {by, verb}, {fault.by, fault.verb}, fault.begin, fault.end};
  violations_.add(v, fatal);
  return false;
}

bool Checker::race(const Span& span, const Conflict& conflict, const char* verb, const Access& by) {
  const std::uint64_t low = std::max(span.begin, conflict.begin), high = std::min(span.end, conflict.end);
  const std::uint64_t address = span.address + (low - span.begin);
  violations_.add(
      Violation{"race",
                {by, verb},
                {conflict.other, conflict.other_writes ? "writes, unordered" : "reads, unordered"},
                address,
                address + (high - low),
                span.object != nullptr ? "device" : "host"},
      true);
  return false;
}

void Checker::use(Object& object, const Access& by) {
  if (object.kind != ObjectKind::mapping) return;
  for (Access& known : object.uses) {
    if (known.agent != by.agent) continue;
    known = by;
    return;
  }
  object.uses.push_back(by);
}

bool Checker::note(const Span& span, bool write, const Access& by, const VectorClock& clock) {
  if (span.object != nullptr) {
    use(*span.object, by);
    if (write) (span.object->on_host ? handles_ : physical_).touch(span.begin, span.end);
  }
  const auto conflict = write ? span.shadow->note_write(span.begin, span.end, by, clock)
                              : span.shadow->note_read(span.begin, span.end, by, clock);
  return !conflict || race(span, *conflict, write ? "writes" : "reads", by);
}

bool Checker::read_touch(const Touch& touch, const Access& by, const VectorClock& clock) {
  Fault fault;
  if (!resolve(touch.address, touch.bytes, false, spans_, fault)) return report(fault, "reads", by, true);
  for (const Span& span : spans_) {
    const auto hole = content_known_ ? span.shadow->first_unwritten(span.begin, span.end) : std::nullopt;
    if (hole) {
      const std::uint64_t address = span.address + (hole->begin - span.begin);
      violations_.add(
          Violation{
              "unwritten", {by, "reads what nobody wrote"}, {}, address, address + (hole->end - hole->begin)},
          true);
      return false;
    }
    if (!note(span, false, by, clock)) return false;
  }
  return true;
}

bool Checker::write_touch(std::uint64_t address, std::uint64_t bytes, const Access& by,
                          const VectorClock& clock) {
  Fault fault;
  if (!resolve(address, bytes, true, spans_, fault)) return report(fault, "writes", by, true);
  for (const Span& span : spans_) {
    if (!note(span, true, by, clock)) return false;
  }
  return true;
}

// No device here is another's peer: a kernel reaches the memory of its own, and the host's where it may.
bool Checker::within_reach(const std::vector<Touch>& touches, const Access& by) {
  for (const Touch& touch : touches) {
    const Object* const object = addresses_.find(touch.address);
    if (object == nullptr) continue;
    if (object->on_host ? !object->readable || object->open_to(by.device)
                        : physical_.device_of(object->extents.front().offset) == by.device)
      continue;
    return report({"other-device", {}, "", touch.address, touch.address + touch.bytes}, "touches", by, true);
  }
  return true;
}

std::uint64_t Checker::landed_bytes() const {
  std::uint64_t bytes = 0;
  for (const Span& span : spans_)
    if (span.object != nullptr && span.object->on_host) bytes += span.end - span.begin;
  return bytes;
}

bool Checker::kernel(const std::vector<Touch>& touches, const Access& by, const VectorClock& clock,
                     Landed& landed) {
  if (!within_reach(touches, by)) return false;
  for (const Touch& touch : touches) {
    if (touch.kind == TouchKind::unknown) content_known_ = false;
    if (touch.kind == TouchKind::reach) {
      if (!reachable(touch.address, touch.bytes, by)) return false;
      continue;
    }
    if (touch.bytes == 0 || touch.kind == TouchKind::write) continue;
    if (!read_touch(touch, by, clock)) return false;
    landed.read += landed_bytes();
  }
  for (const Touch& touch : touches) {
    if (touch.bytes == 0 || !writes(touch.kind)) continue;
    if (!write_touch(touch.address, touch.bytes, by, clock)) return false;
    landed.written += landed_bytes();
  }
  if (landed.read + landed.written > 0) ++landed_accesses_;
  return true;
}

bool Checker::write(std::uint64_t address, std::uint64_t bytes, const Access& by, const VectorClock& clock) {
  return bytes == 0 || write_touch(address, bytes, by, clock);
}

bool Checker::copy(const CopyPart& part, const Access& by, const VectorClock& clock) {
  const auto tracked = [&](std::uint64_t address) {
    return addresses_.device(address) || host_.find(address) != nullptr;
  };
  // Never-written bytes stay so where they go: copying them is no error, only using them is.
  std::vector<WrittenRun> runs{{part.bytes, true}};
  Fault fault;
  if (tracked(part.from)) {
    if (!resolve(part.from, part.bytes, false, spans_, fault)) return report(fault, "reads", by, true);
    runs.clear();
    for (const Span& span : spans_) {
      const auto more = span.shadow->written_runs(span.begin, span.end);
      runs.insert(runs.end(), more.begin(), more.end());
      if (!note(span, false, by, clock)) return false;
    }
  }
  if (!tracked(part.to)) return true;
  if (!resolve(part.to, part.bytes, true, spans_, fault)) return report(fault, "writes", by, true);
  for (const Span& span : spans_) {
    if (!note(span, true, by, clock)) return false;
  }
  std::uint64_t offset = 0;
  for (const WrittenRun& run : runs) {
    const std::uint64_t low = part.to + offset, high = low + run.bytes;
    offset += run.bytes;
    if (run.written) continue;
    for (const Span& span : spans_) {
      const std::uint64_t span_end = span.address + (span.end - span.begin);
      const std::uint64_t from = std::max(low, span.address), to = std::min(high, span_end);
      if (from >= to) continue;
      const std::uint64_t begin = span.begin + (from - span.address);
      span.shadow->note_write(begin, begin + (to - from), by, clock, false);
    }
  }
  return true;
}

bool Checker::reachable(std::uint64_t address, std::uint64_t bytes, const Access& by) {
  Fault fault;
  if (!resolve(address, bytes, true, spans_, fault)) return report(fault, "reaches for", by, true);
  for (const Span& span : spans_) {
    if (span.object != nullptr) use(*span.object, by);
  }
  return true;
}

bool Checker::renew(const Object& object, const Access& by, const VectorClock& clock, const char* verb) {
  bool well = true;
  if (provenance_ != nullptr) provenance_->renew(object);
  object.for_pieces(object.base, object.end(),
                    [&](std::uint64_t low, std::uint64_t high, std::uint64_t address) {
                      const auto conflict = device_shadow_.note_write(low, high, by, clock, false);
                      if (conflict && well) {
                        well = race(Span{&device_shadow_, low, high, address, const_cast<Object*>(&object)},
                                    *conflict, verb, by);
                      }
                    });
  return well;
}

bool Checker::renew(const std::vector<Extent>& extents, const Access& by, const VectorClock& clock,
                    const char* verb) {
  bool well = true;
  if (provenance_ != nullptr) provenance_->renew(extents);
  for (const Extent& extent : extents) {
    const std::uint64_t end = extent.offset + extent.bytes;
    const auto conflict = device_shadow_.note_write(extent.offset, end, by, clock, false);
    if (!conflict || !well) continue;
    violations_.add(
        Violation{"race",
                  {by, verb},
                  {conflict->other, conflict->other_writes ? "writes, unordered" : "reads, unordered"},
                  extent.offset,
                  end,
                  "physical"},
        true);
    well = false;
  }
  return well;
}

bool Checker::mapping_changes(const Object& object, const Access& by, const VectorClock& clock,
                              const char* verb) {
  for (const Access& use : object.uses) {
    if (clock.covers(use)) continue;
    violations_.add(
        Violation{"race", {by, verb}, {use, "uses it, unordered"}, object.base, object.end(), "device"},
        true);
    return false;
  }
  return true;
}

bool Checker::host_changes(std::uint64_t base, std::uint64_t bytes, const Access& by,
                           const VectorClock& clock) {
  const auto conflict = host_shadow_.note_write(base, base + bytes, by, clock);
  return !conflict || race(Span{&host_shadow_, base, base + bytes, base, nullptr}, *conflict, "releases", by);
}

bool Checker::valid_device(std::uint64_t address, std::uint64_t bytes) {
  Fault fault;
  return resolve(address, bytes, false, spans_, fault) && !spans_.empty() && spans_.front().object != nullptr;
}

void Checker::refuse(std::uint64_t address, std::uint64_t bytes, bool write, const Access& by) {
  Fault fault;
  if (resolve(address, bytes, write, spans_, fault)) return;
  report(fault, write ? "writes" : "reads", by, false);
}

}  // namespace softgpu
