#include "softgpu/cudnn/elements/layout.h"

#include <algorithm>

namespace softgpu::cudnn {
namespace {

// Runs in memory: dimensions sorted by stride, merged from the inside as long as there is no gap.
struct Runs {
  std::int64_t length = 1;  // elements
  int rank = 0;             // of what remains outside a run
  std::int64_t dims[max_rank] = {};
  std::int64_t strides[max_rank] = {};
};

Runs find_runs(const Layout& l) {
  int order[max_rank];
  int count = 0;
  for (int d = 0; d < l.rank; ++d) {
    if (l.dims[d] > 1 && l.strides[d] != 0) order[count++] = d;
  }
  std::stable_sort(order, order + count, [&](int a, int b) { return l.strides[a] < l.strides[b]; });
  Runs runs;
  int at = 0;
  while (at < count && l.strides[order[at]] == runs.length) runs.length *= l.dims[order[at++]];
  for (int i = count - 1; i >= at; --i) {
    runs.dims[runs.rank] = l.dims[order[i]];
    runs.strides[runs.rank++] = l.strides[order[i]];
  }
  return runs;
}

}  // namespace

std::int64_t element_count(const Layout& l) {
  std::int64_t count = 1;
  for (int d = 0; d < l.rank; ++d) count *= l.dims[d];
  return count;
}

std::int64_t element_span(const Layout& l) {
  std::int64_t last = 0;
  for (int d = 0; d < l.rank; ++d) last += (l.dims[d] - 1) * l.strides[d];
  return last + 1;
}

bool same_dims(const Layout& a, const Layout& b) {
  return a.rank == b.rank && std::equal(a.dims, a.dims + a.rank, b.dims);
}

bool same_layout(const Layout& a, const Layout& b) {
  return same_dims(a, b) && std::equal(a.strides, a.strides + a.rank, b.strides);
}

bool broadcastable(const Layout& part, const Layout& whole) {
  if (part.rank != whole.rank) return false;
  for (int d = 0; d < part.rank; ++d) {
    if (part.dims[d] != 1 && part.dims[d] != whole.dims[d]) return false;
  }
  return true;
}

Layout stretched(const Layout& part, const Layout& whole) {
  Layout result = whole;
  for (int d = 0; d < part.rank; ++d) {
    result.strides[d] = part.dims[d] == 1 && whole.dims[d] != 1 ? 0 : part.strides[d];
  }
  return result;
}

Layout packed(std::initializer_list<std::int64_t> dims) {
  Layout result{};
  for (std::int64_t d : dims) result.dims[result.rank++] = d;
  return packed_like(result);
}

Layout packed_like(const Layout& l) {
  Layout result = l;
  std::int64_t stride = 1;
  for (int d = l.rank - 1; d >= 0; --d) {
    result.strides[d] = stride;
    stride *= l.dims[d];
  }
  return result;
}

std::int64_t merged_stride(const Layout& l, int first) {
  std::int64_t stride = 0;  // of the innermost dimension that has more than one element
  std::int64_t expected = 0;
  for (int d = l.rank - 1; d >= first; --d) {
    if (l.dims[d] == 1) continue;
    if (stride == 0) {
      stride = l.strides[d];
    } else if (l.strides[d] != expected) {
      return 0;
    }
    expected = l.strides[d] * l.dims[d];
  }
  return stride == 0 ? 1 : stride;
}

std::int64_t run_count(const Layout& l) {
  const Runs runs = find_runs(l);
  std::int64_t count = 1;
  for (int d = 0; d < runs.rank; ++d) count *= runs.dims[d];
  return count;
}

void add_touches(Footprint& out, std::uint64_t address, const Layout& l, TouchKind kind,
                 std::uint64_t element) {
  const Runs runs = find_runs(l);
  const std::int64_t count = run_count(l);
  for (std::int64_t run = 0; run < count; ++run) {
    std::int64_t offset = 0;
    std::int64_t index = run;
    for (int d = runs.rank - 1; d >= 0; --d) {
      offset += index % runs.dims[d] * runs.strides[d];
      index /= runs.dims[d];
    }
    add_touch(out, address + element * static_cast<std::uint64_t>(offset),
              element * static_cast<std::uint64_t>(runs.length), kind);
  }
}

}  // namespace softgpu::cudnn
