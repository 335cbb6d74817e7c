// The one subscriber. It keeps others away. Of callbacks there are those of the runtime's calls, all
// together, which say nothing but that one begins or ends, and its correlation.
#include <algorithm>
#include <cstring>
#include <mutex>
#include <string>

#include "softgpu/cupti/driver.h"
#include "softgpu/cupti/export.h"
#include "softgpu/cupti/recorder.h"

using softgpu::cupti::Recorder;

struct CUpti_Subscriber_st {
  std::string name;
  CUpti_CallbackFunc callback;
  void* user;
};

namespace {

std::mutex mutex;
CUpti_SubscriberHandle current = nullptr;

CUptiResult subscribe(CUpti_SubscriberHandle* out, CUpti_CallbackFunc callback, void* user,
                      const CUpti_SubscriberParams* params) {
  if (out == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  if (params != nullptr && params->structSize < CUpti_SubscriberParams_STRUCT_SIZE)
    return CUPTI_ERROR_INVALID_PARAMETER;
  if (softgpu::cupti::driver() == nullptr) return CUPTI_ERROR_NOT_INITIALIZED;
  softgpu::cupti::end_with_process();
  const std::lock_guard<std::mutex> lock(mutex);
  if (current != nullptr) {
    if (params != nullptr && params->oldSubscriberName != nullptr && params->oldSubscriberSize > 0) {
      const std::size_t length = std::min(current->name.size(), params->oldSubscriberSize - 1);
      std::memcpy(params->oldSubscriberName, current->name.data(), length);
      params->oldSubscriberName[length] = '\0';
    }
    return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  }
  std::string name = "CUPTI";
  if (params != nullptr && params->subscriberName != nullptr)
    name += " for " + std::string(params->subscriberName).substr(0, CUPTI_SUBSCRIBER_NAME_MAX_LEN);
  *out = current = new CUpti_Subscriber_st{name, callback, user};
  return CUPTI_SUCCESS;
}

}  // namespace

SOFTGPU_CUPTI cuptiSubscribe(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback, void* user) {
  return subscribe(subscriber, callback, user, nullptr);
}

SOFTGPU_CUPTI cuptiSubscribe_v2(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback, void* user,
                                CUpti_SubscriberParams* params) {
  return subscribe(subscriber, callback, user, params);
}

SOFTGPU_CUPTI cuptiEnableDomain(std::uint32_t enable, CUpti_SubscriberHandle subscriber,
                                CUpti_CallbackDomain domain) {
  const std::lock_guard<std::mutex> lock(mutex);
  if (subscriber == nullptr || subscriber != current) return CUPTI_ERROR_INVALID_PARAMETER;
  if (domain != CUPTI_CB_DOMAIN_RUNTIME_API) return CUPTI_ERROR_NOT_SUPPORTED;
  Recorder::instance().call_back(enable != 0 ? current->callback : nullptr, current->user);
  return CUPTI_SUCCESS;
}

SOFTGPU_CUPTI cuptiUnsubscribe(CUpti_SubscriberHandle subscriber) {
  const std::lock_guard<std::mutex> lock(mutex);
  if (subscriber == nullptr || subscriber != current) return CUPTI_ERROR_INVALID_PARAMETER;
  Recorder::instance().call_back(nullptr, nullptr);
  delete current;
  current = nullptr;
  return CUPTI_SUCCESS;
}

SOFTGPU_CUPTI cuptiFinalize() {
  if (softgpu::cupti::driver() == nullptr) return CUPTI_ERROR_NOT_INITIALIZED;
  Recorder::instance().finalize();
  const std::lock_guard<std::mutex> lock(mutex);
  delete current;
  current = nullptr;
  return CUPTI_SUCCESS;
}
