// A tool that NVTX loads (NVTX_INJECTION64_PATH): writes the calls that reach it into the file NVTX_TOOL_LOG,
// one a line.
#include <nvtx3/nvToolsExt.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

namespace {

std::map<nvtxDomainHandle_t, std::string> domains;  // null: the default one
nvtxRangeId_t ranges = 0;

void note(const std::string& line) {
  static std::FILE* const file = std::fopen(std::getenv("NVTX_TOOL_LOG"), "w");
  if (file == nullptr) return;
  std::fprintf(file, "%s\n", line.c_str());
  std::fflush(file);
}

std::string text(const nvtxEventAttributes_t* attributes) {
  const bool ascii =
      attributes->version == NVTX_VERSION && attributes->messageType == NVTX_MESSAGE_TYPE_ASCII;
  return std::to_string(attributes->category) + " " + (ascii ? attributes->message.ascii : "?");
}

nvtxDomainHandle_t NVTX_API create(const char* name) {
  const auto handle = reinterpret_cast<nvtxDomainHandle_t>(domains.size() + 1);
  domains[handle] = name;
  return handle;
}
void NVTX_API name_category(nvtxDomainHandle_t domain, uint32_t category, const char* name) {
  note(domains[domain] + ": category " + std::to_string(category) + " " + name);
}
void NVTX_API mark(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* attributes) {
  note(domains[domain] + ": mark " + text(attributes));
}
int NVTX_API push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* attributes) {
  note(domains[domain] + ": push " + text(attributes));
  return 0;
}
int NVTX_API pop(nvtxDomainHandle_t domain) {
  note(domains[domain] + ": pop");
  return 0;
}
nvtxRangeId_t NVTX_API start(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* attributes) {
  note(domains[domain] + ": start " + std::to_string(++ranges) + " " + text(attributes));
  return ranges;
}
void NVTX_API end(nvtxDomainHandle_t domain, nvtxRangeId_t range) {
  note(domains[domain] + ": end " + std::to_string(range));
}

template <class Function>
void put(NvtxFunctionTable table, int which, Function* function) {
  *table[which] = reinterpret_cast<NvtxFunctionPointer>(function);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    NvtxGetExportTableFunc_t get_export_table) {
  const auto* const callbacks =
      static_cast<const NvtxExportTableCallbacks*>(get_export_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (callbacks == nullptr || callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0 ||
      size <= NVTX_CBID_CORE2_DomainCreateA)
    return 0;
  put(table, NVTX_CBID_CORE2_DomainCreateA, create);
  put(table, NVTX_CBID_CORE2_DomainNameCategoryA, name_category);
  put(table, NVTX_CBID_CORE2_DomainMarkEx, mark);
  put(table, NVTX_CBID_CORE2_DomainRangePushEx, push);
  put(table, NVTX_CBID_CORE2_DomainRangePop, pop);
  put(table, NVTX_CBID_CORE2_DomainRangeStartEx, start);
  put(table, NVTX_CBID_CORE2_DomainRangeEnd, end);
  return 1;
}
