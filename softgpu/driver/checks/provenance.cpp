#include "softgpu/driver/checks/provenance.h"

#include <algorithm>
#include <cstring>

namespace softgpu {
namespace {

// Copies of so much into page-locked allocations of so much leave their first bytes there: else a network's
// maps would fill the host's memory.
constexpr std::uint64_t large_copy = 1 << 20, large_allocation = 64 << 20;
constexpr std::uint64_t told_bytes = 64;
constexpr std::uint64_t hashed_whole = 64 << 10;
constexpr std::uint64_t sample_step = 64 << 10, sample_bytes = 64, sample_edge = 4 << 10;
constexpr std::uint64_t scalar_bytes = 8;
constexpr std::size_t most_scalars = 65536;

const std::byte* host_bytes(std::uint64_t address) {
  return reinterpret_cast<const std::byte*>(address);
}

void hash_sample(Hash& hash, std::uint64_t address, std::uint64_t bytes) {
  if (bytes <= hashed_whole) return static_cast<void>(hash.add_bytes(host_bytes(address), bytes));
  hash.add_bytes(host_bytes(address), sample_edge);
  for (std::uint64_t at = sample_step; at + sample_bytes < bytes; at += sample_step)
    hash.add_bytes(host_bytes(address + at), sample_bytes);
  hash.add_bytes(host_bytes(address + bytes - sample_edge), sample_edge);
}

bool goes_into_all(TouchKind kind) {
  return kind == TouchKind::read || kind == TouchKind::read_write;
}

}  // namespace

// --- device memory ---

// Calls visit(physical begin, physical end) for the parts of a range of device addresses, in order. `object`
// is the one that the range begins in.
template <class Visit>
void Provenance::pieces(const Object* object, std::uint64_t address, std::uint64_t bytes, Visit visit) {
  const std::uint64_t end = address + bytes;
  while (object != nullptr && address < end) {
    const std::uint64_t stop = std::min(end, object->end());
    object->for_pieces(address, stop,
                       [&](std::uint64_t low, std::uint64_t high, std::uint64_t) { visit(low, high); });
    address = stop;
    if (address < end) object = addresses_.after(*object);
  }
}

// Calls visit(bytes, origin) for the runs of a range that kernels can touch.
template <class Visit>
void Provenance::origins(std::uint64_t address, std::uint64_t bytes, Visit visit) {
  if (const Object* const object = addresses_.find(address)) {
    pieces(object, address, bytes, [&](std::uint64_t low, std::uint64_t high) {
      device_.visit(low, high, [&](std::uint64_t begin, std::uint64_t end, const Origin& origin) {
        visit(end - begin, origin);
      });
    });
  } else {
    for (const Run& run : host_source({0, address, bytes})) visit(run.bytes, run.origin);
  }
}

std::uint64_t Provenance::content(const Touch& touch) {
  OriginHash hash;
  origins(touch.address, touch.bytes,
          [&](std::uint64_t bytes, const Origin& origin) { hash.add(bytes, origin); });
  return hash.value();
}

void Provenance::write(std::uint64_t address, std::uint64_t bytes, const Origin& origin) {
  const Object* const object = addresses_.find(address);
  if (object == nullptr) return deliver_to_host({address, 0, bytes}, {{bytes, origin}}, true);
  std::uint64_t offset = 0;
  pieces(object, address, bytes, [&](std::uint64_t low, std::uint64_t high) {
    device_.set(low, high, origin.at(offset));
    offset += high - low;
  });
}

void Provenance::renew(const Object& object) {
  object.for_pieces(object.base, object.end(),
                    [&](std::uint64_t low, std::uint64_t high, std::uint64_t) { device_.forget(low, high); });
}

void Provenance::renew(const std::vector<Extent>& extents) {
  for (const Extent& extent : extents) device_.forget(extent.offset, extent.offset + extent.bytes);
}

// --- works ---

void Provenance::apply(const Work& work) {
  if (!work.copies.empty()) return copy(work);
  switch (work.content.kind) {
    case Content::Kind::none:
      return;
    case Content::Kind::unknown:
      ++unknown_[work.by.name];
      return;
    case Content::Kind::set: {
      const Token token = token_of_alike(Hash().add(work.content.identity));
      sets_.emplace(token, static_cast<std::uint32_t>(work.content.identity));
      for (const Touch& touch : work.touches) write(touch.address, touch.bytes, {token, 0});
      return;
    }
    case Content::Kind::kernel:
      return kernel(work);
  }
}

// The stage and all that it reads.
std::uint64_t Provenance::operation_of(const Work& work, const Stage& stage) {
  Hash operation(stage.identity);
  for (const std::uint32_t touch : stage.reads) operation.add(content(work.touches[touch]));
  return operation.value();
}

void Provenance::run_stage(const Work& work, const Stage& stage) {
  const std::uint64_t operation = operation_of(work, stage);
  std::vector<Token> tokens;
  for (const std::uint32_t index : stage.writes) {
    const Touch& touch = work.touches[index];
    Hash result(operation);
    result.add(tokens.size()).add(touch.bytes);
    if (touch.kind == TouchKind::update) result.add(touch.factor).add(content(touch));
    tokens.push_back(token_of(result));
  }
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const Touch& touch = work.touches[stage.writes[i]];
    write(touch.address, touch.bytes, {tokens[i], 0});
  }
}

