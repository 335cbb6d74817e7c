#include "interpose/callsites/python.h"

#include <dlfcn.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <fstream>

#include "interpose/hooks/real_symbol.h"

namespace pooch::interpose {
namespace {

constexpr std::size_t deepest = 64;

// The interpreter's functions, by their names alone: no header and no version of Python is needed to build,
// and pointers are all that goes in and out. Those of an interpreter that the program has loaded for itself
// only are not found.
struct Object;
struct Python {
  int (*is_initialized)() = find("Py_IsInitialized");
  // Of this thread, with or without the lock.
  Object* (*state_of_this_thread)() = find("PyGILState_GetThisThreadState");
  // What faulthandler prints with; made for threads without the lock, and only reads. Up to 3.12.
  void (*dump)(int file, Object* state) = find("_Py_DumpTraceback");

  // From 3.13. The state is null unless this thread holds the lock.
  Object* (*attached_state)() = find("PyThreadState_GetUnchecked");
  Object* (*frame)() = find("PyEval_GetFrame");  // borrowed
  Object* (*back)(Object*) = find("PyFrame_GetBack");
  Object* (*code)(Object*) = find("PyFrame_GetCode");
  int (*line)(Object*) = find("PyFrame_GetLineNumber");
  Object* (*attribute)(Object*, const char*) = find("PyObject_GetAttrString");
  const char* (*text)(Object*, std::ptrdiff_t*) = find("PyUnicode_AsUTF8AndSize");
  void (*keep)(Object*) = find("Py_IncRef");
  void (*release)(Object*) = find("Py_DecRef");
  Object* (*take_exception)() = find("PyErr_GetRaisedException");
  void (*put_exception)(Object*) = find("PyErr_SetRaisedException");

  bool can_dump() const { return state_of_this_thread != nullptr && dump != nullptr; }
  bool can_walk() const {
    return attached_state != nullptr && frame != nullptr && back != nullptr && code != nullptr &&
           line != nullptr && attribute != nullptr && text != nullptr && keep != nullptr &&
           release != nullptr && take_exception != nullptr && put_exception != nullptr;
  }

 private:
  // A pointer to whatever function the member says.
  struct Found {
    void* address;
    template <class Function>
    operator Function*() const {
      return reinterpret_cast<Function*>(address);
    }
  };
  static Found find(const char* name) { return {real_dlsym()(RTLD_DEFAULT, name)}; }
};

const Python& python() {
  static const Python known;
  return known;
}

// ---- printed by the interpreter

std::string all_of(int file) {
  std::string text;
  std::array<char, 4096> piece;
  while (const ssize_t got = pread(file, piece.data(), piece.size(), static_cast<off_t>(text.size()))) {
    if (got < 0) break;
    text.append(piece.data(), static_cast<std::size_t>(got));
  }
  return text;
}

//   File "/home/me/train.py", line 12 in step
std::optional<std::string> printed_frame(std::string_view line) {
  constexpr std::string_view before = "  File \"", between = "\", line ", behind = " in ";
  if (!line.starts_with(before)) return std::nullopt;
  line.remove_prefix(before.size());
  const std::size_t file_end = line.rfind(between);
  if (file_end == line.npos) return std::nullopt;
  const std::size_t number = file_end + between.size(), number_end = line.find(behind, number);
  if (number_end == line.npos) return std::nullopt;
  return fmt::format("{}:{} {}", line.substr(0, file_end), line.substr(number, number_end - number),
                     line.substr(number_end + behind.size()));
}

std::vector<std::string> printed_frames() {
  std::vector<std::string> frames;
  Object* const state = python().state_of_this_thread();
  if (state == nullptr) return frames;
  // A new one each time: a program may close every file that it does not know.
  const int file = memfd_create("pooch-frames", MFD_CLOEXEC);
  if (file < 0) return frames;
  python().dump(file, state);
  const std::string text = all_of(file);
  close(file);
  for (std::string_view rest = text; !rest.empty() && frames.size() < deepest;) {
    const std::size_t end = rest.find('\n');
    if (auto frame = printed_frame(rest.substr(0, end))) frames.push_back(std::move(*frame));
    rest.remove_prefix(end == rest.npos ? rest.size() : end + 1);
  }
  return frames;
}

// ---- walked, by a thread that holds the lock

std::string text_of(const Python& py, Object* code, const char* name) {
  Object* const value = py.attribute(code, name);
  const char* const text = value == nullptr ? nullptr : py.text(value, nullptr);
  std::string copy = text == nullptr ? "?" : text;
  if (value != nullptr) py.release(value);
  return copy;
}

std::vector<std::string> walked_frames() {
  const Python& py = python();
  std::vector<std::string> frames;
  if (py.attached_state() == nullptr) return frames;
  Object* const exception = py.take_exception();  // the call may be part of handling one
  Object* frame = py.frame();
  if (frame != nullptr) py.keep(frame);
  while (frame != nullptr && frames.size() < deepest) {
    Object* const code = py.code(frame);
    frames.push_back(fmt::format("{}:{} {}", text_of(py, code, "co_filename"), py.line(frame),
                                 text_of(py, code, "co_name")));
    py.release(code);
    Object* const outer = py.back(frame);
    py.release(frame);
    frame = outer;
  }
  if (frame != nullptr) py.release(frame);
  py.put_exception(exception);  // also where there was none
  return frames;
}

}  // namespace

std::vector<std::string> python_frames() {
  const Python& py = python();
  if (py.is_initialized == nullptr || py.is_initialized() == 0) return {};
  if (py.can_dump()) return printed_frames();
  return py.can_walk() ? walked_frames() : std::vector<std::string>{};
}

// ---- perf's map

PerfMap PerfMap::read() {
  PerfMap map;
  std::ifstream file(fmt::format("/tmp/perf-{}.map", getpid()));
  for (std::string line; std::getline(file, line);) map.add(line);
  return map;
}

void PerfMap::add(const std::string& line) {
  std::uint64_t start = 0, bytes = 0;
  const char* const end = line.data() + line.size();
  const auto first = std::from_chars(line.data(), end, start, 16);
  if (first.ec != std::errc{} || first.ptr == end) return;
  const auto second = std::from_chars(first.ptr + 1, end, bytes, 16);
  if (second.ec != std::errc{} || second.ptr == end) return;
  // "py::FUNCTION:FILE"
  std::string_view name(second.ptr + 1, static_cast<std::size_t>(end - second.ptr - 1));
  if (!name.starts_with("py::")) return;
  name.remove_prefix(4);
  const std::size_t colon = name.find(':');
  if (colon == name.npos) return;
  by_start_[start] = {bytes, fmt::format("{} {}", name.substr(colon + 1), name.substr(0, colon))};
}

std::optional<std::string> PerfMap::function_at(std::uint64_t address) const {
  auto after = by_start_.upper_bound(address);
  if (after == by_start_.begin()) return std::nullopt;
  const auto& [start, code] = *--after;
  if (address - start >= code.bytes) return std::nullopt;
  return code.function;
}

}  // namespace pooch::interpose
