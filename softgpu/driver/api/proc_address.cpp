// Look-up of driver functions by name, version and flags.
#include <cstring>

#include "softgpu/driver/api/api.h"

#define SOFTGPU_ROW(base, version, symbol) \
  extern "C" __attribute__((visibility("hidden"))) decltype(::symbol) softgpu_##symbol;
#define SOFTGPU_ROW_PER_THREAD(base, version, symbol, variant_version, variant) \
  SOFTGPU_ROW(base, version, symbol) SOFTGPU_ROW(base, variant_version, variant)
#include "softgpu/driver/api/proc_table.def"
#undef SOFTGPU_ROW
#undef SOFTGPU_ROW_PER_THREAD

namespace {

constexpr int newest_version = 13000;

struct Row {
  const char* base;
  void* function;
  void* variant;  // for the per-thread default stream; null: none
  int version, variant_version;
};

const Row rows[] = {
#define SOFTGPU_ROW(base, version, symbol) \
  {#base, reinterpret_cast<void*>(&softgpu_##symbol), nullptr, version, 0},
#define SOFTGPU_ROW_PER_THREAD(base, version, symbol, variant_version, variant)                             \
  {#base, reinterpret_cast<void*>(&softgpu_##symbol), reinterpret_cast<void*>(&softgpu_##variant), version, \
   variant_version},
#include "softgpu/driver/api/proc_table.def"
#undef SOFTGPU_ROW
#undef SOFTGPU_ROW_PER_THREAD
};

CUresult look_up(const char* name, void** out, int version, cuuint64_t flags,
                 CUdriverProcAddressQueryResult* status) {
  constexpr cuuint64_t known =
      CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  if (name == nullptr || out == nullptr || version > newest_version || (flags & ~known) != 0 ||
      flags == known) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
  bool name_known = false;
  void* function = nullptr;
  // Rows of one name go from old to new: the last that fits is the newest.
  for (const Row& row : rows) {
    if (std::strcmp(row.base, name) != 0) continue;
    name_known = true;
    if (row.version > version) continue;
    const bool variant = per_thread && row.variant != nullptr && row.variant_version <= version;
    function = variant ? row.variant : row.function;
  }
  *out = function;
  if (status != nullptr) {
    *status = function != nullptr ? CU_GET_PROC_ADDRESS_SUCCESS
              : name_known        ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                                  : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  }
  return function != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

}  // namespace

SOFTGPU_EXPORT(cuGetProcAddress)(const char* name, void** out, int version, cuuint64_t flags) {
  return look_up(name, out, version, flags, nullptr);
}

SOFTGPU_EXPORT(cuGetProcAddress_v2)
(const char* name, void** out, int version, cuuint64_t flags, CUdriverProcAddressQueryResult* status) {
  return look_up(name, out, version, flags, status);
}

// The vendor's private tables: none. Ours, for libcupti.
SOFTGPU_EXPORT(cuGetExportTable)(const void** out, const CUuuid* id) {
  if (out == nullptr || id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const bool ours = std::memcmp(id, &softgpu::activity_table_id, sizeof *id) == 0;
  *out = ours ? &softgpu::activity_table() : nullptr;
  return ours ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
