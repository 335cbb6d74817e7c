#include "policy/problem.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "policy/movable.h"
#include "policy/pauses.h"

namespace pooch::policy {
namespace {

constexpr std::int32_t forever = std::numeric_limits<std::int32_t>::max();

std::uint64_t rounded(std::uint64_t bytes) {
  return (bytes + granularity - 1) / granularity * granularity;
}

// Least squares: latency and rate; the rate alone where the samples do not spread.
struct Line {
  double latency_us = 0, us_per_byte = 0;
};
std::optional<Line> fit(const std::vector<LinkSample>& samples, bool to_device, bool both_ways) {
  double n = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (const LinkSample& s : samples) {
    if (s.to_device != to_device || s.both_ways != both_ways) continue;
    const auto bytes = static_cast<double>(s.bytes);
    ++n, x += bytes, y += s.us, xx += bytes * bytes, xy += bytes * s.us;
  }
  if (n == 0) return std::nullopt;
  const double spread = n * xx - x * x;
  Line line;
  if (spread > 0) line.us_per_byte = (n * xy - x * y) / spread;
  line.latency_us = (y - line.us_per_byte * x) / n;
  if (line.us_per_byte <= 0 || line.latency_us < 0) line = {0, y / std::max(x, 1.0)};
  return line;
}

std::vector<LinkSample> own_copies(const PhaseProfile& phase) {
  std::vector<LinkSample> samples;
  for (const ProfileCopy& copy : phase.copies) {
    if (copy.bytes >= (std::uint64_t{1} << 20) && copy.us > 0)
      samples.push_back({copy.to_device, copy.bytes, copy.us});
  }
  return samples;
}

Result<LinkFit> link_of(const Profile& profile, const PhaseProfile& phase, bool to_device,
                        const std::optional<double>& rate) {
  const char* way = to_device ? "to the device" : "to the host";
  LinkFit link;
  std::optional<Line> alone = fit(profile.link, to_device, false),
                      shared = fit(profile.link, to_device, true);
  if (!alone) alone = shared;
  if (!alone) alone = fit(own_copies(phase), to_device, false);
  if (rate) {
    if (!(*rate > 0)) {
      return Error{ErrorCode::invalid_argument,
                   fmt::format("link {}: a rate of {} bytes/s carries nothing", way, *rate)};
    }
    if (alone) link.latency_us = alone->latency_us;
    link.us_per_byte = link.shared_us_per_byte = 1e6 / *rate;
    return link;
  }
  if (!alone) return Error{ErrorCode::invalid_argument, fmt::format("profile: no copy {} was measured", way)};
  if (!(alone->us_per_byte > 0)) {
    return Error{ErrorCode::invalid_argument, fmt::format("profile: copies {} took no time", way)};
  }
  link.latency_us = alone->latency_us;
  link.us_per_byte = alone->us_per_byte;
  link.shared_us_per_byte = std::max(link.us_per_byte, shared ? shared->us_per_byte : 0);
  return link;
}

class Reader {
 public:
  Reader(const Profile& profile, const PhaseProfile& phase) : profile_(profile), phase_(phase) {}

  Result<Problem> read(const LinkRates& rates, Movers movers, std::uint64_t memory);

 private:
  struct Use {
    std::int32_t position;
    std::uint32_t buffer;
  };
  void collect_uses();
  bool saves_time(std::int32_t position, const ProfileSubstitute& by) const;
  void substitute(std::int32_t position, const ProfileSubstitute& by);
  void find_maps(Movers movers, const AwayAt& away_at);
  std::string name_of(const MovableMap& map) const;
  void name_maps();
  void find_base();
  void take_other_pauses(Movers movers, std::uint64_t memory);
  std::vector<std::int32_t> layers_of_ops() const;
  void make_segments();
  bool is_running_statistic(std::int32_t position, std::uint32_t read) const;
  void find_sources();
  std::int32_t valid_until(std::uint32_t version) const;
  std::int32_t reproducible_until(std::uint32_t version);
  double own_replay_us(const MovableMap& map) const;
  void judge_maps();
  std::int32_t best_before(const MovableMap& map) const;
  void host_copies();

  std::int32_t ops() const { return static_cast<std::int32_t>(phase_.ops.size()); }

