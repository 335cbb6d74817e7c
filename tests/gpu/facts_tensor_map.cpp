// Where a tensor map has the address that it is made for: launches that are given the map show it there, or
// nowhere.
#include <algorithm>
#include <iterator>

#include "tests/gpu/sections.h"

namespace pooch::facts {
namespace {

bool same(const CUtensorMap& a, const CUtensorMap& b) {
  return std::ranges::equal(a.opaque, b.opaque);
}

void must_be_there(const void* function, const char* name) {
  if (function == nullptr) throw NoAnswer(std::string("the driver has no ") + name);
}

// Of 64 rows of 64 floats.
CUtensorMap map_of(CUdeviceptr address) {
  const cuuint64_t dims[] = {64, 64}, stride[] = {64 * sizeof(float)};
  const cuuint32_t box[] = {16, 16}, step[] = {1, 1};
  CUtensorMap map{};
  must_call(cuTensorMapEncodeTiled, &map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, cuuint32_t{2},
            reinterpret_cast<void*>(address), dims, stride, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE,
            CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return map;
}

Json words_with(const CUtensorMap& map, CUdeviceptr address) {
  Json words = Json::array();
  for (std::size_t i = 0; i < std::size(map.opaque); ++i)
    if (map.opaque[i] == address) words.push_back(i);
  return words;
}

Json words_that_differ(const CUtensorMap& a, const CUtensorMap& b) {
  Json words = Json::array();
  for (std::size_t i = 0; i < std::size(a.opaque); ++i)
    if (a.opaque[i] != b.opaque[i]) words.push_back(i);
  return words;
}

}  // namespace

void tensor_map_section(Bench&, Json& out) {
  must_be_there(reinterpret_cast<const void*>(driver_function(cuTensorMapEncodeTiled)),
                "cuTensorMapEncodeTiled");
  must_be_there(reinterpret_cast<const void*>(driver_function(cuTensorMapReplaceAddress)),
                "cuTensorMapReplaceAddress");
  const DeviceMemory one(MiB), another(MiB);
  const CUtensorMap first = map_of(one), second = map_of(another);
  CUtensorMap replaced = first;
  must_call(cuTensorMapReplaceAddress, &replaced, reinterpret_cast<void*>(static_cast<CUdeviceptr>(another)));
  out = {{"words_with_the_address", words_with(first, one)},
         {"words_that_differ_by_address", words_that_differ(first, second)},
         {"replaced_shows_the_new_address", !words_with(replaced, another).empty()},
         {"replaced_is_as_made_anew", same(replaced, second)}};
}

}  // namespace pooch::facts