void Provenance::compare(const Work& work, const Footprint::Comparison& comparison) {
  const Touch& there = work.touches[comparison.stage.writes[0]];
  Hash result(operation_of(work, comparison.stage));
  OriginHash wanted;
  wanted.add(there.bytes, {token_of(result.add(0).add(there.bytes)), 0});
  if (content(there) == wanted.value()) return;
  constexpr std::uint32_t differs = 1;
  std::memcpy(reinterpret_cast<void*>(comparison.flag), &differs, sizeof differs);
}

void Provenance::kernel(const Work& work) {
  ++operations_;
  for (const auto& comparison : work.content.comparisons) compare(work, comparison);
  for (const Stage& stage : work.content.stages) run_stage(work, stage);
  if (!work.content.stages.empty() || !work.content.comparisons.empty()) return;
  Hash operation(work.content.identity);
  for (const Touch& touch : work.touches) {
    if (touch.bytes > 0 && goes_into_all(touch.kind)) operation.add(content(touch));
  }
  for (const auto& heard : work.content.hears) operation.add(*heard);
  if (work.content.tells) *work.content.tells = operation.value();
  std::vector<Token> tokens;
  for (const Touch& touch : work.touches) {
    if (!writes(touch.kind)) continue;
    Hash result(operation.value());
    result.add(tokens.size()).add(touch.bytes);
    if (touch.kind == TouchKind::update) result.add(touch.factor).add(content(touch));
    tokens.push_back(token_of(result));
  }
  auto token = tokens.begin();
  for (const Touch& touch : work.touches)
    if (writes(touch.kind)) write(touch.address, touch.bytes, {*token++, 0});
}

// --- copies ---

Origin Provenance::of_bytes(const std::vector<CopyPart>& parts) {
  Hash hash(0x70726F6772616D);
  std::uint64_t bytes = 0;
  for (const CopyPart& part : parts) {
    hash_sample(hash, part.from, part.bytes);
    bytes += part.bytes;
  }
  const Token token = token_of(hash.add(bytes));
  if (parts.size() == 1 && bytes <= scalar_bytes && scalars_.size() < most_scalars) {
    std::uint64_t value = 0;
    std::memcpy(&value, host_bytes(parts[0].from), bytes);
    scalars_.emplace(token, value);
  }
  return {token, 0};
}

bool Provenance::still_there(std::uint64_t begin, std::uint64_t end, const Kept& kept) const {
  std::vector<std::byte> made;
  const auto same = [&](std::uint64_t address, std::uint64_t bytes, const Origin& origin) {
    made.resize(bytes);
    make(origin, made.data(), bytes);
    return std::memcmp(made.data(), host_bytes(address), bytes) == 0;
  };
  if (kept.head == 0) return same(begin, end - begin, kept.origin);
  bool there = true;
  pinned_.visit(kept.head, kept.head + told_bytes,
                [&](std::uint64_t from, std::uint64_t to, const Kept& now) {
                  if (now.known && now.head == kept.head) there = there && same(from, to - from, now.origin);
                });
  return there;
}

std::vector<Provenance::Run> Provenance::page_locked_source(const CopyPart& part) {
  std::vector<Run> runs;
  pinned_.visit(part.from, part.from + part.bytes,
                [&](std::uint64_t begin, std::uint64_t end, const Kept& kept) {
                  const bool keeps = kept.known && still_there(begin, end, kept);
                  runs.push_back({end - begin, keeps ? kept.origin : of_bytes({{0, begin, end - begin}})});
                });
  return runs;
}

std::vector<Provenance::Run> Provenance::host_source(const CopyPart& part) {
  if (host_.find(part.from) != nullptr) return page_locked_source(part);
  return {{part.bytes, of_bytes({part})}};
}

std::vector<Provenance::Run> Provenance::source(const CopyPart& part) {
  std::vector<Run> runs;
  origins(part.from, part.bytes, [&](std::uint64_t bytes, const Origin& origin) {
    runs.push_back({bytes, origin});
  });
  return runs;
}