  const Profile& profile_;
  const PhaseProfile& phase_;
  Problem problem_;
  std::vector<std::int32_t> made_by_;            // by version: whose substitute makes it, or nowhere
  std::vector<double> starts_;                   // by position
  std::vector<std::uint64_t> base_, fresh_;      // by position; of it, what is used for the first time there
  std::vector<std::vector<std::int32_t>> uses_;  // by buffer: positions, ascending
  std::vector<std::vector<std::uint32_t>> versions_of_;  // by buffer, by producer
  std::vector<std::int32_t> valid_until_, reproducible_;
};

bool Reader::saves_time(std::int32_t position, const ProfileSubstitute& by) const {
  const double through_us = by.through == outside ? 0 : phase_.ops[by.through].us;
  return by.us < phase_.ops[position].us + through_us;
}

// Its replays go another way.
void Reader::substitute(std::int32_t position, const ProfileSubstitute& by) {
  problem_.op_us[position] = by.us;
  problem_.substitutes.emplace(position, *by.formula);
  for (const std::uint32_t v : by.makes) made_by_[v] = position;
}

void Reader::collect_uses() {
  made_by_.assign(phase_.versions.size(), nowhere);
  uses_.resize(phase_.buffers.size());
  versions_of_.resize(phase_.buffers.size());
  starts_.push_back(0);
  for (std::int32_t p = 0; p < ops(); ++p) {
    const ProfileOp& op = phase_.ops[p];
    problem_.op_us.push_back(op.us);
    if (op.substitute && op.substitute->formula && saves_time(p, *op.substitute))
      substitute(p, *op.substitute);
    starts_.push_back(starts_.back() + op.us + op.gap_us);
    const auto use = [&](std::uint32_t buffer) {
      auto& list = uses_[buffer];
      if (list.empty() || list.back() != p) list.push_back(p);
    };
    for (const std::uint32_t v : op.reads) use(phase_.versions[v].buffer);
    for (const std::uint32_t v : op.writes) use(phase_.versions[v].buffer);
    for (const std::uint32_t b : op.scratch) use(b);
  }
  problem_.compute_us = starts_.back();
  for (std::uint32_t v = 0; v < phase_.versions.size(); ++v) {
    const ProfileVersion& version = phase_.versions[v];
    versions_of_[version.buffer].push_back(v);
    problem_.producer_of.push_back(made_by_[v] == nowhere ? version.producer : made_by_[v]);
    problem_.buffer_of.push_back(version.buffer);
    problem_.bytes_of.push_back(rounded(version.bytes));
  }
  for (auto& list : versions_of_) {
    std::stable_sort(list.begin(), list.end(), [&](std::uint32_t a, std::uint32_t b) {
      return phase_.versions[a].producer < phase_.versions[b].producer;
    });
  }
}

void Reader::find_maps(Movers movers, const AwayAt& away_at) {
  problem_.map_of.assign(phase_.versions.size(), nowhere);
  problem_.map_of_buffer.assign(phase_.buffers.size(), nowhere);
  problem_.maps = movable_maps({phase_, uses_, versions_of_, problem_.producer_of, starts_}, movers, away_at);
  for (std::int32_t m = 0; m < static_cast<std::int32_t>(problem_.maps.size()); ++m) {
    for (const std::uint32_t v : problem_.maps[m].content) problem_.map_of[v] = m;
    problem_.map_of_buffer[problem_.maps[m].buffer] = m;
  }
}

void Reader::name_maps() {
  const auto& graph = phase_.graph.maps;
  for (std::int32_t g = 0; g < static_cast<std::int32_t>(graph.size()); ++g) {
    for (const std::uint32_t v : graph[g].versions) {
      const std::int32_t owner = problem_.map_of[v];
      if (owner == nowhere) continue;
      problem_.maps[owner].graph_map = g;
      problem_.maps[owner].name = graph[g].name;
    }
  }
  for (MovableMap& map : problem_.maps)
    if (map.name.empty()) map.name = name_of(map);
}

// Of a buffer that the layer graph does not name, by what it is for: "conv3_2 weights".
std::string Reader::name_of(const MovableMap& map) const {
  const auto role = [&](Role of) {
    return std::any_of(map.content.begin(), map.content.end(),
                       [&](std::uint32_t v) { return phase_.versions[v].role == of; });
  };
  const bool gradient = role(Role::gradient), parameter = !gradient && role(Role::parameter);
  if (!gradient && !parameter) return fmt::format("buffer {}", map.buffer);
  for (const Layer& layer : phase_.graph.layers)
    for (const std::int32_t p : gradient ? layer.backward : layer.forward)
      if (std::binary_search(uses_[map.buffer].begin(), uses_[map.buffer].end(), p))
        return fmt::format("{} {} {}", layer.name.substr(0, layer.name.find(' ')),
                           gradient ? "gradient" : "weights", map.buffer);
  return fmt::format("{} {}", gradient ? "gradient" : "state", map.buffer);
}

// Bytes by position of everything but maps. Managed memory counts from its first use, everything else from
// its allocation.
void Reader::find_base() {
  std::vector<std::int64_t> change(ops() + 2, 0), small_change(ops() + 2, 0);
  base_.clear();
  fresh_.assign(ops() + 2, 0);
  std::vector<bool> stood_in_for(phase_.buffers.size(), false);  // a map counts it
  for (const MovableMap& map : problem_.maps)
    if (map.for_good || map.leaves_again()) stood_in_for[map.earlier] = true;
  for (std::uint32_t b = 0; b < phase_.buffers.size(); ++b) {
    const ProfileBuffer& buffer = phase_.buffers[b];
    if (problem_.map_of_buffer[b] != nowhere || stood_in_for[b]) continue;
    std::int32_t from = buffer.from == outside ? 0 : buffer.from;
    const std::int32_t until = buffer.until == outside ? ops() + 1 : buffer.until;
    if (buffer.managed && buffer.from != outside) {
      if (uses_[b].empty()) continue;
      from = std::max(from, uses_[b].front());
    }
    if (from >= until) continue;
    auto& list = buffer.managed ? change : small_change;
    const auto bytes = static_cast<std::int64_t>(buffer.managed ? rounded(buffer.bytes) : buffer.bytes);
    list[from] += bytes;
    if (buffer.managed && buffer.from != outside) fresh_[from] += rounded(buffer.bytes);
    list[std::min(until, ops() + 1)] -= bytes;
  }
  const std::vector<std::uint64_t> in_turn =
      bytes_in_turn({phase_, uses_, versions_of_, problem_.producer_of, starts_}, problem_.maps);
  std::int64_t live = 0, small = 0;
  for (std::int32_t p = 0; p < ops(); ++p) {
    live += change[p];
    small += small_change[p];
    base_.push_back(static_cast<std::uint64_t>(live) + rounded(static_cast<std::uint64_t>(small)) +
                    rounded(in_turn[p]));
  }
}

void Reader::take_other_pauses(Movers movers, std::uint64_t memory) {
  const BufferUses uses{phase_, uses_, versions_of_, problem_.producer_of, starts_};
  const AwayAt away_at = other_pauses(uses, problem_.maps, base_, memory);
  if (away_at.empty()) return;
  find_maps(movers, away_at);
  find_base();
}

std::vector<std::int32_t> Reader::layers_of_ops() const {
  std::vector<std::int32_t> layer_of(ops(), nowhere);
  for (std::int32_t l = 0; l < static_cast<std::int32_t>(phase_.graph.layers.size()); ++l) {
    for (const std::int32_t p : phase_.graph.layers[l].forward) layer_of[p] = l;
    for (const std::int32_t p : phase_.graph.layers[l].backward) layer_of[p] = l;
  }
  return layer_of;
}

// Cuts at every op that uses a map and wherever the rest's memory changes by more than a trifle. Positions in
// the maps become segments.
void Reader::make_segments() {
  std::vector<char> touches(ops(), 0);
  for (const MovableMap& map : problem_.maps) {
    for (const std::int32_t p : uses_[map.buffer]) touches[p] = 1;
    touches[map.ends] = touches[map.released] = 1;
    if (map.lingers != nowhere) touches[map.lingers] = 1;
  }
  for (const ProfileCopy& copy : phase_.copies) {
    if (copy.before < ops()) touches[copy.before] = 1;
  }
  const std::vector<std::int32_t> layer_of = layers_of_ops();
  const std::uint64_t trifle = *std::max_element(base_.begin(), base_.end()) / 256;
  for (std::int32_t p = 0; p < ops(); ++p) {
    bool joins = p > 0 && touches[p] == 0 && touches[p - 1] == 0;
    if (joins) {
      const std::uint64_t before = base_[problem_.segments.back().first];
      joins = std::max(before, base_[p]) - std::min(before, base_[p]) <= trifle;
    }
    if (!joins) problem_.segments.push_back({p, p, 0, 0, base_[p] - fresh_[p], layer_of[p], false});
    Segment& segment = problem_.segments.back();
    segment.last = p;
    segment.us += phase_.ops[p].us + phase_.ops[p].gap_us;
    segment.base = std::max(segment.base, base_[p]);
    segment.convolution |= is_convolution(phase_.ops[p].kind);
    problem_.segment_of.push_back(problem_.last_segment());
  }
  for (MovableMap& map : problem_.maps) {
    for (std::int32_t* at : {&map.made, &map.leaves, &map.returns, &map.ends, &map.released, &map.lingers})
      if (*at != nowhere) *at = problem_.segment_of[*at];
  }
  problem_.turn = phase_.turn == outside ? problem_.last_segment() : problem_.segment_of[phase_.turn];
}

// Position of the op that overwrites (part of) the version, or of its buffer's free. Strided slices overlap
// without overwriting each other: what an op still reads is there until then.
std::int32_t Reader::valid_until(std::uint32_t version) const {
  const ProfileVersion& mine = phase_.versions[version];
  const std::int32_t freed = phase_.buffers[mine.buffer].until;
  const std::int32_t end = freed == outside ? forever : freed - 1;
  const auto& all = versions_of_[mine.buffer];
  const auto later =
      std::upper_bound(all.begin(), all.end(), mine.producer,
                       [&](std::int32_t p, std::uint32_t v) { return p < phase_.versions[v].producer; });
  for (auto v = later; v != all.end(); ++v) {
    const ProfileVersion& other = phase_.versions[*v];
    if (other.offset < mine.offset + mine.bytes && mine.offset < other.offset + other.bytes) {
      const std::int32_t read =
          mine.readers.empty() ? other.producer : std::max(other.producer, mine.readers.back());
      return std::min(end, read);
    }
  }
  return end;
}

// Versions in program order: whatever one is made from comes before it.
std::int32_t Reader::reproducible_until(std::uint32_t version) {
  const std::int32_t producer = problem_.producer_of[version];
  if (producer == outside || !facts(phase_.ops[producer].kind).has(OpTraits::replayed)) return nowhere;
  std::int32_t until = forever;
  for (const Source& source : problem_.sources[producer]) {
    until = std::min(until, std::max(source.valid_until, reproducible_[source.version]));
  }
  return until;
}

// Batch norm moves its running statistics along, but its result does not depend on them; a replay leaves them
// alone.
bool Reader::is_running_statistic(std::int32_t position, std::uint32_t read) const {
  const ProfileOp& op = phase_.ops[position];
  if (op.kind != OpKind::batch_norm_forward || phase_.versions[read].role != Role::parameter) return false;
  return std::any_of(op.writes.begin(), op.writes.end(), [&](std::uint32_t v) {
    return phase_.versions[v].buffer == phase_.versions[read].buffer &&
           phase_.versions[v].offset == phase_.versions[read].offset;
  });
}

void Reader::find_sources() {
  problem_.sources.resize(ops());
  problem_.writes.resize(ops());
  for (std::uint32_t v = 0; v < phase_.versions.size(); ++v) valid_until_.push_back(valid_until(v));
  for (std::int32_t p = 0; p < ops(); ++p) {
    const bool substituted = problem_.substitutes.contains(p);
    for (const std::uint32_t v : substituted ? phase_.ops[p].substitute->reads : phase_.ops[p].reads) {
      if (!substituted && is_running_statistic(p, v)) continue;
      const std::int32_t home = problem_.map_of_buffer[problem_.buffer_of[v]];
      problem_.sources[p].push_back({v, problem_.map_of[v], home, valid_until_[v], problem_.bytes_of[v]});
    }
    problem_.writes[p] = substituted ? phase_.ops[p].substitute->makes : phase_.ops[p].writes;
  }
  reproducible_.assign(phase_.versions.size(), nowhere);
  for (std::int32_t p = 0; p < ops(); ++p) {
    for (const std::uint32_t v : phase_.ops[p].writes) reproducible_[v] = reproducible_until(v);
  }
}

// Its producers, and before them what wrote to the same memory and was overwritten since.
double Reader::own_replay_us(const MovableMap& map) const {
  std::vector<std::int32_t> ops = map.producers;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    for (const Source& source : problem_.sources[ops[i]]) {
      const std::int32_t producer = problem_.producer_of[source.version];
      if (source.map != nowhere || problem_.buffer_of[source.version] != map.buffer || producer == outside)
        continue;
      if (std::find(ops.begin(), ops.end(), producer) == ops.end()) ops.push_back(producer);
    }
  }
  double us = 0;
  for (const std::int32_t p : ops) us += problem_.op_us[p];
  return us;
}

void Reader::judge_maps() {
  for (MovableMap& map : problem_.maps) {
    for (const std::uint32_t v : map.content) {
      map.droppable &= reproducible_[v] >= problem_.segments[map.returns].last;
    }
    std::sort(map.producers.begin(), map.producers.end());
    map.producers.erase(std::unique(map.producers.begin(), map.producers.end()), map.producers.end());
    map.replay_us = own_replay_us(map);
    for (const std::int32_t p : map.producers)
      map.by_convolution |= phase_.ops[p].kind == OpKind::conv_forward;
    for (const std::uint32_t v : map.content) {
      for (const std::int32_t p : phase_.versions[v].readers) {
        map.read_by_convolution |= phase_.ops[p].kind == OpKind::conv_forward;
      }
    }
    // A map that is written in place behind its convolution is still that convolution's output.
    for (const std::uint32_t v : versions_of_[map.buffer]) {
      const std::int32_t p = phase_.versions[v].producer;
      if (p != outside) map.by_convolution |= phase_.ops[p].kind == OpKind::conv_forward;
    }
  }
  problem_.by_leave.resize(problem_.segments.size());
  for (std::uint32_t m = 0; m < problem_.maps.size(); ++m) {
    if (problem_.maps[m].arrives) {
      problem_.arriving.push_back(m);
    } else {
      problem_.by_leave[problem_.maps[m].leaves].push_back(m);
    }
  }
  for (MovableMap& map : problem_.maps) map.remade = best_before(map);
  auto& order = problem_.by_return;
  for (std::uint32_t m = 0; m < problem_.maps.size(); ++m) order.push_back(m);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return problem_.maps[a].returns < problem_.maps[b].returns;
  });
  problem_.by_remake = order;
  std::stable_sort(
      problem_.by_remake.begin(), problem_.by_remake.end(),
      [&](std::uint32_t a, std::uint32_t b) { return problem_.maps[a].remade < problem_.maps[b].remade; });
}

