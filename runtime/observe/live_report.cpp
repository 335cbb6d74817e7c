#include "runtime/observe/live_report.h"

#include <unistd.h>

#include <utility>

namespace pooch::runtime {
namespace {

constexpr std::chrono::milliseconds between(200);
constexpr std::uint32_t calls_per_look = 8;

}  // namespace

bool LiveReport::open(const Config& config, std::int32_t device) {
  if (!config.status) return false;
  auto page = LivePage::create(live_folder(config.status_folder), getpid(), device);
  if (!page) return false;
  page_.emplace(std::move(*page));
  process_ = getpid();
  device_ = device;
  began_ = iteration_at_ = now_ = Clock::now();
  return true;
}

bool LiveReport::due() {
  if (!page_ || ++calls_ % calls_per_look != 0) return false;
  now_ = Clock::now();
  return now_ - written_ >= between;
}

void LiveReport::write(Live live) {
  if (const std::uint64_t ended = live.iterations - iterations_; ended > 0) {
    const double each = 1.0 / static_cast<double>(ended);
    iteration_ms_ = std::chrono::duration<double, std::milli>(now_ - iteration_at_).count() * each;
    out_per_iteration_ = static_cast<double>(live.bytes_out - last_.bytes_out) * each;
    in_per_iteration_ = static_cast<double>(live.bytes_in - last_.bytes_in) * each;
    iterations_ = live.iterations;
    iteration_at_ = now_;
    last_ = live;
  }
  live.iteration_ms = iteration_ms_;
  live.out_per_iteration = out_per_iteration_;
  live.in_per_iteration = in_per_iteration_;
  live.process = process_;
  live.device = device_;
  live.began_s = seconds(began_);
  live.written_s = seconds(now_);
  written_ = now_;
  page_->write(live);
}

}  // namespace pooch::runtime