// The host's own content moves as bytes. False: there are tokens among it.
bool Provenance::move_bytes(const CopyPart& part) {
  if (addresses_.find(part.to) != nullptr || addresses_.find(part.from) != nullptr) return false;
  bool tokens = false;
  pinned_.visit(part.from, part.from + part.bytes,
                [&](std::uint64_t, std::uint64_t, const Kept& kept) { tokens = tokens || kept.known; });
  if (tokens) return false;
  std::memmove(reinterpret_cast<void*>(part.to), host_bytes(part.from), part.bytes);
  pinned_.forget(part.to, part.to + part.bytes);
  return true;
}

void Provenance::copy(const Work& work) {
  if (work.content.staged) {
    Origin origin = *work.content.staged;
    for (const CopyPart& part : work.copies) {
      deliver(part, {{part.bytes, origin}});
      origin = origin.at(part.bytes);
    }
    return;
  }
  for (const CopyPart& part : work.copies)
    if (!move_bytes(part)) deliver(part, source(part));
}

void Provenance::deliver(const CopyPart& part, const std::vector<Run>& runs) {
  if (addresses_.find(part.to) == nullptr) return deliver_to_host(part, runs, whole_on_host(part));
  std::uint64_t offset = 0;
  for (const Run& run : runs) {
    write(part.to + offset, run.bytes, run.origin);
    offset += run.bytes;
  }
}

bool Provenance::whole_on_host(const CopyPart& part) const {
  const Pinned* const pinned = host_.find(part.to);
  return pinned == nullptr || part.bytes < large_copy || pinned->bytes < large_allocation;
}

void Provenance::deliver_to_host(const CopyPart& part, const std::vector<Run>& runs, bool whole) {
  const bool page_locked = host_.find(part.to) != nullptr;
  auto* const to = reinterpret_cast<std::byte*>(part.to);
  std::uint64_t offset = 0;
  for (const Run& run : runs) {
    const std::uint64_t made =
        whole ? run.bytes : std::min(run.bytes, told_bytes - std::min(told_bytes, offset));
    if (part.bytes <= scalar_bytes) {
      make_scalar(run.origin, to + offset, made);
    } else {
      make(run.origin, to + offset, made);
    }
    const std::uint64_t begin = part.to + offset, end = begin + run.bytes;
    // A scalar does not read as its token does: it is hashed where it goes back.
    if (page_locked) pinned_.set(begin, end, {run.origin, whole ? 0 : part.to, part.bytes > scalar_bytes});
    offset += run.bytes;
  }
}

void Provenance::make(const Origin& origin, std::byte* to, std::uint64_t bytes) const {
  if (origin.token == nobody || !unknown_.empty()) {
    std::memset(to, 0xFF, bytes);
    return;
  }
  const auto set = alike(origin.token) ? sets_.find(origin.token) : sets_.end();
  const bool all_alike = set != sets_.end();
  const std::uint64_t alike_pair = all_alike ? set->second * 0x1'0000'0001 : 0;
  // Two floats from 0.5 to 1, each of its own bits of one hash.
  const auto pair_at = [&](std::uint64_t number) {
    return all_alike ? alike_pair
                     : 0x3F00'0000'3F00'0000 | (Hash::mixed(origin.token + number) & 0x007F'FFFF'007F'FFFF);
  };
  for (std::uint64_t done = 0; done < bytes;) {
    const std::uint64_t place = origin.place + done, within = place % sizeof(std::uint64_t);
    const std::uint64_t pair = pair_at(place / sizeof(pair));
    if (within == 0 && bytes - done >= sizeof(pair)) {
      std::memcpy(to + done, &pair, sizeof(pair));
      done += sizeof(pair);
    } else {
      to[done++] = reinterpret_cast<const std::byte*>(&pair)[within];
    }
  }
}

void Provenance::make_scalar(const Origin& origin, std::byte* to, std::uint64_t bytes) const {
  const auto scalar = scalars_.find(origin.token);
  if (!unknown_.empty()) {
    make(origin, to, bytes);
  } else if (scalar != scalars_.end() && origin.place + bytes <= scalar_bytes) {
    std::memcpy(to, reinterpret_cast<const std::byte*>(&scalar->second) + origin.place, bytes);
  } else if (alike(origin.token) || (bytes != 8 && bytes != 1)) {
    make(origin, to, bytes);
  } else {
    const std::uint64_t value = bytes == 8 ? Hash::mixed(origin.token + origin.place) & 1 : 0;
    std::memcpy(to, &value, bytes);
  }
}

}  // namespace softgpu
