// The sections of the program `facts`.
#pragma once

#include "tests/gpu/facts.h"

namespace pooch::facts {

// facts_calls.cpp
void device_section(Bench&, Json&);
void versions_section(Bench&, Json&);
void naming_section(Bench&, Json&);
void calls_section(Bench&, Json&);
void kernel_section(Bench&, Json&);
void kernel_handles_section(Bench&, Json&);
// facts_vmm.cpp
void vmm_section(Bench&, Json&);
void vmm_under_load_section(Bench&, Json&);
void vmm_under_small_copies_section(Bench&, Json&);
void places_section(Bench&, Json&);
// facts_memory.cpp
void alias_section(Bench&, Json&);
void remap_section(Bench&, Json&);
void host_numa_backed_section(Bench&, Json&);
void host_backed_section(Bench&, Json&);
// facts_tensor_map.cpp
void tensor_map_section(Bench&, Json&);
// facts_batch_norm.cpp
void batch_norm_kernel_section(Bench&, Json&);
// facts_link.cpp
void device_copy_section(Bench&, Json&);
void pinning_section(Bench&, Json&);
void link_section(Bench&, Json&);

}  // namespace pooch::facts
