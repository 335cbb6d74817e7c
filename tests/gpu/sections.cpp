#include "tests/gpu/sections.h"

namespace pooch::facts {

std::span<const Section> sections() {
  static constexpr Section all[] = {
      {"device", device_section},
      {"versions", versions_section},
      {"naming", naming_section},
      {"calls", calls_section},
      {"kernel", kernel_section},
      {"kernel_handles", kernel_handles_section},
      {"tensor_map", tensor_map_section},
      {"vmm", vmm_section},
      {"vmm_under_load", vmm_under_load_section},
      {"vmm_under_small_copies", vmm_under_small_copies_section},
      {"places", places_section},
      {"alias", alias_section},
      {"remap", remap_section},
      {"host_numa_backed", host_numa_backed_section},
      {"host_backed", host_backed_section},
      {"device_copy", device_copy_section},
      {"batch_norm_kernel", batch_norm_kernel_section},
      {"pinning", pinning_section},
      {"link", link_section},
  };
  return all;
}

}  // namespace pooch::facts
