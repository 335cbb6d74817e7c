#include "graph_command.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "core/profile.h"
#include "graph_print.h"
#include "recording_file.h"
#include "run_command.h"
#include "sites.h"
#include "text_file.h"

namespace pooch::tools {
namespace {

Result<std::string> read_file(const std::string& path) {
  const auto failed = [] { return Error{ErrorCode::invalid_argument, std::strerror(errno)}; };
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (!file) return failed();
  std::string text;
  std::vector<char> piece(1 << 20);
  while (const std::size_t got = std::fread(piece.data(), 1, piece.size(), file.get()))
    text.append(piece.data(), got);
  if (std::ferror(file.get()) != 0) return failed();  // a folder, for one
  return text;
}

Result<const PhaseProfile*> find_phase(const Profile& profile, const std::string& id) {
  if (profile.phases.empty())
    return Error{ErrorCode::invalid_argument, "it holds no phase: the program's ops had no period"};
  if (id.empty()) return &profile.phases.front();
  std::string known;
  for (const PhaseProfile& phase : profile.phases) {
    if (phase.id == id) return &phase;
    known += fmt::format("{}{} ({})", known.empty() ? "" : ", ", phase.id, phase.kind);
  }
  return Error{ErrorCode::invalid_argument, fmt::format("--phase '{}': accepted are {}", id, known)};
}

// A profile, or what a recording's calls tell.
Result<Profile> read_input(const std::string& path) {
  const auto recorded = read_recording(path);
  if (!recorded) return recorded.error();
  if (*recorded) {
    if (!(*recorded)->complete) say("pooch: {}: it stops before the program's own end\n", path);
    return (*recorded)->profile;
  }
  const auto text = read_file(path);
  if (!text) return text.error();
  return profile_from_json(*text);
}

int bad_input(const std::string& file, const Error& error) {
  say("pooch: error: graph: {}: {}\n", file, error.message);
  return exit_bad_usage;
}

std::string sites_text(const Profile& profile, const PhaseProfile& phase) {
  SitesText sites = graph_sites(profile, phase);
  for (const std::string& problem : sites.problems) say("pooch: {}\n", problem);
  return std::move(sites.text);
}

}  // namespace

int graph_command(const GraphOptions& options) {
  const auto profile = read_input(options.profile);
  if (!profile) return bad_input(options.profile, profile.error());
  const auto phase = find_phase(*profile, options.phase);
  if (!phase) return bad_input(options.profile, phase.error());

  if (options.sites && profile->sites.empty())
    return bad_input(options.profile, {ErrorCode::invalid_argument,
                                       "it holds no call sites: they come with POOCH_CALLSITES=1"});

  std::string out = options.sites  ? sites_text(*profile, **phase)
                    : options.json ? graph_json(**phase)
                    : options.dot  ? graph_dot(**phase)
                                   : graph_table(**phase);
  if (!options.json && !options.dot) {
    for (const PhaseProfile& other : profile->phases) {
      if (&other != *phase)
        out += fmt::format("also: phase {} ({}), {} ops\n", other.id, other.kind, other.ops.size());
    }
  }
  return print_text("graph", out);
}

}  // namespace pooch::tools
