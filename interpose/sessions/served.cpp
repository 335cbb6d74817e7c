#include "interpose/sessions/served.h"

#include "interpose/sessions/configuration.h"

namespace pooch::interpose {

constinit ServedList served_list;

void add_served(const Served* one) {
  const std::size_t number = served_list.count.load();
  served_list.all[number] = one;
  served_list.count.store(number + 1, std::memory_order_release);
}

[[gnu::hot]] runtime::Session* open_session() {
  return stood_down() || served().empty() ? nullptr : served().front()->session;
}

[[gnu::hot]] runtime::Session* session_owning(Address address) {
  if (stood_down()) return nullptr;
  for (const Served* const one : served())
    if (one->session->owns(address)) return one->session;
  return nullptr;
}

runtime::Session* session_on(CUdevice device) {
  for (const Served* const one : served())
    if (one->device == device) return one->session;
  return nullptr;
}

CUcontext context_of(const runtime::Session& session) {
  for (const Served* const one : served())
    if (one->session == &session) return one->context;
  return nullptr;
}

CUdevice device_of(const runtime::Session& session) {
  for (const Served* const one : served())
    if (one->session == &session) return one->device;
  return 0;
}

[[gnu::hot]] std::optional<CUdevice> device_served_in(CUcontext context) {
  for (const Served* const one : served())
    if (one->context == context) return one->device;
  return std::nullopt;
}

}  // namespace pooch::interpose
