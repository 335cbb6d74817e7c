// What a launch of a GPU's own code does to memory, as far as its parameters tell.
//
// The code is not run. Every word of its parameters that is an address of memory counts as one operand, and
// the kernel's time is that of moving 32 bytes per thread and operand (eight floats, as elementwise kernels
// do), though never past the memory that is there. A parameter that is one word must be null or reach memory
// that is there. Of parameters up to 64 bytes what they reach is checked for races, from the address to the
// end of the allocation or mapping. Larger ones are tables and closures whose unused places hold anything,
// memory long given back too: they only cost time.
//
// Where a family (softgpu/image.h) is sure of the launch, its touches take the place of these, and the time
// is that of moving their bytes.
#pragma once

#include "softgpu/driver/code/modules.h"
#include "softgpu/driver/space/address.h"

namespace softgpu {

// `params[i]` points to parameter i.
// True: a family told.
bool device_code_footprint(AddressMap& addresses, Kernel& kernel, const void* const* params,
                           const unsigned (&grid)[3], const unsigned (&block)[3], Footprint& out);

}  // namespace softgpu
