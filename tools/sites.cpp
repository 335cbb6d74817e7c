#include "sites.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <set>
#include <string_view>

#include "source_lines.h"

namespace pooch::tools {
namespace {

constexpr std::size_t most_frames = 4;  // of each language, per op

std::string file_name(const Module& module) {
  return std::filesystem::path(module.path).filename().string();
}

bool starts_with_any(std::string_view name, std::initializer_list<std::string_view> beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(), [&](auto b) { return name.starts_with(b); });
}

// Between the program and the hook: the vendor's libraries and the system's.
bool is_library(const Module& module) {
  return starts_with_any(file_name(module), {"libcuda.", "libcudart.", "libcudnn", "libcublas", "libnccl.",
                                             "libc.", "ld-linux", "linux-vdso"});
}

// From here on outwards the Python frames say it better.
bool is_interpreter(const Module& module) {
  return starts_with_any(file_name(module), {"libpython", "python", "_ctypes.", "libffi."});
}

class Sites {
 public:
  Sites(const Profile& profile, const PhaseProfile& phase)
      : profile_(profile), phase_(phase), lines_(addresses(profile, phase)) {}

  SitesText print() {
    for (const Layer& layer : phase_.graph.layers) {
      put("{}\n", layer.name);
      put_ops("forward", layer.forward);
      put_ops("backward", layer.backward);
    }
    return {std::move(out_), lines_.problems()};
  }

 private:
  // The native frames that are shown: those of the program, up to the interpreter's.
  static std::vector<CallFrame> shown_frames(const Profile& profile, const CallSite& site) {
    std::vector<CallFrame> shown;
    for (const CallFrame& frame : site.frames) {
      const Module& module = profile.modules[frame.module];
      if (!site.python.empty() && is_interpreter(module)) break;
      if (!is_library(module)) shown.push_back(frame);
      if (shown.size() == most_frames) break;
    }
    return shown;
  }

  static SourceLines::Address address(const Profile& profile, const CallFrame& frame) {
    const Module& module = profile.modules[frame.module];
    return {module.path, module.build_id, frame.offset};
  }

  static std::vector<SourceLines::Address> addresses(const Profile& profile, const PhaseProfile& phase) {
    std::set<SourceLines::Address> all;
    for (const ProfileOp& op : phase.ops) {
      if (op.site == 0) continue;
      for (const CallFrame& frame : shown_frames(profile, profile.sites[op.site - 1]))
        all.insert(address(profile, frame));
    }
    return {all.begin(), all.end()};
  }

  void put_ops(std::string_view direction, const std::vector<std::int32_t>& positions) {
    std::set<std::string> said;
    for (const std::int32_t position : positions) {
      const ProfileOp& op = phase_.ops[static_cast<std::size_t>(position)];
      std::string text = fmt::format("  {}: {}\n{}", direction, phase_.functions[op.function], stack(op));
      // A call in a loop is one place.
      if (said.insert(text).second) out_ += text;
    }
  }

  std::string stack(const ProfileOp& op) const {
    if (op.site == 0) return "      not known\n";
    const CallSite& site = profile_.sites[op.site - 1];
    std::string text;
    std::size_t shown = 0;
    for (const CallFrame& frame : shown_frames(profile_, site)) {
      for (const SourceLine& line : lines_.at(address(profile_, frame))) {
        if (shown++ == most_frames) break;
        text += fmt::format("      {}{}{}\n", line.function, line.place.empty() ? "" : "  ", line.place);
      }
    }
    for (std::size_t i = 0; i < std::min(site.python.size(), most_frames); ++i)
      text += fmt::format("      {}\n", python_line(site.python[i]));
    return text.empty() ? "      in a library only\n" : text;
  }

  // "file:line function" -> "function  file:line"
  static std::string python_line(const std::string& frame) {
    const std::size_t space = frame.rfind(' ');
    return space == frame.npos ? frame : frame.substr(space + 1) + "  " + frame.substr(0, space);
  }

  template <class... Parts>
  void put(fmt::format_string<Parts...> format, Parts&&... parts) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Parts>(parts)...);
  }

  const Profile& profile_;
  const PhaseProfile& phase_;
  const SourceLines lines_;
  std::string out_;
};

}  // namespace

SitesText graph_sites(const Profile& profile, const PhaseProfile& phase) {
  return Sites(profile, phase).print();
}

}  // namespace pooch::tools
