#include "core/profile_check.h"

#include <fmt/core.h>

#include <string>
#include <unordered_map>

#include "core/pages.h"

namespace pooch {
namespace {

// Checks one phase. The first thing wrong is kept, with its path; the paths are made only then.
class PhaseCheck {
 public:
  PhaseCheck(const Profile& profile, std::size_t index)
      : phase_(profile.phases[index]),
        index_(index),
        sites_(profile.sites.size()),
        trials_(profile.trials),
        ranges_(profile.ranges.size()),
        positions_(static_cast<std::int64_t>(phase_.ops.size())) {}

  std::string run() {
    // In this order: each relies on the ones in front of it.
    for (const auto stage : {&PhaseCheck::head, &PhaseCheck::buffers, &PhaseCheck::versions, &PhaseCheck::ops,
                             &PhaseCheck::copies, &PhaseCheck::memory, &PhaseCheck::maps, &PhaseCheck::layers,
                             &PhaseCheck::edges}) {
      (this->*stage)();
      if (!wrong_.empty()) break;
    }
    return std::move(wrong_);
  }

 private:
  // "/phases/0/ops/17/reads/2 is 900000: a version's index, below 412". `path` is a format below the phase.
  template <class... Parts>
  void fail(std::string_view accepted, std::int64_t value, fmt::format_string<Parts...> path,
            Parts&&... parts) {
    if (!wrong_.empty()) return;
    wrong_ = fmt::format("/phases/{}/{} is {}: {}", index_, fmt::format(path, std::forward<Parts>(parts)...),
                         value, accepted);
  }

  bool is_position(std::int64_t p) const { return p >= 0 && p < positions_; }
  // Between two ops, or at either end.
  bool is_gap(std::int64_t p) const { return p >= 0 && p <= positions_; }
  std::string a_position() const { return fmt::format("a position, below {}", positions_); }
  std::string a_gap() const { return fmt::format("a position, at most {}", positions_); }
  static std::string an_index(std::string_view of, std::size_t count) {
    return count == 0 ? fmt::format("{}'s index, but there is none", of)
                      : fmt::format("{}'s index, below {}", of, count);
  }
  bool alive(std::uint32_t buffer, std::int32_t p) const {
    const ProfileBuffer& b = phase_.buffers[buffer];
    return p >= b.from && (b.until == outside || p < b.until);
  }

  void head();
  void buffers();
  void ranges(std::size_t b);
  void versions();
  void readers(std::size_t v);
  void ops();
  void no_such_read(std::size_t v);
  void trials(std::size_t p);
  void reads(std::size_t p);
  void writes(std::size_t p);
  void scratch(std::size_t p);
  void operands(std::size_t p);
  void substitute(std::size_t p);
  void copies();
  void memory();
  void maps();
  void layers();
  void own_ops(const std::vector<std::int32_t>& positions, std::size_t layer, std::string_view key);
  void edges();

