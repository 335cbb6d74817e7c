#include "runtime/observe/nvtx.h"

#include <string>

// A listener that is linked in is none of ours: this library is preloaded.
#define NVTX_SUPPORT_STATIC_INJECTION_LIBRARY 0
#include <nvtx3/nvToolsExt.h>

namespace pooch::runtime::nvtx {
namespace {

constinit nvtxDomainHandle_t domain = nullptr;
constexpr const char* category_names[] = {"iteration", "evict", "prefetch", "replay"};
constexpr std::uint32_t category_colours[] = {0xff808080, 0xffd95f02, 0xff1b9e77, 0xff7570b3};  // ARGB

std::uint32_t number(Category category) {
  return static_cast<std::uint32_t>(category) + 1;  // 0 is "none"
}

// Valid as long as `text`.
nvtxEventAttributes_t message(const std::string& text) {
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = text.c_str();
  return attributes;
}

nvtxEventAttributes_t message(Category category, const std::string& text) {
  nvtxEventAttributes_t attributes = message(text);
  attributes.category = number(category);
  attributes.colorType = NVTX_COLOR_ARGB;
  attributes.color = category_colours[static_cast<std::size_t>(category)];
  return attributes;
}

}  // namespace

namespace detail {

constinit bool attached = false;

void push(Category category, std::string_view name) {
  const std::string text(name);
  const nvtxEventAttributes_t attributes = message(category, text);
  nvtxDomainRangePushEx(domain, &attributes);
}

void pop() {
  nvtxDomainRangePop(domain);
}

std::uint64_t start(Category category, std::string_view name) {
  const std::string text(name);
  const nvtxEventAttributes_t attributes = message(category, text);
  return nvtxDomainRangeStartEx(domain, &attributes);
}

void end(std::uint64_t range) {
  nvtxDomainRangeEnd(domain, range);
}

void mark(std::string_view name) {
  const std::string text(name);
  const nvtxEventAttributes_t attributes = message(text);
  nvtxDomainMarkEx(domain, &attributes);
}

}  // namespace detail

void open() {
  if (domain != nullptr) return;
  domain = nvtxDomainCreateA("pooch");  // null: nobody listens
  if (domain == nullptr) return;
  for (const Category each : {Category::iteration, Category::evict, Category::prefetch, Category::replay})
    nvtxDomainNameCategoryA(domain, number(each), category_names[static_cast<std::size_t>(each)]);
  detail::attached = true;
}

}  // namespace pooch::runtime::nvtx
