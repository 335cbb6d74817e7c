// A time that no plan can beat, by a linear program over a relaxation with memory at every segment.
//
// Long phases are cut into runs of segments, and maps that live, leave and return in the same runs are one.
// Maps may be swapped and recomputed in fractions; replays cost only the ops that write to the map's own
// memory, need no other map and no workspace, and may happen at any time before the map's return; copies are
// one stream of bytes each way. Per map: s, r (fractions swapped and recomputed). Per segment p: E (time in
// addition to the compute time, until it starts; e its own), O and I (bytes that have left and come back by
// its end). Sums over maps are columns of their own, each the one before and what is new, so that the matrix
// stays sparse: A (bytes that may leave), B (bytes that must be back), C (time of the replays that must be
// over), D (bytes that are dropped).
//
//   minimise     E[last]
//   link         O[p] - O[p-1] <= rate_out (us[p] + e[p]),  I likewise
//   order        O[p] <= A[p] = sum of B s over maps with leaves <= p;  I[p] <= W + O[p]
//   return       I[p-1] + rate_in e[p] >= B[p] = sum of B s over maps with returns <= p
//   replay       E[p] >= C[p] = sum of c r over maps with returns <= p
//   memory       what is made and not away, less W + O[p-1] + rate_out e[p] - I[p-1] + D[p], fits beside
//                base[p]
//
// W: what pauses across the iteration's end has left before. If nothing writes it, it needs no copy: it may
// be in W alone, and its leaving is in no sum.
#include <ClpSimplex.hpp>
#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "policy/decide.h"

namespace pooch::policy {
namespace {

constexpr double unit = 1e9;  // bytes; times are in milliseconds
constexpr std::size_t most_points = 220;

// One map, or several that no run of segments tells apart.
struct Bundle {
  double size = 0;
  double replay_ms = 0;  // of all; at the rate of its cheapest
  bool droppable = false, across = false, clean = false, for_good = false;
  std::vector<std::uint32_t> maps;
  // Segments: the weakest of its maps.
  std::int32_t made = 0, leaves = 0, returns = 0, ends = 0, released = 0, lingers = 0;
};

struct Point {
  double ms = 0;
  std::int32_t first = 0, last = 0;  // segments
  std::int32_t tight = 0;            // the one whose memory is constrained
};

class Program {
 public:
  explicit Program(const Problem& problem) : problem_(problem) {
    if (problem.segments.empty()) return;
    choose_points();
    choose_bundles();
    columns();
    for (std::size_t p = 0; p < points_.size(); ++p) rows_of(p);
    load();
  }

  // After another cap the dual simplex goes on from that one's basis, which stays dual feasible.
  Relaxed solve(std::uint64_t cap) {
    Relaxed relaxed{problem_.compute_us, all(problem_, Class::keep)};
    if (most_live_ <= static_cast<double>(cap)) return relaxed;
    for (const auto& [row, room] : memory_rows_) lp_.setRowUpper(row, room + static_cast<double>(cap) / unit);
    if (lp_.dual() != 0) {
      lp_.allSlackBasis(true);
      return relaxed;
    }
    relaxed.bound_us += 1e3 * std::max(0.0, lp_.objectiveValue());
    round(relaxed.choice);
    return relaxed;
  }

 private:
  using Terms = std::vector<std::pair<int, double>>;
  static constexpr double none = std::numeric_limits<double>::max();  // no limit

  // The fractions as a choice: of several maps, as many, spread evenly; of a single one, the larger part.
  void round(Choice& choice) const {
    for (int b = 0; b < maps(); ++b) {
      const double s = lp_.primalColumnSolution()[swapped(b)], r = lp_.primalColumnSolution()[recomputed(b)];
      double swaps = 0.5, replays = 0.5;
      for (const std::uint32_t m : bundles_[b].maps) {
        swaps += s, replays += r;
        if (replays >= 1) {
          choice.of[m] = Class::recompute, replays -= 1;
          if (swaps >= 1.5) swaps -= 1;
        } else if (swaps >= 1) {
          choice.of[m] = Class::swap, swaps -= 1;
        }
      }
    }
  }

