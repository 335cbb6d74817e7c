// A Trace as a file of Chrome trace events. Guarantees: events are in the order of their times, slices of a
// row do not overlap, and every arrow begins, goes on and ends inside of existing slices.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/files.h"
#include "core/function_ref.h"
#include "runtime/observe/trace.h"

namespace pooch::runtime {

class TraceFile {
 public:
  // A snapshot: the trace may go on.
  explicit TraceFile(const Trace& trace) : events_(trace.events_), names_(trace.names_), cap_(trace.cap_) {}
  // Errors: invalid_argument with file and reason; not_supported, as OutputOptions::again says. Once `wanted`
  // says no, the file is left as it was.
  Status write(const std::string& path, const OutputOptions& options, FunctionRef<bool()> wanted);
  Status write(const std::string& path) {
    return write(path, {}, [] { return true; });
  }

 private:
  // What a viewer shows as rows, in this order.
  enum class Row : std::uint8_t { iterations, compute, stalls, replays, copies_in, copies_out };
  struct Item {
    enum class Kind : std::uint8_t { slice, arrow_begin, arrow_step, arrow_end, instant, memory };
    Kind kind;
    std::uint32_t row = 0;   // its number
    std::uint32_t name = 0;  // index into the trace's names
    std::int32_t position = -1;
    double at_us = 0, end_us = 0;
    std::uint64_t value = 0;  // bytes; an arrow's number
    std::uint32_t mode = 0;   // of an iteration: index into the trace's names
  };

  void place_slices();
  void add_slices();
  void add_stalls();
  void add_iterations();
  void add_marks();
  void add_arrows();
  std::uint32_t row(Row kind, std::uint16_t stream);
  std::uint32_t row_of(const TraceEvent& event);
  void put_rows(std::string& out) const;
  void put(const Item& item, std::string& out) const;

  std::vector<TraceEvent> events_;
  const std::vector<std::string> names_;
  const std::uint64_t cap_;
  std::map<std::pair<Row, std::uint16_t>, std::uint32_t> rows_;  // their numbers
  std::vector<Item> items_;
};

}  // namespace pooch::runtime