// A convolution makes the gradient of its input right before that of its weights, which reads the map.
// Replays ahead of both run while the first one, as large as the map, is not there yet. The map is there a
// little longer then, beside an op that needs no more memory than its reader.
std::int32_t Reader::best_before(const MovableMap& map) const {
  const std::int32_t ahead = map.returns - 1;
  const Segment &reader = problem_.segments[map.returns], &other = problem_.segments[ahead];
  const bool better =
      ahead > map.leaves && other.base <= reader.base && other.base_before < reader.base_before;
  return better ? ahead : map.returns;
}

void Reader::host_copies() {
  for (const ProfileCopy& copy : phase_.copies) {
    HostCopy made;
    made.segment = copy.before < ops() ? problem_.segment_of[copy.before] : problem_.last_segment() + 1;
    made.to_device = copy.to_device;
    made.us = copy.us;
    const std::int32_t beside = std::min(copy.before, ops() - 1);
    made.blocks_compute = phase_.ops[beside].stream == copy.stream;
    made.ahead = copy.before == 0 && !made.blocks_compute && copy.lead_us > 0;
    if (copy.to_device && copy.version) {
      const auto& readers = phase_.versions[*copy.version].readers;
      const auto reader = std::lower_bound(readers.begin(), readers.end(), copy.before);
      if (reader != readers.end()) made.awaited = problem_.segment_of[*reader];
    }
    problem_.copies.push_back(made);
  }
  std::stable_sort(problem_.copies.begin(), problem_.copies.end(),
                   [](const HostCopy& a, const HostCopy& b) { return a.segment < b.segment; });
}

Result<Problem> Reader::read(const LinkRates& rates, Movers movers, std::uint64_t memory) {
  if (phase_.ops.empty())
    return Error{ErrorCode::invalid_argument, fmt::format("profile: phase {} has no ops", phase_.id)};
  Result<LinkFit> out = link_of(profile_, phase_, false, rates.out),
                  in = link_of(profile_, phase_, true, rates.in);
  if (!out) return out.error();
  if (!in) return in.error();
  problem_.out = *out;
  problem_.in = *in;
  collect_uses();
  if (!(problem_.compute_us > 0)) {
    return Error{ErrorCode::invalid_argument, fmt::format("profile: phase {} was not timed", phase_.id)};
  }
  find_maps(movers, {});
  find_base();
  if (movers != Movers::feature_maps) take_other_pauses(movers, memory);
  name_maps();
  make_segments();
  find_sources();
  judge_maps();
  host_copies();
  return std::move(problem_);
}

}  // namespace

Result<Problem> make_problem(const Profile& profile, const PhaseProfile& phase, const LinkRates& rates,
                             Movers movers, std::uint64_t memory) {
  return Reader(profile, phase).read(rates, movers, memory);
}

}  // namespace pooch::policy