  // Segments in runs; of each, the one with the most memory if nothing left.
  void choose_points() {
    const std::size_t n = problem_.segments.size(),
                      run = std::max<std::size_t>(1, (n + most_points - 1) / most_points);
    std::vector<double> change(n + 1, 0), live(n);
    for (const MovableMap& map : problem_.maps) {
      change[map.made] += static_cast<double>(map.bytes);
      change[map.ends + 1] -= static_cast<double>(map.bytes);
    }
    double sum = 0;
    for (std::size_t s = 0; s < n; ++s)
      live[s] = (sum += change[s]) + static_cast<double>(problem_.segments[s].base);
    most_live_ = *std::max_element(live.begin(), live.end());
    for (std::size_t first = 0; first < n; first += run) {
      Point point;
      point.first = point.tight = static_cast<std::int32_t>(first);
      point.last = static_cast<std::int32_t>(std::min(n, first + run)) - 1;
      for (std::int32_t s = point.first; s <= point.last; ++s) {
        point.ms += problem_.segments[s].us / 1e3;
        if (live[s] > live[point.tight]) point.tight = s;
      }
      points_.push_back(point);
    }
  }

  // Maps with equal relations to every run's first, last and tight segment: all that the rows ask for.
  void choose_bundles() {
    std::vector<std::int32_t> marks;
    for (const Point& point : points_)
      marks.insert(marks.end(), {point.first, point.tight, point.tight + 1, point.last + 1});
    std::sort(marks.begin(), marks.end());
    const auto mark = [&](std::int32_t s) {
      return std::upper_bound(marks.begin(), marks.end(), s) - marks.begin();
    };
    using Key = std::array<std::ptrdiff_t, 10>;
    std::map<Key, std::size_t> numbers;
    for (std::uint32_t m = 0; m < problem_.maps.size(); ++m) {
      const MovableMap& map = problem_.maps[m];
      const Key key{mark(map.made),     mark(map.leaves),  mark(map.returns), mark(map.ends),
                    mark(map.released), mark(map.lingers), map.droppable,     map.across,
                    map.clean,          map.for_good};
      const auto [at, is_new] = numbers.try_emplace(key, bundles_.size());
      if (is_new)
        bundles_.push_back({0,
                            0,
                            map.droppable,
                            map.across,
                            map.clean,
                            map.for_good,
                            {},
                            map.made,
                            map.leaves,
                            map.returns,
                            map.ends,
                            map.released,
                            map.lingers});
      Bundle& bundle = bundles_[at->second];
      const double more = static_cast<double>(map.bytes) / unit, rate = map.replay_us / 1e3 / more;
      const double least = bundle.size > 0 ? std::min(rate, bundle.replay_ms / bundle.size) : rate;
      bundle.maps.push_back(m);
      bundle.size += more;
      bundle.replay_ms = least * bundle.size;
    }
  }

  int maps() const { return static_cast<int>(bundles_.size()); }
  static int swapped(int map) { return map; }
  int recomputed(int map) const { return maps() + map; }
  int extra(std::size_t p) const { return 2 * maps() + static_cast<int>(p); }
  int out(std::size_t p) const { return extra(points_.size()) + static_cast<int>(p); }
  int in(std::size_t p) const { return out(points_.size()) + static_cast<int>(p); }
  double size(int map) const { return bundles_[map].size; }

  int add_column(double least, double most) {
    columns_.lower.push_back(least);
    columns_.upper.push_back(most);
    return static_cast<int>(columns_.lower.size()) - 1;
  }
  void columns() {
    for (int m = 0; m < maps(); ++m) add_column(0, 1);
    for (int m = 0; m < maps(); ++m) add_column(0, bundles_[m].droppable ? 1 : 0);
    for (std::size_t i = 0; i < 3 * points_.size(); ++i) add_column(0, none);  // E, O and I
    for (int m = 0; m < maps(); ++m)
      if (bundles_[m].droppable) at_most({{swapped(m), 1}, {recomputed(m), 1}}, 1);
  }

