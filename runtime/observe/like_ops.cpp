#include "runtime/observe/like_ops.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <vector>

namespace pooch::runtime {
namespace {

struct Sample {
  const ProfileOp* op;
  double bytes;
};

// Bytes that an op reads and writes, at least one.
double bytes_of(const PhaseProfile& phase, const ProfileOp& op) {
  double bytes = 1;
  for (const auto* list : {&op.reads, &op.writes})
    for (const std::uint32_t version : *list) bytes += static_cast<double>(phase.versions[version].bytes);
  return bytes;
}

bool alike(const ProfileOp& a, const ProfileOp& b) {
  return a.kind == b.kind && a.mode == b.mode && a.shape == b.shape && a.filter == b.filter &&
         a.window == b.window;
}

double distance(double a, double b) {
  return std::abs(std::log(a / b));
}

class Samples {
 public:
  explicit Samples(std::span<const PhaseProfile* const> measured) {
    for (const PhaseProfile* phase : measured) {
      if (phase->measured == 0) continue;
      for (const ProfileOp& op : phase->ops) {
        const double bytes = bytes_of(*phase, op);
        of_function_[phase->functions[op.function]].push_back({&op, bytes});
        us_ += op.us, bytes_ += bytes;
      }
      for (const ProfileCopy& copy : phase->copies)
        copied_us_[copy.to_device] += copy.us,
            copied_bytes_[copy.to_device] += static_cast<double>(copy.bytes);
    }
  }

  bool empty() const { return of_function_.empty(); }

  double us_of(std::string_view function, const ProfileOp& op, double bytes) const {
    const auto found = of_function_.find(function);
    if (found == of_function_.end()) return us_ / bytes_ * bytes;
    const auto like = std::find_if(found->second.begin(), found->second.end(), [&](const Sample& sample) {
      return alike(*sample.op, op) && distance(sample.bytes, bytes) < 0.01;
    });
    if (like != found->second.end()) return like->op->us;
    const auto nearest =
        std::min_element(found->second.begin(), found->second.end(), [&](const Sample& a, const Sample& b) {
          const bool a_window = a.op->window == op.window, b_window = b.op->window == op.window;
          if (a_window != b_window) return a_window;  // the same kind of work goes before the same size
          return distance(a.bytes, bytes) < distance(b.bytes, bytes);
        });
    return nearest->op->us / nearest->bytes * bytes;
  }

  double us_of(const ProfileCopy& copy) const {
    const double bytes = copied_bytes_[copy.to_device];
    return bytes == 0 ? 0 : copied_us_[copy.to_device] / bytes * static_cast<double>(copy.bytes);
  }

 private:
  std::map<std::string_view, std::vector<Sample>> of_function_;
  double us_ = 0, bytes_ = 0;
  double copied_us_[2] = {}, copied_bytes_[2] = {};  // by direction
};

}  // namespace

bool estimate_times(PhaseProfile& phase, std::span<const PhaseProfile* const> measured) {
  const Samples samples(measured);
  if (samples.empty()) return false;
  phase.iteration_us = 0;
  for (ProfileOp& op : phase.ops) {
    op.us = samples.us_of(phase.functions[op.function], op, bytes_of(phase, op));
    phase.iteration_us += op.us + op.gap_us;
  }
  for (ProfileCopy& copy : phase.copies) copy.us = samples.us_of(copy);
  return true;
}

}  // namespace pooch::runtime
