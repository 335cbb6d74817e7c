#include "cupti/op_timer.h"

#include "core/log.h"
#include "cupti/cupti_timer.h"
#include "cupti/event_timer.h"

namespace pooch::cupti {

Result<std::unique_ptr<OpTimer>> open_op_timer(Device& device, TimerChoice choice) {
  if (choice != TimerChoice::events) {
    auto timer = CuptiTimer::open();
    if (timer) {
      log::info("times of ops come from CUPTI");
      return timer;
    }
    if (choice == TimerChoice::cupti) return timer;
    log::info("times of ops come from events: {}", timer.error().message);
  }
  return std::unique_ptr<OpTimer>(std::make_unique<EventTimer>(device));
}

}  // namespace pooch::cupti