  const PhaseProfile& phase_;
  std::size_t index_;
  std::size_t sites_;  // of the profile
  const std::vector<Trials>& trials_;
  std::size_t ranges_;  // of the profile
  std::int64_t positions_;
  std::vector<std::size_t> next_reader_;  // per version: how many of its readers came
  std::vector<bool> written_;
  std::string wrong_;
};

void PhaseCheck::head() {
  if (phase_.measured > phase_.seen)
    fail(fmt::format("at most the {} that were seen", phase_.seen), phase_.measured, "measured");
  if (phase_.turn != outside && !is_position(phase_.turn)) fail(a_position(), phase_.turn, "turn");
}

void PhaseCheck::buffers() {
  for (std::size_t b = 0; b < phase_.buffers.size(); ++b) {
    const ProfileBuffer& buffer = phase_.buffers[b];
    ranges(b);
    if (buffer.from != outside && !is_gap(buffer.from)) fail(a_gap(), buffer.from, "buffers/{}/from", b);
    if (buffer.until == outside) continue;
    if (!is_gap(buffer.until)) fail(a_gap(), buffer.until, "buffers/{}/until", b);
    if (buffer.until < buffer.from)
      fail(fmt::format("not before it is allocated, at {}", buffer.from), buffer.until, "buffers/{}/until",
           b);
  }
}

void PhaseCheck::ranges(std::size_t b) {
  constexpr std::size_t most = 2;
  const std::vector<std::uint32_t>& ranges = phase_.buffers[b].ranges;
  if (ranges.size() > most) return fail("one, or two in turn", ranges[most], "buffers/{}/ranges/{}", b, most);
  for (std::size_t i = 0; i < ranges.size(); ++i)
    if (ranges[i] >= ranges_) fail(an_index("a range", ranges_), ranges[i], "buffers/{}/ranges/{}", b, i);
}

void PhaseCheck::versions() {
  for (std::size_t v = 0; v < phase_.versions.size() && wrong_.empty(); ++v) {
    const ProfileVersion& version = phase_.versions[v];
    if (version.buffer >= phase_.buffers.size())
      return fail(an_index("a buffer", phase_.buffers.size()), version.buffer, "versions/{}/buffer", v);
    const std::uint64_t size = phase_.buffers[version.buffer].bytes;
    if (version.offset > size || version.bytes > size - version.offset)
      return fail(fmt::format("a region inside buffer {}, which has {} bytes", version.buffer, size),
                  static_cast<std::int64_t>(version.offset + version.bytes), "versions/{}/offset + bytes", v);
    if (version.producer != outside) {
      if (!is_position(version.producer))
        return fail(a_position(), version.producer, "versions/{}/producer", v);
      if (!alive(version.buffer, version.producer))
        return fail(fmt::format("a position while buffer {} is allocated", version.buffer), version.producer,
                    "versions/{}/producer", v);
    }
    readers(v);
  }
}

void PhaseCheck::readers(std::size_t v) {
  const ProfileVersion& version = phase_.versions[v];
  std::int32_t last = version.producer;
  for (std::size_t i = 0; i < version.readers.size(); ++i) {
    const std::int32_t reader = version.readers[i];
    if (!is_position(reader)) return fail(a_position(), reader, "versions/{}/readers/{}", v, i);
    if (reader <= last)
      return fail(fmt::format("after {} {}", i == 0 ? "its producer at" : "the reader at", last), reader,
                  "versions/{}/readers/{}", v, i);
    if (!alive(version.buffer, reader))
      return fail(fmt::format("a position while buffer {} is allocated", version.buffer), reader,
                  "versions/{}/readers/{}", v, i);
    last = reader;
  }
}

void PhaseCheck::ops() {
  next_reader_.assign(phase_.versions.size(), 0);
  written_.assign(phase_.versions.size(), false);
  for (std::size_t p = 0; p < phase_.ops.size() && wrong_.empty(); ++p) {
    const ProfileOp& op = phase_.ops[p];
    if (op.function >= phase_.functions.size())
      return fail(an_index("a function", phase_.functions.size()), op.function, "ops/{}/function", p);
    if (op.site > sites_) return fail(an_index("a site", sites_), op.site - 1, "ops/{}/site", p);
    trials(p);
    reads(p);
    writes(p);
    scratch(p);
    operands(p);
    substitute(p);
  }
  for (std::size_t v = 0; v < phase_.versions.size() && wrong_.empty(); ++v) {
    const ProfileVersion& version = phase_.versions[v];
    if (next_reader_[v] < version.readers.size()) no_such_read(v);
    if (version.producer != outside && !written_[v])
      fail("an op that has it among its writes", version.producer, "versions/{}/producer", v);
  }
}

void PhaseCheck::trials(std::size_t p) {
  const ProfileOp& op = phase_.ops[p];
  if (op.trials > trials_.size())
    return fail(an_index("a trial", trials_.size()), op.trials - 1, "ops/{}/trials", p);
  const std::size_t tried = op.trials == 0 ? 0 : trials_[op.trials - 1].algorithms.size();
  if (op.algorithm > tried) fail(an_index("an algorithm", tried), op.algorithm - 1, "ops/{}/algorithm", p);
}

void PhaseCheck::no_such_read(std::size_t v) {
  const std::size_t i = next_reader_[v];
  fail("an op that has it among its reads", phase_.versions[v].readers[i], "versions/{}/readers/{}", v, i);
}

// Ops come in order and readers ascend, so each read must be the version's next one.
void PhaseCheck::reads(std::size_t p) {
  const ProfileOp& op = phase_.ops[p];
  const auto position = static_cast<std::int32_t>(p);
  for (std::size_t i = 0; i < op.reads.size(); ++i) {
    const std::uint32_t v = op.reads[i];
    if (v >= phase_.versions.size())
      return fail(an_index("a version", phase_.versions.size()), v, "ops/{}/reads/{}", p, i);
    const std::vector<std::int32_t>& readers = phase_.versions[v].readers;
    const std::size_t next = next_reader_[v]++;
    if (next < readers.size() && readers[next] == position) continue;
    --next_reader_[v];
    if (next < readers.size() && readers[next] < position) return no_such_read(v);
    return fail(fmt::format("once in the list, a version with {} among its readers", p), v, "ops/{}/reads/{}",
                p, i);
  }
}

void PhaseCheck::writes(std::size_t p) {
  const ProfileOp& op = phase_.ops[p];
  for (std::size_t i = 0; i < op.writes.size(); ++i) {
    const std::uint32_t v = op.writes[i];
    if (v >= phase_.versions.size())
      return fail(an_index("a version", phase_.versions.size()), v, "ops/{}/writes/{}", p, i);
    if (phase_.versions[v].producer != static_cast<std::int32_t>(p) || written_[v])
      return fail(fmt::format("once in the list, a version with producer {}", p), v, "ops/{}/writes/{}", p,
                  i);
    written_[v] = true;
  }
}

void PhaseCheck::scratch(std::size_t p) {
  const ProfileOp& op = phase_.ops[p];
  for (std::size_t i = 0; i < op.scratch.size(); ++i) {
    const std::uint32_t b = op.scratch[i];
    if (b >= phase_.buffers.size())
      return fail(an_index("a buffer", phase_.buffers.size()), b, "ops/{}/scratch/{}", p, i);
    if (!alive(b, static_cast<std::int32_t>(p)))
      return fail(fmt::format("a buffer that is allocated at {}", p), b, "ops/{}/scratch/{}", p, i);
  }
}

void PhaseCheck::operands(std::size_t p) {
  const std::vector<std::uint32_t>& operands = phase_.ops[p].operands;
  for (std::size_t i = 0; i < operands.size(); ++i)
    if (operands[i] != no_buffer && operands[i] >= phase_.buffers.size())
      return fail(an_index("a buffer", phase_.buffers.size()), operands[i], "ops/{}/operands/{}", p, i);
}

// What it makes comes from the op itself, or from the one through which it goes.
void PhaseCheck::substitute(std::size_t p) {
  const auto& substitute = phase_.ops[p].substitute;
  if (!substitute) return;
  const auto position = static_cast<std::int32_t>(p);
  if (substitute->through != outside &&
      (!is_position(substitute->through) || substitute->through <= position))
    return fail(fmt::format("a position behind {}, below {}", p, positions_), substitute->through,
                "ops/{}/substitute/through", p);
  if ((substitute->through == outside) != (substitute->clip == Clip::none))
    return fail("a position with a clip, and none without", substitute->through, "ops/{}/substitute/through",
                p);
  for (std::size_t i = 0; i < substitute->reads.size(); ++i)
    if (substitute->reads[i] >= phase_.versions.size())
      return fail(an_index("a version", phase_.versions.size()), substitute->reads[i],
                  "ops/{}/substitute/reads/{}", p, i);
  const std::int32_t maker = substitute->through == outside ? position : substitute->through;
  for (std::size_t i = 0; i < substitute->makes.size(); ++i) {
    const std::uint32_t v = substitute->makes[i];
    if (v >= phase_.versions.size() || phase_.versions[v].producer != maker)
      return fail(fmt::format("a version with producer {}", maker), v, "ops/{}/substitute/makes/{}", p, i);
  }
}

void PhaseCheck::copies() {
  std::int32_t last = 0;
  for (std::size_t c = 0; c < phase_.copies.size(); ++c) {
    const ProfileCopy& copy = phase_.copies[c];
    if (!is_gap(copy.before)) return fail(a_gap(), copy.before, "copies/{}/before", c);
    if (copy.before < last)
      return fail(fmt::format("not before the copy in front of it, at {}", last), copy.before,
                  "copies/{}/before", c);
    last = copy.before;
    if (copy.version && *copy.version >= phase_.versions.size())
      return fail(an_index("a version", phase_.versions.size()), *copy.version, "copies/{}/version", c);
  }
}

// Events and the buffers' own positions say the same.
void PhaseCheck::memory() {
  const std::size_t count = phase_.buffers.size();
  std::vector<bool> allocated(count), freed(count);
  std::int32_t last = 0;
  for (std::size_t e = 0; e < phase_.memory.size(); ++e) {
    const MemoryEvent& event = phase_.memory[e];
    const std::string_view key = event.allocated ? "allocate" : "free";
    if (!is_gap(event.before)) return fail(a_gap(), event.before, "memory/{}/before", e);
    if (event.before < last)
      return fail(fmt::format("not before the event in front of it, at {}", last), event.before,
                  "memory/{}/before", e);
    last = event.before;
    if (event.buffer >= count) return fail(an_index("a buffer", count), event.buffer, "memory/{}/{}", e, key);
    const ProfileBuffer& buffer = phase_.buffers[event.buffer];
    if (event.before != (event.allocated ? buffer.from : buffer.until))
      return fail(fmt::format("a buffer with {} {}", event.allocated ? "from" : "until", event.before),
                  event.buffer, "memory/{}/{}", e, key);
    auto&& done = (event.allocated ? allocated : freed)[event.buffer];
    if (done) return fail("a buffer that has no such event yet", event.buffer, "memory/{}/{}", e, key);
    if (!event.allocated && buffer.from != outside && !allocated[event.buffer])
      return fail("a buffer that is allocated before", event.buffer, "memory/{}/{}", e, key);
    done = true;
  }
  for (std::size_t b = 0; b < count; ++b) {
    const ProfileBuffer& buffer = phase_.buffers[b];
    if (buffer.from != outside && !allocated[b])
      return fail("a position with such an event in memory", buffer.from, "buffers/{}/from", b);
    if (buffer.until != outside && !freed[b])
      return fail("a position with such an event in memory", buffer.until, "buffers/{}/until", b);
  }
}

void PhaseCheck::maps() {
  const auto& all = phase_.graph.maps;
  for (std::size_t m = 0; m < all.size(); ++m) {
    const std::uint32_t memory = all[m].memory;
    if (memory >= all.size()) return fail(an_index("a map", all.size()), memory, "maps/{}/memory", m);
    if (all[memory].memory != memory)
      return fail("a map that has its own memory", memory, "maps/{}/memory", m);
    for (std::size_t i = 0; i < all[m].versions.size(); ++i) {
      if (all[m].versions[i] >= phase_.versions.size())
        return fail(an_index("a version", phase_.versions.size()), all[m].versions[i], "maps/{}/versions/{}",
                    m, i);
    }
  }
}

void PhaseCheck::layers() {
  const auto& all = phase_.graph.layers;
  const std::size_t maps = phase_.graph.maps.size();
  // The layer that makes each map; inputs of the network have none.
  std::vector<std::size_t> maker(maps, all.size());
  for (std::size_t l = 0; l < all.size(); ++l) {
    if (all[l].output >= maps) return fail(an_index("a map", maps), all[l].output, "layers/{}/output", l);
    if (maker[all[l].output] != all.size())
      return fail("a map that no earlier layer makes", all[l].output, "layers/{}/output", l);
    maker[all[l].output] = l;
  }
  for (std::size_t l = 0; l < all.size() && wrong_.empty(); ++l) {
    for (std::size_t i = 0; i < all[l].inputs.size(); ++i) {
      const std::uint32_t input = all[l].inputs[i];
      if (input >= maps) return fail(an_index("a map", maps), input, "layers/{}/inputs/{}", l, i);
      if (maker[input] != all.size() && maker[input] >= l)
        return fail("a map that an earlier layer makes, or an input of the network", input,
                    "layers/{}/inputs/{}", l, i);
    }
    own_ops(all[l].forward, l, "forward");
    own_ops(all[l].backward, l, "backward");
  }
}

void PhaseCheck::own_ops(const std::vector<std::int32_t>& positions, std::size_t layer,
                         std::string_view key) {
  std::int32_t last = outside;
  for (std::size_t i = 0; i < positions.size(); ++i) {
    if (!is_position(positions[i])) return fail(a_position(), positions[i], "layers/{}/{}/{}", layer, key, i);
    if (positions[i] <= last)
      return fail(fmt::format("after the one in front of it, {}", last), positions[i], "layers/{}/{}/{}",
                  layer, key, i);
    last = positions[i];
  }
}

void PhaseCheck::edges() {
  const std::size_t layers = phase_.graph.layers.size();
  for (std::size_t e = 0; e < phase_.graph.edges.size(); ++e) {
    const auto [from, to] = phase_.graph.edges[e];
    if (from >= layers) return fail(an_index("a layer", layers), from, "edges/{}/0", e);
    if (to >= layers) return fail(an_index("a layer", layers), to, "edges/{}/1", e);
    if (to <= from) return fail(fmt::format("a later layer than {}", from), to, "edges/{}/1", e);
  }
}

}  // namespace

Status check(const Profile& profile) {
  for (std::size_t s = 0; s < profile.sites.size(); ++s) {
    for (std::size_t f = 0; f < profile.sites[s].frames.size(); ++f) {
      const std::uint32_t module = profile.sites[s].frames[f].module;
      if (module >= profile.modules.size())
        return Error{ErrorCode::invalid_argument,
                     fmt::format("/sites/{}/frames/{}/0 is {}: a module's index, of which there are {}", s, f,
                                 module, profile.modules.size())};
    }
  }
  for (std::size_t t = 0; t < profile.trials.size(); ++t) {
    if (profile.trials[t].algorithms.empty())
      return Error{ErrorCode::invalid_argument,
                   fmt::format("/trials/{}/algorithms is empty: at least one algorithm", t)};
    std::unordered_map<std::string_view, std::size_t> names;
    for (const Algorithm& algorithm : profile.trials[t].algorithms) {
      const auto [other, fresh] = names.emplace(algorithm.name, names.size());
      if (!fresh)
        return Error{ErrorCode::invalid_argument,
                     fmt::format("/trials/{}/algorithms/{}/name is \"{}\": unlike that of algorithm {}", t,
                                 names.size(), algorithm.name, other->second)};
    }
  }
  for (std::size_t r = 0; r < profile.ranges.size(); ++r)
    if (const std::uint64_t bytes = profile.ranges[r].bytes; bytes % page != 0)
      return Error{ErrorCode::invalid_argument,
                   fmt::format("/ranges/{}/bytes is {}: a multiple of {}", r, bytes, page)};
  std::unordered_map<std::string_view, std::size_t> ids;
  for (std::size_t i = 0; i < profile.phases.size(); ++i) {
    const PhaseProfile& phase = profile.phases[i];
    const auto [other, fresh] = ids.emplace(phase.id, i);
    if (!fresh) {
      return Error{
          ErrorCode::invalid_argument,
          fmt::format("/phases/{}/id is \"{}\": unlike that of /phases/{}", i, phase.id, other->second)};
    }
    if (std::string wrong = PhaseCheck(profile, i).run(); !wrong.empty())
      return Error{ErrorCode::invalid_argument, std::move(wrong)};
  }
  return Done{};
}

}  // namespace pooch
