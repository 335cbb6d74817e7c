// The one subscriber. It keeps others away; callbacks for API calls are not offered.
#include <algorithm>
#include <cstring>
#include <mutex>
#include <string>

#include "softgpu/cupti/driver.h"
#include "softgpu/cupti/export.h"
#include "softgpu/cupti/recorder.h"

struct CUpti_Subscriber_st {
  std::string name;
};

namespace {

std::mutex mutex;
CUpti_SubscriberHandle current = nullptr;

CUptiResult subscribe(CUpti_SubscriberHandle* out, const CUpti_SubscriberParams* params) {
  if (out == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  if (params != nullptr && params->structSize < CUpti_SubscriberParams_STRUCT_SIZE)
    return CUPTI_ERROR_INVALID_PARAMETER;
  if (softgpu::cupti::driver() == nullptr) return CUPTI_ERROR_NOT_INITIALIZED;
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
  *out = current = new CUpti_Subscriber_st{name};
  return CUPTI_SUCCESS;
}

}  // namespace

SOFTGPU_CUPTI cuptiSubscribe(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc, void*) {
  return subscribe(subscriber, nullptr);
}

SOFTGPU_CUPTI cuptiSubscribe_v2(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc, void*,
                                CUpti_SubscriberParams* params) {
  return subscribe(subscriber, params);
}

SOFTGPU_CUPTI cuptiUnsubscribe(CUpti_SubscriberHandle subscriber) {
  const std::lock_guard<std::mutex> lock(mutex);
  if (subscriber == nullptr || subscriber != current) return CUPTI_ERROR_INVALID_PARAMETER;
  delete current;
  current = nullptr;
  return CUPTI_SUCCESS;
}

SOFTGPU_CUPTI cuptiFinalize() {
  if (softgpu::cupti::driver() == nullptr) return CUPTI_ERROR_NOT_INITIALIZED;
  softgpu::cupti::Recorder::instance().finalize();
  const std::lock_guard<std::mutex> lock(mutex);
  delete current;
  current = nullptr;
  return CUPTI_SUCCESS;
}