  int add_row(const Terms& terms, double least, double most) {
    const int row = static_cast<int>(limits_.lower.size());
    limits_.lower.push_back(least);
    limits_.upper.push_back(most);
    for (const auto& [column, value] : terms) {
      if (value == 0) continue;
      entries_.rows.push_back(row);
      entries_.columns.push_back(column);
      entries_.values.push_back(value);
    }
    return row;
  }
  int at_most(const Terms& terms, double most) { return add_row(terms, -none, most); }

  void load() {
    const CoinPackedMatrix matrix(true, entries_.rows.data(), entries_.columns.data(), entries_.values.data(),
                                  static_cast<CoinBigIndex>(entries_.values.size()));
    std::vector<double> cost(columns_.lower.size());
    cost[extra(points_.size() - 1)] = 1;
    lp_.setLogLevel(0);
    lp_.setMaximumIterations(50'000);  // not time: equal problems have equal bounds
    lp_.loadProblem(matrix, columns_.lower.data(), columns_.upper.data(), cost.data(), limits_.lower.data(),
                    limits_.upper.data());
  }

  // A sum over maps grows from point to point: `sum` is its column, nowhere as long as there is nothing to
  // sum.
  void grow(int& sum, Terms more) {
    if (more.empty()) return;
    const int column = add_column(-none, none);
    more.emplace_back(column, -1);
    put(more, sum, 1);
    add_row(more, 0, 0);
    sum = column;
  }
  static void put(Terms& terms, int sum, double factor) {
    if (sum != nowhere) terms.emplace_back(sum, factor);
  }

  // factor * e[p]
  void put_own(Terms& terms, std::size_t p, double factor) const {
    terms.emplace_back(extra(p), factor);
    if (p > 0) terms.emplace_back(extra(p - 1), -factor);
  }

  // A point stands for a run of segments: every limit is the weakest over its segments.
  void rows_of(std::size_t p) {
    const Point& point = points_[p];
    const double rate_out = 1e3 / (problem_.out.us_per_byte * unit),
                 rate_in = 1e3 / (problem_.in.us_per_byte * unit);
    // With a run of several segments, a part of it may pass before what happens at its tight one.
    const double inside = point.first == point.last ? 0 : point.ms;
    const bool first = p == 0;
    if (!first) at_most({{extra(p - 1), 1}, {extra(p), -1}}, 0);
    Terms link_out{{out(p), 1}}, link_in{{in(p), 1}};
    if (!first) link_out.emplace_back(out(p - 1), -1), link_in.emplace_back(in(p - 1), -1);
    put_own(link_out, p, -rate_out), put_own(link_in, p, -rate_in);
    at_most(link_out, rate_out * point.ms);
    at_most(link_in, rate_in * point.ms);
    // Both directions at once: the shares of their rates.
    const double shares = 1 + std::max(problem_.out.share_beside(), problem_.in.share_beside());
    Terms link{{out(p), 1 / rate_out}, {in(p), 1 / rate_in}};
    if (!first) link.emplace_back(out(p - 1), -1 / rate_out), link.emplace_back(in(p - 1), -1 / rate_in);
    put_own(link, p, -shares);
    if (shares < 2) at_most(link, shares * point.ms);
    const Changes changes = changes_at(p);
    if (first) grow(left_before_, changes.left_before);
    Terms came{{in(p), 1}, {out(p), -1}};
    put(came, left_before_, -1);
    at_most(came, 0);
    grow(may_leave_, changes.leave);
    grow(must_be_back_, changes.back);
    grow(replayed_, changes.replayed);
    grow(dropped_, changes.dropped);

    Terms order{{out(p), 1}};
    put(order, may_leave_, -1);
    at_most(order, 0);
    if (!changes.back.empty()) {
      Terms returned, replay{{extra(p), -1}};
      if (!first) returned.emplace_back(in(p - 1), -1);
      put_own(returned, p, -rate_in), put(returned, must_be_back_, 1), put(replay, replayed_, 1);
      at_most(returned, rate_in * inside);
      at_most(replay, 0);
    }
    Terms memory;
    put(memory, left_before_, -1);
    if (!first) memory.emplace_back(out(p - 1), -1), memory.emplace_back(in(p - 1), 1);
    put_own(memory, p, -rate_out), put(memory, dropped_, -1);
    const double room =
        rate_out * inside - static_cast<double>(problem_.segments[point.tight].base) / unit - changes.live;
    memory_rows_.emplace_back(at_most(memory, room), room);
  }

  struct Changes {
    Terms leave, back, replayed, dropped;
    Terms left_before;  // of the first point
    double live = 0;    // made and not yet ended at the tight segment
  };
  Changes changes_at(std::size_t p) const {
    const Point& point = points_[p];
    Changes changes;
    const auto away = [](const Bundle& map, std::int32_t tight) {
      return map.made <= tight && map.ends >= tight && map.leaves < tight && tight < map.returns;
    };
    const auto within = [&](std::int32_t s) { return point.first <= s && s <= point.last; };
    for (int m = 0; m < maps(); ++m) {
      const Bundle& map = bundles_[m];
      if (map.across && p == 0) changes.left_before.emplace_back(swapped(m), size(m));
      if (within(map.leaves) && !map.clean) changes.leave.emplace_back(swapped(m), size(m));
      if (within(map.returns) && !map.for_good) {
        changes.back.emplace_back(swapped(m), size(m));
        changes.replayed.emplace_back(recomputed(m), map.replay_ms);
      }
      // What has ended has left and come back, which O and I both count.
      if (map.made <= point.tight && map.ends >= point.tight) changes.live += size(m);
      const auto released = [&map](std::int32_t tight) { return map.released < tight && tight <= map.ends; };
      const int left = released(point.tight), had_left = p > 0 && released(points_[p - 1].tight);
      if (left != had_left) changes.dropped.emplace_back(swapped(m), (left - had_left) * size(m));
      // Of the iteration before.
      const int lingers = point.tight <= map.lingers, lingered = p > 0 && points_[p - 1].tight <= map.lingers;
      changes.live += lingers * size(m);
      if (lingers != lingered) changes.dropped.emplace_back(swapped(m), (lingers - lingered) * size(m));
      const int now = away(map, point.tight), before = p > 0 && away(map, points_[p - 1].tight);
      if (now != before) changes.dropped.emplace_back(recomputed(m), (now - before) * size(m));
      const auto left_clean = [&map](std::int32_t tight) {
        return map.clean && map.leaves < tight && tight <= map.ends;
      };
      if (left_clean(point.tight) && !(p > 0 && left_clean(points_[p - 1].tight)))
        changes.dropped.emplace_back(swapped(m), size(m));
    }
    return changes;
  }

  const Problem& problem_;
  double most_live_ = 0;  // bytes, if nothing left
  std::vector<Point> points_;
  std::vector<Bundle> bundles_;
  ClpSimplex lp_;
  struct {
    std::vector<double> lower, upper;
  } columns_, limits_;  // the latter of rows
  struct {
    std::vector<int> rows, columns;
    std::vector<double> values;
  } entries_;
  // Columns of W, A, B, C, D.
  int left_before_ = nowhere, may_leave_ = nowhere, must_be_back_ = nowhere, replayed_ = nowhere,
      dropped_ = nowhere;
  std::vector<std::pair<int, double>> memory_rows_;  // row, room for maps in a device of 0 bytes
};

}  // namespace

std::vector<Relaxed> relax(const Problem& problem, std::span<const std::uint64_t> caps) {
  Program program(problem);
  std::vector<Relaxed> relaxed;
  for (const std::uint64_t cap : caps) relaxed.push_back(program.solve(cap));
  for (Relaxed& each : relaxed) each.bound_us = std::max(each.bound_us, in_core_us(problem));
  return relaxed;
}

}  // namespace pooch::policy
