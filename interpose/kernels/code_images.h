// Which device code the program has loaded, and which of it a kernel is from. Machine code is in files that
// are mapped (libraries with fat binaries), in files that the driver reads, or in memory that the program may
// reuse: of the last a copy is kept while it is loaded.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "runtime/processes/kernel_reader.h"

namespace pooch::interpose {

// A cubin, fat binary or wrapper of one lies at `code` and has become `handle` (CUmodule, CUlibrary). PTX
// text is no machine code.
void code_loaded(const void* handle, const void* code);
void code_loaded_from(const void* handle, const char* file);
// `handle` is another name of what `of` is: a library's module, a kernel's function.
void code_also_is(const void* handle, const void* of);
void kernel_found(const void* kernel, const void* in, const char* name);
void code_unloaded(const void* handle);

// Nothing: it was not seen, or its code cannot be had.
struct KernelOrigin {
  runtime::CodeImage image;
  std::string name;  // mangled
};
std::optional<KernelOrigin> origin_of(const void* kernel);
// The same for what `handle` was loaded from.
std::optional<runtime::CodeImage> image_of(const void* handle);

// The folder of Python's packages that a loaded library lies in; empty: there is none.
std::string packages_folder();

}  // namespace pooch::interpose
