#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/bytes.h"
#include "fit.h"
#include "plan_facts.h"
#include "text_table.h"

namespace pooch::tools {
namespace {

std::string note_of(const FitRow& row, const Fit& fit, const Profile& profile) {
  std::string note;
  const auto add = [&](const std::string& text) { note += (note.empty() ? "" : "; ") + text; };
  if (row.cap == profile.cap_bytes) add("this device");
  if (row.cap == fit.in_core) add("everything stays");
  if (row.cap == fit.smallest && row.cap != fit.in_core) add("the smallest with a plan");
  if (row.ms == 0)
    add("no plan");
  else if (row.cap < fit.smallest)
    add("takes longer than that: memory is mapped as it moves");
  if (row.cap > profile.device_bytes) add("a larger GPU");
  if (row.host_bytes > profile.host_budget_bytes)
    add(fmt::format("the host may give {}", format_bytes(profile.host_budget_bytes)));
  return note;
}

std::string table(const Fit& fit, const Profile& profile) {
  std::vector<std::vector<std::string>> rows{
      {"device memory", "iteration", "over in-core", "host memory", ""}};
  for (const FitRow& row : fit.rows)
    rows.push_back({format_bytes(row.cap), row.ms == 0 ? "-" : fmt::format("{:.1f} ms", row.ms),
                    row.ms == 0 ? "-" : percent(overhead_of(row.ms, row.in_core_ms)),
                    row.ms == 0 ? "-" : format_bytes(row.host_bytes), note_of(row, fit, profile)});
  return text_table(rows, {4});
}

std::string size_option(std::uint64_t cap) {
  return fmt::format("--memory {}MiB", cap / MiB);
}

std::string advice(const Fit& fit, const Profile& profile, const std::string& command) {
  if (fit.fits)
    return fmt::format(
        "It fits as it is, and needs no pooch here. To leave memory to others:\n  pooch run {} {}\n",
        size_option(fit.rows[fit.rows.size() / 2].cap), command);
  if (profile.cap_bytes < fit.smallest)
    return fmt::format(
        "It has no good plan on this device: with less than {} it takes many times as long, or one of its\n"
        "operations does not fit.\n"
        "A smaller batch or activation checkpointing lowers what it needs.\n",
        format_bytes(fit.smallest));
  const auto here = std::find_if(fit.rows.begin(), fit.rows.end(), [&](const FitRow& row) {
    return row.cap == profile.cap_bytes && row.ms > 0;
  });
  return fmt::format("It does not fit here, and runs with pooch{}.\n  pooch run {}\n",
                     here == fit.rows.end() ? ""
                                            : fmt::format(": {} over in-core, as predicted",
                                                          percent(overhead_of(here->ms, here->in_core_ms))),
                     command);
}

}  // namespace

std::string fit_text(const Fit& fit, const Profile& profile, const std::string& command) {
  std::string text =
      fit.training ? "" : "No training was seen: this is about an iteration without a backward pass.\n";
  text +=
      fmt::format("{} is needed; {} has {}, of which {} may be used\n\n", format_bytes(profile.need_bytes),
                  profile.device, format_bytes(profile.device_bytes), format_bytes(profile.cap_bytes));
  return text + table(fit, profile) + "\n" + advice(fit, profile, command);
}

std::string fit_json(const Fit& fit, const Profile& profile, const std::string& command) {
  using Json = nlohmann::ordered_json;
  Json json{{"device", profile.device},
            {"device_bytes", profile.device_bytes},
            {"cap_bytes", profile.cap_bytes},
            {"need_bytes", profile.need_bytes},
            {"fits", fit.fits},
            {"smallest_cap_bytes", fit.smallest},
            {"in_core_cap_bytes", fit.in_core},
            {"host_budget_bytes", profile.host_budget_bytes},
            {"command", command},
            {"rows", Json::array()}};
  for (const FitRow& row : fit.rows)
    json["rows"].push_back(
        {{"cap_bytes", row.cap},
         {"predicted_ms", row.ms},
         {"in_core_ms", row.in_core_ms},
         {"over_in_core", row.ms == 0 ? Json() : Json(overhead_of(row.ms, row.in_core_ms))},
         {"host_bytes", row.host_bytes},
         {"of_device", row.cap == profile.cap_bytes},
         {"smallest", row.cap == fit.smallest}});
  return json.dump(2) + "\n";
}

}  // namespace pooch::tools
